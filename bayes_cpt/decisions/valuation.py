"""An objective on the losses of a fit: values, costs, and how often constraints are broken."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import suggestion
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.named_base import named_base
from bayes_cpt.decisions.objective import (
    Constraint,
    Objective,
    ScoreConstraint,
)
from bayes_cpt.decisions.search.block import Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.combination import Combination
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.scores.link import ScoreFit, ScoreLink
from bayes_cpt.forecast.scores.pairs import pairs_of
from bayes_cpt.forecast.third_sets.weights import ThirdSet, third_names
from bayes_cpt.study.batches import check_same_steps
from bayes_cpt.study.resources import Resources, unknown_resource
from bayes_cpt.study.runs import Base

OWN = "own"
# Sets the draws of links and of single evaluations apart from all else that is drawn.
SCORE_SEED = 11


@dataclass(frozen=True, eq=False)
class Valuation:
    """What losses are worth.

    Parameters
    ----------
    model : FinalLosses
    objective : Objective
    resources : Resources
        What is known of the tokens and the cost of steps.
    reference : Base or None
        What changes and rises are counted from; None for each configuration's own base.
    thirds : dict of str to ThirdSet
        Third validation sets of the study that the objective names.
    links : dict of str to ScoreLink
        Of benchmarks whose scores are told or constrained, in the draws of the model.
    """

    model: FinalLosses
    objective: Objective
    resources: Resources
    reference: Base | None
    thirds: dict[str, ThirdSet] = field(default_factory=dict)
    links: dict[str, ScoreLink] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: FinalLosses,
        objective: Objective,
        space: SearchSpace,
        scores: ScoreFit | None = None,
    ) -> Self:
        """Return the objective on a fit and a space.

        Parameters
        ----------
        model : FinalLosses
        objective : Objective
        space : SearchSpace
            Gives the reference base, where the objective names none, and the tokens per step.
        scores : ScoreFit, optional
            Links of benchmarks, which score constraints need.

        Raises
        ------
        SpecError
            If the objective names a validation set or a base that there is not, or prices or limits what
            cannot be counted.
        """
        if model.sample.frame.spec.law.repeated_tokens:
            check_same_steps(model.sample.frame.reference.unique_steps, space.resources)
        reference = _reference(model, objective, space)
        links = _links(objective, scores, model.draws)
        scored = [link.pairs.domain for link in links.values()]
        thirds = {
            name: model.third(name)
            for name in dict.fromkeys([*objective.named, *scored])
            if name not in objective.mixtures and name in third_names(model.study)
        }
        valuation = cls(model, objective, space.resources, reference, thirds, links)
        bases = space.bases if reference is None else (*space.bases, reference)
        for combination in (valuation.combination, *valuation.constrained):
            # Bases that were not measured on a third set are told at once.
            combination.offset(bases)
        objective.cost(1.0, space.resources)
        known = space.resources.told(1.0, 0.0)
        unknown = [limit.name for limit in objective.limits.given if limit.name not in known]
        if unknown:
            place = f"objective {objective.name}, table limits"
            raise SpecError([unknown_resource(place, name) for name in unknown])
        return valuation

    @cached_property
    def combination(self) -> Combination:
        """The objective as a sum of losses."""
        total = sum(self.objective.weights.values())
        shares = {name: weight / total for name, weight in self.objective.weights.items()}
        return Combination.of(shares, self.objective, self.thirds, self.model)

    @cached_property
    def constrained(self) -> tuple[Combination, ...]:
        """The loss that each constraint is about."""
        domains = [constraint.domain for constraint in self.objective.constraints]
        scored = self.objective.score_constraints
        domains += [self.links[constraint.benchmark].pairs.domain for constraint in scored]
        return tuple(
            Combination.of({domain: 1.0}, self.objective, self.thirds, self.model)
            for domain in domains
        )

    @property
    def weights(self) -> Floats:
        """The objective's weights on the law's losses, shape (domains,), or (domains, draws) (Eq. 6)."""
        return self.combination.weights

    @cached_property
    def reference_losses(self) -> Floats:
        """Losses of the reference base, shape (domains, draws); 0 without one."""
        if self.reference is None:
            return np.zeros((len(self.model.domains), self.model.draws))
        return self.model.bases((self.reference,)).loss[:, 0]

    def start(self, candidates: Candidates) -> Floats:
        """Return the losses that changes are counted from, shape (domains, candidates or 1, draws).

        The law's where nobody measured them: `start_missed` says how far they may lie off it.

        Parameters
        ----------
        candidates : Candidates
        """
        if self.reference is not None:
            return self.reference_losses[:, None]
        return self.model.bases(candidates.bases).loss[:, candidates.base]

    def before(self, combination: Combination, candidates: Candidates) -> Floats:
        """Return what changes of a sum of losses are counted from, shape (candidates or 1, draws).

        Parameters
        ----------
        combination : Combination
        candidates : Candidates
        """
        start = combination.sum(self.start(candidates))
        if not combination.thirds:
            return start
        if self.reference is not None:
            return start + combination.offset((self.reference,))
        return start + combination.offset(candidates.bases)[candidates.base]

    def sizes(self, candidates: Candidates, spread: Spread, *, single_run: bool = True) -> Floats:
        """Return the sd of the objective about the law's, shape (candidates, draws).

        Parameters
        ----------
        candidates : Candidates
        spread : Spread
        single_run : bool
            Whether of a single run, or of what is expected of its configuration.
        """
        return self.combination.sizes(candidates, spread, single_run=single_run)

    def start_level(self, candidates: Candidates) -> Floats:
        """Return the sd of what changes are counted from about `start`, of its shape; 0 if measured.

        Parameters
        ----------
        candidates : Candidates
        """
        if self.reference is not None:
            return self._reference_level[:, None]
        return self.model.base_levels(candidates.bases)[:, candidates.base]

    def start_missed(self, candidates: Candidates) -> Floats:
        """Return draws of how far what changes are counted from lies off `start`, of its shape.

        The level of bases that nobody measured: the one that `Layout.missed` has in runs from them.

        Parameters
        ----------
        candidates : Candidates
        """
        missed = self.start_level(candidates) * self.model.levels[:, None]
        # A single draw is a law, not a sample that has a mean.
        return missed - missed.mean(axis=-1, keepdims=True) if missed.shape[-1] > 1 else missed

    @cached_property
    def _reference_level(self) -> Floats:
        if self.reference is None:
            return np.zeros_like(self.reference_losses)
        return self.model.base_levels((self.reference,))[:, 0]

    def values(self, candidates: Candidates, losses: Floats) -> Floats:
        """Return the objective without what changes are counted from, shape (candidates, draws).

        Parameters
        ----------
        candidates : Candidates
        losses : ndarray, shape (domains, candidates, draws)
        """
        steps = candidates.schedules.steps
        cost = self.objective.cost(steps, self.resources)[:, None].astype(losses.dtype)
        return np.asarray(self.combination.of_candidates(candidates, losses) + cost)

    def changes(self, candidates: Candidates, losses: Floats) -> Floats:
        """Return the objective as it is measured, shape (candidates, draws) (see `values`).

        Parameters
        ----------
        candidates : Candidates
        losses : ndarray, shape (domains, candidates, draws)
            nats/token.
        """
        values = self.values(candidates, losses)
        if self.objective.measure == "absolute":
            return values
        before = self.before(self.combination, candidates)
        return np.asarray(values - before.astype(values.dtype))

    def moved(self, candidates: Candidates, values: Floats, missed: Floats) -> Floats:
        """Return changes of the law's losses moved by what the law misses, shape of `values`.

        Parameters
        ----------
        candidates : Candidates
        values : ndarray, shape (candidates, draws)
            From `changes`.
        missed : ndarray, shape (domains, candidates, draws)
        """
        if self.objective.measure == "change":
            missed = missed - self.start_missed(candidates).astype(missed.dtype)
        return np.asarray(values + self.combination.sum(missed))

    def about(self, candidates: Candidates, spread: Spread) -> Spread:
        """Return what moves the objective about its expectation, as it is measured.

        Parameters
        ----------
        candidates : Candidates
        spread : Spread
            Of their losses.
        """
        if self.objective.measure == "absolute":
            return spread
        return spread.against(self.start_level(candidates))

    def breaches(self, candidates: Candidates, losses: Floats, spread: Spread | None) -> Floats:
        """Return how probably each constraint is broken, shape (constraints, candidates).

        Parameters
        ----------
        candidates : Candidates
        losses : ndarray, shape (domains, candidates, draws)
        spread : Spread or None
            What moves losses about the law's; not needed without constraints.
        """
        constraints = self.objective.chances
        breaches = np.empty((len(constraints), len(candidates)))
        pairs = zip(constraints, self.constrained, strict=True)
        for index, (constraint, combination) in enumerate(pairs):
            if spread is None:
                raise ValueError("constraints need the spread of the losses")
            before, threshold, counted = self._threshold(constraint, combination, candidates)
            margin = combination.of_candidates(candidates, losses)
            if before is not None:
                margin = margin - before.astype(margin.dtype)
            about = spread.against(self.start_level(candidates)) if counted else spread
            sizes = combination.sizes(candidates, about, single_run=constraint.kind == "new_run").T
            breaches[index] = 1.0 - risk.probability_below(margin.T, threshold, sizes)
        return breaches

    def told(self, candidates: Candidates) -> dict[str, Floats]:
        """Return epochs and costs of candidates where they are known, by name, shape (candidates,).

        Parameters
        ----------
        candidates : Candidates
        """
        steps = candidates.schedules.steps
        return {**self.resources.told(steps, candidates.replay)}

    def overrun(self, candidates: Candidates) -> Floats:
        """Return by what share candidates exceed a limit, shape (candidates,); 0 or below keeps them all.

        Parameters
        ----------
        candidates : Candidates
        """
        taken = self.told(candidates)
        excess = np.full(len(candidates), -np.inf)
        for limit in self.objective.limits.given:
            excess = np.maximum(excess, taken[limit.name] / limit.most - 1.0)
        return excess

    def _threshold(
        self, constraint: Constraint | ScoreConstraint, total: Combination, candidates: Candidates
    ) -> tuple[Floats | None, float, bool]:
        """Return what a loss is counted from, its threshold then, and whether a base gives it."""
        if isinstance(constraint, Constraint):
            if constraint.rise is None:
                return None, constraint.limit or 0.0, False
            return self.before(total, candidates), constraint.rise, True
        # A score that ends below another goes with a loss that ends above the other's.
        link = self.links[constraint.benchmark]
        wanted: Any = constraint.least
        if constraint.fall is not None:
            wanted = link.scores(self.before(total, candidates)) - constraint.fall
        if constraint.kind == "new_run":
            wanted = wanted - link.scatter * self._evaluations
        return link.losses(np.asarray(wanted)), 0.0, constraint.fall is not None

    @cached_property
    def _evaluations(self) -> Floats:
        """Standard normal draws of how a single evaluation of a benchmark comes out, shape (draws,)."""
        return np.random.default_rng(SCORE_SEED).standard_normal(self.model.draws)

    @property
    def allowed(self) -> Floats:
        """How probably each constraint may be broken, shape (constraints,)."""
        return np.array([constraint.probability for constraint in self.objective.chances])

    def of_run(self, name: str) -> float:
        """Return the value of a run of the study at its last step, as `values` counts.

        Parameters
        ----------
        name : str
            Of a CPT run.

        Raises
        ------
        SpecError
            If there is no such CPT run, or it was not measured at its last step.
        """
        study = self.model.study
        runs = {run.name: run for run in study.continual_runs}
        if name not in runs:
            problem = f"there is no CPT run {name!r} in the study{suggestion(name, runs)}"
            raise SpecError.at("risk", problem, f"name one of {', '.join(runs)}")
        last = runs[name].schedule.steps
        measured = {}
        for domain in (*self.model.domains, *self.thirds):
            steps, losses = study.curve(name, domain)
            if not steps.size or steps[-1] != last:
                problem = f"the run {name} has no loss on {domain} at its last step {last}"
                raise SpecError.at("risk", problem, "name a run that was measured there")
            measured[domain] = float(losses[-1])
        of_law = np.array([measured[domain] for domain in self.model.domains])
        total = sum(self.objective.weights.values())
        values = [
            weight
            / total
            * (
                measured[domain]
                if domain in self.thirds
                else float(self.objective.share(domain, self.model.domains) @ of_law)
            )
            for domain, weight in self.objective.weights.items()
        ]
        return float(sum(values) + self.objective.cost(last, self.resources))


def _links(objective: Objective, scores: ScoreFit | None, draws: int) -> dict[str, ScoreLink]:
    """Return the links of all benchmarks in as many draws; those that are constrained must be there."""
    known = {} if scores is None else scores.links
    for constraint in objective.score_constraints:
        pairs_of([link.pairs for link in known.values()], constraint.benchmark)
    return {
        name: link.resampled(draws, SCORE_SEED + place)
        for place, (name, link) in enumerate(known.items())
    }


def _reference(model: FinalLosses, objective: Objective, space: SearchSpace) -> Base | None:
    if objective.reference == OWN:
        return None
    if objective.reference is not None:
        place = f"objective {objective.name}, key reference"
        return named_base(model.study, objective.reference, place, also=(OWN,))
    general = model.bases(space.bases).loss[0].mean(axis=-1)
    return space.bases[int(np.argmin(general))]
