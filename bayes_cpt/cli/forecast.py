"""`bayes-cpt forecast`: from one run's log to where it will end."""

from pathlib import Path
from typing import Annotated, Any

import bayes_cpt
from bayes_cpt.cli.log_options import OF_RUN, READING
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, Output, OutputFile, figure_file
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
    studies; what this run does not tell rests on them, and the bands are as wide as that leaves them. A log
    without validation losses is forecast by its training loss.

    \b
    Example:
    bayes-cpt forecast out/trainer_state.json
    bayes-cpt forecast out/trainer_state.json --steps 20000 --decay 0.1 -o end.png

    \b
    Exit codes:
    0  done
    1  done, but the draws fall short of their diagnostics: do not trust the result
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
    kind : KIND
        Kind of the log.
    """
    from bayes_cpt.plots.curves import log_forecast

    file = OutputFile(output, (".png", ".pdf", ".svg"), *logs)
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
    }
    notes = [f"Note: {note}" for note in found.notes]
    return Answer(content, found.verdict(), [ends], found.problems, notes, [file])
