"""An objective on the losses of a fit: values, costs, and how often constraints are broken."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.final_losses import Block, FinalLosses, Spread, centred
from bayes_cpt.decisions.objective import Constraint, Objective, ScoreConstraint
from bayes_cpt.decisions.search_space import Candidates, SearchSpace, named_base
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.scores import ScoreFit, ScoreLink, pairs_of
from bayes_cpt.forecast.third_sets import ThirdSet, unmeasured_base
from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO
from bayes_cpt.model.discrepancy import misfit_variance
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.study.batches import check_same_steps
from bayes_cpt.study.resources import Resources, unknown_resource
from bayes_cpt.study.runs import Base

OWN = "own"
# Sets the draws of links and of single evaluations apart from all else that is drawn.
SCORE_SEED = 11
# From this probability on a constraint is surely broken.
SURE = 0.99


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of losses."""

    # On the law's losses, shape (domains,); (domains, draws) with third sets, whose weights are not known.
    weights: Floats
    thirds: tuple[tuple[float, ThirdSet], ...]  # the third sets with their shares
    model: FinalLosses
    _offsets: dict[tuple[str, ...], Floats] = field(default_factory=dict, repr=False)

    def sum(self, losses: Floats) -> Floats:
        """Return the sum over validation sets without `offset`, (domains, ...) -> (...)."""
        weights = self.weights.astype(losses.dtype)
        if weights.ndim == 1:
            return np.asarray(np.tensordot(weights, losses, axes=1))
        return np.asarray(np.einsum("xd,x...d->...d", weights, losses))

    def offset(self, bases: tuple[Base, ...]) -> Floats:
        """Return what bases add to the sum, shape (bases, draws): where third sets start from."""
        names = tuple(base.name for base in bases)
        if names not in self._offsets:
            of_law, study = self.model.base_losses(bases), self.model.study
            offsets, problems = np.zeros(of_law.shape[1:]), []
            known = {base.name for base in study.bases}
            for (place, base), (share, third) in product(enumerate(bases), self.thirds):
                for domain in (*self.model.domains, third.name):
                    loss = study.base_loss(base.name, domain) if base.name in known else None
                    if loss is None:
                        problems.append(unmeasured_base("objective", base.name, domain))
                linear = (third.weights.T * of_law[:, place]).sum(axis=0)
                offsets[place] += share * ((loss or 0.0) - linear)
            if problems:
                raise SpecError(list(dict.fromkeys(problems)))
            self._offsets[names] = offsets
        return self._offsets[names]

    def of_law(self, block: Block) -> Floats:
        """Return the sum of the law's losses of some candidates, shape (candidates, draws)."""
        total, candidates = self.sum(block.losses), block.candidates
        if self.thirds:
            total = total + self.offset(candidates.bases)[candidates.base].astype(total.dtype)
        return total

    def sizes(self, candidates: Candidates, spread: Spread, *, single_run: bool) -> Floats:
        """Return the sd of what moves the sum about the law's, shape (candidates, draws)."""
        sizes = spread.of_sum(self.weights, single_run=single_run)
        if not self.thirds:
            return sizes
        frame, batch = self.model.frame, candidates.schedules
        onset = ONSET_SHARE * frame.reference.steps
        grown = misfit_variance(batch.steps, onset, frame.spec.residuals.misfit_memory)[:, None]
        rate = (batch.last_rate / frame.reference.learning_rate)[:, None]
        variance = 0.0
        # That of each third set about its linear form after the last step.
        for share, own in self.thirds:
            of_set = grown * own.misfit**2
            if single_run:
                heat = own.floor + (1.0 - own.floor) * rate
                # A curve starts at its base's measured loss, where it does not fluctuate yet.
                started = -np.expm1(-2.0 * batch.steps[:, None] / own.memory)
                of_set = of_set + (own.fluctuation * heat) ** 2 * started
            variance = variance + share**2 * of_set
        return np.asarray(np.sqrt(sizes**2 + variance).astype(sizes.dtype))


