"""Four chains at once whose density is called without Python, beside the same called through it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from synthetic import lab

from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.whitening import Metric
from bayes_cpt.inference.sampling import Effort, sample
from bayes_cpt.model.build import build_model
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study
from benchmarks.report import Row, core_seconds

SEED, DRAWS, TUNE, ACCEPT = 1, 200, 200, 0.95
# Points of each curve of the small study, and its runs.
POINTS, RUNS = 12, 3


@dataclass(frozen=True)
class ThroughPython:
    """A density that nutpie can only call as a function of Python."""

    density: Density

    @property
    def start(self) -> Any:
        """See `Density`."""
        return self.density.start

    def in_metric(self, metric: Metric) -> Callable[[Any], tuple[float, Any]]:
        """See `Density`."""
        return self.density.in_metric(metric)

    def values(self, positions: Any) -> dict[str, Any]:
        """See `Density`."""
        return self.density.values(positions)


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Yield seconds of a core of the same draws, for a small study and the bundled one."""
    studies = {f"{RUNS} runs of {POINTS} points": _small()}
    if not quick:
        studies["cpt-lab"] = lab()
    for name, study in studies.items():
        density = density_of(build_model(study, read_spec("cpt-replay")))
        # The first run loads what is compiled.
        _draw(density, 10)
        draws = 20 if quick else DRAWS
        fast = core_seconds(partial(_draw, density, draws))[1]
        slow = core_seconds(partial(_draw, ThroughPython(density), draws))[1]
        yield Row(f"4 × {draws} draws of {name}", fast, "s", "called through Python", slow,
                  "<= 1", fast <= slow)  # fmt: skip


def _draw(density: Any, draws: int) -> Any:
    effort = Effort(min(TUNE, 10 * draws), draws, ACCEPT)
    return sample(density, SEED, draws=draws, efforts=(effort,))


def _small() -> Study:
    study = lab().subset([run.name for run in lab().continual_runs[:RUNS]])
    kept = pd.concat(
        curve.iloc[np.linspace(0, len(curve) - 1, POINTS).astype(int)]
        for _, curve in study.losses.groupby(["run", "domain"], sort=False)
    )
    return replace(study, losses=kept.reset_index(drop=True))
