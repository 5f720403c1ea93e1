"""Bases whose pre-training is not known: open weights (docs/law.md, "Unknown base").

The forward area S1_pt of such a base is a parameter, and so is the learning rate that it was left at: the
paper takes it as 0, as released models have it, and checkpoints from the middle of a run do not.
Where curves start at the measured loss of their base, so does the law: of its level nothing else is known.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from bayes_cpt.errors import StudyError
from bayes_cpt.model.groups import roles_of
from bayes_cpt.model.law_table import LawTable
from bayes_cpt.model.priors import Fixed, Prior
from bayes_cpt.model.spec import UNKNOWN_BASE, WITHOUT_WARMUP, ModelSpec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study

GIVE_SCHEDULE = "give the base's PT schedule; an approximate one is better than none"
LEVEL = "The law starts at the measured loss of its base: no curve of pre-training says how far off it is."
SHAPE = "The shape of the power over a pre-training that nobody knows; runs from its end do not show it."
LONE = "No curve of pre-training was measured: CPT curves start at the losses of their bases."
# What has no part without curves of pre-training.
AT_LONE_BASE = ("fluctuation_pt", "misfit_pt")
RATIO = "Without pre-training there is no other annealing gain to compare that of CPT with."


def unknown_base(study: Study) -> Base | None:
    """Return the base of unknown pre-training that CPT runs of a study start from, or None."""
    used = {str(run.base): study.base(str(run.base)) for run in study.continual_runs}
    unknown = [base for base in used.values() if base.schedule is None]
    if not unknown:
        return None
    others = [f"base {name}" for name in used if name != unknown[0].name]
    others += [f"PT run {run.name}" for run in study.pretraining_runs]
    if others:
        problem = f"its pre-training is not known, and the study also has {', '.join(others[:3])}"
        fix = f"keep to the runs that start from it, or {GIVE_SCHEDULE}"
        raise StudyError.at(f"study {study.name}, base {unknown[0].name}", problem, fix)
    return unknown[0]


def fitted_bases(study: Study) -> tuple[Base, ...]:
    """Return the bases that the law of a fit is about: the unknown one, else all that are known."""
    unknown = unknown_base(study)
    if unknown is not None:
        return (unknown,)
    return tuple(base for base in study.bases if base.schedule is not None)


def for_base(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for the base of a study: with its pre-training as parameters if unknown.

    Where the study does not tell the loss of the base, the level is left to its prior.
    """
    base = unknown_base(study) if spec.law.continual else None
    if base is None:
        return _of_cpt_alone(spec, study)
    if len(study.targets) > 1:
        problem = "its pre-training is not known, and the study has several targets"
        fix = f"keep to the runs of one target, or {GIVE_SCHEDULE}"
        raise StudyError.at(f"study {study.name}, base {base.name}", problem, fix)
    if spec.law.model_size:
        problem = f"its pre-training is unknown, and the law {spec.name} compares it by model size"
        fix = f"fit this base with a model without model_size, as cpt-replay, or {GIVE_SCHEDULE}"
        raise StudyError.at(f"study {study.name}, base {base.name}", problem, fix)
    if not spec.unknown_base:
        problem = f"its pre-training is not known, and the model {spec.name} has no prior for it"
        fix = f"add [unknown_base] as in models/cpt-replay.toml, or {GIVE_SCHEDULE}"
        raise StudyError.at(f"study {study.name}, base {base.name}", problem, fix)
    found = spec.with_law(unknown_base=True, base_offset=False)
    priors = found.priors | {name: spec.unknown_base[name] for name in UNKNOWN_BASE}
    rewarmed = any(run.schedule.warmup_steps for run in study.continual_runs)
    if WITHOUT_WARMUP in spec.unknown_base and not rewarmed:
        priors["base_potential"] = spec.unknown_base[WITHOUT_WARMUP]
    priors["gain_ratio"] = _fixed(1.0, RATIO)
    # Of the power of the forward area CPT shows a slow fall alone, which slope and area at the base tell.
    priors |= at_medians(spec, ("exponent", "forward_power"), SHAPE)
    if spec.law.base_offset:
        priors |= _level(spec, study, [base])
    return found.model_copy(update={"priors": priors})


