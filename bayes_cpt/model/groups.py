"""Groups of runs that have a part of the law for themselves: of one model size, one batch, or one target.

What is of one group runs along a coordinate with every group of every validation set, and each curve
says to which it belongs. Groups are pooled as far as they have turned out alike, and one that never ran
is drawn from the population. Batches, as targets, have whole parameters for themselves, alike by their
joint prior (`bayes_cpt.model.joint_priors`); sizes lie off a power of size by standard normal deviations
times a spread.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import Batch, batch_of, batches_of
from bayes_cpt.study.study import Base, Run, Study

# The coordinates of groups.
SIZES, BATCHES = "size_domain", "batch_domain"
GROUPED = (SIZES, BATCHES)

type Group = float | Batch


def member_place(known: Sequence[Group], group: Group | None, domain: int) -> int:
    """Return where a group of a validation set stands along its coordinate, 0 where the law has none."""
    return domain * len(known) + list(known).index(group) if known and group is not None else 0


def label(group: Group) -> str:
    """Return a group as it is called beside its validation set."""
    return f"batch {group.label}" if isinstance(group, Batch) else f"{group:g}M"


ADD = "add model_size = ..., its non-embedding parameters in millions, as in model_size = 106"
# With fewer sizes the exponent of size rests on its prior, and with two how far single sizes lie off it.
FEWEST = 3


def fitted_sizes(study: Study, *, continual: bool) -> tuple[float, ...]:
    """Return the model sizes of all runs, or of PT runs alone, each once, rising, in millions."""
    runs = study.runs if continual else study.pretraining_runs
    return tuple(sorted({size for run in runs if (size := study.model_size(run)) is not None}))


def known_sizes(spec: ModelSpec, study: Study) -> tuple[float, ...]:
    """Return the model sizes that the law of a study knows, rising; none where it has no size.

    In CPT also those of bases that no run starts from yet.
    """
    if not spec.law.model_size:
        return ()
    continual = spec.law.continual
    bases = [base.model_size for base in study.bases] if continual else []
    of_bases = {size for size in bases if size is not None}
    return tuple(sorted({*fitted_sizes(study, continual=continual), *of_bases}))


def check_sizes(study: Study, runs: Iterable[Run], bases: Iterable[Base] = ()) -> None:
    """Raise StudyError, naming each run and base that does not say its size, which the law wants."""
    missing = [f"run {run.name}" for run in runs if study.model_size(run) is None]
    missing += [f"base {base.name}" for base in bases if base.model_size is None]
    if missing:
        problem = "its model size is not known, and the law has a term for it"
        raise StudyError([Problem(f"{place}, key model_size", problem, ADD) for place in missing])


# The parameter by which batches change the annealing gain, where the law compares model sizes.
GAIN_BY_BATCH = "annealing_by_batch"


@dataclasses.dataclass(frozen=True)
class BatchSizes:
    """Batch sizes of the CPT runs of a fit, and what a run has that does not say its own."""

    # By model size, logs of both; none where the law does not compare them, or a run does not say its own
    tokens: Mapping[float, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, spec: ModelSpec, study: Study) -> Self:
        """Return those of a study."""
        found = {}
        for run in study.continual_runs if GAIN_BY_BATCH in spec.priors else ():
            size, tokens = study.model_size(run), batch_of(study, run).tokens
            if size is None or tokens is None:
                return cls()
            found[float(np.log(size))] = float(np.log(tokens))
        return cls(found)

    @property
    def mean(self) -> float:
        """Mean log of the batch sizes."""
        return float(np.mean(list(self.tokens.values())))

    @property
    def differ(self) -> bool:
        """Whether there are several."""
        return len(set(self.tokens.values())) > 1

    def log_share(self, plan: Study, run: Run) -> float:
        """Return the log of the batch size of a run over their mean; 0 where the law does not compare them.

        A run that does not say its own has that of the runs of its model size; another size lies on their
        line.
        """
        if not self.tokens:
            return 0.0
        said, size = batch_of(plan, run).tokens, plan.model_size(run)
        if said is not None:
            return float(np.log(said)) - self.mean
        sizes, batches = np.array(list(self.tokens.items())).T
        place = sizes.mean() if size is None else np.log(size)
        if (alike := np.isclose(sizes, place)).any():
            return float(batches[alike].mean()) - self.mean
        slope = np.polyfit(sizes, batches, 1)[0] if len(sizes) > 1 else 0.0
        return float(slope * (place - sizes.mean()))


# What of a batch a run may say, by its key.
KEYS = {"batch_tokens": "tokens", "sequence_length": "sequence_length"}


def for_batches(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for the batches of a study: of one alone nothing tells them apart."""
    if not spec.law.batches:
        return spec
    if len(checked_batches(study)) > 1:
        if spec.law.targets > 1:
            problem = f"it has several targets, and the law of {spec.name} compares batches of one"
            fix = "keep to one target or to one batch, or use --model cpt-replay"
            raise StudyError.at(f"study {study.name}", problem, fix)
        if spec.law.unknown_base:
            problem = f"its pre-training is not known, and the law of {spec.name} compares batches"
            fix = "fit it with --model cpt-replay, or give the base's schedule, if only roughly"
            raise StudyError.at(f"study {study.name}, base", problem, fix)
        return spec
    return spec.with_law(batches=False)


