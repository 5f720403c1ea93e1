"""The forecast of a run beside its training: a process of its own fits again at each evaluation.

Training is not slowed: what it has told so far is a log, which another process forecasts, one at a time.
Its answer is there at a later evaluation.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from joblib.externals.loky import ProcessPoolExecutor

from bayes_cpt.errors import BayesCPTError
from bayes_cpt.study.logs.raw import Stated
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.study.logs.runs import Recipe
from bayes_cpt.watch.log_forecast import FEWEST, PLANNED, LogForecast, forecast_read

# Sds of its forecast beyond which an evaluation is told to have left the band: one in 300 of those of a
# healthy run.
FAR = 3.0
# One core is enough, and training may need the others.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _prepare() -> None:
    """Let training go first, and import what fits before the first forecast.

    loky ends a process that has grown by 300 MB since its first task, and a log may be too short for that.
    """
    import bayes_cpt.inference.fitting  # noqa: F401

    if hasattr(os, "nice"):  # Windows has none
        os.nice(19)


def _no_curves() -> pd.DataFrame:
    return pd.DataFrame(columns=["way", "domain", "step"])


@dataclass
class RunForecaster(AbstractContextManager["RunForecaster"]):
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
        Is told in words when an evaluation leaves the band of the forecast before it, or is not finite.

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
    _found: pd.DataFrame = field(default_factory=_no_curves, init=False, repr=False)
    # The one before: what is told of a step after the newest began is compared with this.
    _before: pd.DataFrame = field(default_factory=_no_curves, init=False, repr=False)
    _running: "Future[LogForecast] | None" = field(default=None, init=False)
    _processes: Any = field(default=None, init=False)

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
            before the first forecast that can be trusted, and where a loss is not finite.

        Raises
        ------
        ValueError
            If nothing says how long the run is.
        """
        if not len(self.rates) and self.total_steps is None:
            raise ValueError("nothing says how long the run is: give rates or total_steps")
        finite = {name: float(loss) for name, loss in losses.items() if np.isfinite(loss)}
        self._compare(step, finite)
        # Trainers tell of each validation set on its own.
        self._told.setdefault(step, {}).update(finite)
        if rate is not None and rate > 0:
            self._logged[step] = float(rate)
        if self._running is None and finite and len(self._told) >= FEWEST:
            self._start()
        if len(finite) < len(losses):
            self.warn(f"the loss is not finite at step {step}: the run has diverged")
            return {}
        return self.latest

    @property
    def latest(self) -> dict[str, float]:
        """The newest forecast of the end, as `evaluated` gives it."""
        ends = self._curves().groupby("domain", sort=False).tail(1).itertuples()
        endings = {"": "median", "_lower": "lower", "_upper": "upper"}
        return {
            f"forecast_end_{end.domain}{ending}": getattr(end, column)
            for end in ends
            for ending, column in endings.items()
        }

    def wait(self, seconds: float | None = None) -> dict[str, float]:
        """Wait for the forecast under way, and return the newest one."""
        wait([self._running] if self._running else [], seconds)
        return self.latest

    def close(self) -> None:
        """End what is under way."""
        self._curves()
        if self._processes is not None:
            self._processes.shutdown(kill_workers=True)
        self._running = self._processes = None

    def _curves(self) -> pd.DataFrame:
        """Return the newest forecast of the run as planned; one that failed or falls short is left out."""
        if self._running is not None and self._running.done():
            failure = self._running.exception()
            problems = () if failure else self._running.result().problems
            # Of a log that is too short nothing is said: the next one is longer.
            if problems or (failure and not isinstance(failure, BayesCPTError)):
                self.warn(f"the end is not forecast: {problems[0] if problems else repr(failure)}")
            elif not failure:
                newest = self._running.result().curves
                if self._found["step"].min() != newest["step"].min():
                    self._before = self._found
                self._found = newest
            self._running = None
        return self._found[self._found["way"] == PLANNED]

    def _compare(self, step: int, losses: Mapping[str, float]) -> None:
        """Warn of losses that lie outside the band of the newest forecast from before their step."""
        newest, before = self._curves(), self._before[self._before["way"] == PLANNED]
        curves = newest if newest["step"].min() <= step else before
        for domain, loss in losses.items():
            own = curves[curves["domain"] == domain]
            if own.empty or not own["step"].iloc[0] <= step <= own["step"].iloc[-1]:
                continue
            mean, sd = (np.interp(step, own["step"], own[name]) for name in ("mean", "sd"))
            if abs(loss - mean) > FAR * sd:
                side = "above" if loss > mean else "below"
                off = f"{abs(loss - mean) / sd:.1f} sd {side} its forecast of {mean:.3f}"
                self.warn(f"step {step}: the loss on {domain} is {loss:.3f}, {off}")

    def _start(self) -> None:
        rates = dict(enumerate(map(float, self.rates), start=1)) or self._logged
        if not rates:
            return
        told = sorted(self._told.items())
        log = Log(
            "the loop",
            losses=tuple((step, *own) for step, losses in told for own in losses.items()),
            rates=tuple(sorted(rates.items())),
            stated=Stated(steps=len(self.rates) or self.total_steps),
        )
        if self._processes is None:
            self._processes = ProcessPoolExecutor(1, env=ONE_THREAD, initializer=_prepare)
        recipe, now = Recipe(phase=self.phase), max(self._told)
        self._running = self._processes.submit(forecast_read, recipe, log, now=now)
