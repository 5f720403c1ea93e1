"""`bayes-cpt forecast` and `advise`: what can be said without a study, of one log or of no run."""

import json
from pathlib import Path
from typing import Annotated, Any

import bayes_cpt
from bayes_cpt.cli.log_options import OF_RUN, READING, pairs
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import FIGURES, Answer, Output, OutputFile, Results, figure_file
from bayes_cpt.report.tables import Table


@command
def forecast(
    written: Output,
    logs: list[str],
    *,
    steps: int | None = None,
    decay: float = 0.2,
    output: Path = Path("forecast.png"),
    kind: str = "auto",
    interval: float = 0.9,
    seed: int = 0,
    reading: Annotated[dict[str, Any], READING | OF_RUN],
) -> Answer:
    r"""Forecast the end of one run from its log alone: no study, no fit, no other run.

    The run may be pre-training or continual pre-training. Its end as planned is forecast, and what it would
    end at if it annealed now, or went on to --steps. The law has priors learnt from published and own
    studies, with AdamW: of Muon runs the bands are too narrow. What this run does not tell rests on them,
    and the bands are as wide as that leaves them. A log without validation losses is forecast by its
    training loss.

    \b
    Example:
    bayes-cpt forecast out/trainer_state.json
    bayes-cpt forecast out/trainer_state.json --steps 20000 --decay 0.1 -o end.png

    \b
    Exit codes:
    0  done
    1  done, but do not trust the result: the loss overfits or comes near 0, or the draws fall short
    2  bad input: what is wrong, where, and the fix are on stderr; nothing was written

    Parameters
    ----------
    logs : LOG...
        The run's log, as for init: one, its parts in the order in which they were written, or one a
        validation set.
    steps : N
        Also where it would end after N steps in all.
    decay : SHARE
        Share of the run over which the learning rate falls to 0, where it anneals now or goes on.
    output : FILE
        Figure to write, .png, .pdf or .svg.
    """
    from bayes_cpt.plots.curves import log_forecast

    file = OutputFile(output, FIGURES, *logs)
    asked: Any = {"steps": steps, "decay": decay, "interval": interval, "seed": seed, "kind": kind}
    with written.progress() as progress:
        found = bayes_cpt.forecast_log(logs, progress=progress, **asked, **reading)
    file.write(figure_file(log_forecast(found)))
    ends = Table.of("log_ends", found.table, interval=interval)
    content = {
        "now": found.now,
        "phase": found.run.phase,
        "ends": found.table,
        "curves": found.curves,
        "on_priors": found.on_priors,
        "problems": found.problems,
    }
    notes = [f"Note: {note}" for note in found.notes]
    return Answer(content, found.verdict(), [ends], found.problems, notes, [file])


@command
def advise(
    *,
    size: float,
    tokens: float,
    base: str = "unknown",
    target: str = "far",
    batch: float | None = None,
    peak: float | None = None,
    loss: list[str] | None = None,
    output: Path | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Answer:
    r"""Say what to expect of continual pre-training before any run, and which short runs to begin with.

    The law under priors learnt from other studies forecasts the change of target and general loss at
    several replay ratios and peak learning rates. The bands are wide: they are what is known without a run
    of your own. The short runs named would narrow them most; with -o they are written as a plan, which
    bayes-cpt prior and export read, with the arguments of a Hugging Face Trainer for each.

    \b
    Words:
    base annealed  its learning rate fell to a tenth of its peak or less, as usual
    base stable    a checkpoint at its peak learning rate
    target far     data that it hardly knows: another language, proofs
    target near    data that it knows well: more code, more web text

    \b
    Example:
    bayes-cpt advise --size 7B --tokens 20B --base annealed --target far -o advice

    Parameters
    ----------
    size : N
        Parameters of the model, as in 7B.
    tokens : N
        Tokens of the long run, as in 20B.
    base : WORD
        annealed, stable or unknown.
    target : WORD
        far or near.
    batch : N
        Tokens of a step [default: as models of that size were trained].
    peak : LR
        Peak learning rate of pre-training [default: as models of that size were trained].
    loss : SET=LOSS
        Loss of the base on general or target data, nats/token; may be repeated.
    output : FOLDER
        Folder for tables (CSV), words, the plan (TOML) and the arguments (JSON).
    """
    from bayes_cpt.decisions.advice import advise as find
    from bayes_cpt.study.exports import training_arguments
    from bayes_cpt.study.folder import settings_text

    results = Results(output)
    found = find(
        size,
        tokens,
        base=base,
        target=target,
        batch=batch,
        peak=peak,
        losses=pairs("--loss", loss, float),
        interval=interval,
        seed=seed,
    )
    verdict, tables = found.verdict(), {"ends": found.ends, "runs": found.told}
    results.tables(tables)
    results.write("plan.toml", settings_text(found.plan))
    for run in found.plan.runs:
        arguments = json.dumps(training_arguments(run), indent=2) + "\n"
        results.write(f"{run.name}.json", arguments)
    results.words(verdict, [])
    ends = Table.of("advised_ends", found.ends, interval=interval)
    shown = [ends, Table.of("advised_runs", found.told)]
    return Answer(found.about | tables, verdict, shown, written=[results])
