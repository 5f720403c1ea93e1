"""A watch of a run with very many evaluations: what an update and a look cost, and memory, as they add up.

Every update is told and asked for the status. At the marks the log is looked at too, as `bayes-cpt watch`
does: its end is read, and the state of the watch is saved.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from synthetic import lab, prior_as_posterior

from bayes_cpt.watch import Watcher
from bayes_cpt.watch.follow import Follower, following
from bayes_cpt.watch.watcher import save_state
from benchmarks.report import Row, resident_memory

RUN, EVERY = "r25_lin05", 10
MARKS, QUICK = (100, 1_000, 5_000, 10_000), (20, 60)
# Looks at the log at a mark.
LOOKS = 10
# How much may grow from the second mark to the last: time of an update and of a look; memory, MiB. Before
# it every other update fills a stretch of the run that nothing was known of.
TIMES, MEMORY = 2.0, 20.0


def measure(*, quick: bool = False) -> list[Row]:
    """Return milliseconds and memory at each mark, and how much they grow."""
    marks = QUICK if quick else MARKS
    posterior = prior_as_posterior(lab(), draws=25 if quick else 250, spread=0.05)
    run = lab().run(RUN)
    steps = EVERY * marks[-1]
    long = replace(run, name="long", schedule=run.schedule.stretched(steps))
    plan = replace(lab(), runs=(long,), losses=lab().losses.iloc[:0], is_plan=True)
    watcher = Watcher(posterior, "long", plan)
    started = time.process_time()
    status = watcher.status()
    rows = [Row("first status", time.process_time() - started, "s")]
    ends = {domain: own["mean"] for domain, own in status.forecast.items()}
    spent, looks, memory = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text("step," + ",".join(f"eval/{name}_loss" for name in ends) + "\n")
        follower, before = following(str(log), "auto", None), 0
        for mark in marks:
            spent.append(_updates(watcher, _evaluations(before, mark - LOOKS, ends), log))
            follower.new()
            looks.append(_looks(watcher, follower, _evaluations(mark - LOOKS, mark, ends), log))
            memory.append(resident_memory())
            before = mark
            rows += [
                Row(f"{mark} updates: one more", spent[-1], "ms"),
                Row(f"{mark} updates: one more look", looks[-1], "ms"),
                Row(f"{mark} updates: resident memory", memory[-1], "MiB"),
                Row(f"{mark} updates: state", len(json.dumps(watcher.state())) / 1024, "KiB"),
            ]
    assert watcher.status().step == steps
    for what, values in (("an update", spent), ("a look", looks)):
        growth = values[-1] / values[1]
        rows.append(Row(f"growth of {what}", growth, "", "", None, "<= 2", growth <= TIMES))
    grown = memory[-1] - memory[1]
    met = grown <= MEMORY
    rows.append(Row("growth of memory", grown, "MiB", "", None, "<= 20 MiB", met))
    return rows


def _evaluations(
    first: int, last: int, ends: dict[str, float]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield steps and losses of the evaluations after the first ones."""
    for count in range(first + 1, last + 1):
        chance = np.random.default_rng(count).normal(0.0, 0.003, len(ends))
        losses = [end + own for end, own in zip(ends.values(), chance.tolist(), strict=True)]
        yield EVERY * count, dict(zip(ends, losses, strict=True))


def _updates(
    watcher: Watcher, evaluations: Iterator[tuple[int, dict[str, float]]], log: Path
) -> float:
    """Tell of evaluations, write them into the log, and return milliseconds of an update at the end."""
    costs = []
    with log.open("a") as file:
        for step, losses in evaluations:
            file.write(_line(step, losses))
            started = time.process_time()
            watcher.update(step, losses)
            costs.append(time.process_time() - started)
    # The last ones; the median, as each stretch of the run costs once.
    return 1e3 * float(np.median(costs[-50:]))


def _looks(
    watcher: Watcher,
    follower: Follower,
    evaluations: Iterator[tuple[int, dict[str, float]]],
    log: Path,
) -> float:
    """Let the log grow line by line, look after each, and return milliseconds of a look."""
    costs = []
    for step, losses in evaluations:
        with log.open("a") as file:
            file.write(_line(step, losses))
        started = time.process_time()
        for own, told in sorted(follower.new().items()):
            watcher.tell(own, told)
        assert watcher.status().step == step, follower.trouble
        save_state(log.with_name("state.json"), watcher.state())
        costs.append(time.process_time() - started)
    return 1e3 * float(np.median(costs))


def _line(step: int, losses: dict[str, float]) -> str:
    return f"{step}," + ",".join(f"{loss:.5f}" for loss in losses.values()) + "\n"
