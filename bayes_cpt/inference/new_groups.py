"""Model sizes and batches that no run had: what they have for themselves is drawn from the population."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError
from bayes_cpt.inference.posterior import Posterior, StackedPosterior
from bayes_cpt.laws.law import ALONG
from bayes_cpt.model.groups.batches import (
    compared,
    plan_batches,
    run_batch,
    without_batches,
)
from bayes_cpt.model.groups.grouping import BATCHES, GROUPED, SIZES, Group
from bayes_cpt.model.priors.pooling import further
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.ranges import ALIKE_RATIO
from bayes_cpt.study.study import Run, Study

# Sets the draws of new groups apart from all that is drawn with the seed of the fit.
STREAM = 7


def covering(posterior: Posterior, plan: Study, runs: Iterable[Run]) -> Posterior:
    """Return a posterior that knows the model sizes and batches of some runs of a plan.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    runs : iterable of Run

    Raises
    ------
    StudyError
        As `covering_sizes`, or if a run does not say of its batch what the fitted ones differ in.
    """
    chosen = tuple(runs)
    return covering_batches(
        covering_sizes(posterior, [plan.model_size(run) for run in chosen]), plan, chosen
    )


def covering_sizes(posterior: Posterior, sizes: Iterable[float | None]) -> Posterior:
    """Return a posterior that knows further model sizes.

    In each posterior draw a new size lies off the power of size by a normal number times the sd of that
    draw, as the sizes of the study do.

    Parameters
    ----------
    posterior : Posterior
    sizes : iterable of float or None
        Millions of parameters; known ones and None are passed over.

    Returns
    -------
    Posterior
        The same one if there is no new size, or no law has a size.

    Raises
    ------
    StudyError
        If the law has no size, and one is asked for that no fitted run has.
    """
    asked = sorted({size for size in sizes if size is not None})
    if isinstance(posterior, StackedPosterior):
        laws = tuple(covering_sizes(law, asked) for law in posterior.laws)
        frame = replace(posterior.frame, sizes=max((law.frame.sizes for law in laws), key=len))
        return replace(posterior, laws=laws, frame=frame)
    if not posterior.frame.spec.law.model_size:
        _check_alike(posterior, asked)
        return posterior
    return _with_groups(posterior, SIZES, asked)


def covering_batches(posterior: Posterior, plan: Study, runs: Sequence[Run]) -> Posterior:
    """Return a posterior that knows the batches of some runs of a plan.

    In each posterior draw the shift of a new batch is drawn from the population that the shifts of the
    study's batches come from, given these.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    runs : sequence of Run

    Returns
    -------
    Posterior
        The same one if there is no new batch, or no law compares them.

    Raises
    ------
    StudyError
        If a run does not say what the fitted ones differ in.
    """
    if isinstance(posterior, StackedPosterior):
        laws = tuple(covering_batches(law, plan, runs) for law in posterior.laws)
        frame = replace(posterior.frame, batches=max((law.frame.batches for law in laws), key=len))
        return replace(posterior, laws=laws, frame=frame)
    return _with_groups(posterior, BATCHES, plan_batches(plan, runs, posterior.frame.batches))


def in_batch(posterior: Posterior, batch: Batch | None = None) -> Posterior:
    """Return the posterior of the law in one batch: without batches, its parameters those of that one.

    Parameters
    ----------
    posterior : Posterior
    batch : Batch, optional
        What it does not say is as in the batch that most CPT runs of the study have; one that never ran is
        drawn from the population.

    Returns
    -------
    Posterior
        The same one where no law compares batches.
    """
    if isinstance(posterior, StackedPosterior):
        laws = tuple(in_batch(law, batch) for law in posterior.laws)
        frame = replace(posterior.frame, spec=without_batches(posterior.frame.spec), batches=())
        return replace(posterior, laws=laws, frame=frame)
    if not posterior.frame.batches:
        return posterior
    known = posterior.frame.batches
    chosen = known[0] if batch is None else compared(batch, known)
    covered = _with_groups(posterior, BATCHES, [chosen])
    spec = without_batches(posterior.frame.spec)
    frame = replace(posterior.frame, spec=spec, batches=())
    return OneBatchPosterior(posterior.tree, posterior.study, frame, covered, chosen)


def check_one_batch(posterior: Posterior, plan: Study, batch: Batch, asked: str) -> None:
    """Check that the runs of a plan have the batch that a question was settled on.

    Parameters
    ----------
    posterior : Posterior
        Of the fit.
    plan : Study
    batch : Batch
        From `settled_batch`.
    asked : str
        What is asked of the runs, for the error.

    Raises
    ------
    StudyError
        Naming the first run that has another.
    """
    laws = posterior.laws if isinstance(posterior, StackedPosterior) else (posterior,)
    for known in {law.frame.batches for law in laws}:
        for run in plan.continual_runs:
            own = run_batch(plan, run, known)
            if own not in (None, batch):
                problem = (
                    f"it has a {own.words}, and {asked} is for one batch at a time: {batch.words}"
                )
                fix = "give tokens_per_step and sequence_length in the space, or plan runs of that batch"
                raise StudyError.at(f"plan {plan.name}, run {run.name}", problem, fix)


def as_fitted(posterior: Posterior) -> Posterior:
    """Return the posterior that came from the fit: this one, unless groups were added or a batch settled.

    Parameters
    ----------
    posterior : Posterior
    """
    if isinstance(posterior, CoveringPosterior | OneBatchPosterior):
        return as_fitted(posterior.known)
    return posterior


def settled_batch(posterior: Posterior) -> Batch:
    """Return the batch of `in_batch`; one that says nothing where no law compares batches.

    Parameters
    ----------
    posterior : Posterior
    """
    laws = posterior.laws if isinstance(posterior, StackedPosterior) else (posterior,)
    settled = (law.batch for law in laws if isinstance(law, OneBatchPosterior))
    return next(settled, Batch())


def _with_groups(posterior: Posterior, dims: str, asked: Iterable[Group]) -> Posterior:
    """Return a posterior that knows further groups of a coordinate; the same one if it knows them."""
    known = posterior.frame.groups[dims]
    new = tuple(own for own in dict.fromkeys(asked) if own not in known)
    if not new:
        return posterior
    field = {SIZES: "sizes", BATCHES: "batches"}[dims]
    groups: dict[str, Any] = {field: (*known, *new)}
    frame = replace(posterior.frame, **groups)
    return CoveringPosterior(posterior.tree, posterior.study, frame, posterior)


def _check_alike(posterior: Posterior, asked: list[float]) -> None:
    """Raise if a size is asked for that a law without sizes was not fitted to."""
    study = posterior.study
    fitted = [size for run in study.runs if (size := study.model_size(run)) is not None]
    if not fitted:
        return
    low, high = min(fitted) / ALIKE_RATIO, max(fitted) * ALIKE_RATIO
    for size in asked:
        if not low <= size <= high:
            name = posterior.frame.spec.name
            problem = (
                f"model_size is {size:g}, the fit is of {min(fitted):g} to {max(fitted):g}, and its law "
                "has no term for model size"
            )
            fix = "fit runs of two sizes or more with --model cpt-replay-sizes or pretrain-sizes"
            raise StudyError.at(f"plan, model {name}", problem, fix)


@dataclass(frozen=True, eq=False)
class CoveringPosterior(Posterior):
    """A posterior with groups that were not fitted; `tree` and `study` are those of the fit.

    Parameters
    ----------
    known : Posterior
        As it came from the fit, or with other further groups.
    """

    known: Posterior

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters, those of new groups drawn from the population.

        Parameters
        ----------
        draws : int, optional
            As in `Posterior.parameters`.
        """
        found = self.known.parameters(draws)
        domains = len(self.frame.domains)
        for place, (name, info) in enumerate(self.frame.parameters().items()):
            if info.dims not in GROUPED:
                continue
            frame, draws = self.known.frame, len(found[name])
            known, new = len(frame.groups[info.dims]), self.frame.groups[info.dims]
            shape, values = (draws, domains), found[name].reshape(draws, domains, -1)
            numbers = [self._numbers(place, shape, group) for group in new[known:]]
            if name in frame.pooled:
                shared, spreads = self._numbers(place, shape), found[frame.spread]
                numbers = [
                    further(frame, name, found[name], spreads, shared, own) for own in numbers
                ]
            elif info.dims == BATCHES:
                # It is known, and the same for all batches.
                numbers = [values[:, :, 0] for _ in numbers]
            added = [own[:, :, None] for own in numbers]
            found[name] = np.concatenate([values, *added], axis=2).reshape(draws, -1)
        return found

    def members(self, quantity: str) -> tuple[str, ...]:
        """Return the validation sets of a quantity, with every group where it is of groups.

        Parameters
        ----------
        quantity : str
        """
        infos = self.frame.parameters()
        dims = infos[quantity].dims if quantity in infos else ALONG.get(quantity)
        if dims not in GROUPED:
            return self.known.members(quantity)
        return tuple(member.label for member in self.frame.members(dims))

    def _numbers(self, place: int, shape: tuple[int, ...], group: Group | None = None) -> Any:
        """Return standard normal numbers, the same whenever a parameter of this group is asked for."""
        words = [] if group is None else _words(group)
        return np.random.default_rng([self.seed, STREAM, place, *words]).standard_normal(shape)


@dataclass(frozen=True, eq=False)
class OneBatchPosterior(Posterior):
    """A posterior in one batch; `tree` and `study` are those of the fit.

    Parameters
    ----------
    known : Posterior
        With that batch.
    batch : Batch
    """

    known: Posterior
    batch: Batch

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters of a law that does not compare batches.

        Parameters
        ----------
        draws : int, optional
            As in `Posterior.parameters`.
        """
        found, known = self.known.parameters(draws), self.known.frame
        own = slice(known.batches.index(self.batch), None, len(known.batches))
        infos = known.parameters()
        return {
            name: found[name][:, own] if infos[name].dims == BATCHES else found[name]
            for name in self.frame.parameters()
        }


def _words(group: Group) -> list[int]:
    numbers = group.numbers if isinstance(group, Batch) else (group,)
    return [int(word) for word in np.array(numbers, dtype=np.float64).view(np.uint32)]