def _of_cpt_alone(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for a study of whose pre-training no curve was measured.

    Its curves start at the losses of their bases, and tell how they move from there: nothing but priors
    would say how far that is from the law, and what the losses of other pre-training are. What CPT changes
    at once has a term of its own.
    """
    if not starts_at_bases(spec.law, study):
        return spec
    used = [base for base in study.bases if any(run.base == base.name for run in study.runs)]
    priors = spec.priors | at_medians(spec, AT_LONE_BASE, LONE) | _level(spec, study, used)
    priors |= {"offset_kept": _fixed(1.0, LEVEL), "gain_ratio": _fixed(1.0, RATIO)}
    if spec.law.model_size:
        priors |= at_medians(spec, ("size_exponent",), LONE) | {"ratio_by_size": _fixed(0.0, RATIO)}
    priors |= spec.lone_bases
    return spec.with_law(starts_at_base=True).model_copy(update={"priors": priors})


def starts_at_bases(law: LawTable, study: Study) -> bool:
    """Return whether no curve of a study's pre-training was measured, but the end of each base in use.

    Not of several bases where no size tells them apart, which tell of each other; nor under laws without a
    base offset.
    """
    used = {str(run.base) for run in study.continual_runs}
    if not law.base_offset or (len(used) != 1 and not law.model_size):
        return False
    domains = study.trained_domains
    # A base of a size that no run has yet is given with a PT run of a single loss.
    ends = 1 if law.model_size else 0
    for run in study.pretraining_runs:
        if any(study.curve(run.name, domain)[0].size > ends for domain in domains):
            return False
    losses = [study.base_loss(base, domain) for base in used for domain in domains]
    return bool(losses) and None not in losses


def check_starts(law: LawTable, starts: Iterable[tuple[str, str, bool]]) -> None:
    """Raise StudyError if a forecast starts at no measured loss, and the law tells nothing of pre-training.

    A start is what starts, as "run long", on which validation set, and whether its loss there is known.
    """
    for place, domain, known in starts:
        if law.starts_at_base and not known:
            problem = "no curve of pre-training was fitted, and the loss of its base is not known"
            fix = "give it in a row at step 0 of a CPT run; a forecast of PT needs a fit of PT"
            raise StudyError.at(f"{place}, domain {domain}", problem, fix)


def at_medians(spec: ModelSpec, names: Iterable[str], reason: str) -> dict[str, Prior]:
    """Return priors that fix parameters of a specification at the medians of their own."""
    return {
        name: spec.priors[name].changed(lambda own: Fixed(value=float(own.at(0.0))), reason)
        for name in names
        if name in spec.priors
    }


def _fixed(value: float, reason: str) -> Prior:
    return Prior(reason=reason, every=Fixed(value=value))


def _level(spec: ModelSpec, study: Study, bases: Sequence[Base]) -> dict[str, Prior]:
    """Return the level of the law, the mean of bases and sets; the model's where one was not measured."""
    domains, levels = study.trained_domains, dict[str, list[Any]]()
    for domain, role in zip(domains, roles_of(study, domains), strict=True):
        levels.setdefault(role, []).extend(study.base_loss(base.name, domain) for base in bases)
    free = spec.priors["reference_loss"]
    priors = [
        free.of(role) if None in losses else Fixed(value=sum(losses) / len(losses))
        for role, losses in levels.items()
    ]
    return {"reference_loss": Prior(reason=LEVEL, general=priors[0], target=priors[-1])}


def check_kind(study: Study, runs: Iterable[Run], *, unknown: bool) -> None:
    """Raise StudyError unless all runs start from an unknown base just where the law is of one."""
    for run in runs:
        schedule = study.base(run.base).schedule if run.base is not None else None
        if (run.phase == "cpt" and schedule is None) == unknown:
            continue
        of_run, fitted = ("known", "not known") if unknown else ("not known", "known")
        problem = f"its pre-training is {of_run}, and that of what was fitted is {fitted}"
        fix = "start the run from the base that was fitted" if unknown else GIVE_SCHEDULE
        place = f"run {run.name}" + (f", base {run.base}" if run.base else "")
        raise StudyError.at(place, problem, fix)


def check_base(fitted: Study, runs: Iterable[Run]) -> None:
    """Raise StudyError if a run of a plan starts from another unknown base than was fitted."""
    unknown = unknown_base(fitted)
    for run in runs:
        if unknown is None or run.base in (None, unknown.name):
            continue
        problem = f"the fit is of the base {unknown.name}, whose pre-training is not known, and of no other"
        fix = f"start the run from {unknown.name}, or fit runs that start from this one"
        raise StudyError.at(f"run {run.name}, base {run.base}", problem, fix)


def with_lone_bases(study: Study, domains: Sequence[str]) -> Study:
    """Return the study with a PT run, measured once, for each base that lies on no measured one.

    A base's measured loss is a loss of pre-training like any other. Where it lies on a PT run the curve of
    that run holds it already; elsewhere nothing would tie the level of the law to it, and only its product
    with the share of the offset that a run keeps would be known. It is the study itself where every base
    lies on a measured run.
    """
    runs, rows = [], []
    taken = {run.name for run in study.runs}
    for base in study.bases:
        losses = {
            domain: loss
            for domain in domains
            # Where its PT run was measured the curve tells it.
            if not (base.run in study and study.curve(str(base.run), domain)[0].size)
            and (loss := study.base_loss(base.name, domain)) is not None
        }
        if not losses or base.schedule is None:
            continue
        name = base.name
        while name in taken:
            name += "+"
        taken.add(name)
        runs.append(Run(name, "pt", base.schedule, model_size=base.model_size))
        rows += [(name, base.schedule.steps, domain, loss) for domain, loss in losses.items()]
    return study.with_runs(runs, rows) if runs else study
