"""Bands of 1,000 plans in 4,000 draws at 200 steps, both validation sets, beside draws of whole curves."""

import time
from typing import Any

import numpy as np
import pandas as pd
from synthetic import CHAINS, lab, prior_as_posterior

from bayes_cpt.forecast.bands import bands
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import warmup_stable_decay
from bayes_cpt.study.study import Study
from benchmarks.report import Row, core_seconds, peak_memory

PLANS, DRAWS, FEW = 1000, 4000, 4
LONGEST, HIGHEST = 40.0, 1024.0


def plan_of(count: int) -> Study:
    """Return a plan of so many runs from the lab's bases, no two with the same replay and length."""
    generator = np.random.default_rng(0)
    bases = [base for base in lab().bases if base.schedule is not None]
    runs = []
    for k in range(count):
        base, steps = bases[k % len(bases)], int(generator.integers(1000, 12_000))
        assert base.schedule is not None
        schedule = warmup_stable_decay(
            steps,
            2e-3 * generator.uniform(0.2, 1.0),
            decay_steps=steps // 2,
            warmup_steps=50,
            start=base.schedule.final,
        )
        runs.append(Run(f"plan {k}", "cpt", schedule, base.name, generator.uniform(0.0, 0.8)))
    nothing = pd.DataFrame(columns=["run", "step", "domain", "loss"])
    own = (lab().general, lab().target, tuple(bases), tuple(runs), nothing)
    return Study("plans", *own, is_plan=True)


def measure(*, quick: bool = False) -> list[Row]:
    """Return time and memory of a large forecast, and the time of a small one drawn in whole."""
    count = 20 if quick else PLANS
    kept = 100 if quick else DRAWS
    posterior = prior_as_posterior(lab(), draws=kept // CHAINS)
    options: dict[str, Any] = {"kind": "new_run", "draws": kept}
    plan, made = core_seconds(lambda: plan_of(count))
    _, first = core_seconds(lambda: bands(posterior, plan.subset(_names(plan, 1)), **options))
    before = peak_memory()
    started = time.perf_counter()
    found, busy = core_seconds(lambda: bands(posterior, plan, **options))
    seconds = time.perf_counter() - started
    memory = peak_memory()
    few = plan.subset(_names(plan, FEW))
    _, drawn = core_seconds(
        lambda: posterior.predict(few, **options)["loss"].quantile(
            [0.05, 0.5, 0.95], ["chain", "draw"], skipna=False
        )
    )
    losses = len(found) * kept
    large = count == PLANS
    return [
        Row(f"{count:,} plans x {kept:,} draws x 200 steps x 2 validation sets, 2 cores", seconds, "s",
            "", None, f"<= {LONGEST:g} s", seconds <= LONGEST if large else None),
        Row("the same, of a core", busy, "s", f"draws of whole curves, from {FEW} plans",
            drawn * count / FEW),
        Row("a loss, of a core", 1e9 * busy / losses, "ns"),
        Row("peak memory", memory, "MiB", "before", before, f"<= {HIGHEST:g} MiB",
            memory <= HIGHEST if large else None),
        Row("checking the plan, of a core", made, "s"),
        Row("first call, one plan, of a core", first, "s"),
    ]  # fmt: skip


def _names(plan: Study, count: int) -> list[str]:
    return [run.name for run in plan.runs[:count]]