@dataclass(frozen=True, eq=False)
class Valuation:
    """What losses are worth."""

    model: FinalLosses
    objective: Objective
    resources: Resources  # what is known of the tokens and the cost of steps
    # What changes and rises are counted from; None for each configuration's own base.
    reference: Base | None
    thirds: dict[str, ThirdSet] = field(default_factory=dict)  # that the objective names
    # Of benchmarks whose scores are shown or constrained, in the draws of the model.
    links: dict[str, ScoreLink] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: FinalLosses,
        objective: Objective,
        space: SearchSpace,
        scores: ScoreFit | None = None,
    ) -> Self:
        """Return the objective on a fit and a space."""
        objective = objective.of_measured(model.domains, model.frame.roles)
        for frame in (law.draws.frame for law in model.laws):
            if "repeat_constant" in frame.spec.priors:
                check_same_steps(frame.reference.unique_steps, space.resources)
        reference = _reference(model, objective, space)
        links = _links(objective, scores, model.draws)
        bound = [constraint.domain for constraint in objective.constraints]
        scored = [link.pairs.domain for link in links.values()]
        thirds = {
            name: model.third(name)
            for name in dict.fromkeys([*objective.weights, *bound, *scored])
            if name not in objective.mixtures and name in model.study.third_domains
        }
        valuation = cls(model, objective, space.resources, reference, thirds, links)
        bases = space.bases if reference is None else (*space.bases, reference)
        for combination in (valuation.combination, *valuation.constrained):
            # Bases that were not measured on a third set are told at once.
            combination.offset(bases)
        # So are prices and limits of what cannot be counted.
        objective.cost(1.0, space.resources)
        known = space.resources.told(1.0, 0.0)
        if unknown := [name for name in objective.limits.given if name not in known]:
            place = f"objective {objective.name}, table limits"
            raise SpecError([unknown_resource(place, name) for name in unknown])
        return valuation

    @cached_property
    def combination(self) -> Combination:
        """The objective as a sum of losses."""
        return self._sum(self.objective.shares)

    @property
    def shares(self) -> dict[str, float]:
        """The weights of the objective by the names of validation sets."""
        shares, domains = self.objective.shares, self.model.domains
        thirds = {name: shares.pop(name) for name in self.thirds if name in shares}
        return dict(zip(domains, self._sum(shares).weights.tolist(), strict=True)) | thirds

    @property
    def chances(self) -> tuple[Constraint | ScoreConstraint, ...]:
        """The chance constraints of the objective, roles by the name of their one validation set."""
        roles = self.model.frame.roles
        sets = zip(roles, self.model.domains, strict=True)
        names = {role: name for role, name in sets if roles.count(role) == 1}
        return tuple(
            own.model_copy(update={"domain": names.get(own.domain, own.domain)})
            if isinstance(own, Constraint)
            else own
            for own in self.objective.chances
        )

    @cached_property
    def sets(self) -> dict[str, Combination]:
        """The loss on each validation set of the law, then on each third one, by name."""
        rows = zip(self.model.domains, np.eye(len(self.model.domains)), strict=True)
        of_law = {name: Combination(row, (), self.model) for name, row in rows}
        return of_law | {name: self._sum({name: 1.0}) for name in self.thirds}

    @cached_property
    def constrained(self) -> tuple[Combination, ...]:
        """The loss that each constraint is about."""
        domains = [constraint.domain for constraint in self.objective.constraints]
        scored = self.objective.score_constraints
        domains += [self.links[constraint.benchmark].pairs.domain for constraint in scored]
        return tuple(self._sum({domain: 1.0}) for domain in domains)

    def _sum(self, shares: Mapping[str, float]) -> Combination:
        """Return the sum of some validation sets."""
        domains, roles = self.model.domains, self.model.frame.roles
        used = tuple((shares[name], own) for name, own in self.thirds.items() if name in shares)
        of_law = [name for name in shares if name not in self.thirds]
        parts = [shares[name] * self.objective.share(name, domains, roles) for name in of_law]
        weights = np.sum([np.zeros(len(domains)), *parts], axis=0)
        if used:
            weights = weights[:, None] + sum(share * third.weights.T for share, third in used)
        return Combination(weights, used, self.model)

    def _counted(self, of_bases: Callable[[tuple[Base, ...]], Floats], rows: Candidates) -> Floats:
        """Return what is known of the bases that changes are counted from: the last axis but one."""
        if self.reference is not None:
            return of_bases((self.reference,))
        return of_bases(rows.bases)[..., rows.base, :]

    def start(self, candidates: Candidates) -> Floats:
        """Return the losses that changes are counted from, shape (domains, candidates or 1, draws).

        The law's where nobody measured them: `start_discrepancy` says how far they may lie off it.
        """
        losses = partial(self.model.base_losses, tokens=candidates.batch.tokens)
        return self._counted(losses, candidates)

    def before(self, combination: Combination, candidates: Candidates) -> Floats:
        """Return what changes of a sum of losses are counted from, shape (candidates or 1, draws)."""
        start = combination.sum(self.start(candidates))
        if combination.thirds:
            start = start + self._counted(combination.offset, candidates)
        return start

    def start_level(self, candidates: Candidates) -> Floats:
        """Return the sd of what changes are counted from about `start`, of its shape; 0 if measured."""
        levels = partial(self.model.base_levels, tokens=candidates.batch.tokens)
        return self._counted(levels, candidates)

    def start_discrepancy(self, candidates: Candidates) -> Floats:
        """Return draws of how far what changes are counted from lies off `start`, of its shape.

        The level of bases that nobody measured, as runs from them have it.
        """
        return centred(self.start_level(candidates) * self.model.levels[:, None])

    def weighted_loss(self, run: Candidates) -> Floats:
        """Return the weighted loss of a single candidate by the law, without costs, shape (draws,)."""
        return np.asarray(self.combination.of_law(self.model.at(run))[0])

    def changes(self, block: Block) -> Floats:
        """Return the objective by the law, in changes from the reference, shape (candidates, draws)."""
        values, candidates = self.combination.of_law(block), block.candidates
        cost = self.objective.cost(candidates.schedules.steps, self.resources)[:, None]
        before = self.before(self.combination, candidates)
        return np.asarray(values + cost.astype(values.dtype) - before.astype(values.dtype))

    def discrepancy(self, block: Block) -> Floats:
        """Return how far what the law misses moves these changes, shape (candidates, draws)."""
        starts, missed = self.start_discrepancy(block.candidates), block.discrepancy
        return self.combination.sum(missed - starts.astype(missed.dtype))

    def expected(self, block: Block) -> Floats:
        """Return the objective in changes, the law's discrepancy included, (candidates, draws)."""
        return self.changes(block) + self.discrepancy(block)

    def _margins(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """Yield how far the loss of each constraint lies above what it may be, and the sd about that."""
        for constraint, combination in zip(self.objective.chances, self.constrained, strict=True):
            threshold, counted = self._threshold(constraint, combination, block.candidates)
            losses, about = combination.of_law(block), block.spread
            if counted:
                about = about.against(self.start_level(block.candidates))
            single = constraint.kind == "new_run"
            sizes = combination.sizes(block.candidates, about, single_run=single)
            yield losses - np.asarray(threshold, dtype=losses.dtype), sizes

    def breaches(self, block: Block) -> Floats:
        """Return how probably each constraint is broken, shape (constraints, candidates)."""
        kept = [risk.probability_below(own.T, 0.0, sizes.T) for own, sizes in self._margins(block)]
        return 1.0 - np.array(kept).reshape(-1, len(block.candidates))

    def taken(self, candidates: Candidates) -> dict[str, Floats]:
        """Return epochs and costs of candidates where they are known, by name, shape (candidates,)."""
        return dict(self.resources.told(candidates.schedules.steps, candidates.replay))

    def overruns(self, candidates: Candidates) -> dict[str, Floats]:
        """Return by what share candidates exceed each limit, by name, shape (candidates,)."""
        taken, limits = self.taken(candidates), self.objective.limits.given
        return {name: taken[name] / most - 1.0 for name, most in limits.items()}

    def below_zero(self, block: Block) -> Floats:
        """Return by what share too many draws of the law have a loss at or below 0: (candidates,)."""
        return np.asarray((block.losses <= 0.0).any(axis=0).mean(axis=1) - MOST_BELOW_ZERO)

    def excess(self, block: Block, breaches: Floats) -> Floats:
        """Return by how much breaches, or what a run takes, exceed what is allowed, at most: (candidates,).

        By what probability, or by what share of a limit; where a breach is sure, by nats too. What keeps
        all, and no loss at or below 0, where the law does not hold, is not above 0.
        """
        overruns = self.overruns(block.candidates).values()
        allowed = self.allowed[:, None]
        # Of breaches that are all but sure the probability is a matter of the rarest draws.
        if (sure := breaches > np.maximum(allowed, SURE)).any():
            above = np.array([margin.mean(axis=1) for margin, _ in self._margins(block)])
            breaches = np.where(sure, SURE + np.maximum(above, 0.0), breaches)
        return np.asarray(
            np.max([self.below_zero(block), *(breaches - allowed), *overruns], axis=0)
        )

    def _threshold(
        self, constraint: Constraint | ScoreConstraint, total: Combination, candidates: Candidates
    ) -> tuple[Any, bool]:
        """Return the highest loss, a number or (candidates or 1, draws), and whether a base gives it."""
        if isinstance(constraint, Constraint):
            if constraint.rise is None:
                return constraint.limit, False
            return self.before(total, candidates) + constraint.rise, True
        # A score that ends below another goes with a loss that ends above the other's.
        link = self.links[constraint.benchmark]
        wanted: Any = constraint.least
        if constraint.fall is not None:
            wanted = link.scores(self.before(total, candidates)) - constraint.fall
        if constraint.kind == "new_run":
            # How a single evaluation comes out.
            normals = np.random.default_rng(SCORE_SEED).standard_normal(self.model.draws)
            wanted = wanted - link.scatter * normals
        return link.losses(np.asarray(wanted)), constraint.fall is not None

    @property
    def allowed(self) -> Floats:
        """How probably each constraint may be broken, shape (constraints,)."""
        return np.array([constraint.probability for constraint in self.objective.chances])


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
    first = model.base_losses(space.bases, space.batch.tokens)[0].mean(axis=-1)
    return space.bases[int(np.argmin(first))]
