"""True laws of simulated studies: the coefficients that the paper prints, with spread.

`COEFFICIENTS` of `printed`: the Knowledge-Pile and the Pile-of-Law rows of Fig. 3 and Fig. 11.
What the paper does not print is drawn from where practice has it: replay enters by factors from the range
of the priors, residuals have the sizes of the printed R2.
"""

import numpy as np
from printed import COEFFICIENTS, MEMORY, law_parameters

from bayes_cpt.arrays import Floats
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.setup import BoundModel

type Parameters = dict[str, Floats]

# Sd of the logarithm, coefficient by coefficient and validation set by validation set.
SPREAD = 0.2
# Of L0, which no decision hangs on; of C2/C1, which agree in every printed fit; of what residuals come to.
FLOOR_SPREAD, RATIO_SPREAD, RESIDUAL_SPREAD = 0.02, 0.1, 0.25
# General and target.
RESIDUALS = {
    "fluctuation_pt": (0.006, 0.008),
    "fluctuation_cpt": (0.005, 0.006),
    "fluctuation_floor": (0.25, 0.25),
    "fluctuation_memory": (0.02, 0.02),
    "misfit_pt": (0.005, 0.007),
    "misfit_cpt": (0.008, 0.010),
    "offset_pt": (0.010, 0.015),
}
# The printed law has one memory, and errs beyond the studied steps as before them. Bases keep their offset
# on general data and lose it on target data.
UNPRINTED = {
    "offset_kept": (0.7, 0.2),
    "offset_time": (0.03, 0.03),
    "misfit_replay": (0.7, 0.7),
    "extrapolation_cpt": (0.0, 0.0),
}
# Drawn from their priors, as far as a form has them: how replay enters.
REPLAY = (
    "gain_replay",
    "replay_onset",
    "replay_quarter",
    "saturation_exponent",
    "replay_rate",
    "replay_curvature",
)


# As the fit of cpt-lab has them: medians of the posterior, general and target.
LAB_SIZES = {
    "misfit_cpt": (0.039, 0.019),
    "misfit_replay": (0.95, 0.7),
    "fluctuation_cpt": (0.0145, 0.017),
    "fluctuation_floor": (0.19, 0.18),
}


def at_the_size_of_the_lab(truth: Parameters) -> Parameters:
    """Return a true law whose misfit and fluctuation in CPT have the sizes that runs of the lab show."""
    return truth | {name: np.array([own]) for name, own in LAB_SIZES.items()}


def draw_truth(frame: BoundModel, shift: str, generator: np.random.Generator) -> Parameters:
    """Return the model's parameters of one true law.

    Returns
    -------
    dict of str to ndarray, shape (1, ...)
    """

    def spread(size: float, *shape: int) -> Floats:
        return np.exp(size * generator.standard_normal(shape))

    floor, size, alpha, gain_pt, gain_cpt, limit, rate, beta = np.array(COEFFICIENTS[shift]).T
    floor, ratio = floor * spread(FLOOR_SPREAD, 2), gain_cpt / gain_pt * spread(RATIO_SPREAD, 2)
    size, alpha, gain_pt, limit, rate, beta = (
        own * spread(SPREAD, 2) for own in (size, alpha, gain_pt, limit, rate, beta)
    )
    columns = (floor, size, alpha, gain_pt, ratio * gain_pt, limit, rate, beta)
    found = law_parameters(columns, frame.reference) | {"memory": MEMORY * spread(SPREAD)[()]}
    found |= {name: np.array(own) for name, own in UNPRINTED.items()}
    found |= {name: np.array(own) * spread(RESIDUAL_SPREAD, 2) for name, own in RESIDUALS.items()}
    found = {name: np.asarray(own)[None] for name, own in found.items()}
    priors = draw_priors(frame, 1, int(generator.integers(2**31)))
    fixed = isinstance(frame.spec.priors["shift_exponent"].every, Fixed)
    drawn = (*REPLAY, "shift_rate", "shift_exponent") if fixed else REPLAY
    found |= {name: priors[name] for name in drawn if name in priors}
    return {name: found[name] for name in priors}
