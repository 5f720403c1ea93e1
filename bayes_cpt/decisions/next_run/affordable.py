"""Short runs that could be trained next, and what each costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pandas as pd

from bayes_cpt.checks import is_number
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.forecast.derived import Typical
from bayes_cpt.forecast.typical_runs import approach
from bayes_cpt.model.bases.unknown_base import fitted_bases
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.folder import read_plan, run_keys
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

REPLAYS = (0.0, 0.25, 0.5, 0.75)
# Of the typical CPT run of the study.
LENGTH = 1 / 3
COST = "cost"


@dataclass(frozen=True, eq=False)
class Affordable:
    """Runs that could be trained next.

    Parameters
    ----------
    plan : Study
        The runs and the bases that they start from.
    costs : mapping of str to float
        What each costs, in steps of the long run; its own steps unless given.
    """

    plan: Study
    costs: Mapping[str, float] = field(default_factory=dict)

    def cost(self, run: Run) -> float:
        """Return what a run costs, steps.

        Parameters
        ----------
        run : Run
        """
        return float(self.costs.get(run.name, run.schedule.steps))

    @classmethod
    def read(cls, path: str | Path, study: Study) -> Self:
        """Return the runs of a plan, each with an optional ``cost``.

        Parameters
        ----------
        path : path
            A study folder or one TOML file; its losses are not used, but for those of bases.
        study : Study
            The fitted one.

        Raises
        ------
        StudyError
            As `read_plan`; also where a cost is no positive number.
        """
        plan = read_plan(path, study, aside=(COST,))
        costs = run_keys(path, COST)
        problems = [
            Problem(
                f"{path}, run {name}, key {COST}",
                f"the cost is {cost!r}",
                "give the steps of the long run that it costs as much as, a number above 0",
            )
            for name, cost in costs.items()
            if not is_number(cost) or cost <= 0
        ]
        if problems:
            raise SpecError(problems)
        return cls(plan, costs)

    @classmethod
    def default(
        cls, frame: Frame, study: Study, steps: int | None = None, batch: Batch | None = None
    ) -> Self:
        """Return runs from every base at replay 0, 1/4, 1/2 and 3/4, annealed and at a constant rate.

        Of several targets each run has one.

        Each goes to its base's PT peak in a twentieth of its steps; half of them stay there, the others
        follow a half-cosine to 0.

        Parameters
        ----------
        frame : Frame
            A law without replay gets runs at the study's own ratio.
        study : Study
        steps : int, optional
            A third of the typical CPT run's unless given.
        batch : Batch, optional
            Of the runs.

        Raises
        ------
        SpecError
            If there are no steps.
        """
        typical, own = Typical.of(study), batch or Batch()
        length = max(round(LENGTH * typical.steps), 1) if steps is None else steps
        bases = [replace(base, run=None) for base in fitted_bases(study)]
        if length < 1:
            raise SpecError.at("steps", f"{length} steps are asked for", "ask for 1 or more")
        replays = REPLAYS if frame.spec.law.uses_replay else (typical.replay,)
        targets = study.targets if len(study.targets) > 1 else (None,)
        runs = [
            Run(
                name="_".join(
                    [
                        base.name,
                        *([] if target is None else [target]),
                        f"r{100 * replay:02.0f}",
                        "annealed" if decays else "constant",
                    ]
                ),
                phase="cpt",
                schedule=_schedule(base, length, typical.peak, decays=decays),
                base=base.name,
                replay=replay,
                model_size=base.model_size,
                batch_tokens=own.tokens,
                sequence_length=own.sequence_length,
                targets=target,
            )
            for base in bases
            for target in targets
            for replay in replays
            for decays in (True, False)
        ]
        return cls(_plan(study, tuple(bases), tuple(runs)))


def _schedule(base: Base, steps: int, peak: float, *, decays: bool) -> Schedule:
    """Return a schedule up to the base's PT peak, or to the peak given where that is unknown."""
    if base.schedule is None:
        return approach(steps, 0.0, peak, decays=decays)
    return approach(steps, base.schedule.final, base.schedule.peak, decays=decays)


def _plan(study: Study, bases: tuple[Any, ...], runs: tuple[Run, ...]) -> Study:
    return Study(
        name=f"{study.name}-next",
        general=study.general,
        target=study.target,
        bases=bases,
        runs=runs,
        losses=pd.DataFrame(columns=["run", "step", "domain", "loss"]),
        is_plan=True,
    )
