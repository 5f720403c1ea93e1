"""`bayes-cpt init`, `import` and `export`: trainers' logs into a study, planned schedules to a trainer."""

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import bayes_cpt
from bayes_cpt.checks import counted
from bayes_cpt.cli.log_options import OPTIONS, given, pairs, refused
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile

if TYPE_CHECKING:
    from bayes_cpt.study.logs.importing import Answers


@command
def init(
    study: Path,
    logs: list[str] | None = None,
    *,
    answers: Path | None = None,
    kind: str = "auto",
    general: str | None = None,
    target: str | None = None,
    replay: list[str] | None = None,
    pt: list[str] | None = None,
    open_base: str | None = None,
    reading: Annotated[dict[str, Any], OPTIONS],
) -> Answer:
    r"""Write a first study from trainers' logs; what they cannot tell is given by flags.

    Logs tell steps, losses, learning rates and validation sets. They cannot tell which set is general and
    which the target, how much general data was in the batches, and what the runs start from: give options,
    or a TOML of answers; what is missing is named. All that is assumed is printed. Options on how logs are
    read hold for all of them.

    \b
    Example:
    bayes-cpt init study pt=out/pt r00=out/r00 r25=out/r25 --pt pt --replay r00=0 --replay r25=0.25
    bayes-cpt init study --answers answers.toml

    Parameters
    ----------
    study : STUDY
        Folder to write.
    logs : [LOG]...
        Logs, one run each: files, folders, or NAME=PATH to name the run; the same NAME again for a log of
        its other validation set.
    answers : TOML
        Tables [study], [bases.NAME] and [logs.NAME] with all that logs cannot tell.
    kind : KIND
        Kind of the logs, as of import.
    general : SET
        The general validation set.
    target : SET
        The target validation set.
    replay : RUN=SHARE
        Share of general data in a run's batches; repeat for each.
    pt : RUN
        A run that is pre-training.
    open_base : NAME
        The base has open weights and an unknown schedule.
    """
    from bayes_cpt.study.logs.importing import start_study

    told = _answers(answers, logs or [], kind)
    changes = [("LOG", name, reading) for name in told.logs]
    shares = pairs("--replay", replay)
    changes += [("--replay", name, {"replay": share}) for name, share in shares.items()]
    changes += [("--pt", name, {"phase": "pt"}) for name in pt or ()]
    for option, name, keys in changes:
        if name not in told.logs:
            fix = f"name one of {', '.join(told.logs) or 'the logs'}"
            raise refused(f"{option} {name}", f"there is no log of a run {name!r}", fix)
        told.logs[name] = [recipe.changed(**keys) for recipe in told.logs[name]]
    told.study.update(given(general=general, target=target))
    if open_base:
        told.bases[open_base] = {"known": False}
    done = start_study(study, told)
    runs, losses = counted(len(done.study.runs), "run"), len(done.study.losses)
    said = f"\nWritten to {study}: {runs}, {losses} losses. {_next(study)}"
    content = {
        "runs": [run.name for run in done.study.runs],
        "bases": [base.name for base in done.study.bases],
        "general": done.study.general,
        "target": done.study.target,
        "notes": done.notes,
    }
    return Answer(content, parts=[*(f"Note: {note}" for note in done.notes), said])


def _next(study: Path) -> str:
    return f"Next: bayes-cpt check {quote(str(study))}"


def _answers(path: Path | None, logs: Sequence[str], kind: str) -> "Answers":
    from bayes_cpt.study.logs.importing import Answers
    from bayes_cpt.study.logs.runs import Recipe, run_name
    from bayes_cpt.toml_files import read_toml

    told = Answers.from_toml(read_toml(path), path) if path else Answers()
    for log in logs:
        name, sign, rest = log.partition("=")
        named = bool(sign) and not Path(log).exists()
        source = rest if named else log
        name = name if named else run_name(source)
        if name in told.logs and not named:
            problem = f"two logs are of a run {name!r}"
            raise refused(f"log {log}", problem, "name them, as in r25=PATH")
        # A run that is named twice has a log for each validation set, or one in parts.
        told.logs.setdefault(name, []).append(Recipe(kind=kind, paths=(source,)))
    return told


