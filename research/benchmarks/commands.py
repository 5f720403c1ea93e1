"""Seconds of the commands on a fit, each beside the imports that any use of PyMC and ArviZ pays for.

All of them in turns, so that what else the machine does slows all alike, and the median of the turns. The
first turn fills the caches of files and does not count.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from synthetic import lab, lab_posterior

from bayes_cpt.bundled import bundled_study
from bayes_cpt.inference.fitting import fit
from benchmarks.report import Row

IMPORTS = "import pymc, arviz"
TURNS, HIGHEST = 5, 2.5


@dataclass(frozen=True)
class Seconds:
    """What a process took: by the clock, and of a core, the kernel's share included."""

    clock: float
    core: float


def measure(*, quick: bool = False) -> list[Row]:
    """Return the median seconds of each command, by the clock and of a core."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.nc"
        (lab_posterior() if quick else fit(lab(), seed=1)).save(path)
        commands = {"imports": [sys.executable, "-c", IMPORTS]} | _commands(path)
        turns: dict[str, list[Seconds]] = {name: [] for name in commands}
        for _ in range(1 if quick else TURNS + 1):
            for name, command in commands.items():
                turns[name].append(_process(command))
    rows = []
    for unit, kind in (("s", "clock"), ("s of a core", "core")):
        medians = {
            name: median(getattr(seconds, kind) for seconds in taken[-TURNS:])
            for name, taken in turns.items()
        }
        imports = medians.pop("imports")
        rows += [
            Row(name, own, unit, IMPORTS, imports, f"<= {HIGHEST}x", own <= HIGHEST * imports)
            for name, own in medians.items()
        ]
    return rows


def _commands(fit_path: Path) -> dict[str, list[str]]:
    """Return the command lines of what users wait for, by verb."""
    study, made = str(bundled_study()), str(fit_path.parent)
    plan = f"{study}/plan-example.toml"
    verbs = {
        "--help": [],
        "check": [study],
        "summary": [str(fit_path)],
        "predict": [str(fit_path), "--plan", plan, "-o", f"{made}/forecast.csv"],
        "decide": [str(fit_path), "--objective", "balanced", "-o", f"{made}/decision"],
        "landmarks": [str(fit_path)],
    }
    return {
        verb: [sys.executable, "-m", "bayes_cpt", verb, *arguments]
        for verb, arguments in verbs.items()
    }


def _process(command: list[str]) -> Seconds:
    # Pip compiles what it installs, Python a checkout at its first import unless this keeps it from it.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    seconds, after = time.perf_counter() - started, os.times()
    core = after.children_user + after.children_system
    return Seconds(seconds, core - before.children_user - before.children_system)
