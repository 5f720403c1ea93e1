"""Studies as a practitioner has them before the long run: one PT run and five short CPT runs.

PT of 40,000 steps at 2e-4 whose last fifth anneals linearly to a tenth. Four CPT runs re-warm the annealed
base over a tenth of 2,000 steps and decay to a tenth of their peak; one starts before the anneal. The long
run does as the four do, for 10,000 steps: its replay ratio and its peak learning rate are to be chosen.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study
from testbench.truths import Parameters

type Noise = Callable[[BoundModel, Parameters, Curves, np.random.Generator], Floats]

# What is fitted, and the law that truths follow.
MODEL = "cpt-replay"
# Ours in all but the areas, the printed one, and one whose replay factor and approach are not ours.
FORMS = {
    name: Path(__file__).with_name(f"true-{name}.toml") for name in ("law", "printed", "mixing")
}
DOMAINS = ("general", "target")
PEAK, FINAL_SHARE, WARMUP_SHARE = 2e-4, 0.1, 0.1
SHORT, LONG = 2000, 10_000
STABLE = linear(1000, 0.0, PEAK) + constant(31_000, PEAK)
PRETRAINING = STABLE + linear(8000, PEAK, FINAL_SHARE * PEAK)
PRETRAINING_STEPS = (*range(5000, 32_000, 4500), 32_000, *range(34_000, 40_000, 1500), 40_000)
BASES = (
    Base("stable", STABLE.steps, STABLE, run="pretraining"),
    Base("annealed", PRETRAINING.steps, PRETRAINING, run="pretraining"),
)
FIRST_STEP, CONTINUAL_POINTS = 20, 11


def rewarmed(steps: int, relative_peak: float) -> Schedule:
    """Return a run from the annealed base: re-warm-up, and cosine to a share of the peak."""
    peak, warmup = relative_peak * PEAK, round(WARMUP_SHARE * steps)
    decay = cosine(steps - warmup, peak, FINAL_SHARE * peak)
    return linear(warmup, PRETRAINING.final, peak) + decay


RUNS = (
    Run("pretraining", "pt", PRETRAINING),
    Run("pure", "cpt", rewarmed(SHORT, 1.0), base="annealed", replay=0.0),
    Run("pure low", "cpt", rewarmed(SHORT, 0.4), base="annealed", replay=0.0),
    Run("quarter low", "cpt", rewarmed(SHORT, 0.4), base="annealed", replay=0.25),
    Run("half", "cpt", rewarmed(SHORT, 1.0), base="annealed", replay=0.5),
    Run("stable", "cpt", cosine(SHORT, PEAK, FINAL_SHARE * PEAK), base="stable", replay=0.25),
)
SPACE = read_space(
    {
        "bases": "annealed",
        "replay": [round(0.05 * place, 2) for place in range(21)],
        "relative_peak": [float(f"{peak:.3g}") for peak in np.geomspace(0.1, 1.0, 15)],
        "warmup_share": WARMUP_SHARE,
        "decay_share": 1.0,
        "relative_final": FINAL_SHARE,
        "steps": LONG,
    }
)


def blank(runs: tuple[Run, ...], starts: pd.DataFrame | None = None) -> Study:
    """Return a plan of runs, with the losses of their bases where these are given."""
    empty = pd.DataFrame(columns=["run", "step", "domain", "loss"])
    losses = empty if starts is None else starts
    return Study("short runs", *DOMAINS, BASES, runs, losses, is_plan=True)


def measured_steps(run: Run, domain: str) -> tuple[int, ...]:
    """Return where a run is measured."""
    if run.phase == "pt":
        return PRETRAINING_STEPS
    steps = np.geomspace(FIRST_STEP, run.schedule.steps, CONTINUAL_POINTS)
    return tuple(int(step) for step in steps.round())


@cache
def design(form: str = "law") -> tuple[BoundModel, Candidates]:
    """Return the frame of all such studies, which depends on schedules only, and the choices."""
    rows = [(run.name, run.schedule.steps, domain, 3.0) for run in RUNS for domain in DOMAINS]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    study = Study("design", *DOMAINS, BASES, RUNS, losses)
    space = SearchSpace.of(SPACE, study)
    return build_setup(read_spec(FORMS[form]), study).frame, space.sample(space.combinations, 0)


def package_noise(
    frame: BoundModel, truth: Parameters, curves: Curves, generator: np.random.Generator
) -> Floats:
    """Return measured losses whose residuals are those that the model assumes."""
    return np.asarray(simulate(frame, truth, curves, None, generator).loss[0])


def _table(curves: Curves, losses: Floats) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run": [curves.curves[index].run for index in curves.points.curve_index],
            "step": curves.points.steps.astype(int),
            "domain": [DOMAINS[index] for index in curves.points.domain_index],
            "loss": losses,
        }
    )


def simulated_study(
    frame: BoundModel,
    truth: Parameters,
    noise: Noise,
    generator: np.random.Generator,
    runs: tuple[Run, ...] = RUNS,
) -> Study:
    """Return a study: a PT curve, the bases' losses from it, and CPT curves that start there."""
    curves = frame.curves(blank(runs), measured_steps, runs[:1])
    pretraining = _table(curves, noise(frame, truth, curves, generator))
    ends = pretraining.set_index(["step", "domain"])["loss"]
    steps = {base.name: base.steps for base in BASES}
    starts = _starts(runs[1:], lambda base, domain: float(ends[steps[base], domain]))
    curves = frame.curves(blank(runs, starts), measured_steps, runs[1:])
    continual = _table(curves, noise(frame, truth, curves, generator))
    losses = pd.concat([pretraining, starts, continual], ignore_index=True)
    return Study("short runs", *DOMAINS, BASES, runs, losses)


def _starts(runs: tuple[Run, ...], loss: Callable[[str, str], float | None]) -> pd.DataFrame:
    """Return the losses of the runs' bases, of a function of base and validation set."""
    rows = [
        (run.name, 0, domain, loss(str(run.base), domain)) for run in runs for domain in DOMAINS
    ]
    return pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])


def plan_of(study: Study, runs: tuple[Run, ...]) -> Study:
    """Return a plan of runs that start at a study's bases as these were measured."""
    return blank(runs, _starts(runs, study.base_loss))


def measured_end(
    frame: BoundModel,
    truth: Parameters,
    noise: Noise,
    study: Study,
    run: Run,
    generator: np.random.Generator,
) -> Floats:
    """Return the last losses that a long run shows, shape (domains,)."""
    curves = frame.curves(plan_of(study, (run,)), lambda own, _: [own.schedule.steps])
    return noise(frame, truth, curves, generator)
