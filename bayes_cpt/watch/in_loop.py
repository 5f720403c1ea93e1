"""The forecast of a run beside its training: a process of its own fits again at each evaluation.

Training is not slowed: what it has told so far is written to a table, and `bayes-cpt forecast` reads that
in another process, at most one at a time. Its answer is there at a later evaluation.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from bayes_cpt.study.logs.recognize import recognize
from bayes_cpt.watch.log_forecast import FEWEST, PLANNED

# Sds of its forecast beyond which an evaluation is told to have left the band: one in 300 of those of a
# healthy run.
FAR = 3.0
# One core is enough, and training may need the others.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
END = "forecast_end"


@dataclass
class RunForecaster:
    """Forecasts the end of a run while it trains; for any training loop.

    Parameters
    ----------
    rates : sequence of float, optional
        Learning rate of each step of the whole run as planned; the shape of those told with evaluations
        goes on unless given.
    total_steps : int, optional
        Length of the run; needed where `rates` are not given.
    phase : {"pt", "cpt"}, optional
        By the losses unless given.
    warn : callable
        Is told in words when an evaluation leaves the band of the forecast before it.

    Examples
    --------
    >>> forecaster = RunForecaster(total_steps=20_000)  # doctest: +SKIP
    >>> forecaster.evaluated(500, {"val": 3.31}, rate=2e-4)  # doctest: +SKIP
    {'forecast_end_val': 2.94, 'forecast_end_val_lower': 2.9, 'forecast_end_val_upper': 2.99}
    """

    rates: Sequence[float] = ()
    total_steps: int | None = None
    phase: str | None = None
    warn: Callable[[str], Any] = print
    _told: dict[int, dict[str, float]] = field(default_factory=dict, init=False)
    _logged: dict[int, float] = field(default_factory=dict, init=False)
    _found: dict[str, Any] = field(default_factory=dict, init=False)
    _planned: str | None = field(default=None, init=False)
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _folder: Any = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def evaluated(
        self, step: int, losses: Mapping[str, float], rate: float | None = None
    ) -> dict[str, float]:
        """Tell of an evaluation, and get the newest forecast of the end to log beside it.

        Parameters
        ----------
        step : int
            Optimiser steps so far.
        losses : mapping of str to float
            By validation set, nats/token.
        rate : float, optional
            Learning rate of that step.

        Returns
        -------
        dict of str to float
            ``forecast_end_SET``, with ``_lower`` and ``_upper`` of its 90 % band, nats/token; empty
            before the first forecast is there.

        Raises
        ------
        ValueError
            If nothing says how long the run is.
        """
        if not len(self.rates) and self.total_steps is None:
            raise ValueError("nothing says how long the run is: give rates or total_steps")
        finite = {name: float(loss) for name, loss in losses.items() if np.isfinite(loss)}
        self._collect()
        self._compare(step, finite)
        self._told[step] = finite
        if rate is not None and rate > 0:
            self._logged[step] = float(rate)
        if self._process is None and finite and len(self._told) >= FEWEST:
            self._start()
        return self.latest

    @property
    def latest(self) -> dict[str, float]:
        """The newest forecast of the end, as `evaluated` gives it."""
        self._collect()
        ends = {row["domain"]: row for row in self._curve()}
        return {
            f"{END}_{domain}{ending}": row[column]
            for domain, row in ends.items()
            for column, ending in (("median", ""), ("lower", "_lower"), ("upper", "_upper"))
        }

    def wait(self, seconds: float | None = None) -> dict[str, float]:
        """Wait for the forecast under way, and return the newest one."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        return self.latest

    def close(self) -> None:
        """End what is under way."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _curve(self) -> list[dict[str, Any]]:
        return [row for row in self._found.get("curves", []) if row["way"] == PLANNED]

    def _compare(self, step: int, losses: Mapping[str, float]) -> None:
        """Warn of losses that lie outside the band of the newest forecast."""
        for domain, loss in losses.items():
            rows = [row for row in self._curve() if row["domain"] == domain]
            steps = [row["step"] for row in rows]
            if not rows or not steps[0] <= step <= steps[-1]:
                continue
            mean, sd = (
                np.interp(step, steps, [row[key] for row in rows]) for key in ("mean", "sd")
            )
            if abs(loss - mean) > FAR * sd:
                side = "above" if loss > mean else "below"
                self.warn(
                    f"step {step}: the loss on {domain} is {loss:.3f}, {abs(loss - mean) / sd:.1f} sd "
                    f"{side} its forecast of {mean:.3f}"
                )

    def _collect(self) -> None:
        """Take up a forecast that has come to its end; one that failed or falls short is left out."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return
        self._process = None
        if code == 0:
            self._found = json.loads((Path(self._folder.name) / "out.json").read_bytes())

    def _start(self) -> None:
        """Start a forecast of what was told so far, in a process of its own."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bayes-cpt-")
        folder = Path(self._folder.name)
        now = max(self._told)
        total = len(self.rates) or self.total_steps
        if self._planned is None:
            self._planned = _segments(self.rates)
        known = dict(enumerate(self.rates[:now], start=1)) or self._logged
        if not known:
            return
        # A shape says all that many rows would.
        known = {} if self._planned else known
        sets = sorted({name for losses in self._told.values() for name in losses})
        _write(folder / "log.csv", sets, self._told, known)
        options = [f"--loss=loss_{i}={name}" for i, name in enumerate(sets)]
        options += ["--step=step", f"--total-steps={total}"]
        options += [f"--phase={self.phase}"] if self.phase else []
        options += [f"--schedule={self._planned}"] if self._planned else ["--rate=lr"]
        command = [sys.executable, "-m", "bayes_cpt", "forecast", str(folder / "log.csv")]
        command += ["--kind=csv", "--json", f"--output={folder / 'forecast.png'}", *options]
        with (folder / "out.json").open("wb") as out, (folder / "err.txt").open("wb") as err:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=err, env=os.environ | ONE_THREAD
            )


def _write(
    path: Path,
    sets: Sequence[str],
    told: Mapping[int, Mapping[str, float]],
    rates: Mapping[int, float],
) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "lr", *(f"loss_{i}" for i in range(len(sets)))])
        for step in sorted({*told, *rates}):
            losses = [told.get(step, {}).get(name, "") for name in sets]
            rows.writerow([step, rates.get(step, ""), *losses])


def _segments(rates: Sequence[float]) -> str:
    """Return the shape of planned learning rates as an inline list of TOML, empty where there is none."""
    if not len(rates):
        return ""
    planned = recognize(range(1, len(rates) + 1), list(rates), len(rates)).schedule
    if planned.is_logged:
        return ""
    tables = (
        ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        for table in planned.to_toml()
    )
    return "[" + ", ".join(f"{{ {table} }}" for table in tables) + "]"
