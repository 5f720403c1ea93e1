"""Which short run to train next: what each would be worth to a decision, and what it would tell.

For every draw of the posterior the curve that a candidate run would show is simulated, fluctuation and
misfit included, at about 24 checkpoints on both validation sets. What the law misses of the run it misses
of like configurations too (`bayes_cpt.model.discrepancy`). From the curves and the losses of the
configurations that may be chosen, `bayes_cpt.decisions.sample_information` estimates by regression

- the expected value of sample information (EVSI): by how much the expected regret of the decision falls;
- the information about coefficients of the law and about effects of a typical run.

The EVSI is about expected loss: no other risk measure has a value of information that cannot be negative. A
chance constraint counts as it stands now: what breaks it under the present posterior is not chosen after
the run either, so that the value of finding it harmless is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt.checks import Check, is_number
from bayes_cpt.decisions.final_losses import DRAWS, FinalLosses
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.sample_information import (
    DataValue,
    DecisionLosses,
    Information,
    information,
)
from bayes_cpt.decisions.search import (
    CANDIDATES,
    Edge,
    SearchCriterion,
    apart,
    perfect_information,
    search,
)
from bayes_cpt.decisions.search_space import Candidates, SearchSpace, plan_of, with_batch
from bayes_cpt.decisions.space import Space, read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.forecast import derived
from bayes_cpt.forecast.plans import denser_early, with_base_losses
from bayes_cpt.identify.determination import facts, quantities
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases import fitted_bases
from bayes_cpt.model.groups import run_batch
from bayes_cpt.study.folder import read_plan, run_keys
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
CHECKPOINTS = 24
# At most so many configurations that are best in some draw, and that are best in expectation.
FAVOURITES, LEADERS = 1000, 64
REPLAYS = (0.0, 0.25, 0.5, 0.75)
# Of the typical CPT run of the study.
LENGTH = 1 / 3
ANNEALED = "annealed"
COURSES = ("constant", ANNEALED)
COST = "cost"
# Among the default runs, the one that would tell most of what the fit leaves open.
MOST_TELLING = "most_telling"
ASKED = "the worth of a next run"


@dataclass(frozen=True, eq=False)
class Affordable:
    """Runs that could be trained next."""

    plan: Study  # the runs and the bases that they start from
    # What each costs, in steps of the long run; its own steps unless given.
    costs: Mapping[str, float] = field(default_factory=dict)

    def cost(self, name: str) -> float:
        """Return what a run costs, steps."""
        return float(self.costs.get(name, self.plan.run(name).schedule.steps))

    @classmethod
    def read(cls, path: str | Path | Study, study: Study) -> Self:
        """Return the runs of a plan, each with an optional ``cost`` in its file."""
        if isinstance(path, Study):
            return cls(path)
        plan = read_plan(path, study, aside=(COST,))
        costs, check = run_keys(path, COST), Check()
        fix = "give the steps of the long run that it costs as much as, a number above 0"
        for name, cost in costs.items():
            if not is_number(cost) or cost <= 0:
                check.add(f"run {name}, key {COST}", f"the cost is {cost!r}", fix)
        check.raise_problems(str(path))
        return cls(plan, costs)

    @classmethod
    def default(cls, posterior: Posterior, steps: int | None = None) -> Self:
        """Return runs from every base at replay 0, 1/4, 1/2 and 3/4, annealed and at a constant rate.

        Each goes to its base's PT peak, that of the typical run where it is not known, in a twentieth of
        its steps; half of them stay there, the others follow a half-cosine to 0. Of several targets each
        run has one.
        """
        study = posterior.study
        typical, bases = derived.Typical.of(study), fitted_bases(study)
        length = max(round(LENGTH * typical.steps), 1) if steps is None else steps
        if length < 1:
            raise SpecError.at("key steps", f"it is {length}", "give at least 1")
        replays = REPLAYS if posterior.frame.spec.law.uses_replay else (typical.replay,)
        targets = study.targets if len(study.targets) > 1 else ("",)
        runs = []
        for base, target, replay, course in product(bases, targets, replays, COURSES):
            peak = base.schedule.peak if base.schedule else typical.peak
            schedule = derived.approach(length, _last_rate(base), peak, decays=course == ANNEALED)
            name = "_".join(filter(None, (base.name, target, f"r{100 * replay:02.0f}", course)))
            shares, size = {target: 1.0} if target else None, base.model_size
            said: dict[str, Any] = {"model_size": size, "targets": shares, **posterior.batch.keys}
            runs.append(Run(name, "cpt", schedule, base.name, replay, **said))
        return cls(plan_of(study, bases, runs))

    def with_most_telling(self, posterior: Posterior, long: float = np.inf) -> Self:
        """Return these and the run that `bayes-cpt check` and `summary` advise, unless it is a long one."""
        study, frame, plan = posterior.study, posterior.frame, self.plan
        trial = derived.trial_runs(frame, derived.Typical.of(study)).get(facts(posterior).telling)
        if trial is None or trial[0].steps >= long:
            return self
        schedule, start, replay = trial
        bases = plan.bases
        if start is None:
            run = Run(MOST_TELLING, "pt", schedule)
        else:
            base = _base_like(fitted_bases(study), start)
            count = len(study.targets)
            shares = dict.fromkeys(study.targets, 1.0 / count) if count > 1 else None
            said = {"model_size": base.model_size, "targets": shares, **posterior.batch.keys}
            run = Run(MOST_TELLING, "cpt", schedule, base.name, replay, **said)
            falls = schedule.final <= run.peak / 2
            course = derived.approach(schedule.steps, _last_rate(base), run.peak, decays=falls)
            run = replace(run, schedule=course)
            bases = bases if base.name in {own.name for own in bases} else (*bases, base)
        return replace(self, plan=plan_of(study, bases, (*plan.runs, run)))


def _last_rate(base: Base) -> float:
    return base.schedule.final if base.schedule else 0.0


def _base_like(bases: Sequence[Base], wanted: Base) -> Base:
    """Return the base that is annealed most like one, or that one itself where none is nearly so."""
    everyone = (own.loss_potential for own in (*bases, wanted))
    potentials = [1.0 if own is None else own for own in everyone]
    distances = np.abs(np.subtract(potentials[:-1], potentials[-1]))
    nearest = bases[int(distances.argmin())]
    alike = distances.min() < derived.POTENTIALS_APART
    return nearest if alike else replace(wanted, model_size=nearest.model_size)


@dataclass(frozen=True, eq=False)
class RunValues:
    """What each of some runs would be worth, and would tell."""

    valuation: Valuation  # objective and fit
    space: SearchSpace  # what may be chosen
    candidates: Candidates  # the configurations that are chosen from
    now: int  # the one that is chosen as things stand
    affordable: Affordable  # the runs and their costs
    # Expected value of knowing all expected losses and its Monte Carlo error, nats, as of `decide`
    perfect: tuple[float, float]
    values: dict[str, DataValue]  # by run
    told: dict[str, Information]  # by run, about `quantities`
    # Coefficient or effect, and validation set (``all`` where it is shared)
    quantities: list[tuple[str, str]]
    edges: tuple[Edge, ...]  # of the space, at or beyond which the best configuration lies
    feasible: bool  # whether any keeps all constraints

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in the order of the plan."""
        return self.affordable.plan.runs

    @cached_property
    def order(self) -> list[str]:
        """Names of the runs, the highest value per cost first."""
        paid = {name: own.value / self.affordable.cost(name) for name, own in self.values.items()}
        return sorted(paid, key=lambda name: -paid[name])

    def price(self, name: str) -> float:
        """Return what the objective charges for a run, nats."""
        cost = self.affordable.cost(name)
        return float(self.valuation.objective.cost(cost, self.valuation.resources))

    def hurdle(self, name: str) -> float:
        """Return what a run must be worth to pay: its price, or what its cost would bring elsewhere.

        Without a price in the objective, that is what the same steps spent on the chosen configuration
        would gain.
        """
        return self.price(name) or max(self.lengthening(name), 0.0)

    def lengthening(self, name: str) -> float:
        """Return what the cost of a run in more steps of the chosen configuration would gain, nats."""
        one = self.candidates.take(slice(self.now, self.now + 1))
        batch = one.schedules
        factor = 1.0 + self.affordable.cost(name) / batch.steps
        longer = replace(
            batch,
            steps=np.round(batch.steps * factor).astype(np.int64),
            warmup_steps=np.floor(batch.warmup_steps * factor).astype(np.int64),
            decay_steps=np.floor(batch.decay_steps * factor).astype(np.int64),
        )
        before, after = map(self.valuation.weighted_loss, (one, replace(one, schedules=longer)))
        return float((before - after).mean())

    def as_good(self, name: str, errors: float = 2.0) -> list[str]:
        """Return the runs whose value per cost is not told apart from another's, draw by draw."""
        paid = {own: known.gains / self.affordable.cost(own) for own, known in self.values.items()}
        gaps = {own: replace(self.values[own], gains=paid[name] - paid[own]) for own in self.order}
        as_good = [own for own, gap in gaps.items() if gap.value <= errors * gap.error]
        return [own for own in as_good if own != name]

    def changes(self, name: str) -> float:
        """Return how probably the configuration chosen after a run is well apart from the present one.

        Apart is another value of a list, or a fifth of a range.
        """
        return float(apart(self.candidates, self.values[name].chosen, self.now).mean())

    def outside(self, name: str) -> str:
        """Return in words where a run lies outside the fitted range."""
        study, plan = self.valuation.model.study, self.affordable.plan
        if plan.run(name).phase not in {other.phase for other in study.runs}:
            return "a PT run, and none was fitted"
        return "; ".join(outside_range(study, plan, plan.run(name)))

    def after(self, name: str, quantity: str) -> NDArray[Any]:
        """Return what is chosen of a quantity after each simulated curve of a run, shape (draws,)."""
        return np.asarray(self.candidates.column(quantity)[self.values[name].chosen])

    def table(self) -> pd.DataFrame:
        """Return one row per run, the highest value per cost first.

        Cost is in steps; value, the EVSI in nats of the objective, has its Monte Carlo error; share is of
        the value of perfect information; about, on and nats are of the effect that it tells most about.
        """
        rows, effects = [], {own.name for own in derived.effects_of(self.valuation.model.frame)}
        asked = np.array([name in effects for name, _ in self.quantities])
        for name in self.order:
            run, worth, told = self.affordable.plan.run(name), self.values[name], self.told[name]
            cost, most = self.affordable.cost(name), int(np.where(asked, told.share, -1.0).argmax())
            share = worth.value / self.perfect[0] if self.perfect[0] > 0 else 0.0
            about, on = self.quantities[most]
            rows.append(
                {
                    "run": name,
                    "base": run.base or "",
                    "replay": run.replay,
                    "peak": run.peak,
                    "steps": run.schedule.steps,
                    "cost": cost,
                    "value": worth.value,
                    "error": worth.error,
                    "share": share,
                    "per_1000_steps": 1000.0 * worth.value / cost,
                    "hurdle": self.hurdle(name),
                    "changes": self.changes(name),
                    "about": about,
                    "on": on,
                    "nats": float(told.nats[most]),
                    "outside": self.outside(name),
                }
            )
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        """Return the verdict: the arrays would fill pages."""
        return "\n".join(self.verdict())

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.decisions import run_words

        return run_words(self, interval).verdict

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question."""
        from bayes_cpt.report.decisions import run_words

        return run_words(self, interval).sentences

    def plot(self) -> "Figure":
        """Return the figure of the result (see `bayes_cpt.plots.next_run`)."""
        from bayes_cpt import plots

        return plots.next_run(self)

    def information_table(self) -> pd.DataFrame:
        """Return what each run would tell, one row per run and quantity.

        Variance is the expected share of the variance of a normal score that the run takes away, with its
        Monte Carlo error; nats the expected information, a lower bound.
        """
        quantities, domains = zip(*self.quantities, strict=True)
        tables = []
        for name in self.order:
            told = self.told[name]
            columns = {"run": name, "quantity": quantities, "domain": domains}
            own = {"variance": told.share, "error": told.error, "nats": told.nats}
            own["per_1000_steps"] = 1000.0 * told.nats / self.affordable.cost(name)
            tables.append(pd.DataFrame(columns | own))
        return pd.concat(tables, ignore_index=True)


@one_thread("blas")
def next_run(
    posterior: Posterior,
    objective: "str | Path | dict[str, Any] | Objective" = "balanced",
    space: "str | Path | dict[str, Any] | Space | None" = None,
    runs: "str | Path | Study | Affordable | None" = None,
    *,
    run_steps: int | None = None,
    draws: int = DRAWS,
    candidates: int = CANDIDATES,
    seed: int = 0,
) -> RunValues:
    r"""Return what each of some affordable runs would be worth to a decision, and would tell.

    Parameters
    ----------
    posterior : Posterior
    objective, space
        What is to be decided, as in `bayes_cpt.decisions.decision.decide`.
    runs : path, Study or Affordable, optional
        A study or TOML file of runs, each with an optional ``cost`` in steps; unless given, those of
        `Affordable.default`, and the run that would tell most of what the fit leaves open, if it is short.
    run_steps : int, optional
        Length of the default runs.
    draws : int
        Posterior draws, spread evenly over the chains: the more, the smaller the Monte Carlo error.
    candidates : int
        Configurations of the first look at the space.
    seed : int
        Of the places that are looked at and of the simulated curves.

    Raises
    ------
    SpecError, StudyError
        Naming what is wrong with objective, space or runs.

    Examples
    --------
    >>> import bayes_cpt                                       # doctest: +SKIP
    >>> values = next_run(bayes_cpt.load("fit.nc"), "balanced")  # doctest: +SKIP
    >>> print(*values.verdict(), sep="\n")                      # doctest: +SKIP
    """
    posterior.check_one_law(ASKED)
    goal = read_objective(objective)
    posterior, limits = with_batch(posterior, read_space(space))
    model = FinalLosses.of(posterior, draws, seed)
    whole = SearchSpace.of(limits, posterior.study)
    if runs is None:
        long = whole.quantities["steps"].lowest
        runs = Affordable.default(posterior, run_steps).with_most_telling(posterior, long)
    affordable = runs if isinstance(runs, Affordable) else Affordable.read(runs, posterior.study)
    _check_batch(posterior, affordable.plan)
    valuation = Valuation.of(model, goal, whole)
    # Coefficients and effects, none of them constant.
    known = quantities(posterior, model.laws[0].draws.parameters)
    asked = {
        (name, member): own
        for (kind, name, member), own in known.items()
        if kind != "parameter" and np.ptp(own) > 0
    }
    searched = search(valuation, whole, SearchCriterion(seed=seed), candidates)
    # The candidates that some draw likes best, and the best in expectation.
    favourites = np.unique(searched.optimum)
    if favourites.size > FAVOURITES:
        generator = np.random.default_rng(seed)
        favourites = generator.choice(favourites, FAVOURITES, replace=False)
    rows = np.union1d(searched.allowed[:LEADERS], favourites)
    chosen, now = searched.candidates.take(rows), int(np.searchsorted(rows, searched.chosen))
    values = model.each(chosen, valuation.expected).T
    at_stake = DecisionLosses(np.ascontiguousarray(values, dtype=np.float64))
    drawn = np.stack(list(asked.values()), axis=1)
    worth, told = {}, {}
    target = with_base_losses(posterior.study, model.domains, affordable.plan)
    for index, run in enumerate(target.runs):
        at = denser_early(run.schedule.steps, CHECKPOINTS)
        generator = np.random.default_rng([seed, index])
        curves = model.simulated(target, run, at, generator, valuation.thirds.values())
        worth[run.name], told[run.name] = at_stake.value(curves), information(drawn, curves)
    return RunValues(
        valuation=valuation,
        space=whole,
        candidates=chosen,
        now=now,
        affordable=affordable,
        perfect=perfect_information(valuation, searched),
        values=worth,
        told=told,
        quantities=list(asked),
        edges=searched.edges(whole),
        feasible=bool(searched.feasible.any()),
    )


def _check_batch(posterior: Posterior, plan: Study) -> None:
    """Raise StudyError if a CPT run has another batch than the one that a posterior is settled in."""
    settled = posterior.batch
    for run in plan.continual_runs:
        own = run_batch(plan, run, posterior.fitted.batches)
        if own is None or own == settled:
            continue
        problem = f"it has a {own.words}, and {ASKED} is for one batch at a time: {settled.words}"
        fix = "give tokens_per_step and sequence_length in the space, or plan runs of that batch"
        raise StudyError.at(f"plan {plan.name}, run {run.name}", problem, fix)
