"""A family of models of three sizes."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from synthetic import prior_as_posterior
from testbench.calibration import simulate_setup

from bayes_cpt import Base, Posterior, Run, Study, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.schedules import constant, cosine, linear

# Batches do not lie on a line over size: what they change can be told from what sizes do.
TOKENS = {20.0: 32768, 80.0: 262144, 320.0: 262144}
PEAKS = {20.0: 2e-3, 80.0: 1.5e-3, 320.0: 1e-3}
BIG = linear(100, 0.0, 1e-3) + constant(7900, 1e-3)
# A base of a size that no run has.
LARGE = Base("large", 8000, BIG, model_size=3000.0)
BLANK = pd.DataFrame(columns=["run", "step", "domain", "loss"])


def runs_of(size: float, *, continual: bool) -> tuple[list[Base], list[Run]]:
    """Return the bases and runs of one size."""
    peak = PEAKS[size]
    trunk = linear(100, 0.0, peak) + constant(3900, peak)
    runs = [
        Run(f"trunk_{size:g}", "pt", trunk, model_size=size),
        Run(f"annealed_{size:g}", "pt", trunk + linear(1000, peak, 0.0), model_size=size),
    ]
    if not continual:
        return [], runs
    base = Base(f"base_{size:g}", 4000, trunk, run=f"trunk_{size:g}", model_size=size)
    schedule = cosine(1000, peak)
    runs += [
        Run(f"cpt_{size:g}_{r:g}", "cpt", schedule, base.name, r, batch_tokens=TOKENS[size])
        for r in (0.0, 0.3)
    ]
    return [base], runs


def blank_losses(runs: Iterable[Run], domains: Iterable[str], measured: int = 12) -> pd.DataFrame:
    """Return losses that mean nothing, as often for each curve; a CPT run has one at step 0."""
    # Losses that were the very same would say that one log is given twice.
    rows = [
        (run.name, int(step), domain, 3.0 + 1e-4 * place + 1e-6 * number)
        for number, run in enumerate(runs)
        for domain in domains
        for place, step in enumerate(
            np.linspace(0 if run.phase == "cpt" else 400, run.schedule.steps, measured).astype(int)
        )
    ]
    return pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])


def family(*, continual: bool = True, sizes: tuple[float, ...] = tuple(PEAKS)) -> Study:
    """Return the family; its losses mean nothing (see `simulated`), only where they were measured."""
    parts = [runs_of(size, continual=continual) for size in sizes]
    bases = tuple(base for own, _ in parts for base in own)
    runs = tuple(run for _, own in parts for run in own)
    domains = ("general", "target") if continual else ("general",)
    losses = blank_losses(runs, domains)
    return Study("family", "general", domains[-1] if continual else None, bases, runs, losses)


def family_of_cpt_alone() -> Study:
    """Return models of three sizes, of whose pre-training only the ends are measured."""
    whole = family()
    runs = {run.name for run in whole.continual_runs}
    return replace(whole.subset(runs), bases=tuple(replace(base, run=None) for base in whole.bases))


@cache
def family_posterior() -> Posterior:
    """Return a posterior of the family with a base of a further size, which costs no sampling."""
    study = family()
    return prior_as_posterior(replace(study, bases=(*study.bases, LARGE)), "cpt-replay-sizes")


def simulated(
    study: Study, values: dict[str, np.ndarray], model: "str | ModelSpec", seed: int
) -> Study:
    """Return the study with losses drawn from the model at some parameters, shape (1, ...)."""
    spec = model if isinstance(model, ModelSpec) else read_spec(model)
    setup = simulate_setup(build_setup(spec, study), study, values, np.random.default_rng(seed))
    return replace(study, losses=losses_of(setup.curves, setup.curves.points.loss))


def losses_of(curves: Curves, loss: Floats) -> pd.DataFrame:
    """Return losses at the points of some curves as rows of a study."""
    named = [curves.curves[place] for place in curves.points.curve_index]
    return pd.DataFrame(
        {
            "run": [curve.run for curve in named],
            "step": curves.points.steps.astype(np.int64),
            "domain": [curve.domain for curve in named],
            "loss": loss,
        }
    )


def plan(*runs: Run, bases: tuple[Base, ...] = ()) -> Study:
    """Return a plan for the family."""
    return Study("plan", "general", "target", bases, runs, BLANK, is_plan=True)
