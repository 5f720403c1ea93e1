"""A small study whose losses the printed law made, to check the baselines on."""

import numpy as np
import pandas as pd

from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study
from testbench.baselines import inputs_of, printed_losses

PEAK = 1e-3
WARMUP = linear(100, 0.0, PEAK)
TRUNK = WARMUP + constant(5900, PEAK)
ANNEALED = TRUNK + linear(1500, PEAK, 0.0)
# Whether it is the target, and the law's parameters in the order of `PARAMETERS`.
TRUTH = {
    False: np.array([2.5, -0.5, -0.6, 0.15, 0.14, 0.1, 0.5, 2.0, -1.0, 3.0]),
    True: np.array([2.6, -0.4, -0.5, 0.15, 0.16, 0.1, -0.6, 4.0, -1.2, 4.0]),
}
# Standard deviation of the independent errors of the log loss.
NOISE = 0.004


def continual(name: str, replay: float, schedule: Schedule, base: str = "stable") -> Run:
    return Run(name, "cpt", schedule, base=base, replay=replay)


def simulated(runs: tuple[Run, ...], noise: float, seed: int = 5) -> Study:
    """Simulate losses of runs on both validation sets."""
    bases = (Base("stable", TRUNK.steps, TRUNK), Base("annealed", ANNEALED.steps, ANNEALED))
    blank = pd.DataFrame(columns=["run", "step", "domain", "loss"])
    study = Study("plan", "general", "target", bases, runs, blank, is_plan=True)
    generator = np.random.default_rng(seed)
    tables = []
    for run in runs:
        first = 400 if run.phase == "pt" else 1
        steps = np.unique(np.geomspace(first, run.schedule.steps, 40).astype(int))
        for is_target, domain in ((False, "general"), (True, "target")):
            losses = printed_losses(
                TRUTH[is_target], inputs_of(study, run, steps), is_target=is_target
            )
            losses *= np.exp(generator.normal(scale=noise, size=steps.size))
            tables.append(
                pd.DataFrame({"run": run.name, "domain": domain, "step": steps, "loss": losses})
            )
    losses = pd.concat(tables, ignore_index=True)
    return Study("simulated", "general", "target", bases, runs, losses)


RUNS = (
    Run("trunk", "pt", TRUNK),
    Run("anneal", "pt", ANNEALED),
    continual("none", 0.0, cosine(2000, PEAK)),
    continual("some", 0.3, constant(2000, PEAK)),
    continual("half", 0.5, constant(1500, PEAK) + linear(500, PEAK, 0.0)),
    continual("most", 0.8, cosine(2000, PEAK, warmup_steps=100), base="annealed"),
)
NEW_RUNS = (continual("new", 0.4, cosine(4000, PEAK)),)
