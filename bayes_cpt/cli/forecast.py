"""`bayes-cpt forecast`: from one run's log to where it will end."""

from pathlib import Path
from typing import Any

from bayes_cpt.cli.log_options import READING
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, Output, OutputFile, figure_file
from bayes_cpt.report.tables import Table

OF_RUN = ("overlap", "drop_nan", "total_steps", "schedule", "phase")


@command(logs=(*READING, *OF_RUN))
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
    reading: dict[str, Any],
) -> Answer:
    r"""Forecast the end of one run from its log alone: no study, no fit, no other run.

    The run may be pre-training or continual pre-training. Its end as planned is forecast, and what it would
    end at if it annealed now, or went on to --steps. The law has priors learnt from published and own
    studies; what this run does not tell rests on them, and the bands are as wide as that leaves them.

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
    from bayes_cpt.plots.log_forecast import log_forecast
    from bayes_cpt.watch.log_forecast import forecast_log

    file = OutputFile(output, (".png", ".pdf", ".svg"), *logs)
    with written.progress() as progress:
        found = forecast_log(
            logs,
            steps=steps,
            decay=decay,
            interval=interval,
            seed=seed,
            progress=progress,
            **{"kind": kind, **reading},
        )
    file.write(figure_file(log_forecast(found)))
    title = f"Where the run ends, with central {100 * interval:g} % bands (nats/token)"
    cells = "way | step | on=domain | now=now:.3f | end=median:.3f | lower:.3f | upper:.3f"
    content = {
        "now": found.now,
        "phase": found.run.phase,
        "ends": found.table,
        "curves": found.curves,
        "on_priors": found.on_priors,
        "output": str(output),
    }
    return Answer(
        content,
        found.verdict(),
        [Table(title, found.table, cells), *file.said],
        found.problems,
        [*(f"Note: {note}" for note in found.notes), *file.notes],
    )
