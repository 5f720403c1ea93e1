"""Posteriors of one draw: the coefficients that the paper prints."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.trees import build_tree
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study

PEAK = 2e-4
MOMENTUM = 0.999
MEMORY = 1000.0
MODEL = "cpt-replay-printed"
# L0, A, alpha, C1, C2, B, E, beta on general and target data.
COEFFICIENTS = {
    # Fig. 3: FineWeb to Knowledge-Pile, a moderate shift.
    "moderate": (
        (3.057, 0.490, 0.497, 0.299, 0.298, 0.366, 28.0, 0.189),
        (3.024, 0.412, 0.677, 0.278, 0.324, -0.666, 5662.0, 0.146),
    ),
    # Fig. 11: FineWeb to Pile-of-Law.
    "strong": (
        (3.064, 0.482, 0.511, 0.294, 0.264, 1.353, 37.0, 0.262),
        (2.978, 0.485, 0.701, 0.274, 0.298, -1.409, 383.0, 0.368),
    ),
    # Fig. 12: Knowledge-Pile mixed with FineWeb, the one mix whose coefficients are all printed.
    "weak": (
        (3.068, 0.480, 0.518, 0.294, 0.269, 0.046, 3.0, 0.915),
        (3.020, 0.441, 0.696, 0.273, 0.275, -0.632, 5046.0, 0.145),
    ),
}


def pretraining(steps: int = 40_000, loss_potential: float = 1.0) -> Schedule:
    """Return PT at the paper's peak whose last fifth anneals linearly to a share of it."""
    decay = steps // 5
    return constant(steps - decay, PEAK) + linear(decay, PEAK, loss_potential * PEAK)


def study(run: Schedule | None = None, base: Schedule | None = None) -> Study:
    """Return a study of one CPT run on one base, with losses that nothing depends on."""
    before = base or pretraining()
    own = Run("run", "cpt", run or cosine(10_000, PEAK), base="base", replay=0.0)
    rows = [("run", own.schedule.steps, domain, 3.0) for domain in ("general", "target")]
    return Study(
        "printed",
        "general",
        "target",
        (Base("base", before.steps, before),),
        (own,),
        pd.DataFrame(rows, columns=["run", "step", "domain", "loss"]),
    )


def law_parameters(columns: Sequence[Floats] | Floats, reference: Reference) -> dict[str, Floats]:
    """Return what is sampled of a printed law, replay and memory apart.

    Parameters
    ----------
    columns : eight ndarrays, shape (domains,)
        L0, A, alpha, C1, C2, B, E, beta.
    reference : Reference
    """
    floor, size, alpha, gain_pt, gain_cpt, limit, rate, beta = columns
    power = size * reference.forward_pt**-alpha
    progress = rate * reference.forward_cpt
    shift = np.abs(limit) * (1.0 - (1.0 + progress) ** -beta)
    return {
        "reference_loss": floor + power,
        "reference_slope": alpha * power,
        "exponent": alpha,
        "annealing_gain": gain_pt * reference.learning_rate * MEMORY,
        "gain_ratio": gain_cpt / gain_pt,
        "shift_share": shift / (floor + power),
        "shift_rate": progress,
        "shift_exponent": beta,
    }


@cache
def printed_posterior(shift: str) -> Posterior:
    """Return a posterior that is one set of printed coefficients."""
    fitted = study()
    spec = read_spec(MODEL)
    frame = build_setup(spec, fitted).frame
    values = law_parameters(np.array(COEFFICIENTS[shift]).T, frame.reference) | {
        "memory": np.array(MEMORY),
        "gain_replay": np.zeros(2),
        # Not printed, and without effect where there is no replay.
        "replay_curvature": np.ones(2),
        "error": np.full(2, 0.01),
    }
    draws = {name: value[None, None] for name, value in values.items()}
    statistics = {"diverging": np.zeros((1, 1), dtype=bool)}
    tree = build_tree(frame, fitted, draws, statistics, seed=0)
    return Posterior(tree, fitted, frame)


def stepwise_losses(
    coefficients: tuple[float, ...], before: Schedule, schedule: Schedule
) -> Floats:
    """Return Eq. 4 at steps 0, 1, ... of a CPT run, summed step by step in plain NumPy."""
    floor, size, alpha, gain_pt, gain_cpt, limit, rate, beta = coefficients
    rates = before.learning_rates()
    annealing_pt, last = _annealing(rates, float(rates[0])), float(rates[-1])
    forward = np.concatenate([[0.0], np.cumsum(schedule.learning_rates())])
    annealing = np.concatenate([[0.0], _annealing(schedule.learning_rates(), last)])
    return np.asarray(
        floor
        + size * (rates.sum() + forward) ** -alpha
        - gain_pt * annealing_pt[-1]
        - gain_cpt * annealing
        + limit * (1.0 - (1.0 + rate * forward) ** -beta)
    )


def _annealing(rates: Floats, before: float) -> Floats:
    """Return S2 after each step, one step at a time."""
    areas, memory, area = np.empty(rates.size), 0.0, 0.0
    for i, rate in enumerate(rates.tolist()):
        memory = MOMENTUM * memory + (before - rate)
        area, before = area + memory, rate
        areas[i] = area
    return areas
