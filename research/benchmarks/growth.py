"""Time and memory as studies grow: more runs of 100 points, and more points a run.

Each size is measured in a process of its own. The exponent is the slope of the logarithms over the larger
half of the sizes, where what is paid once no longer counts. Points are those of both validation sets; of
long logs some hundreds a curve enter the fit (`bayes_cpt.model.fitted_points.thinned`).
"""

import json
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import Row, core_seconds, fastest, peak_memory

RUNS = [(10, 100), (30, 100), (100, 100), (300, 100), (1000, 100)]
POINTS = [(4, 100), (4, 1000), (4, 10_000), (4, 100_000)]
EXPONENT, MINUTE, MEMORY = 1.1, 60.0, 2048.0
# Points that a fit in a minute is asked for, and fitted points beyond which none is made: what such a fit
# costs follows from a gradient.
MANY, SAMPLED = 100_000, 12_000
QUICK = [(4, 40), (4, 80)]
SEED = 1


@dataclass(frozen=True)
class Cost:
    """What a study of some size costs: seconds of a core, and MiB.

    ``waited`` is the fit by the clock, ``effective`` the fit by its least effective sample size.
    """

    runs: int
    points: int
    fitted: int
    reading: float
    setting_up: float
    gradient: float
    fit: float
    waited: float
    effective: float
    memory: float

    @property
    def total(self) -> int:
        """Points that were logged."""
        return self.runs * self.points


def measure(*, quick: bool = False) -> list[Row]:
    """Return exponents, and what the largest studies cost."""
    rows = []
    series = {"runs of 100 points": RUNS, "points a run, 4 runs": POINTS}
    for name, sizes in {"points": QUICK}.items() if quick else series.items():
        costs = [_in_process(*size) for size in sizes]
        for what, key in (
            ("checking a study", "reading"),
            ("points and residual design", "setting_up"),
            ("a gradient", "gradient"),
            ("an effective draw", "effective"),
            ("peak memory", "memory"),
        ):
            pairs = [(cost.total, getattr(cost, key)) for cost in costs if getattr(cost, key)]
            exponent = slope(*np.array(pairs).T)
            met = exponent <= EXPONENT
            rows.append(Row(f"{name}: exponent of {what}", exponent, "", "", None, "<= 1.1", met))
        rows += [row for cost in costs for row in _rows(name, cost)]
    return rows


def slope(sizes: Any, values: Any) -> float:
    """Return the exponent over the larger half of the sizes."""
    distinct = np.unique(sizes).size
    if distinct < 2:
        return float("nan")
    half = slice(-max(2, (len(sizes) + 1) // 2), None)
    return float(np.polyfit(np.log(sizes[half]), np.log(values[half]), 1)[0])


def _rows(name: str, cost: Cost) -> list[Row]:
    size = f"{cost.runs} runs x {cost.points} points ({cost.fitted} fitted)"
    waited = cost.reading + cost.setting_up + cost.waited
    asked = ("<= 60 s", waited <= MINUTE) if cost.total >= MANY else ("", None)
    rows = [
        Row(f"{size}: checking", cost.reading, "s"),
        Row(f"{size}: setting up", cost.setting_up, "s"),
        Row(f"{size}: a gradient", 1e3 * cost.gradient, "ms"),
        Row(
            f"{size}: peak memory", cost.memory, "MiB", "", None, "<= 2 GiB", cost.memory <= MEMORY
        ),
    ]
    if cost.fit:
        rows += [
            Row(f"{size}: whole fit, by the clock", waited, "s", "", None, *asked),
            Row(f"{size}: an effective draw, of a core", 1e3 * cost.effective, "ms"),
        ]
    return rows


def _in_process(runs: int, points: int) -> Cost:
    sys.stderr.write(f"  {runs} runs x {points} points ...\n")
    command = [sys.executable, "-m", "benchmarks.growth", str(runs), str(points)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def cost_of(runs: int, points: int) -> Cost:
    """Measure a study of some size in this process."""
    from bayes_cpt.errors import StudyWarning
    from bayes_cpt.inference.density import density_of
    from bayes_cpt.inference.geometry.whitening import Metric
    from bayes_cpt.inference.sampling import EFFORTS, sample
    from bayes_cpt.model.build import model_of
    from bayes_cpt.model.setup import build_setup
    from bayes_cpt.study.study import Study
    from benchmarks.studies import SPEC, study_of

    warnings.simplefilter("ignore", StudyWarning)
    # What is compiled or loaded once is not what grows.
    small = density_of(model_of(build_setup(SPEC, study_of(4, 40))))
    small.in_metric(Metric(small.start, np.eye(small.start.size)))(np.zeros(small.start.size))
    made = study_of(runs, points)
    again = (made.name, made.general, made.target, made.bases, made.runs, made.losses)
    study, reading = core_seconds(lambda: Study(*again))
    setup, setting_up = core_seconds(lambda: build_setup(SPEC, study))
    density = density_of(model_of(setup))
    function = density.in_metric(Metric(density.start, np.eye(density.start.size)))
    white = np.zeros(density.start.size)
    gradient = fastest(lambda: function(white))
    fitted = setup.curves.points.steps.size
    fit, waited, effective = 0.0, 0.0, 0.0
    if fitted <= SAMPLED:
        started = time.perf_counter()
        found, fit = core_seconds(lambda: sample(density, SEED, efforts=EFFORTS[:1]))
        waited = time.perf_counter() - started
        effective = fit / min(float(np.min(own)) for own in found.diagnostics.ess_bulk.values())
    costs = (reading, setting_up, gradient, fit, waited, effective, peak_memory())
    return Cost(runs, points, fitted, *costs)


if __name__ == "__main__":
    sizes = [int(own) for own in sys.argv[1:]]
    sys.stdout.write(json.dumps(vars(cost_of(*sizes))) + "\n")
