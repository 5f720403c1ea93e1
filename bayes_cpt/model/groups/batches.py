"""Batch sizes and sequence lengths of a study: what a law that lets them differ takes of its runs."""

from collections.abc import Iterable, Sequence

from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.model.spec import ModelSpec, parameter_names
from bayes_cpt.study.batches import Batch, batch_of, batches_of
from bayes_cpt.study.study import Run, Study

# What of a batch a run may say, by its key.
KEYS = {"batch_tokens": "tokens", "sequence_length": "sequence_length"}


def for_batches(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for the batches of a study: without what tells them apart if there is one.

    Parameters
    ----------
    spec : ModelSpec
    study : Study

    Raises
    ------
    StudyError
        If some runs say their batch size or sequence length and others do not, or if batches differ and the
        base's pre-training is not known or there are several targets.
    """
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
    return without_batches(spec)


def without_batches(spec: ModelSpec) -> ModelSpec:
    """Return the specification of the same law without what tells batches apart.

    Parameters
    ----------
    spec : ModelSpec
    """
    law = spec.law.model_copy(update={"batches": False})
    names = parameter_names(law, spec.residuals)
    priors = {name: prior for name, prior in spec.priors.items() if name in names}
    return spec.model_copy(update={"law": law, "priors": priors})


def checked_batches(study: Study) -> tuple[Batch, ...]:
    """Return the different batches of the CPT runs of a study, those of most runs first.

    Parameters
    ----------
    study : Study

    Raises
    ------
    StudyError
        If some runs say their batch size or sequence length and others do not.
    """
    problems = []
    for key, field in KEYS.items():
        silent = [
            run.name for run in study.continual_runs if getattr(batch_of(study, run), field) is None
        ]
        if 0 < len(silent) < len(study.continual_runs):
            others = f", nor for {len(silent) - 1} more" if len(silent) > 1 else ""
            problem = f"it is not given for this run{others}, but for others, and the law compares batches"
            what = "tokens of one optimiser step" if field == "tokens" else "tokens of one sequence"
            fix = f"add {key} = ..., the {what}, to every CPT run"
            problems.append(
                Problem(f"study {study.name}, run {silent[0]}, key {key}", problem, fix)
            )
    if problems:
        raise StudyError(problems)
    return batches_of(study)


def known_batches(spec: ModelSpec, study: Study) -> tuple[Batch, ...]:
    """Return the batches that the law of a study compares; none where it compares none.

    Parameters
    ----------
    spec : ModelSpec
    study : Study
    """
    return checked_batches(study) if spec.law.batches else ()


def run_batch(plan: Study, run: Run, known: Sequence[Batch]) -> Batch | None:
    """Return the batch of a run; None for PT runs, and where the law does not compare batches.

    What a run does not say is as in the study, if all its runs agree in it.

    Parameters
    ----------
    plan : Study
        Of the run.
    run : Run
    known : sequence of Batch
        Those of the fit; none where the law does not compare them.

    Raises
    ------
    StudyError
        If it does not say what the fitted runs differ in.
    """
    if not known or run.phase == "pt":
        return None
    batch = batch_of(plan, run)
    problems = []
    for key, field in KEYS.items():
        values = sorted(
            {value for batch_ in known if (value := getattr(batch_, field)) is not None}
        )
        if getattr(batch, field) is None and len(values) > 1:
            problem = f"it is not given, and fitted runs have {values[0]:g} to {values[-1]:g}"
            place = f"plan {plan.name}, run {run.name}, key {key}"
            problems.append(
                Problem(place, problem, f"add {key} = ..., as in {key} = {values[0]:g}")
            )
    if problems:
        raise StudyError(problems)
    return compared(batch, known)


def compared(batch: Batch, known: Sequence[Batch]) -> Batch:
    """Return a batch by what the fitted ones say: what it leaves open is as in the first of them.

    Parameters
    ----------
    batch : Batch
    known : sequence of Batch
        Those of the fit.

    Examples
    --------
    >>> compared(Batch(None, 4096), [Batch(1024.0), Batch(2048.0)])
    Batch(tokens=1024.0, sequence_length=None)
    """
    usual = known[0]
    tokens = usual.tokens if batch.tokens is None else batch.tokens
    length = usual.sequence_length if batch.sequence_length is None else batch.sequence_length
    # What no fitted run says cannot set a batch apart.
    return Batch(
        None if usual.tokens is None else tokens,
        None if usual.sequence_length is None else length,
    )


def plan_batches(plan: Study, runs: Iterable[Run], known: Sequence[Batch]) -> list[Batch]:
    """Return the batches of some runs of a plan, as `run_batch` has them.

    Parameters
    ----------
    plan : Study
    runs : iterable of Run
    known : sequence of Batch
    """
    batches = (run_batch(plan, run, known) for run in runs)
    return [batch for batch in batches if batch is not None]