def checked_batches(study: Study) -> tuple[Batch, ...]:
    """Return the different batches of the CPT runs of a study, those of most runs first."""
    runs, check = study.continual_runs, Check()
    for key, field in KEYS.items():
        silent = [run.name for run in runs if getattr(batch_of(study, run), field) is None]
        if 0 < len(silent) < len(runs):
            others = f", nor for {len(silent) - 1} more" if len(silent) > 1 else ""
            problem = f"it is not given for this run{others}, but for others, and the law compares batches"
            what = "tokens of one optimiser step" if field == "tokens" else "tokens of one sequence"
            fix = f"add {key} = ..., the {what}, to every CPT run"
            check.add(f"study {study.name}, run {silent[0]}, key {key}", problem, fix)
    check.raise_problems()
    return batches_of(study)


def run_batch(plan: Study, run: Run, known: Sequence[Batch]) -> Batch | None:
    """Return the batch of a run; None for PT runs, and where the law does not compare batches.

    What a run does not say is as in the fitted runs, whose batches are known, if all agree in it.
    """
    if not known or run.phase == "pt":
        return None
    batch, check = batch_of(plan, run), Check()
    for key, field in KEYS.items():
        values = sorted({value for own in known if (value := getattr(own, field)) is not None})
        if getattr(batch, field) is None and len(values) > 1:
            problem = f"it is not given, and fitted runs have {values[0]:g} to {values[-1]:g}"
            fix = f"add {key} = ..., as in {key} = {values[0]:g}"
            check.add(f"plan {plan.name}, run {run.name}, key {key}", problem, fix)
    check.raise_problems()
    return compared(batch, known)


def compared(batch: Batch, known: Sequence[Batch]) -> Batch:
    """Return a batch by what the fitted ones say: what it leaves open is as in the first of them.

    Examples
    --------
    >>> compared(Batch(None, 4096), [Batch(1024.0), Batch(2048.0)])
    Batch(tokens=1024.0, sequence_length=None)
    """
    tokens, length = known[0].tokens, known[0].sequence_length
    # What no fitted run says cannot set a batch apart.
    if tokens is not None and batch.tokens is not None:
        tokens = batch.tokens
    if length is not None and batch.sequence_length is not None:
        length = batch.sequence_length
    return Batch(tokens, length)


def for_targets(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for the targets of a study: with what several need as parameters."""
    count = len(study.targets)
    if not spec.law.continual or count < 2:
        return spec
    place = f"study {study.name}, model {spec.name}"
    if spec.law.replay_factor.target == "none":
        problem = f"it has {count} targets, and the law has no factor for the share of each"
        raise StudyError.at(place, problem, "use --model cpt-replay, or keep to one target")
    if not spec.targets:
        problem = f"it has {count} targets, and the model has no priors for what they share"
        fix = "add [targets] as in models/cpt-replay.toml, use --model cpt-replay, or keep to one target"
        raise StudyError.at(place, problem, fix)
    priors = spec.priors | spec.targets
    return spec.with_law(targets=count).model_copy(update={"priors": priors})


def roles_of(study: Study, domains: Sequence[str]) -> tuple[str, ...]:
    """Return the role of each validation set that a law describes."""
    return tuple("target" if domain in study.targets else "general" for domain in domains)


def check_one_target(study: Study, what: str) -> None:
    """Raise StudyError if a study has several targets, where nothing more is known to do."""
    if len(study.targets) > 1:
        problem = f"it has {len(study.targets)} targets, and {what} is for one only"
        target = study.targets[0]
        fix = f"name one, as in --target {target}; in Python take posterior.of_target({target!r})"
        raise StudyError.at(f"study {study.name}", problem, fix)


def study_of_target(study: Study, name: str) -> Study:
    """Return the PT runs of a study, and its runs on one target alone, as a study of that target.

    Sets of the other targets are third sets of it. What was measured of a base counts, whichever run it was
    measured in.
    """
    runs = [run for run in study.continual_runs if study.mixture(run) == {name: 1.0}]
    if not runs:
        problem = f"no run trains on {name} alone, and the question is about such runs"
        fix = "name another target, or add a run on it alone and fit again"
        raise StudyError.at(f"study {study.name}, target {name}", problem, fix)
    kept = study.subset(run.name for run in (*study.pretraining_runs, *runs))
    at_base = (kept.losses["step"] == 0) & kept.losses["run"].isin(run.name for run in runs)
    starts = [
        (run.name, 0, domain, loss)
        for run in runs
        for domain in study.domains
        if (loss := study.base_loss(str(run.base), domain)) is not None
    ]
    return kept.changed(target=name, losses=kept.losses[~at_base]).with_runs((), starts)


def mixture_columns(
    mixture: Mapping[str, float], domains: Sequence[str], domain: int, replay: float | None
) -> tuple[float, NDArray[np.float64]]:
    """Return the share of other targets' data in a run's batches, and the shares of factors of forgetting.

    `mixture` is by target, of the data that are not replay, and empty in PT (see `bayes_cpt.model.points`).

    Examples
    --------
    >>> share, mixture = mixture_columns({"code": 0.75, "law": 0.25}, ["web", "code", "law"], 1, 0.2)
    >>> round(share, 6), mixture.tolist()
    (0.2, [1.0, 0.0, 0.0])
    >>> mixture_columns({"code": 0.75, "law": 0.25}, ["web", "code", "law"], 0, 0.2)[1].tolist()
    [0.0, 0.75, 0.25]
    """
    if domain == 0 and mixture:
        return 0.0, np.array([mixture.get(name, 0.0) for name in domains])
    others = 1.0 - mixture.get(domains[domain], 0.0) if mixture else 0.0
    return (1.0 - (replay or 0.0)) * others, np.eye(len(domains))[0]
