"""`bayes-cpt watch`: a running job against its forecast."""

import json as json_library
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.log_options import READING, pairs, reads_logs
from bayes_cpt.cli.options import FitFile, Interval, Objective, Plan, Quiet, option
from bayes_cpt.cli.output import Output, check_folder, write
from bayes_cpt.cli.running import warn

if TYPE_CHECKING:
    from bayes_cpt.decisions.objective import Objective as Aim
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.watch.follow import Follower
    from bayes_cpt.watch.watcher import Status, Watcher

OFF_TRACK = 3
# Columns of the plot of where a loss lies in its band, at most and at least; the rest is for the numbers.
PLOT_WIDTH, LEAST_PLOT, NUMBERS_WIDTH = 60, 12, 51
COLUMNS = ("on", "now", "end", "lower", "upper", "still to gain", "")
PLOT_KEY = "In the plot: - planned end, = forecast end, o its middle, x last loss."


@reads_logs(*READING)
def watch(
    fit: FitFile,
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The job's log, as for import.", show_default=False)
    ],
    run: Annotated[str, option("NAME", "The run of the plan or fitted study.")],
    plan: Plan = None,
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of the log.")] = "auto",
    once: Annotated[bool, typer.Option("--once", help="Look once, print, and end.")] = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 30.0,
    level: Annotated[
        float,
        typer.Option(min=0.001, max=0.5, help="Share of healthy runs that may raise an alarm."),
    ] = 0.05,
    below: Annotated[
        list[str] | None,
        option(
            "SET=LOSS",
            "Say how probably it ends below this loss on this validation set; may be repeated.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        option(
            "FILE", "Where the watch keeps its state.", default="LOG.NAME.watch.json beside the log"
        ),
    ] = None,
    interval: Interval = 0.9,
    objective: Objective = "balanced",
    *,
    reading: dict[str, Any],
    quiet: Quiet = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON per look that told anything new.")
    ] = False,
) -> int:
    r"""Follow a running job: is it on track, where will it end, and what does going on still gain.

    Steps, learning rates, tokens of a step and the base's loss are compared with the plan first, as far as
    the log states them.

    The run's band is conditioned on its losses as they come. The probability is the share of healthy runs
    that stray as far from their forecast at any time: below --level the run is off track, and what it looks
    like is said where the law can tell (learning rate, replay, no decay).

    Where stopping now, or another end of the schedule, is likely to serve the objective better than going
    on as planned, that is said too.

    The state is kept in a small file after every look, so a watch that was killed goes on. A log that is
    rotated, cut, half-written or silent is looked at again.

    \b
    Example:
    bayes-cpt watch fit.nc --run long --plan plan.toml --below target=2.5 out/long/trainer_state.json

    \b
    Exit codes:
    0  on track
    1  the log is not of the planned run, or the fit falls short of its diagnostics
    2  bad input
    3  off track
    """
    from bayes_cpt.decisions.objective import read_objective
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.study.folder import read_plan
    from bayes_cpt.watch.follow import following
    from bayes_cpt.watch.watcher import Watcher

    written = Output(quiet, json)
    kept = state or Path(f"{log.rstrip('/')}.{run}.watch.json")
    check_folder(kept.parent)
    aim = read_objective(objective)
    posterior = load(fit)
    with written.cautions():
        planned = None if plan is None else read_plan(plan, posterior.study)
        watcher = Watcher(posterior, run, planned, level=level, interval=interval)
        follower = following(log, kind, posterior.frame.domains, **reading)
        limits = _limits(below, posterior.frame.domains)
        looks = _Looks(watcher, follower, kept, aim, limits)
        looks.take_up()
        if not once:
            warn(written, posterior)
        status = looks.look()
        if once and follower.trouble and not watcher.points:
            _refuse(follower)
        looks.tell(written, status, json)
        while not once and status.step < status.steps:
            time.sleep(seconds)
            later = looks.look()
            if later != status or follower.trouble:
                status = later
                looks.tell(written, status, json)
    return _code(status, posterior)


def _limits(given: list[str] | None, domains: tuple[str, ...]) -> dict[str, float]:
    """Return the losses to end below, by validation set."""
    limits = {}
    for domain, text in pairs("--below", given).items():
        try:
            limits[domain] = float(text)
        except ValueError:
            raise typer.BadParameter(f"--below {domain}={text}: {text} is not a loss.") from None
        if domain not in domains:
            raise typer.BadParameter(
                f"--below {domain}={text}: name one of {', '.join(domains)}, which the fit forecasts."
            )
    return limits


