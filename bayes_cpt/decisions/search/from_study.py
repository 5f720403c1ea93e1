"""What a study says of a space: bases, mixtures of targets, replay ratios and peak learning rates."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bayes_cpt.checks import suggestion
from bayes_cpt.decisions.named_base import named_base
from bayes_cpt.decisions.space import Quantity, Space
from bayes_cpt.errors import SpecError
from bayes_cpt.inference.new_groups import in_batch, settled_batch
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases.unknown_base import fitted_bases
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Segment
from bayes_cpt.study.study import Study

# How far defaults go beyond what CPT runs tried: in replay, and as a factor of the peak LR.
REPLAY_BEYOND, PEAK_BEYOND = 0.05, 1.5
# Mixtures of targets are tried in steps of one over this.
MIXTURE_PARTS = 4


def either(space: Space, one: str, other: str, default: Quantity) -> dict[str, Quantity | None]:
    """Return whichever of two quantities is given; the second has the default.

    Parameters
    ----------
    space : Space
    one, other : str
        Their names in the space.
    default : Quantity
    """
    given = getattr(space, one)
    return {one: given} if given is not None else {other: getattr(space, other) or default}


def listed_bases(space: Space, study: Study) -> tuple[tuple[Base, ...], list[str]]:
    """Return the bases to choose from, and what is to be said of those left out.

    Parameters
    ----------
    space : Space
    study : Study
    """
    fitted = fitted_bases(study)
    if space.bases is None:
        started = {run.base for run in study.continual_runs}
        tried = tuple(base for base in fitted if base.name in started) or fitted
        notes = [
            f"base {base.name} is left out, for no CPT run starts from it: name it under bases to have it"
            for base in fitted
            if base not in tried
        ]
        notes += [
            f"base {base.name} is left out, for its PT schedule is not known: give an approximate one, "
            "annealed to 0 where nothing is said about it"
            for base in study.bases
            if base not in fitted and base.schedule is None
        ]
        return tried, notes
    return tuple(named_base(study, name, "space, key bases") for name in space.bases), []


def listed_mixtures(space: Space, study: Study) -> tuple[Mapping[str, float], ...]:
    """Return the mixtures of targets; by default all in steps of `MIXTURE_PARTS` of those trained on.

    Parameters
    ----------
    space : Space
    study : Study

    Raises
    ------
    SpecError
        If the space names a target that the study has not.
    """
    if len(study.targets) < 2:
        if space.targets and any(set(mixture) != set(study.targets) for mixture in space.targets):
            problem = f"the study has one target, {study.target}"
            raise SpecError.at("space, key targets", problem, "leave the key out")
        return ({},)
    for name in {name for mixture in space.targets or () for name in mixture}:
        if name not in study.targets:
            problem = f"{name!r} is no target of the study{suggestion(name, study.targets)}"
            fix = f"name some of {', '.join(study.targets)}"
            raise SpecError.at("space, key targets", problem, fix)
    if space.targets is not None:
        return space.targets
    tried = {name for run in study.continual_runs for name in run.mixture}
    names = [name for name in study.targets if name in tried]
    parts = range(MIXTURE_PARTS + 1)
    counts = (
        split
        for split in itertools.product(parts, repeat=len(names))
        if sum(split) == MIXTURE_PARTS
    )
    return tuple(
        {name: n / MIXTURE_PARTS for name, n in zip(names, split, strict=True) if n}
        for split in counts
    )


def with_batch(posterior: Posterior, space: Space) -> tuple[Posterior, Space]:
    """Return the posterior in the batch that a space asks for, and the space with that batch.

    Parameters
    ----------
    posterior : Posterior
    space : Space
        What it does not say of the batch is as in most CPT runs. Both come back as they were where the law
        does not compare batches.
    """
    settled = in_batch(posterior, space.batch)
    batch = settled_batch(settled)
    said = {"tokens_per_step": batch.tokens, "sequence_length": batch.sequence_length}
    return settled, space.model_copy(update={key: own for key, own in said.items() if own})


def replay_tried(study: Study) -> Quantity:
    """Return the replay ratios of the CPT runs, and a little beyond them.

    Parameters
    ----------
    study : Study
    """
    tried = [run.replay or 0.0 for run in study.continual_runs]
    low, high = max(min(tried) - REPLAY_BEYOND, 0.0), min(max(tried) + REPLAY_BEYOND, 1.0)
    return Quantity(low=round(low, 3), high=round(high, 3), scale="linear")


def peaks_tried(space: Space, study: Study, bases: Sequence[Base]) -> dict[str, Quantity | None]:
    """Return the peak LR; by default those of the CPT runs, and a little beyond them.

    Never beyond where any run was trained: losses do not tell where training breaks down.

    Parameters
    ----------
    space : Space
    study : Study
    bases : sequence of Base

    Raises
    ------
    SpecError
        If it is to be a share of a PT peak that is not known.
    """
    trained = max(run.schedule.peak for run in study.runs)
    pretrained = [base.schedule.peak for base in bases if base.schedule is not None]
    tried = [run.schedule.peak for run in study.continual_runs]
    low, high = min(tried) / PEAK_BEYOND, max(tried) * PEAK_BEYOND
    if pretrained:
        peak = max(pretrained)
        highest = max(min(high, trained), min(high, peak), *tried) / peak
        default = Quantity(low=low / peak, high=highest, scale="log")
        return either(space, "peak", "relative_peak", default)
    if space.relative_peak is not None:
        problem = "it is a share of the PT peak, and that is not known"
        fix = f"give peak, raw: the runs of the study go up to {trained:g}"
        raise SpecError.at("space, key relative_peak", problem, fix)
    default = Quantity(low=low, high=max(min(high, trained), *tried), scale="log")
    return {"peak": space.peak or default}


def annealed(base: Base, loss_potential: float) -> Base:
    """Return the base with the same PT but another end of its anneal.

    Parameters
    ----------
    base : Base
    loss_potential : float
        Last learning rate over the highest.

    Raises
    ------
    SpecError
        If the base does not end in an anneal that can be varied.
    """
    schedule = base.schedule
    last = schedule.segments[-1] if schedule else None
    varies = isinstance(last, Segment) and last.shape != "constant" and last.start >= last.end
    if schedule is None or not isinstance(last, Segment) or not varies:
        problem = f"the base {base.name} does not end in an anneal, so that it cannot be varied"
        fix = "name a base whose last segment falls, or leave loss_potential out and list bases"
        raise SpecError.at("space, key loss_potential", problem, fix)
    if last.shape == "exponential" and loss_potential == 0:
        problem = f"the anneal of the base {base.name} is exponential and cannot end at 0"
        raise SpecError.at("space, key loss_potential", problem, "let it start above 0")
    end = min(loss_potential * schedule.peak, last.start)
    segments = (*schedule.segments[:-1], replace(last, end=end))
    return replace(
        base,
        name=f"{base.name}@{loss_potential:g}",
        schedule=replace(schedule, segments=segments),
        run=None,
    )