@command
def import_logs(
    kind: str,
    paths: list[str],
    *,
    study: Path,
    run: str,
    replay: float | None = None,
    general: str | None = None,
    target: str | None = None,
    reading: Annotated[dict[str, Any], OPTIONS],
) -> Answer:
    r"""Add a run to a study from its trainer's log, or update it from a log that has grown.

    Steps, losses, learning rates and the length of the run are read; a learning rate that follows a
    constant, linear, cosine, 1 - sqrt or exponential course is written as a schedule, any other kept as a
    log. All that is assumed, merged or left out is printed. How the run was read is kept in the
    study's imports.toml: the next import of it needs no options. A run may have several logs, one for each
    validation set: import one after the other, each with its own --loss. A study of one set gets the
    second so: --general or --target says what it is, unless its name does. Of imports at once each waits
    for the others.

    \b
    Example:
    bayes-cpt import hf out/r25 --study study --run r25 --replay 0.25

    Parameters
    ----------
    kind : KIND
        One of auto, hf, csv, jsonl, parquet, tensorboard, megatron, gpt-neox, nemo, nanogpt,
        modded-nanogpt, build-nanogpt, build-nanogpt-log, nanochat, llmc, litgpt, olmo, torchtitan,
        torchtune, mlx, maxtext, composer, fairseq, nemo-automodel, verl, nanotron, internevo, xtuner,
        lingua and paddlenlp.
    paths : PATH...
        Files or folders of the log, in the order in which they were written.
    study : DIR
        The study to add to.
    run : NAME
        The run to add or update.
    replay : SHARE
        Share of general data in the batches.
    general : SET
        The general validation set, if the study names none.
    target : SET
        The target validation set, if the study names none.
    """
    from bayes_cpt.study.logs.importing import import_run

    done = import_run(
        study,
        run,
        {"kind": kind, "paths": tuple(paths), **given(replay=replay), **reading},
        given(general=general, target=target),
    )
    new, runs = f"{done.added} new losses", counted(len(done.study.runs), "run")
    said = f"\n{run}: {new}, {done.kept} were there. {study} now has {runs}. {_next(study)}"
    steps = done.study.run(run).schedule.steps
    content = {"steps": steps, "added": done.added, "kept": done.kept, "notes": done.notes}
    return Answer(content, parts=[*(f"Note: {note}" for note in done.notes), said])


SUFFIXES = {"hf": (".json",), "torch": (".py",)}


@command
def export(
    kind: Literal["hf", "torch"], plan: Path, *, run: str, output: Path, fit: Path | None = None
) -> Answer:
    r"""Write the schedule of a planned run as a trainer takes it.

    hf gives keywords of TrainingArguments, torch a Python file with a function for LambdaLR. Hugging Face's
    warm-ups begin at a rate of their own: where that departs from the plan, it is said. Any other schedule
    that the Trainer cannot follow is refused; torch takes any.

    \b
    Example:
    bayes-cpt export hf plan.toml --run long --fit fit.nc -o arguments.json

    \b
    Exit codes:
    0  done
    2  bad input, or a schedule that the trainer cannot follow: nothing is written

    Parameters
    ----------
    kind : KIND
        hf or torch.
    plan : PLAN
        A study folder, or a TOML file of runs.
    run : NAME
        The run of the plan.
    output : FILE
        File to write: .json for hf, .py for torch.
    fit : FIT
        The fit whose bases and validation sets a plan leaves out.
    """
    from bayes_cpt.study.exports import torch_source, training_arguments, warmup_departure

    file = OutputFile(output, SUFFIXES[kind], plan)
    chosen = bayes_cpt.read_plan(plan, bayes_cpt.load(fit).study if fit else None).run(run)
    departs = warmup_departure(chosen) if kind == "hf" else ""
    if kind == "hf":
        text = said = json.dumps(training_arguments(chosen), indent=2) + "\n"
    else:
        text, said = torch_source(chosen), f"{chosen.schedule.steps} steps, exact"
    file.write(text)
    notes = [f"Note: {departs}."] if departs else []
    return Answer({"departs": departs}, parts=[said], notes=notes, written=[file])
