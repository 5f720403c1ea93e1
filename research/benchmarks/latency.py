"""Seconds from a study on disk to a fit on disk: the whole process, cold and warm, and refits inside one.

Cold: nothing that was compiled is on disk. Seconds are those of the clock, for a user waits by it: run on
an otherwise idle machine. Beside them the paper's method on the same study: L-BFGS from 54 starts on the
log Huber loss and 200 bootstrap refits, per validation set, on one core.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from synthetic import lab

from bayes_cpt.bundled import bundled_study
from bayes_cpt.inference.fitting import fit
from bayes_cpt.study.study import Study
from bayes_cpt.validate import baselines
from benchmarks.report import Row, clock_seconds

SEED = 1
COLD, WARM, REFIT = 20.0, 6.0, 1.5


def measure(*, quick: bool = False) -> list[Row]:
    """Return seconds of a whole fit, of a refit, and of the paper's method."""
    model = "pretrain" if quick else "cpt-replay"
    with tempfile.TemporaryDirectory() as folder:
        # In short with the user's own caches: there is no telling how cold those are.
        caches = {} if quick else _empty_caches(Path(folder))
        cold = _process(Path(folder), model, caches)
        warm = min(_process(Path(folder), model, caches) for _ in range(1 if quick else 3))
    fit(lab(), model, seed=SEED)
    refit, stages = _refit(noisy(lab()), model)
    paper = clock_seconds(lambda: _paper(lab(), 2 if quick else baselines.REFITS))
    beside = "the paper's method, 54 starts and 200 refits"
    rows = [
        Row("fit, whole process, nothing compiled", cold, "s", "", None, "<= 20 s", cold <= COLD),
        Row("fit, whole process, warm caches", warm, "s", "", None, "<= 6 s", warm <= WARM),
        Row(
            "refit of new losses inside a process", refit, "s", "", None, "<= 1.5 s", refit <= REFIT
        ),
        Row("fit, whole process, warm caches", warm, "s", beside, paper, "<= 1x", warm <= paper),
    ]
    return rows + [Row(f"of a refit: {name}", own, "s") for name, own in stages.items()]


def _empty_caches(folder: Path) -> dict[str, str]:
    """Return the settings that put all caches into a folder."""
    return {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
    }


def _process(folder: Path, model: str, settings: dict[str, str]) -> float:
    """Return the seconds of `bayes-cpt fit` under some settings of the environment."""
    environment = os.environ | settings
    command = [sys.executable, "-m", "bayes_cpt", "fit", str(bundled_study()), "--seed", str(SEED)]
    command += ["--model", model, "-o", str(folder / "fit.nc"), "--quiet"]
    return clock_seconds(lambda: subprocess.run(command, env=environment, check=True))


def noisy(study: Study) -> Study:
    """Return the study with other losses at the same points."""
    shift = 1e-3 * np.random.default_rng(SEED).standard_normal(len(study.losses))
    return replace(study, losses=study.losses.assign(loss=study.losses["loss"] + shift))


def _refit(study: Study, model: str) -> tuple[float, dict[str, float]]:
    """Return the seconds of a fit, and of its stages."""
    begun: dict[str, float] = {}

    def tell(stage: str, share: float) -> None:
        begun.setdefault(stage, time.perf_counter())

    seconds = clock_seconds(lambda: fit(study, model, seed=SEED, progress=tell))
    ends = [*list(begun.values())[1:], time.perf_counter()]
    return seconds, {
        name: end - start for (name, start), end in zip(begun.items(), ends, strict=True)
    }


def _paper(study: Study, refits: int) -> None:
    """Fit and refit the paper's way, and predict the last losses of the runs."""
    runs = [run.name for run in study.continual_runs]
    late = study.losses[study.losses["run"].isin(runs) & (study.losses["step"] > 0)]
    points = late.groupby(["run", "domain"]).tail(1)[["run", "domain", "step"]]
    points = points[points["domain"].isin((study.general, study.target))]
    baselines.paper_predict(study, study, points, seed=SEED, refits=refits)
