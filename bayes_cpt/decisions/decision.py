"""Decide what to train: the risk-optimal configuration under the posterior, and how sure it is."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Ints, central
from bayes_cpt.decisions.final_losses import DRAWS, FinalLosses
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.risk import RiskMeasure, probability_below, probability_best
from bayes_cpt.decisions.search import (
    CANDIDATES,
    Contenders,
    Edge,
    Search,
    SearchCriterion,
    Slice,
    front_of,
    perfect_information,
    search,
)
from bayes_cpt.decisions.search_space import Candidates, SearchSpace, with_batch
from bayes_cpt.decisions.space import Space, read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.forecast.scores import ScoreFit, fitted_scores
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS = 5
TOLERANCE = 0.005
# Which bounds of an interval are those of the space or of a constraint, by where the best lies.
CONSTRAINT, LIMIT = "constraint", "limit"
CUT = {"lowest": ("lower",), "highest": ("upper",)} | dict.fromkeys(
    (CONSTRAINT, LIMIT), ("lower", "upper")
)
RECOMMENDED = "recommended"
CONFIGURATION = (
    "base", "loss_potential", "replay", "targets", "peak", "relative_peak", "warmup_steps", "decay_shape",
    "decay_steps", "final", "steps",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Decision:
    """What to train, and how sure that is.

    Parameters
    ----------
    valuation : Valuation
        Objective, fit and what changes are counted from.
    space : SearchSpace
    criterion : SearchCriterion
        Risk measure, tolerance and seed.
    search : Search
        All candidates, and the best of each draw.
    rows : ndarray of int, shape (contenders,)
        Places among the candidates: of the recommendation, then of well-separated others, best first.
    contenders : Contenders
        The same in every draw.
    information : tuple of float
        Expected value of perfect information about expected losses, nats of the objective, and its Monte
        Carlo error.
    front : Contenders
        Points of the Pareto front of expected general and target loss; of several targets their mean is
        traded.
    slices : tuple of Slice
        The cost of leaving the recommendation in each quantity that was searched.
    """

    valuation: Valuation
    space: SearchSpace
    criterion: SearchCriterion
    search: Search
    rows: Ints
    contenders: Contenders
    information: tuple[float, float]
    front: Contenders
    slices: tuple[Slice, ...]

    @property
    def feasible(self) -> bool:
        """Whether the recommendation keeps all constraints."""
        return bool(self.search.feasible[self.search.chosen])

    @property
    def names(self) -> list[str]:
        """Names of the contenders."""
        return [RECOMMENDED, *(f"runner-up-{index}" for index in range(1, self.rows.size))]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Where the best lies at or beyond an end of the space that could be moved."""
        return self.search.edges(self.space)

    @property
    def binding(self) -> tuple[int, ...]:
        """Which chance constraints bind, by their places."""
        return self._binds[0]

    @property
    def binding_limits(self) -> tuple[str, ...]:
        """Which limits bind."""
        return self._binds[1]

    @cached_property
    def _binds(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Constraints that the best within the limits breaks; limits that the best within those exceeds.

        Where either kind alone keeps the best of all away, both.
        """
        if not self.feasible:
            return (), ()
        broken = self.search.breaches > self.valuation.allowed[:, None]
        overruns = self.valuation.overruns(self.search.candidates)
        over = np.array([own > 0.0 for own in overruns.values()], dtype=bool)
        over = over.reshape(-1, broken.shape[1])
        scores = np.where(self.search.impossible, np.inf, self.search.scores)
        first, second = (
            np.where(own.any(axis=0), np.inf, scores).argmin() for own in (over, broken)
        )
        if not broken[:, first].any() and not over[:, second].any():
            first = second = scores.argmin()
        names = np.array(list(overruns), dtype=object)
        return tuple(np.flatnonzero(broken[:, first]).tolist()), tuple(names[over[:, second]])

    def _cut_by(self, name: str) -> str:
        """Return whether a limit or a constraint that binds keeps the best of a quantity where it is."""
        cut = next(own for own in self.slices if own.name == name)
        over = self.valuation.overruns(cut.candidates)
        if any((over[own] > 0.0).any() for own in self.binding_limits):
            return LIMIT
        broken = cut.breaches > self.valuation.allowed[:, None]
        return CONSTRAINT if any(broken[place].any() for place in self.binding) else ""

    @cached_property
    def optimum(self) -> Candidates:
        """The posterior of the optimum: each draw's own best candidate, shape (draws,)."""
        return self.search.candidates.take(self.search.optimum)

    @property
    def chosen(self) -> Candidates:
        """The recommendation, a single candidate."""
        return self.contenders.candidates.take(slice(0, 1))

    @cached_property
    def near(self) -> Candidates:
        """All candidates that cost no more than the tolerance above the best, in expectation."""
        if not self.search.feasible.any():
            return self.chosen
        means = np.where(self.search.feasible, self.search.means, np.inf)
        kept = means <= means.min() + self.criterion.tolerance
        return self.search.candidates.take(np.flatnonzero(kept))

    def plan(self) -> Study:
        """Return the contenders as a plan, to be handed to `Posterior.predict` or written to a file."""
        return self.contenders.candidates.plan(self.valuation.model.study, self.names)

    @cached_property
    def outside(self) -> list[list[str]]:
        """Where each contender leaves what the runs covered, in words."""
        study, plan = self.valuation.model.study, self.plan()
        return [outside_range(study, plan, run) for run in plan.continual_runs]

    def table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return one row per contender, the recommendation first.

        Parameters
        ----------
        interval : float
            Mass of the central intervals.

        Returns
        -------
        DataFrame
            option; its configuration, ``base`` to ``steps``, learning rates raw; ``general_epochs``,
            ``target_epochs``, ``gpu_hours`` and ``money`` where study or space says what a step takes; for
            each validation set, third ones that the objective names too, its median ``<set>`` with
            ``_lower``, ``_upper`` of what a new run would show, ``_change`` from the reference and
            ``_rises``, the probability that a new run ends above it; for each benchmark whose scores were
            given the median ``<benchmark>`` of a single evaluation of a new run, ``_lower``, ``_upper`` and
            ``_change``; the ``objective`` with ``_lower``, ``_upper`` of the law's expected value;
            ``score`` of the risk measure; ``regret`` expected; ``p_best`` among these; ``p_within`` the
            tolerance of the best in the space; ``breach_1`` and so on, how probably each constraint is
            broken; ``outside`` what the runs covered.
        """
        contenders, valuation = self.contenders, self.valuation
        columns: dict[str, Any] = {"option": self.names}
        columns |= configuration(contenders.candidates)
        columns |= valuation.taken(contenders.candidates)
        normals = valuation.model.normals(self.criterion.seed)
        for name, own in contenders.sets.items():
            columns |= central(own.new_runs(normals), interval, name)
            columns[f"{name}_change"] = np.median(own.changes(), axis=1)
            rises = 1.0 - probability_below(own.changes().T, 0.0, own.change_sizes.T)
            columns[f"{name}_rises"] = rises
        for place, (name, link) in enumerate(valuation.links.items()):
            own = contenders.sets[link.pairs.domain]
            generator = np.random.default_rng([self.criterion.seed, place])
            shown = link.drawn(own.new_runs(normals), generator)
            columns |= central(shown, interval, name)
            columns[f"{name}_change"] = np.median(shown - link.scores(own.starts), axis=1)
        columns |= central(contenders.values, interval, "objective")
        columns |= {
            "score": self.search.scores[self.rows],
            "regret": contenders.regrets.mean(axis=1),
            "p_best": probability_best(contenders.values.T),
            "p_within": (contenders.regrets <= self.criterion.tolerance).mean(axis=1),
        }
        for index, probability in enumerate(contenders.breaches, start=1):
            columns[f"breach_{index}"] = probability
        columns["outside"] = ["; ".join(notes) for notes in self.outside]
        return pd.DataFrame(columns)

    def optimum_table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return the posterior of the optimum: where the best of each draw lies.

        Parameters
        ----------
        interval : float
            Mass of the central credible interval.

        Returns
        -------
        DataFrame
            One row per quantity that was searched, and per value of one that is not a number: quantity,
            value, probability (of that value; NaN for numbers), median, lower, upper, at_lowest and
            at_highest (how often the best lies at an end of what was searched), edge, near_lowest and
            near_highest (between which the expected objective is within the tolerance of its best),
            recommended. Edge is ``lowest`` or ``highest`` where the interval would end at that end, if it
            is none by nature, as replay 0 is: that bound is NaN. It is ``constraint`` or ``limit`` where
            one that binds sets the best: there is no interval.
        """
        rows: list[dict[str, Any]] = []
        row: dict[str, Any]
        for name in self.space.searched:
            values, near = self.optimum.column(name), self.near.column(name)
            chosen = self.contenders.candidates.column(name)[0]
            if name not in self.space.quantities:
                for value in sorted(set(self.search.candidates.column(name).tolist())):
                    row = {"quantity": name, "value": value, "recommended": value == chosen}
                    rows.append(row | {"probability": float(np.mean(values == value))})
                continue
            edge = self.search.edge(self.space, name, (1.0 - interval) / 2)
            end = edge.end if edge else self._cut_by(name)
            row = {"quantity": name, **central(values, interval), "edge": end}
            row |= dict.fromkeys(CUT.get(end, ()), np.nan)
            row |= {f"at_{end}": share for end, share in self.search.at_ends(name).items()}
            row |= {"near_lowest": near.min(), "near_highest": near.max(), "recommended": chosen}
            rows.append(row)
        columns = [
            "quantity", "value", "probability", "median", "lower", "upper", "at_lowest", "at_highest",
            "edge", "near_lowest", "near_highest", "recommended",
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def front_table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return the Pareto front, from the lowest general loss to the lowest target loss.

        Parameters
        ----------
        interval : float
            Mass of the central intervals.

        Returns
        -------
        DataFrame
            The configuration, and for each validation set the mean of the law's expected loss, which is
            what the front is of, with ``_lower`` and ``_upper``, and ``_change`` from the reference.
        """
        front, valuation = self.front, self.valuation
        columns: dict[str, Any] = dict(configuration(front.candidates))
        starts = valuation.start(front.candidates) + valuation.start_discrepancy(front.candidates)
        changes = front.losses - starts
        for index, domain in enumerate(valuation.model.domains):
            columns |= central(front.losses[index], interval, domain)
            columns[domain] = front.losses[index].mean(axis=1)
            columns[f"{domain}_change"] = changes[index].mean(axis=1)
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        """Return the verdict: the arrays would fill pages."""
        return "\n".join(self.verdict())

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.decisions import decision_words

        tables = self.table(interval), self.optimum_table(interval)
        return decision_words(self, *tables, interval).verdict

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question."""
        from bayes_cpt.report.decisions import decision_words

        tables = self.table(interval), self.optimum_table(interval)
        return decision_words(self, *tables, interval).sentences

    def plot(self) -> "Figure":
        """Return the figure of the result (see `bayes_cpt.plots.decision`)."""
        from bayes_cpt import plots

        return plots.decision(self)


@one_thread("blas")
def decide(
    posterior: Posterior,
    objective: "str | Path | dict[str, Any] | Objective" = "balanced",
    space: "str | Path | dict[str, Any] | Space | None" = None,
    risk: "str | RiskMeasure" = "expected",
    *,
    scores: "str | Path | pd.DataFrame | ScoreFit | None" = None,
    draws: int = DRAWS,
    candidates: int = CANDIDATES,
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Decision:
    r"""Return the configuration of a CPT run that is best under the posterior.

    Every configuration is judged by the draws of its final losses; no point estimate is plugged in. Regret,
    the posterior of the optimum and the value of information are about expected losses: the law's, and what
    the law misses, which like configurations share (`bayes_cpt.model.discrepancy`). The fluctuation
    that moves a single run about them cannot be known beforehand, whatever is chosen.

    Parameters
    ----------
    posterior : Posterior
    objective : str, path, dict or Objective
        A preset (``domain-focus``, ``balanced``, ``general-preserving``), a TOML file, or a table.
    space : path, dict or Space, optional
        What may be chosen; the defaults of `Space` unless given.
    risk : str or RiskMeasure
        ``expected``, which has the least expected regret too, ``quantile:0.9``, ``cvar:0.9`` or ``best``
        (see `bayes_cpt.decisions.risk`). Quantile and CVaR are of the expected loss, what the law misses
        included.
    scores : path, DataFrame or ScoreFit, optional
        Losses and scores of benchmarks (`bayes_cpt.forecast.scores.read_pairs`): tables then tell
        their scores, and the objective may constrain them.
    draws : int
        Posterior draws, spread evenly over the chains.
    candidates : int
        Configurations of the first look at the space; the neighbourhood of the best is looked at more
        closely.
    tolerance : float
        Nats of the objective that make no difference.
    seed : int
        Of the places that are looked at, and of what the law misses.

    Returns
    -------
    Decision

    Raises
    ------
    SpecError, StudyError
        Naming what is wrong with objective, space or risk.

    Examples
    --------
    >>> import bayes_cpt                                                # doctest: +SKIP
    >>> choice = bayes_cpt.decide(bayes_cpt.load("fit.nc"), "balanced")  # doctest: +SKIP
    >>> print(*choice.verdict(), sep="\n")                              # doctest: +SKIP
    """
    goal = read_objective(objective)
    posterior, limits = with_batch(posterior, read_space(space))
    criterion = SearchCriterion(RiskMeasure.parse(risk), tolerance, seed)
    model = FinalLosses.of(posterior, draws, seed)
    whole = SearchSpace.of(limits, posterior.study)
    links = None if scores is None else fitted_scores(scores, posterior.study, seed)
    valuation = Valuation.of(model, goal, whole, links)
    searched = search(valuation, whole, criterion, candidates)
    rows = searched.separated(CONTENDERS)
    contenders = Contenders.of(valuation, searched.candidates.take(rows), searched.best)
    chosen = contenders.candidates.take(slice(0, 1))
    return Decision(
        valuation=valuation,
        space=whole,
        criterion=criterion,
        search=searched,
        rows=rows,
        contenders=contenders,
        information=perfect_information(valuation, searched),
        front=front_of(valuation, searched),
        slices=tuple(Slice.of(valuation, whole, chosen, name) for name in whole.searched),
    )


def configuration(candidates: Candidates) -> dict[str, Any]:
    """Return the columns that say what candidates are."""
    left_out = () if any(candidates.mixtures) else ("targets",)
    return {name: candidates.column(name) for name in CONFIGURATION if name not in left_out}
