"""The best falling schedule of a run: what it gains over the best cosine and the best hold-and-decay."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.free_schedule import ScheduleEnd, Shapes
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.search_space import named_base, shortest_decay
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.schedule_ends import ScheduleBatch
from bayes_cpt.model.bases import fitted_bases
from bayes_cpt.model.groups import check_target
from bayes_cpt.study.batches import UNSAID, Batch
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import HIGHEST_LEARNING_RATE, Run, checked_mixture
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DRAWS = 400
SHORTEST_RUN = 100
# Nats that nobody would change a schedule for, and the probability from which a gain is sure.
NOTHING, SURE = 0.001, 0.9
FREE, COSINE, WSD = FAMILIES = ("free", "cosine", "wsd")
# What is compared: a family, and the one that it is set against.
PAIRS = ((WSD, COSINE), (FREE, WSD), (FREE, COSINE))
# Configurations that are looked at, at least: all combinations of a usual study.
CANDIDATES = 1024


@dataclass(frozen=True, eq=False)
class ScheduleChoice:
    """The best falling schedule of a run beside the best cosine and the best hold-and-decay (WSD)."""

    end: ScheduleEnd  # base, replay ratio, length and weights of the objective
    objective: Objective
    cap: float  # the highest learning rate allowed, raw
    schedules: dict[str, Schedule]  # the best of each family, ``free``, ``cosine`` or ``wsd``
    values: dict[str, Floats]  # weighted loss of each in every draw, nats/token, (draws,)
    # What was not given and is the best of what the study tried: of ``base``, ``replay`` and ``targets``.
    taken: tuple[str, ...] = ()
    batch: Batch = UNSAID  # that most CPT runs have, where the law compares batches

    @property
    def warmup(self) -> int:
        """Steps of the line from the base's learning rate."""
        return Shapes(self.end, self.cap, 0.0).warmup

    @property
    def advised(self) -> str:
        """The family to train: WSD where its gain over the best cosine is detectable and sure.

        Never the free one: its last fall is as sudden as no run tried, so that its gain over WSD rests on
        the form of the law's annealing term alone. It says what further schedules could gain at most.
        """
        return WSD if self.is_detectable(WSD, COSINE) else COSINE

    def is_detectable(self, family: str, against: str) -> bool:
        """Return whether a schedule gains more than `NOTHING` over another, with at least `SURE`."""
        gains = self.gains(family, against)
        return bool(gains.mean() > NOTHING and np.mean(gains > 0) >= SURE)

    def gains(self, family: str, against: str) -> Floats:
        """Return by how much a schedule ends below another, nats, draw by draw."""
        return self.values[against] - self.values[family]

    def runs_needed(self, family: str, against: str) -> int | None:
        """Return how many runs of each would show one family's gain, None if it is not detectable.

        So many that the difference of their means is twice its standard error.
        """
        if not self.is_detectable(family, against):
            return None
        return int(np.ceil(8.0 * (self.noise / float(self.gains(family, against).mean())) ** 2))

    def table(self, interval: float = 0.9) -> "pd.DataFrame":
        """Return what schedules gain over others.

        Parameters
        ----------
        interval : float
            Mass of the central intervals.

        Returns
        -------
        DataFrame
            Columns schedule, against, mean, median, lower, upper (nats; positive where the schedule ends
            lower), probability of that, advised (whether the schedule is).
        """
        import pandas as pd

        marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
        rows = []
        for family, against in PAIRS:
            gains = self.gains(family, against)
            median, lower, upper = np.quantile(gains, marks)
            rows.append(
                {
                    "schedule": family,
                    "against": against,
                    "mean": float(gains.mean()),
                    "median": median,
                    "lower": lower,
                    "upper": upper,
                    "probability": float(np.mean(gains > 0)),
                    "advised": family == self.advised,
                }
            )
        return pd.DataFrame(rows)

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.decisions import schedule_words

        return schedule_words(self, interval).verdict

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question."""
        from bayes_cpt.report.decisions import schedule_words

        return schedule_words(self, interval).sentences

    def plot(self) -> "Figure":
        """Return the figure of the result (see `bayes_cpt.plots.free_schedule`)."""
        from bayes_cpt import plots

        return plots.free_schedule(self)

    def rates(self) -> "pd.DataFrame":
        """Return the learning rate of every step, columns run, step, lr as in an lr.csv."""
        import pandas as pd

        parts = []
        for run in self.plan.runs:
            if run.schedule.is_logged:
                rates = run.schedule.learning_rates()
                steps = np.arange(1, rates.size + 1)
                parts.append(pd.DataFrame({"run": run.name, "step": steps, "lr": rates}))
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def plan(self) -> Study:
        """The free schedule, the best cosine and the best WSD as runs of a plan."""
        import pandas as pd

        end = self.end
        runs = tuple(
            Run(
                name=family,
                phase="cpt",
                schedule=self.schedules[family],
                base=end.base.name,
                replay=end.replay,
                model_size=end.base.model_size,
                batch_tokens=self.batch.tokens,
                sequence_length=self.batch.sequence_length,
                targets=dict(end.mixture) or None,
            )
            for family in FAMILIES
        )
        study = end.model.study
        return Study(
            name=f"{study.name}-schedule",
            general=study.general,
            target=study.target,
            bases=(replace(end.base, run=None),),
            runs=runs,
            losses=pd.DataFrame(columns=["run", "step", "domain", "loss"]),
            is_plan=True,
        )

    @property
    def outside(self) -> list[str]:
        """Where the run leaves what was fitted, in words."""
        return outside_range(self.end.model.study, self.plan, self.plan.run(self.advised))

    @cached_property
    def noise(self) -> float:
        """Median over draws of the sd of a single run's objective about the law's, nats."""
        end, last = self.end, np.array([self.schedules[self.advised].final])
        none, whole = np.zeros(1, dtype=np.int64), np.array([end.steps])
        # Only the last learning rate counts: a run held there stands for all that end there.
        held = ScheduleBatch(last, last, last, none, none, whole, none)
        single = Candidates(
            (end.base,),
            none,
            np.array([end.replay]),
            held,
            np.zeros((1, 0)),
            none,
            (end.mixture,),
        )
        return float(np.median(end.model.at(single).spread.of_sum(end.weights)))


def choose_schedule(
    posterior: Posterior,
    base: str | None,
    replay: float | None,
    steps: int,
    objective: "str | Path | dict[str, Any] | Objective" = "balanced",
    *,
    targets: str | Mapping[str, float] | None = None,
    cap: float | None = None,
    draws: int = DRAWS,
) -> ScheduleChoice:
    r"""Return the falling schedule with the lowest expected loss, beside the best cosine and WSD.

    All three are compared draw by draw. WSD decays over no less than a tenth of its steps, or what the
    shortest decay of the study's runs took. The free schedule may fall at once, which no study has tried:
    its gain rests on the form of the law's annealing term, and is what others could gain at most.

    Parameters
    ----------
    posterior : Posterior
    base : str or None
        Of the study, with a known PT schedule. None takes the best for the objective of those that the
        study's CPT runs start from.
    replay : float or None
        Share of general data, 0 to 1. None takes the best of the study's replay ratios.
    steps : int
    objective : str, path, dict or Objective
        Its weights are used; every schedule is as long, so that costs cancel, and constraints are not
        looked at.
    targets : str or mapping of str to float, optional
        Of several targets the one to train on, or the share of each in the data that are not replay. The
        best of the mixtures of the study's runs unless given.
    cap : float, optional
        Highest learning rate; the highest that any run of the study was trained at unless given.
    draws : int
        Posterior draws, spread evenly over the chains.

    Raises
    ------
    SpecError, StudyError
        If there is no such base or target, its schedule is not known, or a number is impossible.

    Examples
    --------
    >>> import bayes_cpt                                              # doctest: +SKIP
    >>> posterior = bayes_cpt.load("fit.nc")                          # doctest: +SKIP
    >>> choice = choose_schedule(posterior, "stable_12k", 0.25, 12_000)  # doctest: +SKIP
    >>> print(*choice.verdict(), sep="\n")                            # doctest: +SKIP
    """
    posterior.check_one_law("a free schedule")
    goal, posterior = read_objective(objective), posterior.in_batch()
    model = FinalLosses.of(posterior, draws)
    highest = max(run.schedule.peak for run in posterior.study.runs) if cap is None else cap
    _check(replay, steps, highest)
    mixture = _mixture(posterior.study, targets)
    asked = (("base", base), ("replay", replay), ("targets", mixture))
    taken = tuple(name for name, given in asked if given is None)
    if base is None or replay is None or mixture is None:
        base, replay, mixture = best_tried(posterior, base, replay, mixture, steps, goal, draws)
    start = named_base(posterior.study, base, "base")
    weights = goal.combination(model.domains)
    end = ScheduleEnd(model, start, replay, steps, weights, mixture)
    shapes = Shapes(end, highest, shortest_decay(posterior.study))
    cosine, wsd = shapes.best_cosine(), shapes.best_wsd()
    schedules = {COSINE: cosine, WSD: wsd, FREE: shapes.best_free([wsd, shapes.held()])}
    return ScheduleChoice(
        end=end,
        objective=goal,
        cap=highest,
        schedules=schedules,
        values={family: end.values(schedule) for family, schedule in schedules.items()},
        taken=taken,
        batch=posterior.batch,
    )


def best_tried(
    posterior: Posterior,
    base: str | None,
    replay: float | None,
    mixture: Mapping[str, float] | None,
    steps: int,
    objective: "str | Path | dict[str, Any] | Objective",
    draws: int,
) -> tuple[str, float, Mapping[str, float]]:
    """Return the base, replay ratio and mixture with the lowest expected objective among those tried.

    What was tried are the bases that CPT runs of the study start from, and the replay ratios, mixtures of
    several targets and peaks of those runs: a default must not leave what was fitted.
    """
    runs = posterior.study.continual_runs
    used = {run.base for run in runs}
    bases = [fitted.name for fitted in fitted_bases(posterior.study) if fitted.name in used]
    replays = sorted({run.replay or 0.0 for run in runs})
    peaks = sorted({run.schedule.peak for run in runs})
    mixtures = [dict(own) for own in dict.fromkeys(tuple(run.mixture.items()) for run in runs)]
    space: dict[str, Any] = {
        "bases": bases if base is None else base,
        "replay": replays if replay is None else replay,
        "peak": peaks,
        "steps": steps,
    }
    combinations = len(bases) * len(replays) * len(peaks)
    if len(posterior.study.targets) > 1:
        space["targets"] = mixtures if mixture is None else [dict(mixture)]
        combinations *= len(mixtures)
    decision = decide(
        posterior, objective, space, draws=draws, candidates=max(CANDIDATES, combinations)
    )
    chosen = decision.contenders.candidates
    best = chosen.mixtures[chosen.mixture[0]]
    return chosen.bases[chosen.base[0]].name, float(chosen.replay[0]), best


def _mixture(study: Study, targets: str | Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Return a mixture of several targets, None where none is given; an empty one for one target."""
    mixture = None if targets is None else checked_mixture(targets)
    for name in mixture or ():
        check_target(study, name)
    return mixture if len(study.targets) > 1 else {}


def _check(replay: float | None, steps: int, cap: float) -> None:
    problems = []
    if replay is not None and not 0 <= replay <= 1:
        hint = f"write {replay / 100:g} for {replay:g} %" if 1 < replay <= 100 else "as in 0.25"
        problems.append(Problem("replay", f"{replay:g} is not a share between 0 and 1", hint))
    if steps < SHORTEST_RUN:
        problem = f"{steps} steps are too few for a schedule"
        problems.append(Problem("steps", problem, f"give at least {SHORTEST_RUN}"))
    if not 0 < cap <= HIGHEST_LEARNING_RATE:
        problem = f"{cap:g} is not a raw learning rate"
        problems.append(Problem("cap", problem, "give one such as 2e-4"))
    if problems:
        raise SpecError(problems)
