"""How much several targets share: the joint prior of their parameters (docs/targets.md).

On the scale on which its prior is normal, and in sds of that prior, a parameter of target k is
``z_k = sqrt(1 - v)·m + sqrt(v)·e_k``, with m what all targets share and e_k its own, standard normal both:
sqrt(v) is the spread of single targets about their mean, a parameter itself. With m integrated out the z_k
are normal with correlation ``1 - v``. Each alone has the prior that a single target has, and a target
without runs adds nothing to what is known of the others.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.model.setup import Frame

type Floats = NDArray[np.float64]

SPREAD = "target_spread"
# The potential of a model by which its targets are alike.
ALIKE = "alike_targets"


def log_alikeness(standard: Any, spread: Any, xp: Any) -> Any:
    """Return the log density of what targets have of a parameter, over that of independent ones.

    Parameters
    ----------
    standard : array, shape (..., targets)
        z, in sds of the prior.
    spread : array, shape (...)
        Of single targets, 0 to 1.
    xp : module
        `numpy` or `pytensor.tensor`.

    Examples
    --------
    >>> float(log_alikeness(np.array([0.3, -1.0]), np.array(1.0), np)) == 0.0
    True
    """
    count = standard.shape[-1]
    own = spread**2
    shared = own + count * (1.0 - own)
    total, square = standard.sum(axis=-1), (standard**2).sum(axis=-1)
    form = (square - (1.0 - own) / shared * total**2) / own
    return -0.5 * ((count - 1) * xp.log(own) + xp.log(shared) + form - square)


def standardised(frame: Frame, name: str, values: Any, xp: Any = np) -> Any:
    """Return what targets have of a pooled parameter in sds of its prior, shape (..., targets).

    Parameters
    ----------
    frame : Frame
    name : str
        One of `Frame.pooled`.
    values : array, shape (..., members of its coordinate)
    xp : module, optional
        `numpy` or `pytensor.tensor`.
    """
    prior = frame.spec.priors[name].of("target")
    own = values[..., frame.target_places(frame.parameters()[name].dims)]
    return (prior.to_scale(own, xp) - prior.center) / prior.spread


def log_alikenesses(frame: Frame, parameters: Mapping[str, Floats]) -> Floats:
    """Return `log_alikeness` of every pooled parameter in draws, shape (draws, pooled).

    Parameters
    ----------
    frame : Frame
    parameters : mapping of str to ndarray, shape (draws, members) or (draws,)
    """
    spreads = parameters[SPREAD]
    found = [
        log_alikeness(standardised(frame, name, parameters[name]), spreads[:, place], np)
        for place, name in enumerate(frame.pooled)
    ]
    return np.stack(found, axis=1)


def draw_alike(frame: Frame, drawn: dict[str, Floats], generator: np.random.Generator) -> None:
    """Replace independent draws of pooled parameters by such as share their spread, in place.

    Parameters
    ----------
    frame : Frame
    drawn : dict of str to ndarray, shape (draws, members)
        Of every parameter.
    generator : numpy.random.Generator
    """
    for place, name in enumerate(frame.pooled):
        prior = frame.spec.priors[name].of("target")
        spread = drawn[SPREAD][:, place, None]
        own = standardised(frame, name, drawn[name])
        shared = generator.standard_normal((len(own), 1))
        standard = np.sqrt(1.0 - spread**2) * shared + spread * own
        places = frame.target_places(frame.parameters()[name].dims)
        drawn[name][:, places] = prior.from_scale(prior.center + prior.spread * standard)
