"""Three model sizes, three targets, five CPT runs of each: from the study on disk to the fit on disk.

Truths are drawn from the priors of `cpt-replay-sizes`; every run has 20 points on each of four validation
sets. What is measured is ``bayes-cpt fit`` with its defaults, in a process of its own, by the clock and in
seconds of a core: the clock's hold on an otherwise idle machine.

A study for a look by hand, with five runs and the truth of a seed::

    PYTHONPATH=research python -m benchmarks.family FOLDER 5 0
"""

import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.inference.posterior import load
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.folder import write_study
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, cosine, linear, warmup_stable_decay
from bayes_cpt.study.study import Study
from bayes_cpt.validate.calibration import simulate_setup
from benchmarks.report import Row, core_seconds_with_children

MODEL = "cpt-replay-sizes"
# Peak learning rate by model size, millions of parameters.
PEAKS = {20.0: 2e-3, 80.0: 1.5e-3, 320.0: 1e-3}
TARGETS = ("code", "law", "news")
GENERAL = "web"
TRUNK, ANNEAL, WARMUP = 8000, 2000, 100
POINTS = 20
SECONDS, SEED = 600.0, 1
# A prior may draw losses below 0, which no model has.
TRIES = 50


def measure(*, quick: bool = False) -> list[Row]:
    """Return what a fit costs, and how well it mixes."""
    runs, points = (1, 6) if quick else (5, POINTS)
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        folder, fit = Path(name) / "study", Path(name) / "fit.nc"
        study = family(runs, points)
        write_study(study, folder)
        command = [sys.executable, "-m", "bayes_cpt", "fit", str(folder), "--model", MODEL]
        command += ["--seed", str(SEED), "-o", str(fit), "--quiet"]
        command += ["--draws", "10"] if quick else []
        started = time.perf_counter()
        # A fit that falls short exits with 1, and is told by the rows.
        _, core = core_seconds_with_children(lambda: subprocess.run(command, check=False))
        waited = time.perf_counter() - started
        posterior = load(fit)
    table = posterior.summary()
    what = f"{len(PEAKS)} sizes x {len(TARGETS)} targets x {runs} runs, {len(study.losses)} points"
    met = waited <= SECONDS and not posterior.problems
    return [
        Row(f"{what}: fit", waited, "s", "", None, "<= 600 s, all diagnostics", met),
        Row(f"{what}: fit, of a core", core, "s"),
        Row("attempts", float(posterior.tree.attrs["attempts"]), ""),
        Row("highest R-hat", float(table["r_hat"].max()), ""),
        Row("least bulk ESS", float(table["ess_bulk"].min()), ""),
    ]


def family(runs: int = 5, points: int = POINTS, seed: int = 0) -> Study:
    """Return a study with so many CPT runs of each size on each target, its losses drawn from the model.

    Parameters
    ----------
    runs : int
        One to five.
    points : int
        Of each curve.
    seed : int
        Of truth and noise.
    """
    blank = _blank(runs, points)
    setup = build_setup(read_spec(MODEL), blank)
    for again in range(TRIES):
        own = seed + 1000 * again
        truth = {name: drawn[:1] for name, drawn in draw_priors(setup.frame, 1, own).items()}
        made = simulate_setup(setup, blank, truth, np.random.default_rng(own)).curves
        names = np.array([(curve.run, curve.domain) for curve in made.curves])
        losses = pd.DataFrame(names[made.points.curve_index], columns=["run", "domain"])
        losses = losses.assign(step=made.points.steps.astype(int), loss=made.points.loss)
        try:
            return replace(blank, losses=losses)
        except StudyError:
            continue
    raise AssertionError("the priors make no study that could be measured")


def _blank(runs: int, points: int) -> Study:
    """Return the study before its losses were measured."""
    bases, every = [], []
    for size, peak in PEAKS.items():
        trunk = linear(WARMUP, 0.0, peak) + constant(TRUNK - WARMUP, peak)
        base = Base(f"base_{size:g}m", TRUNK, trunk, run=f"pt_{size:g}m", model_size=size)
        bases.append(base)
        every.append(Run(str(base.run), "pt", trunk, model_size=size))
        annealed = trunk + linear(ANNEAL, peak, 0.0)
        every.append(Run(f"pt_{size:g}m_annealed", "pt", annealed, model_size=size))
        for target in TARGETS:
            every += _continued(base, peak, target)[:runs]
    rows = [
        (run.name, step, domain, 3.0 + 1e-4 * place)
        for run in every
        for domain in (GENERAL, *TARGETS)
        for place, step in enumerate(_steps(run, points))
    ]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study("family", GENERAL, TARGETS, tuple(bases), tuple(every), losses)


def _continued(base: Base, peak: float, target: str) -> list[Run]:
    """Return five CPT runs on a target: other replay ratios, lengths, peaks, and a mixture."""
    after = TARGETS[(TARGETS.index(target) + 1) % len(TARGETS)]
    forms = (
        ("replay_0", cosine(2000, peak), 0.0, target),
        ("replay_30", cosine(2000, peak), 0.3, target),
        ("long", cosine(4000, peak), 0.1, target),
        ("mixed", cosine(2000, peak), 0.2, {target: 0.6, after: 0.4}),
        (
            "half_peak",
            warmup_stable_decay(
                2000, 0.5 * peak, decay_steps=500, warmup_steps=50, start=0.5 * peak
            ),
            0.6,
            target,
        ),
    )
    return [
        Run(f"{base.name}_{target}_{name}", "cpt", schedule, base.name, replay, targets=targets)
        for name, schedule, replay, targets in forms
    ]


def _steps(run: Run, points: int) -> list[int]:
    last = run.schedule.steps
    if run.phase == "cpt":
        found = [0, *np.geomspace(10, last, points).round()]
    else:
        found = [*np.linspace(last / points, last, points).round(), TRUNK]
    return sorted({int(step) for step in found})


if __name__ == "__main__":
    warnings.simplefilter("ignore", StudyWarning)
    write_study(family(int(sys.argv[2]), seed=int(sys.argv[3])), Path(sys.argv[1]))
