"""What is in a study, as plain data for tables and machines."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.trunks import with_found_branches


def describe(study: Study) -> dict[str, Any]:
    """Return what a study holds, ready for JSON.

    Learning rates are raw, losses in nats/token, model sizes in millions of parameters.

    Parameters
    ----------
    study : Study

    Returns
    -------
    dict
        ``name``, ``description``, ``general``, ``target``, ``domains``, ``digest``, ``bases`` and
        ``runs`` (a list of dictionaries each), ``ranges`` (lowest and highest replay ratio, peak
        learning rate and steps of the CPT and of the PT runs, None where there is none) and
        ``warnings``. Runs have ``branch``, the run that they leave and the last step that they share, and
        ``general_epochs``, ``target_epochs``, ``gpu_hours`` and ``money`` where the
        study says what it takes.
    """
    branching = with_found_branches(study)
    return {
        "name": study.name,
        "description": study.description,
        "general": study.general,
        "target": study.target if isinstance(study.target, str | None) else list(study.target),
        "domains": list(study.domains),
        "digest": study.digest(),
        "bases": [_describe_base(study, base) for base in study.bases],
        "runs": [_describe_run(study, run) for run in branching.runs],
        "ranges": {"cpt": _ranges(study.continual_runs), "pt": _ranges(study.pretraining_runs)},
        "warnings": [str(caution) for caution in study.warnings],
    }


def _describe_base(study: Study, base: Base) -> dict[str, Any]:
    return {
        "name": base.name,
        "known": base.known,
        "run": base.run,
        "model_size": base.model_size,
        "steps": base.steps,
        "peak_learning_rate": base.schedule.peak if base.schedule else None,
        "final_learning_rate": base.schedule.final if base.schedule else None,
        "loss_potential": base.loss_potential,
        "losses": {domain: study.base_loss(base.name, domain) for domain in study.domains},
        "runs": [run.name for run in study.continual_runs if run.base == base.name],
    }


def _describe_run(study: Study, run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "phase": run.phase,
        "base": run.base,
        "replay": run.replay,
        "targets": run.mixture or None,
        "model_size": run.model_size,
        "steps": run.schedule.steps,
        "warmup_steps": run.schedule.warmup_steps,
        "peak_learning_rate": run.schedule.peak,
        "final_learning_rate": run.schedule.final,
        **study.resources.of_one(run),
        "branch": asdict(run.branch) if run.branch else None,
        "interpolated_steps": run.schedule.interpolated_steps,
        "points": {domain: study.curve(run.name, domain)[0].size for domain in study.domains},
    }


def _ranges(runs: Iterable[Run]) -> dict[str, list[float] | None]:
    runs = tuple(runs)
    return {
        "replay": _range(run.replay for run in runs if run.replay is not None),
        "peak_learning_rate": _range(run.schedule.peak for run in runs),
        "steps": _range(run.schedule.steps for run in runs),
    }


def _range(values: Iterable[float]) -> list[float] | None:
    ordered = sorted(values)
    return [ordered[0], ordered[-1]] if ordered else None
