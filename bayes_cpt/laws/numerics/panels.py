"""Sums over many steps of a smooth schedule, taken at few of them: Gauss quadrature of discrete sums.

Over a panel of N steps the nodes and weights are those of the Gram polynomials, orthogonal on the steps
themselves, so that the sum of a polynomial of degree below 2·`NODES` is exact. Nodes lie between steps.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayes_cpt.arrays import Floats

NODES = 8
# Panels have as many steps as a power of 2: each from the shortest to the longest.
SHORTEST, LONGEST = 16, 4096


@dataclass(frozen=True, eq=False)
class Panels:
    """Nodes and weights of panels, one row per length.

    Parameters
    ----------
    steps : ndarray, shape (lengths,)
        Of each panel, rising.
    nodes : ndarray, shape (lengths, nodes)
        Steps, the first of the panel being 1.
    weights : ndarray, shape (lengths, nodes)
        Of the sum over all steps.
    sums_to : ndarray, shape (lengths, nodes, nodes)
        Of the sums up to each node.
    """

    steps: Floats
    nodes: Floats
    weights: Floats
    sums_to: Floats


@lru_cache(maxsize=1)
def panels() -> Panels:
    """Return the panels of all lengths."""
    lengths = SHORTEST * 2 ** np.arange(round(np.log2(LONGEST / SHORTEST)) + 1)
    nodes, weights, sums_to = zip(*[_panel(int(length)) for length in lengths], strict=True)
    return Panels(lengths.astype(np.float64), np.stack(nodes), np.stack(weights), np.stack(sums_to))


def _panel(steps: int) -> tuple[Floats, Floats, Floats]:
    """Return nodes, weights and the matrix of sums up to each node for a panel."""
    order = np.arange(1, NODES)
    beside = 0.5 * order * np.sqrt((steps**2 - order**2) / (4.0 * order**2 - 1.0))
    middle = 0.5 * (steps - 1)
    jacobi = np.diag(np.full(NODES, middle)) + np.diag(beside, 1) + np.diag(beside, -1)
    places, vectors = np.linalg.eigh(jacobi)
    vectors *= np.sign(vectors[0])
    roots = vectors[0] * np.sqrt(steps)
    # The orthonormal polynomials at every step, from their recurrence; then their sums up to each, which
    # are polynomials too. The next polynomial is 0 at the nodes, so that these determine them there.
    every = np.arange(steps, dtype=np.float64)
    polynomials = np.empty((NODES, steps))
    polynomials[0] = steps**-0.5
    polynomials[1] = (every - middle) * polynomials[0] / beside[0]
    for k in range(2, NODES):
        polynomials[k] = (
            (every - middle) * polynomials[k - 1] - beside[k - 2] * polynomials[k - 2]
        ) / beside[k - 1]
    expanded = np.cumsum(polynomials, axis=1) @ polynomials.T
    sums_to = (vectors / roots).T @ expanded.T @ (vectors * roots)
    return places + 1.0, roots**2, sums_to