def _refuse(follower: "Follower") -> None:
    from bayes_cpt.study.logs.raw import fail

    raise fail(
        follower.path,
        f"nothing can be read: {follower.trouble}".rstrip("."),
        "fix the log, or wait for it without --once",
    )


def _code(status: "Status", posterior: "Posterior") -> int:
    if status.disagreements:
        return 1
    if not status.on_track:
        return OFF_TRACK
    return 0 if posterior.trustworthy else 1


@dataclass
class _Looks:
    """What is kept between two looks at a log."""

    watcher: "Watcher"
    follower: "Follower"
    kept: Path
    objective: "Aim"
    limits: dict[str, float]

    def take_up(self) -> None:
        """Go on from where a watch that ended left off."""
        from bayes_cpt.study.logs.raw import fail

        if not self.kept.is_file():
            return
        try:
            state: dict[str, Any] = json_library.loads(self.kept.read_text(encoding="utf-8"))
            self.watcher.restore(state["watcher"])
        except (ValueError, KeyError, TypeError) as error:
            problem = f"this is not the state of a watch: {error}"
            raise fail(str(self.kept), problem, "remove the file") from None

    def look(self) -> "Status":
        """Read what is new, and keep the state."""
        for step, losses in sorted(self.follower.new().items()):
            self.watcher.tell(step, losses)
        if self.follower.log is not None:
            self.watcher.compare(self.follower.log)
        status = self.watcher.status()
        write(self.kept, json_library.dumps({"watcher": self.watcher.state()}))
        return status

    def tell(self, written: Output, status: "Status", machine: bool) -> None:
        """Print a status, and what to do better with the rest of the run."""
        from bayes_cpt.report.forecasts import advice, below, ends_below
        from bayes_cpt.watch.watcher import status_json

        found = self.watcher.continuations(self.objective)
        trouble = self.follower.trouble
        if machine:
            advised = None if found.advised is None else asdict(found.advised)
            more = {"continuations": [asdict(way) for way in found.ways], "advised": advised}
            shares = {
                domain: below(status.forecast[domain], limit, self.watcher.interval)
                for domain, limit in self.limits.items()
            }
            line = {**status_json(status), **more, "trouble": trouble}
            line |= {"below": shares} if shares else {}
            sys.stdout.write(json_library.dumps(line) + "\n")
            sys.stdout.flush()
            return
        better = advice(found, status.step, status.steps)
        waiting = self.follower.unnamed if not status.step else ""
        notes = [note for note in (better, trouble, waiting) if note]
        told = status.verdict()
        if waiting:
            told[0] = (
                "No validation loss was found in the log: wait, or say which it is with --loss."
            )
        limits = ends_below(status, self.limits, self.watcher.interval)
        _show(written, status, told + limits, notes)


def _show(written: Output, status: "Status", told: list[str], notes: list[str]) -> None:
    if written.out.is_terminal and not written.quiet:
        written.out.clear()
    import pandas as pd

    from bayes_cpt.report.forecasts import end_spread
    from bayes_cpt.report.numbers import fixed

    for index, line in enumerate(told):
        style = "bold" if status.on_track and not status.disagreements else "bold red"
        written.text(line, "" if index else style)
    left = written.out.width - NUMBERS_WIDTH - max(len(domain) for domain in status.forecast)
    width = min(max(left, LEAST_PLOT), PLOT_WIDTH)
    rows = []
    for domain, ends in status.forecast.items():
        now = status.losses.get(domain)
        gain = status.gain_left.get(domain)
        spread = end_spread(ends)
        values = [now, *(ends[name] for name in ("mean", "lower", "upper"))]
        values.append(gain["mean"] if gain else None)
        texts = ["-" if value is None else fixed(value, spread) for value in values]
        rows.append((domain, *texts, _bar(ends, now, width)))
    written.table(pd.DataFrame(rows, columns=list(COLUMNS)))
    written.text(PLOT_KEY, "dim")
    for note in [*status.notes, *notes]:
        written.note(f"Note: {note}")


def _bar(ends: dict[str, float], now: float | None, width: int) -> str:
    """Return the planned band, the band now, its middle and the last loss, as `PLOT_KEY` says."""
    values = [value for value in (*ends.values(), now) if value is not None]
    low, high = min(values), max(values)

    def place(value: float) -> int:
        return round((width - 1) * (value - low) / max(high - low, 1e-12))

    line = [" "] * width
    for first, last, sign in (("planned_lower", "planned_upper", "-"), ("lower", "upper", "=")):
        for i in range(place(ends[first]), place(ends[last]) + 1):
            line[i] = sign
    line[place(ends["mean"])] = "o"
    if now is not None:
        line[place(now)] = "x"
    return "".join(line)
