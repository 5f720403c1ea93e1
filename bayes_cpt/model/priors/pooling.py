"""How much several targets, or batches, share: the joint prior of their parameters.

On the scale on which its prior is normal, and in sds of that prior, a parameter of target (or batch) k is
``z_k = sqrt(1 - v)·m + sqrt(v)·e_k``, with m what all share and e_k its own, standard normal both: sqrt(v)
is the spread of single ones about their mean, a parameter itself. With m integrated out the z_k are normal
with correlation ``1 - v``. Each alone has the prior that a single one has, and one without runs adds
nothing to what is known of the others (docs/targets.md, docs/batch.md).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.priors.families import Distribution
from bayes_cpt.model.setup import Frame

# The potential of a model by which its targets, or batches, are alike.
ALIKE = "alike"


def log_alikeness(standard: Any, spread: Any, xp: Any) -> Any:
    """Return the log density of what targets or batches have of a parameter, over that of independent ones.

    Parameters
    ----------
    standard : array, shape (..., members)
        z, in sds of the prior.
    spread : array, shape (...)
        Of single ones, 0 to 1.
    xp : module
        `numpy` or `pytensor.tensor`.

    Examples
    --------
    >>> float(log_alikeness(np.array([0.3, -1.0]), np.array(1.0), np)) == 0.0
    True
    """
    count = standard.shape[-1]
    unshared = spread**2
    shared = unshared + count * (1.0 - unshared)
    total, square = standard.sum(axis=-1), (standard**2).sum(axis=-1)
    form = (square - (1.0 - unshared) / shared * total**2) / unshared
    return -0.5 * ((count - 1) * xp.log(unshared) + xp.log(shared) + form - square)


def standardised(frame: Frame, name: str, values: Any, places: list[int], xp: Any = np) -> Any:
    """Return what is pooled of a parameter in sds of its prior, shape (..., places).

    Parameters
    ----------
    frame : Frame
    name : str
        One of `Frame.pooled`.
    values : array, shape (..., members of its coordinate)
    places : list of int
        One of `Frame.pools`.
    xp : module, optional
        `numpy` or `pytensor.tensor`.
    """
    prior = _prior(frame, name, places)
    return (prior.to_scale(values[..., places], xp) - prior.center) / prior.spread


def _prior(frame: Frame, name: str, places: list[int]) -> Distribution:
    member = frame.members(frame.parameters()[name].dims)[places[0]]
    return frame.spec.priors[name].of(frame.role(member))


def log_alikenesses(frame: Frame, parameters: Mapping[str, Any], xp: Any = np) -> list[Any]:
    """Return `log_alikeness` of every pooled parameter, shape (...) each.

    Parameters
    ----------
    frame : Frame
    parameters : mapping of str to array, shape (..., members)
    xp : module, optional
        `numpy` or `pytensor.tensor`.
    """
    spreads, densities = parameters[frame.spread], []
    for place, name in enumerate(frame.pooled):
        parts = [
            log_alikeness(
                standardised(frame, name, parameters[name], pool, xp), spreads[..., place], xp
            )
            for pool in frame.pools(name)
        ]
        densities.append(sum(parts[1:], start=parts[0]))
    return densities


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
        for places in frame.pools(name):
            prior = _prior(frame, name, places)
            spread = drawn[frame.spread][:, place, None]
            each = standardised(frame, name, drawn[name], places)
            shared = generator.standard_normal((len(each), 1))
            standard = np.sqrt(1.0 - spread**2) * shared + spread * each
            drawn[name][:, places] = prior.from_scale(prior.center + prior.spread * standard)


def draw_further(standard: Floats, spread: Floats, shared: Floats, fresh: Floats) -> Floats:
    """Return one more of a population in each draw, given what the known ones have, shape (draws,).

    What all share is normal given the known ones; a further one lies about it as they do.

    Parameters
    ----------
    standard : ndarray, shape (draws, known)
        z of the known ones.
    spread : ndarray, shape (draws,)
    shared, fresh : ndarray, shape (draws,)
        Standard normal numbers: for what all share, and for its own.

    Examples
    --------
    >>> alike = np.full((1, 3), 0.7)
    >>> draw_further(alike, np.array([1e-6]), np.zeros(1), np.ones(1)).round(4)
    array([0.7])
    """
    variance = spread**2
    weight = np.sqrt(1.0 - variance)
    precision = 1.0 + standard.shape[1] * weight**2 / variance
    mean = weight / variance * standard.sum(axis=1) / precision
    return np.asarray(weight * (mean + shared / np.sqrt(precision)) + spread * fresh)


def further(
    frame: Frame, name: str, values: Floats, spreads: Floats, shared: Floats, fresh: Floats
) -> Floats:
    """Return a pooled parameter of one more member in each draw, shape (draws, populations).

    Parameters
    ----------
    frame : Frame
        That knows the present members.
    name : str
        One of `Frame.pooled`.
    values : ndarray, shape (draws, members)
    spreads : ndarray, shape (draws, pooled)
    shared, fresh : ndarray, shape (draws, populations)
        Standard normal numbers, as for `draw_further`.
    """
    drawn, spread = [], spreads[:, frame.pooled.index(name)]
    for k, places in enumerate(frame.pools(name)):
        prior = _prior(frame, name, places)
        known = standardised(frame, name, values, places)
        standard = draw_further(known, spread, shared[:, k], fresh[:, k])
        drawn.append(prior.from_scale(prior.center + prior.spread * standard))
    return np.stack(drawn, axis=1)
