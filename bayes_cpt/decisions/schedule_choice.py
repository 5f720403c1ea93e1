"""The best falling schedule of a run: what it gains over the best cosine and the best hold-and-decay.

Cosine and hold-and-decay (WSD) are those that `bayes_cpt.decisions.search` finds in a space of peak, decay
and last learning rate. After the same line from the base's learning rate, a free schedule is any
non-increasing sequence below a cap: straight lines between some 40 knots, closer together towards the end,
each lower than the one before by a part that is 0 or more. What is minimised is the posterior mean of the
objective after the last step, as Luo et al. (ICLR 2025, arXiv 2503.12811) minimise that of a point fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, Ints, central
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.search import CANDIDATES, SearchCriterion, search
from bayes_cpt.decisions.search_space import (
    WARMUP_SHARE,
    Candidates,
    SearchSpace,
    shortest_decay,
    with_batch,
)
from bayes_cpt.decisions.space import Quantity, Space, read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import check_continual
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.schedule_ends import BySchedule, Ends
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.resources import Limits
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 400
SHORTEST_RUN = 100
# Nats that nobody would change a schedule for, and the probability from which a gain is sure.
NOTHING, SURE = 0.001, 0.9
FREE, COSINE, WSD = FAMILIES = ("free", "cosine", "wsd")
# What is compared: a family, and the one that it is set against.
PAIRS = ((WSD, COSINE), (FREE, WSD), (FREE, COSINE))
# Of the search: candidates for each combination of listed values at least, and the lowest peak as a share
# of the cap.
EACH, LOWEST_PEAK = 64, 0.01
SHAPES = ("linear", "one_minus_sqrt", "cosine")
# Of the free schedule: knots, the steps between two of them at least, and the stretches of one learning
# rate that stand for a run while it is optimised, more in its first line, where the rates may start at 0.
KNOTS, APART, STRETCHES, EARLY = 40, 8, 400, 60
# Draws that stand for all while it is optimised, and the step of its slopes, as a share of the cap.
FEW_DRAWS, STEP = 48, 1e-6
# A start has no learning rate below this share of the cap, where slopes are very steep.
LIFTED = 1e-3
# Learning rates below this count as this one in powers, whose slope is infinite at 0.
LOWEST_RATE = 1e-12
TOLERANCE, ITERATIONS = 1e-8, 300


@dataclass(frozen=True, eq=False)
class Stretches(BySchedule):
    """Schedules of any course, where `ScheduleBatch` has those that are held and decay."""

    rates: Floats  # learning rate of each stretch, (schedules, stretches)
    counts: Floats  # its steps, of the same shape

    @property
    def steps(self) -> Ints:
        """All steps, shape (schedules,)."""
        return np.asarray(self.counts.sum(axis=1).astype(np.int64))

    @property
    def last_rate(self) -> Floats:
        """Learning rate of the last step, shape (schedules,)."""
        return self.rates[:, -1]

    def schedule(self, index: int) -> Schedule:
        """Return one of the schedules."""
        rates = np.repeat(self.rates[index], self.counts[index].astype(np.int64))
        return Schedule.from_log(np.arange(1, rates.size + 1), rates)

    def ends(self, form: AreaForm, levels: Floats, forward: Floats) -> Ends:
        """Return the areas after the last step of each, as `ScheduleBatch.ends` does."""
        paced = self.counts * form.paces(self.rates)
        after = np.pad(np.cumsum(paced[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
        left = np.exp(after[:, None] * np.log(form.momenta.node_momenta())[:, None])
        reached = levels * left[..., 0] + np.einsum("snk,sk->sn", np.diff(left), self.rates)
        log_rates = np.log(np.maximum(self.rates, LOWEST_RATE))
        powers = form.powers.interval
        # To a low power the lowest rate would count for more than a step at 0 does.
        moves = (self.rates > 0.0)[..., None]
        areas = moves * np.exp(log_rates[..., None] * powers.at_nodes())
        shift, unit = form.shift_powers.interval, form.reference_rate
        of_shift = moves * np.exp((log_rates - np.log(unit))[..., None] * shift.at_nodes())
        return Ends(
            log_forward=powers.series(
                np.log(np.einsum("sk,skn->sn", self.counts, areas) + forward)
            ),
            level=form.momenta.interval.series(reached),
            log_shift=shift.series(np.log(unit * np.einsum("sk,skn->sn", self.counts, of_shift))),
            forward=(self.counts * self.rates).sum(axis=1),
            paced_steps=paced.sum(axis=1),
        )


@dataclass(frozen=True, eq=False)
class ScheduleChoice:
    """The best falling schedule of a run beside the best cosine and the best hold-and-decay (WSD)."""

    valuation: Valuation
    cap: float  # the highest learning rate allowed, raw
    runs: dict[str, Candidates]  # the best of each family, ``free``, ``cosine`` or ``wsd``
    values: dict[str, Floats]  # weighted loss of each in every draw, nats/token, (draws,)
    # What was not given and is the best of what the study tried: of ``base``, ``replay`` and ``targets``.
    taken: tuple[str, ...] = ()

    @property
    def base(self) -> Base:
        """Where the run starts."""
        return self.runs[WSD].bases[int(self.runs[WSD].base[0])]

    @property
    def replay(self) -> float:
        """Share of general data."""
        return float(self.runs[WSD].replay[0])

    @property
    def mixture(self) -> Mapping[str, float]:
        """Share of each of several targets in the data that are not replay; empty where there is one."""
        return self.runs[WSD].mixtures[int(self.runs[WSD].mixture[0])]

    @property
    def steps(self) -> int:
        """Length of the run."""
        return int(self.runs[WSD].schedules.steps[0])

    @property
    def warmup(self) -> int:
        """Steps of the line from the base's learning rate."""
        return warmup_steps(self.steps)

    @cached_property
    def schedules(self) -> dict[str, Schedule]:
        """The schedule of each family."""
        return {family: run.schedules.schedule(0) for family, run in self.runs.items()}

    @property
    def advised(self) -> str:
        """The family to train: WSD where its gain over the best cosine is detectable and sure.

        Never the free one: its last fall is as sudden as no run tried, so that its gain over WSD rests on
        the form of the law's annealing term alone. It says what further schedules could gain at most.
        """
        return WSD if self.is_detectable(WSD, COSINE) else COSINE

    def is_detectable(self, family: str, against: str) -> bool:
        """Return whether a schedule gains more than `NOTHING` over another, with at least `SURE`."""
        return is_gain(self.gains(family, against), NOTHING)

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

    def table(self, interval: float = 0.9) -> pd.DataFrame:
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
        families, others = zip(*PAIRS, strict=True)
        gains = np.stack([self.gains(*pair) for pair in PAIRS])
        columns = {
            "schedule": families,
            "against": others,
            "mean": gains.mean(axis=1),
            **central(gains, interval),
            "probability": (gains > 0).mean(axis=1),
            "advised": [family == self.advised for family in families],
        }
        return pd.DataFrame(columns)

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

    def rates(self) -> pd.DataFrame:
        """Return the learning rates of the free schedule, columns run, step, lr as in an lr.csv."""
        rates = self.schedules[FREE].learning_rates()
        return pd.DataFrame({"run": FREE, "step": np.arange(1, rates.size + 1), "lr": rates})

    @cached_property
    def plan(self) -> Study:
        """The free schedule, the best cosine and the best WSD as runs of a plan."""
        study = self.valuation.model.study
        plan = self.runs[WSD].plan(study, [WSD])
        runs = tuple(self.runs[family].run(0, family) for family in FAMILIES)
        return replace(plan, name=f"{study.name}-schedule", runs=runs)

    @property
    def outside(self) -> list[str]:
        """Where the run leaves what was fitted, in words."""
        return outside_range(self.valuation.model.study, self.plan, self.plan.run(self.advised))

    @cached_property
    def noise(self) -> float:
        """Median over draws of the sd of a single run's objective about the law's, nats."""
        advised = self.runs[self.advised]
        spread = self.valuation.model.at(advised).spread
        return float(np.median(self.valuation.combination.sizes(advised, spread, single_run=True)))


