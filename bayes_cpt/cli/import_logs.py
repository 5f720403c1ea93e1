"""`bayes-cpt import`: a run from its trainer's log into a study, and again when the log has grown."""

from pathlib import Path
from typing import Annotated, Any

from bayes_cpt.cli.log_options import OPTIONS, given
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer


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
    second so: --general or --target says what it is, unless its name does.

    \b
    Example:
    bayes-cpt import hf out/r25 --study study --run r25 --replay 0.25

    \b
    Exit codes:
    0  done
    2  bad input: what is wrong, where, and the fix are on stderr; nothing was written

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
    said = (
        f"\n{run}: {done.added} new losses, {done.kept} were there. {study} now has "
        f"{len(done.study.runs)} runs; look at it with: bayes-cpt check {study}"
    )
    content = {
        "steps": done.study.run(run).schedule.steps,
        "added": done.added,
        "kept": done.kept,
        "notes": list(done.notes),
    }
    return Answer(content, parts=[*(f"Note: {note}" for note in done.notes), said])
