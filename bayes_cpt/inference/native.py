"""`Density` -> what nutpie calls at every step, without Python: chains then never wait for one another.

Through Python a gradient of a small study costs less than the wait for the interpreter's lock, which one
chain has at a time: four chains on two cores took three times the processor time of one after the other
(docs/benchmarks.md).
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from bayes_cpt.inference.density import Density, prior_density, white_gradient
from bayes_cpt.inference.whitening import Metric
from bayes_cpt.model.compiled.native import NUMBERS, SIZE, call_law
from bayes_cpt.model.compiled.packing import length

type Floats = NDArray[np.float64]

UNSIGNED = types.uint64
# As nutpie calls them: dimensions, position, gradient, log density, data; dimensions, size, position, draw.
DENSITY_SIGNATURE = types.int64(UNSIGNED, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
DRAW_SIGNATURE = types.int64(UNSIGNED, UNSIGNED, NUMBERS, NUMBERS, NUMBERS)
# What nutpie is told: all is well, or the log density is not finite and the step is to be rejected.
DONE, NOT_FINITE = 0, 4
# Numbers that the block of data begins with.
COUNTS = 10


def native_model(density: Density, metric: Metric, start: Callable[[Any], Floats]) -> Any:
    """Return the density in a metric as a model of nutpie, whose only variable is ``z``.

    Parameters
    ----------
    density : Density
    metric : Metric
    start : callable
        Of a seed: white coordinates to start from, shape (dimensions,).
    """
    from nutpie.compile_pymc import CompiledPyMCModel

    size = density.places.size
    return CompiledPyMCModel(
        dims={},
        reparameterized_names=None,
        compiled_logp_func=_log_density,
        compiled_expand_func=_draw,
        initial_point_func=start,
        shared_data={},
        shared_var_keys={},
        user_data=_block(density, metric),
        n_expanded=size,
        shape_info=(["z"], [slice(0, size)], [(size,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=size,
        _shapes={"z": (size,)},
        _coords={},
    )


def _block(density: Density, metric: Metric) -> Floats:
    """Return all that the density needs in one array, integers as they lie in memory."""
    kind, *priors = density.priors
    loss, numbers, places = density.arrays
    curves = length(places, "curve_first")
    floats = [metric.center, metric.factor, *priors, density.template, loss, numbers]
    narrow = np.zeros(places.size + places.size % 2, dtype=np.int32)
    narrow[: places.size] = places
    parts = [np.ascontiguousarray(part, dtype=np.float64).ravel() for part in floats]
    parts += [
        np.array(part, dtype=np.int64).view(np.float64)
        for part in (
            kind,
            density.places,
            density.paces,
            [density.likelihood_address],
            density.pools,
        )
    ]
    parts = [part.ravel() for part in parts]
    parts.append(narrow.view(np.float64))
    counts = [kind.size, density.template.size, loss.size, numbers.size, places.size, curves]
    counts += density.pools.shape
    total = COUNTS + sum(part.size for part in parts)
    return np.concatenate([[total, *counts, density.pace_offset], *parts])


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _evaluate(white, gradient, block):  # type: ignore[no-untyped-def]
    """Fill in the gradient at white coordinates, and return the log density.

    Parameters
    ----------
    white, gradient : ndarray, shape (dimensions,)
    block : ndarray
        From `_block`.
    """
    size, count = int(block[1]), int(block[2])
    points, numbers, places, curves = int(block[3]), int(block[4]), int(block[5]), int(block[6])
    pooled, width, offset, at = int(block[7]), int(block[8]), block[9], COUNTS
    metric_center, at = block[at : at + size], at + size
    factor, at = block[at : at + size * size].reshape((size, size)), at + size * size
    center, at = block[at : at + size], at + size
    spread, at = block[at : at + size], at + size
    lower, at = block[at : at + size], at + size
    upper, at = block[at : at + size], at + size
    template, at = block[at : at + count], at + count
    loss, at = block[at : at + points], at + points
    given, at = block[at : at + numbers], at + numbers
    kind, at = block[at : at + size].view(np.int64), at + size
    among, at = block[at : at + size].view(np.int64), at + size
    paces, at = block[at : at + 3].view(np.int64), at + 3
    address, at = block[at : at + 1].view(np.int64)[0], at + 1
    pools, at = block[at : at + pooled * width].view(np.int64), at + pooled * width
    narrow = block[at : at + (places + 1) // 2].view(np.int32)
    prior, values, position, slope, own = prior_density(
        white, metric_center, factor, kind, center, spread, lower, upper, paces, offset, among, template,
        pools.reshape((pooled, width)),
    )  # fmt: skip
    likelihoods, slopes = np.empty(curves), np.empty((curves, count))
    sizes = np.empty(SIZE, dtype=np.int64)
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = points, count, numbers, places, curves
    call_law(  # type: ignore[call-arg]
        address, loss.ctypes, values.ctypes, given.ctypes, narrow.ctypes, sizes.ctypes,
        likelihoods.ctypes, slopes.ctypes,
    )  # fmt: skip
    gradient[:] = white_gradient(slopes, among, position, slope, own, factor, paces, offset)
    return prior + likelihoods.sum()


@numba.cfunc(DENSITY_SIGNATURE, cache=True, error_model="numpy")
def _log_density(dimensions, position, gradient, total, data):  # type: ignore[no-untyped-def]
    """Fill in gradient and log density at white coordinates."""
    block = carray(data, (int(carray(data, (1,))[0]),))
    slopes = carray(gradient, (dimensions,))
    value = _evaluate(carray(position, (dimensions,)), slopes, block)
    carray(total, (1,))[0] = value
    if not np.isfinite(value) or not np.isfinite(slopes).all():
        return NOT_FINITE
    return DONE


@numba.cfunc(DRAW_SIGNATURE, cache=True)
def _draw(dimensions, size, position, values, data):  # type: ignore[no-untyped-def]
    """Copy white coordinates to a draw."""
    draw, place = carray(values, (size,)), carray(position, (dimensions,))
    for a in range(size):
        draw[a] = place[a]
    return DONE
