"""The best schedule of a run: the best cosine, or the best that is held and then decays (WSD).

Both are those that `bayes_cpt.decisions.search` finds in a space of peak, decay and last learning rate,
after the same line from the base's learning rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, central
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.search import CANDIDATES, Edge, SearchCriterion, search
from bayes_cpt.decisions.search_space import (
    Candidates,
    SearchSpace,
    shortest_decay,
    with_batch,
)
from bayes_cpt.decisions.space import Quantity, Space, read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.derived import check_continual
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.resources import Limits
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 400
SHORTEST_RUN = 100
# Nats that nobody would change a schedule for, and the probability from which a gain is sure.
NOTHING, SURE = 0.001, 0.9
COSINE, WSD = FAMILIES = ("cosine", "wsd")
# Of the search: candidates for each combination of listed values at least, and the lowest peak as a share
# of the cap.
EACH, LOWEST_PEAK = 64, 0.01
SHAPES = ("linear", "one_minus_sqrt", "cosine")


@dataclass(frozen=True, eq=False)
class ScheduleChoice:
    """The best cosine of a run and the best hold-and-decay (WSD)."""

    valuation: Valuation
    cap: float  # the highest learning rate allowed, raw
    runs: dict[str, Candidates]  # the best of each family, ``cosine`` or ``wsd``
    values: dict[str, Floats]  # weighted loss of each in every draw, nats/token, (draws,)
    edges: dict[str, Edge | None]  # the end of the peaks searched at or beyond which the best lies
    # What was not given and is the best of what the study tried: of ``base``, ``replay`` and ``targets``.
    taken: tuple[str, ...] = ()
    free: bool = False  # of constraints and limits that the objective has

    @cached_property
    def plan(self) -> Study:
        """The best cosine and the best WSD as runs of a plan."""
        both = self.runs[COSINE].joined(self.runs[WSD])
        return both.plan(self.valuation.model.study, FAMILIES)

    @property
    def run(self) -> Run:
        """The run to train."""
        return self.plan.run(self.advised)

    @property
    def gains(self) -> Floats:
        """By how much WSD ends below the best cosine, nats, draw by draw."""
        return self.values[COSINE] - self.values[WSD]

    @property
    def advised(self) -> str:
        """The family to train: WSD where its gain is more than `NOTHING`, with at least `SURE`."""
        gains = self.gains
        return WSD if gains.mean() > NOTHING and np.mean(gains > 0) >= SURE else COSINE

    @property
    def runs_needed(self) -> int | None:
        """How many runs of each would show the gain, None if it is not detectable.

        So many that the difference of their means is twice its standard error.
        """
        if self.advised == COSINE:
            return None
        return int(np.ceil(8.0 * (self.noise / float(self.gains.mean())) ** 2))

    def table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return what the best WSD gains over the best cosine.

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
        row = {
            "schedule": WSD,
            "against": COSINE,
            "mean": self.gains.mean(),
            **central(self.gains, interval),
            "probability": (self.gains > 0).mean(),
            "advised": self.advised == WSD,
        }
        return pd.DataFrame([row])

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.decisions import schedule_words

        return schedule_words(self, interval).verdict

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question."""
        from bayes_cpt.report.decisions import schedule_words

        return schedule_words(self, interval).sentences

    def plot(self) -> "Figure":
        """Return the figure of the result (see `bayes_cpt.plots.schedules`)."""
        from bayes_cpt import plots

        return plots.schedules(self)

    @property
    def outside(self) -> list[str]:
        """Where the run lies outside the fitted range, in words."""
        return outside_range(self.valuation.model.study, self.plan, self.run)

    @cached_property
    def noise(self) -> float:
        """Median over draws of the sd of a single run's objective about the law's, nats."""
        advised = self.runs[self.advised]
        spread = self.valuation.model.at(advised).spread
        return float(np.median(self.valuation.combination.sizes(advised, spread, single_run=True)))


@one_thread("blas")
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
    r"""Return the best cosine and the best WSD of a run, compared draw by draw.

    WSD decays over no less than a tenth of its steps, or what the shortest decay of the study's runs took.

    Parameters
    ----------
    posterior : Posterior
    base : str or None
        Of the study. None takes the best for the objective of those that its CPT runs start from.
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
        Highest learning rate; the highest that `decide` looks at unless given.
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
    posterior.check_one_law("a schedule")
    check_continual(posterior.frame, "there is nothing to decide")
    if steps < SHORTEST_RUN:
        problem = f"{steps} steps are too few for a schedule"
        raise SpecError.at("steps", problem, f"give at least {SHORTEST_RUN}")
    asked_goal = read_objective(objective)
    goal = asked_goal.model_copy(
        update={"constraints": (), "score_constraints": (), "limits": Limits()}
    )
    study = posterior.study
    runs, several = study.measured_runs("cpt"), len(study.targets) > 1
    highest = cap or max(run.peak for run in runs)
    asked = {"base": base, "replay": replay, "targets": targets if several else ()}
    taken = tuple(name for name, given in asked.items() if given is None)
    mixtures: Any = targets
    if "targets" in taken:
        mixtures = [dict(own) for own in dict.fromkeys(tuple(run.mixture.items()) for run in runs)]
    # All schedules that are held and decay, on what was given, else on what CPT runs tried.
    tried = {
        "bases": base,
        "replay": sorted({run.replay or 0.0 for run in runs}) if replay is None else replay,
        "targets": mixtures,
        "peak": {"low": LOWEST_PEAK * highest, "high": highest, "scale": "log"},
        "decay_shape": SHAPES,
        "decay_share": {"low": shortest_decay(study), "high": 1.0},
        "relative_final": {"low": 0.0, "high": 1.0},
        "steps": steps,
    }
    posterior, whole = with_batch(posterior, read_space(tried))
    model = FinalLosses.of(posterior, draws)
    valuation, wsd, edge = _best(model, goal, whole)
    settled: dict[str, Any] = {
        "bases": (wsd.bases[wsd.base[0]].name,),
        "replay": Quantity(values=(float(wsd.replay[0]),)),
        "targets": (dict(wsd.mixtures[wsd.mixture[0]]),) if several else None,
    }
    if taken:
        # Looked at more closely.
        valuation, wsd, edge = _best(model, goal, whole.model_copy(update=settled))
    settled |= {"decay_shape": ("cosine",), "decay_share": Quantity(values=(1.0,))}
    _, cosine, cut = _best(model, goal, whole.model_copy(update=settled))
    best_of, ends = {COSINE: cosine, WSD: wsd}, {COSINE: cut, WSD: edge}
    edges = {own: end and end._replace(given=cap is not None) for own, end in ends.items()}
    values = {family: valuation.weighted_loss(run) for family, run in best_of.items()}
    return ScheduleChoice(valuation, highest, best_of, values, edges, taken, goal != asked_goal)


def _best(
    model: FinalLosses, objective: Objective, space: Space
) -> tuple[Valuation, Candidates, Edge | None]:
    """Return what runs of a space are judged by, the lowest in expected loss, and where its peak is cut."""
    whole = SearchSpace.of(space, model.study)
    valuation = Valuation.of(model, objective, whole)
    count = max(CANDIDATES, EACH * whole.combinations)
    found = search(valuation, whole, SearchCriterion(), count)
    return valuation, found.candidates.take(found.order()[:1]), found.edge(whole, "peak")
