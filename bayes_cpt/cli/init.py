"""`bayes-cpt init`: from trainers' logs to a first study."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.log_options import OPTIONS, given, pairs, refused
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer

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

    \b
    Exit codes:
    0  done
    2  bad input: what is missing or wrong, and the fix, are on stderr; nothing was written

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
    for name in told.logs:
        _change(told, "LOG", name, reading)
    for name, share in pairs("--replay", replay).items():
        _change(told, "--replay", name, {"replay": share})
    for name in pt or ():
        _change(told, "--pt", name, {"phase": "pt"})
    told.study.update(given(general=general, target=target))
    if open_base:
        told.bases[open_base] = {"known": False}
    done = start_study(study, told)
    said = (
        f"\nWritten to {study}: {len(done.study.runs)} runs, {len(done.study.losses)} losses. Next: "
        f"bayes-cpt check {study}"
    )
    content = {
        "runs": [run.name for run in done.study.runs],
        "bases": [base.name for base in done.study.bases],
        "general": done.study.general,
        "target": done.study.target,
        "notes": list(done.notes),
    }
    return Answer(content, parts=[*(f"Note: {note}" for note in done.notes), said])


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
        # A run that is named twice has a log for each validation set.
        told.logs.setdefault(name, []).append(Recipe(kind=kind, paths=(source,)))
    return told


def _change(told: "Answers", option: str, name: str, keys: dict[str, Any]) -> None:
    if name not in told.logs:
        fix = f"name one of {', '.join(told.logs) or 'the logs'}"
        raise refused(f"{option} {name}", f"there is no log of a run {name!r}", fix)
    told.logs[name] = [recipe.changed(**keys) for recipe in told.logs[name]]
