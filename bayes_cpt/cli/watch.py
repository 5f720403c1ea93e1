"""`bayes-cpt watch`: a running job against its forecast."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import to_json
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.log_options import READING, pairs
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Output, OutputFile, write
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.decisions.objective import Objective as Aim
    from bayes_cpt.watch.follow import Follower
    from bayes_cpt.watch.watcher import Status, Watcher

OFF_TRACK = 3
UNNAMED = "No validation loss was found in the log: wait, or say which it is with --loss."


@command
def watch(
    written: Output,
    fit: Path,
    log: str,
    *,
    run: str,
    plan: Path | None = None,
    kind: str = "auto",
    once: bool = False,
    seconds: Annotated[float, typer.Option(min=0.1)] = 30.0,
    level: Annotated[float, typer.Option(min=0.001, max=0.5)] = 0.05,
    below: list[str] | None = None,
    state: Path | None = None,
    interval: float = 0.9,
    objective: str = "balanced",
    reading: Annotated[dict[str, Any], READING],
) -> int:
    r"""Follow a running job: is it on track, where will it end, and what would going on still gain.

    Steps, learning rates, tokens of a step and the base's loss are compared with the plan first, as far as
    the log states them.

    The run's band is conditioned on its losses as they come. The probability is the share of healthy runs
    that stray as far from their forecast at any time: below --level the run is off track, and the likely
    cause is named where the law can tell it (learning rate, replay, no decay).

    With --json every look that told anything new is a line of JSON.

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

    Parameters
    ----------
    log : LOG
        The job's log, as for import.
    run : NAME
        The run of the plan or fitted study.
    once
        Look once, print, and end.
    seconds
        Seconds between looks.
    level
        Share of healthy runs that may raise an alarm.
    below : SET=LOSS
        Also, while it is on track, the probability that it ends below this loss on this
        validation set; may be repeated.
    state : FILE
        Where the watch keeps its state [default: LOG.NAME.watch.json beside the log].
    """
    from bayes_cpt.decisions.objective import read_objective
    from bayes_cpt.report.fit import warning
    from bayes_cpt.study.logs.raw import fail
    from bayes_cpt.study.logs.reading import Reading
    from bayes_cpt.watch.follow import Follower
    from bayes_cpt.watch.watcher import Watcher

    kept = state or Path(f"{log.rstrip('/')}.{run}.watch.json")
    OutputFile(kept, (kept.suffix,), fit, log, plan, option="--state")
    aim = read_objective(objective)
    posterior = bayes_cpt.load(fit)
    planned = None if plan is None else bayes_cpt.read_plan(plan, posterior.study)
    watcher = Watcher(posterior, run, planned, level=level, interval=interval)
    limits, domains = pairs("--below", below, float), posterior.frame.domains
    for domain, limit in limits.items():
        if domain not in domains:
            fix = f"name one of {', '.join(domains)}, which the fit forecasts."
            raise typer.BadParameter(f"--below {domain}={limit:g}: {fix}")
    steps = (planned or posterior.study).run(run).schedule.steps
    read_as = Reading().changed(paths=(log,), kind=kind, **reading)
    follower = Follower(read_as, domains, steps, once)
    asked = follower.reading.model_dump(mode="json", exclude={"paths"})
    asked["plan"] = planned and planned.digest()
    looks = _Looks(watcher, follower, kept, asked, aim, limits)
    looks.take_up(written)
    for line in warning(posterior) if written.quiet or written.machine else ():
        written.error(line)
    looks.read()
    if once and follower.trouble and not watcher.points:
        problem = f"nothing can be read: {follower.trouble}".rstrip(".")
        raise fail("--once", problem, "else wait for the log without it")
    told: Any = None
    while True:
        status = looks.status()
        news = status, follower.trouble, follower.unnamed
        if news != told:
            looks.tell(written, status)
        told = news
        if once or status.step >= status.steps:
            break
        time.sleep(seconds)
        looks.read()
    if status.disagreements:
        return 1
    return OFF_TRACK if not status.on_track else int(not posterior.trustworthy)


@dataclass
class _Looks:
    """What is kept between two looks at a log."""

    watcher: "Watcher"
    follower: "Follower"
    kept: Path
    asked: dict[str, Any]  # how the log is read, and the plan
    objective: "Aim"
    limits: dict[str, float]
    told: bool = False  # whether it was said how the log is read

    def take_up(self, written: Output) -> None:
        """Go on from where a watch that ended left off; anew where it was asked otherwise."""
        from bayes_cpt.study.logs.raw import fail

        if not self.kept.is_file():
            return
        try:
            state: dict[str, Any] = json.loads(self.kept.read_text(encoding="utf-8"))
            if state.get("asked", self.asked) != self.asked:
                written.note("Note: the options or the plan have changed: the watch starts again")
                return
            self.watcher.restore(state["watcher"])
            self.told = True
        except (ValueError, KeyError, TypeError, AttributeError):
            fix = "name another file with --state, or remove this one if a watch wrote it"
            raise fail(str(self.kept), "this is not the state of a watch", fix) from None

    def read(self) -> None:
        """Read what is new in the log."""
        for step, losses in sorted(self.follower.new().items()):
            self.watcher.tell(step, losses)
        if self.follower.log is not None:
            self.watcher.compare(self.follower.log)

    def status(self) -> "Status":
        """Return how the run does, and keep the state once there is one."""
        status = self.watcher.status()
        if self.watcher.points or not self.follower.trouble:
            write(self.kept, json.dumps({"asked": self.asked, "watcher": self.watcher.state()}))
        return status

    def tell(self, written: Output, status: "Status") -> None:
        """Print a status, and what to do better with the rest of the run."""
        import pandas as pd

        from bayes_cpt.report.fit import warned
        from bayes_cpt.report.forecasts import advice, below, ends_below

        found = self.watcher.continuations(self.objective)
        trouble = self.follower.trouble
        waiting = self.follower.unnamed if not status.step else ""
        first, *others = status.verdict()
        said = [UNNAMED if waiting else first, *others]
        verdict = warned(self.watcher.posterior, said)
        if written.machine:
            told = asdict(status) | {"verdict": verdict, "trouble": trouble}
            told |= {"continuations": found.ways, "advised": found.advised}
            told["below"] = {
                name: below(status.forecast[name], limit, self.watcher.interval)
                for name, limit in self.limits.items()
                if name in status.forecast
            }
            sys.stdout.write(f"{to_json(told, inf_nan_mode='constants').decode()}\n")
            sys.stdout.flush()
            return
        first, *others = verdict + ends_below(status, self.limits, self.watcher.interval)
        if written.out.is_terminal and not written.quiet:
            written.out.clear()
        fine = status.on_track and not status.disagreements and said[0] == first
        written.show(Text(first, "bold" if fine else "bold red"))
        for line in others:
            written.show(line)
        # Where each loss is and will end, and where it was to end as planned.
        ends = [
            {"on": domain, "now": status.losses.get(domain), **end}
            | {"gain": status.gain_left.get(domain, {}).get("mean")}
            for domain, end in status.forecast.items()
        ]
        if ends:
            written.show(Table.of("watched", pd.DataFrame(ends)))
        better = advice(found, status.step, status.steps)
        read = self.follower.log.notes if self.follower.log and not self.told else ()
        self.told = self.told or bool(read)
        for note in filter(None, (*read, *status.notes, better, trouble, waiting)):
            written.note(f"Note: {note}")