@one_blas_thread
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
    check_continual(posterior.frame)
    if steps < SHORTEST_RUN:
        problem = f"{steps} steps are too few for a schedule"
        raise SpecError.at("steps", problem, f"give at least {SHORTEST_RUN}")
    goal = read_objective(objective).model_copy(
        update={"constraints": (), "score_constraints": (), "limits": Limits()}
    )
    study = posterior.study
    runs, several = study.continual_runs, len(study.targets) > 1
    highest = cap or highest_rate(study)
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
    settled = whole
    if taken:
        _, best = _best(model, goal, whole)
        settled = whole.model_copy(
            update={
                "bases": (best.bases[best.base[0]].name,),
                "replay": Quantity(values=(float(best.replay[0]),)),
                "targets": (dict(best.mixtures[best.mixture[0]]),) if several else None,
            }
        )
    only_cosine = {"decay_shape": ("cosine",), "decay_share": Quantity(values=(1.0,))}
    valuation, wsd = _best(model, goal, settled)
    _, cosine = _best(model, goal, settled.model_copy(update=only_cosine))
    best_of = {FREE: free_schedule(valuation, wsd, highest), COSINE: cosine, WSD: wsd}
    values = {family: valuation.weighted_loss(run) for family, run in best_of.items()}
    return ScheduleChoice(valuation, highest, best_of, values, taken)


def is_gain(gains: Floats, least: float) -> bool:
    """Return whether gains in draws are more than so many nats on average, and sure to be some."""
    return bool(gains.mean() > least and np.mean(gains > 0) >= SURE)


