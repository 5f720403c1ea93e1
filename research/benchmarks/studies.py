"""Studies of any size, with losses that the model made at the medians of its priors."""

import numpy as np
import pandas as pd

from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.model.points import reference_of
from bayes_cpt.model.setup import Frame, Setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, linear, warmup_stable_decay
from bayes_cpt.study.study import Study
from bayes_cpt.validate.calibration import simulate_setup

SPEC = read_spec("cpt-replay")
DOMAINS = ("general", "target")
PEAK, WARMUP, SHORTEST = 2e-3, 100, 3000
REPLAY = (0.0, 0.1, 0.25, 0.5, 0.75)
PEAKS = (0.5, 1.0, 1.5)


def study_of(runs: int, points: int, seed: int = 1) -> Study:
    """Return a study of so many runs with so many points each, both validation sets counted together.

    Three in ten runs are of PT, each with a base that CPT runs start from. Runs are at least twice as long
    as they have points on a validation set.
    """
    length = max(SHORTEST, points)
    trunks = [_trunk(k, 2 * length) for k in range(max(1, 3 * runs // 10))]
    bases = [Base(f"base {run.name}", run.schedule.steps, run.schedule, run.name) for run in trunks]
    tuned = [_tuned(k, bases[k % len(bases)], length) for k in range(runs - len(trunks))]
    bare = Study(
        "made", *DOMAINS, tuple(bases), (*trunks, *tuned), _table((*trunks, *tuned), points // 2)
    )
    frame = Frame(SPEC, DOMAINS, DOMAINS, reference_of(bare))
    curves = frame.curves(bare, lambda run, domain: _steps(run, points // 2))
    setup = Setup(frame, curves, frame.residual_design(curves))
    truth = FreeParameters(frame).values(np.zeros((1, len(FreeParameters(frame).labels))))
    made = simulate_setup(setup, bare, truth, np.random.default_rng(seed)).curves
    names = np.array([(curve.run, curve.domain) for curve in made.curves])
    losses = pd.DataFrame(names[made.points.curve_index], columns=["run", "domain"])
    losses = losses.assign(step=made.points.steps.astype(int), loss=made.points.loss)
    continual = np.flatnonzero([curve.continual for curve in made.curves])
    starts = pd.DataFrame(names[continual], columns=["run", "domain"])
    starts = starts.assign(step=0, loss=made.bases.loss[continual])
    table = pd.concat([starts, losses], ignore_index=True)
    return Study("made", *DOMAINS, tuple(bases), (*trunks, *tuned), table)


def _trunk(number: int, steps: int) -> Run:
    """Return a PT run, every other one annealed to some rate."""
    stable = linear(WARMUP, 0.0, PEAK) + constant(steps - WARMUP + 50 * number, PEAK)
    decay = linear(steps // 5, PEAK, PEAK * 0.2 * (number % 5))
    return Run(f"pt{number}", "pt", stable + decay if number % 2 else stable)


def _tuned(number: int, base: Base, steps: int) -> Run:
    assert base.schedule is not None
    schedule = warmup_stable_decay(
        steps + number % 7,
        PEAK * PEAKS[number % len(PEAKS)],
        decay_steps=steps // (2 + number % 3),
        warmup_steps=50,
        start=base.schedule.final,
    )
    return Run(f"cpt{number}", "cpt", schedule, base.name, REPLAY[number % len(REPLAY)])


def _steps(run: Run, points: int) -> list[int]:
    first = 1 if run.phase == "cpt" else max(WARMUP, run.schedule.steps // 10) + 1
    return [int(s) for s in np.unique(np.linspace(first, run.schedule.steps, points).astype(int))]


def _table(runs: tuple[Run, ...], points: int) -> pd.DataFrame:
    """Return where losses will be, with a number in place of each."""
    tables = [
        pd.DataFrame({"run": run.name, "step": [0] * (run.phase == "cpt") + _steps(run, points)})
        for run in runs
    ]
    one = pd.concat(tables, ignore_index=True)
    one = one.assign(loss=3.0 - 1e-3 * np.log1p(one["step"]))
    return pd.concat([one.assign(domain=domain) for domain in DOMAINS], ignore_index=True)