def highest_rate(study: Study) -> float:
    """Return the highest learning rate that a run of the study was trained at."""
    return max(run.schedule.peak for run in study.runs)


def _best(model: FinalLosses, objective: Objective, space: Space) -> tuple[Valuation, Candidates]:
    """Return the run of a space with the lowest expected loss, and what it was judged by."""
    whole = SearchSpace.of(space, model.study)
    valuation = Valuation.of(model, objective, whole)
    count = max(CANDIDATES, EACH * whole.combinations)
    found = search(valuation, whole, SearchCriterion(), count)
    return valuation, found.candidates.take(found.order()[:1])


def warmup_steps(steps: int) -> int:
    """Return the length of the line from the base's learning rate, as in the spaces of `decide`."""
    return min(round(WARMUP_SHARE * steps), steps - 1)


@one_blas_thread
def free_schedule(valuation: Valuation, run: Candidates, cap: float) -> Candidates:
    """Return a run with the best falling schedule found from two: its own, and one held at the cap.

    Losses are those of a few draws.
    """
    from scipy.optimize import minimize

    # What third sets add is known in all draws alone.
    few = valuation
    if not valuation.thirds:
        few = replace(valuation, model=valuation.model.thinned(FEW_DRAWS))
    steps = int(run.schedules.steps[0])
    firsts = _first_steps(steps)
    counts = np.diff(firsts, append=steps).astype(np.float64)
    knots = _knots(steps)
    basis, before = _basis(knots, run, firsts + 0.5 * (counts + 1.0))

    def expected(parts: Floats) -> Floats:
        """Return the objective of rows of parts, shares of the cap."""
        rates = np.maximum(before + cap * parts @ basis.T, 0.0)
        every = run.take(np.zeros(len(parts), dtype=np.int64))
        every = replace(every, schedules=Stretches(rates, np.tile(counts, (len(parts), 1))))
        losses = few.model.losses(every)
        return np.asarray(few.combination.of_candidates(every, losses).mean(axis=1))

    def with_slopes(parts: Floats) -> tuple[float, Floats]:
        moved = expected(np.vstack([parts, parts + STEP * np.eye(parts.size)]))
        return float(moved[0]), (moved[1:] - moved[0]) / STEP

    def descended(rates: Floats) -> Floats:
        """Return the best parts found from learning rates at the knots."""
        lifted = np.clip(np.minimum.accumulate(rates) / cap, LIFTED, 1.0)
        optimum = minimize(
            with_slopes,
            np.append(-np.diff(lifted), lifted[-1]),
            jac=True,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * lifted.size,
            constraints={
                "type": "ineq",
                "fun": lambda parts: 1.0 - parts.sum(),
                "jac": lambda parts: -np.ones(parts.size),
            },
            options={"ftol": TOLERANCE, "maxiter": ITERATIONS},
        )
        parts = np.maximum(optimum.x, 0.0)
        return np.asarray(parts / max(1.0, float(parts.sum())))

    own = run.schedules.schedule(0).learning_rates()
    starts = (own[np.maximum(np.round(knots).astype(np.int64) - 1, 0)], np.full(knots.size, cap))
    found = np.stack([descended(rates) for rates in starts])
    basis_of_all, before_all = _basis(knots, run, np.arange(1.0, steps + 1.0))
    rates = before_all + cap * basis_of_all @ found[expected(found).argmin()]
    return replace(run, schedules=Stretches(rates[None], np.ones((1, steps))))


def _first_steps(steps: int) -> Ints:
    """Return the steps before each of the stretches that stand for a run while it is optimised."""
    shares = 1.0 - np.arange(STRETCHES) / STRETCHES
    early = np.geomspace(1.0, steps, EARLY)[:-1]
    edges = np.round(np.concatenate([steps * (1.0 - shares**2), early])).astype(np.int64)
    return np.unique(edges[edges < steps])


def _knots(steps: int) -> Floats:
    """Return the steps of the knots, from the end of the first line on."""
    warmup = warmup_steps(steps)
    left = (steps - warmup) * (1.0 - np.arange(KNOTS + 1) / KNOTS) ** 2
    kept = [float(steps)]
    for place in steps - left[::-1]:
        if kept[-1] - place >= APART:
            kept.append(float(place))
    kept[-1] = float(warmup)
    return np.array(kept[::-1])


def _basis(knots: Floats, run: Candidates, at: Floats) -> tuple[Floats, Floats]:
    """Return what each part adds to the learning rates at some steps, and what is there without.

    The parts are the falls from each knot to the next, and last the learning rate of the last knot: each
    lifts its own knot and all before it. Shapes are (steps, knots) and (steps,).
    """
    hats = np.stack([np.interp(at, knots, row) for row in np.eye(knots.size)], axis=1)
    share = np.minimum(at / max(knots[0], 1.0), 1.0)
    hats[:, 0] *= share
    return np.cumsum(hats, axis=1), run.schedules.initial[0] * (1.0 - share)
