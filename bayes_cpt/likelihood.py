"""The likelihood of curves as a PyTensor operation: O(points), its gradient in the same pass.

The residual model of `bayes_cpt.residuals` needs a recursion along each curve and a small elimination
per curve. As a graph of elementary operations that compiles for minutes; as one operation with its
derivative written out it compiles in seconds and runs several times faster.
"""

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayes_cpt.residuals import ResidualDesign, Scales


@numba.njit(cache=True, error_model="numpy")
def curve_log_likelihoods(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
):
    """Return the log likelihood of each curve and its derivatives by the five varying inputs.

    Along a curve, ``white_i = (scaled_i - rho_i·scaled_{i-1})/q_i`` turns residual, offset column and
    misfit columns (divided by the fluctuation's sd) into independent ones. With p and P the products
    of the white columns with the white residual and with each other, integrating out the standard
    normal weights leaves the square ``white·white - p'(1 + P)^-1 p`` and the factor ``det(1 + P)``.
    """
    points, knots = ramps.shape
    size = knots + 1
    curves = first.shape[0]
    value = np.zeros(curves)
    d_residual = np.zeros(points)
    d_fluctuation = np.zeros(points)
    d_memory = np.zeros(points)
    d_misfit = np.zeros(points)
    d_offset = np.zeros(points)
    for curve in range(curves):
        start, stop = first[curve], last[curve]
        count = stop - start
        scaled = np.zeros((count, size + 1))
        white = np.zeros((count, size + 1))
        rho = np.zeros(count)
        spread = np.zeros(count)
        total = -0.5 * count * np.log(2.0 * np.pi)
        for k in range(count):
            i = start + k
            scaled[k, 0] = residual[i] / fluctuation[i]
            scaled[k, 1] = offset[i] * floating[i] / fluctuation[i]
            for j in range(knots):
                scaled[k, 2 + j] = misfit[i] * ramps[i, j] / fluctuation[i]
            rho[k] = np.exp(-gap[i] / memory[i])
            spread[k] = np.sqrt(-np.expm1(-2.0 * gap[i] / memory[i]))
            total -= np.log(fluctuation[i] * spread[k])
            carried = rho[k] * follows[i]
            for j in range(size + 1):
                before = scaled[k - 1, j] if k > 0 else 0.0
                white[k, j] = (scaled[k, j] - carried * before) / spread[k]
        precision = np.eye(size)
        projection = np.zeros(size)
        for k in range(count):
            for a in range(size):
                projection[a] += white[k, 0] * white[k, 1 + a]
                for b in range(a + 1):
                    precision[a, b] += white[k, 1 + a] * white[k, 1 + b]
            total -= 0.5 * white[k, 0] ** 2
        # Cholesky factor in place, then the inverse: the matrix is a handful of rows.
        factor = np.zeros((size, size))
        for a in range(size):
            for b in range(a + 1):
                left = precision[a, b]
                for c in range(b):
                    left -= factor[a, c] * factor[b, c]
                factor[a, b] = np.sqrt(left) if a == b else left / factor[b, b]
            total -= np.log(factor[a, a])
        root = np.zeros((size, size))
        for a in range(size):
            root[a, a] = 1.0 / factor[a, a]
            for b in range(a):
                left = 0.0
                for c in range(b, a):
                    left -= factor[a, c] * root[c, b]
                root[a, b] = left / factor[a, a]
        inverse = np.zeros((size, size))
        for a in range(size):
            for b in range(size):
                for c in range(max(a, b), size):
                    inverse[a, b] += root[c, a] * root[c, b]
        weights = np.zeros(size)
        for a in range(size):
            for b in range(size):
                weights[a] += inverse[a, b] * projection[b]
            total += 0.5 * projection[a] * weights[a]
        value[curve] = total

        d_scaled = np.zeros((count, size + 1))
        d_white = np.zeros(size + 1)
        for k in range(count):
            i = start + k
            innovation = white[k, 0]
            for a in range(size):
                innovation -= weights[a] * white[k, 1 + a]
            d_white[0] = -innovation
            for a in range(size):
                d_white[1 + a] = weights[a] * innovation
                for b in range(size):
                    d_white[1 + a] -= inverse[a, b] * white[k, 1 + b]
            carried = rho[k] * follows[i]
            d_rho = 0.0
            d_spread = -1.0 / spread[k]
            for j in range(size + 1):
                d_scaled[k, j] += d_white[j] / spread[k]
                d_spread -= d_white[j] * white[k, j] / spread[k]
                if k > 0:
                    d_scaled[k - 1, j] -= carried * d_white[j] / spread[k]
                    d_rho -= follows[i] * d_white[j] * scaled[k - 1, j] / spread[k]
            d_rho -= d_spread * rho[k] / spread[k]
            if gap[i] < np.inf:
                d_memory[i] = d_rho * rho[k] * gap[i] / memory[i] ** 2
        for k in range(count):
            i = start + k
            d_residual[i] = d_scaled[k, 0] / fluctuation[i]
            d_offset[i] = d_scaled[k, 1] * floating[i] / fluctuation[i]
            d_fluctuation[i] = -1.0 / fluctuation[i]
            for j in range(size + 1):
                d_fluctuation[i] -= d_scaled[k, j] * scaled[k, j] / fluctuation[i]
            for j in range(knots):
                d_misfit[i] += d_scaled[k, 2 + j] * ramps[i, j] / fluctuation[i]
    return value, d_residual, d_fluctuation, d_memory, d_misfit, d_offset


@numba.njit(cache=True, error_model="numpy")
def total_log_likelihood(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
):
    """Return the sum of `curve_log_likelihoods` over the curves, and its derivatives."""
    values, d_residual, d_fluctuation, d_memory, d_misfit, d_offset = curve_log_likelihoods(
        residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
    )
    total = np.asarray(values.sum())
    return total, d_residual, d_fluctuation, d_memory, d_misfit, d_offset


class CurveLogLikelihood(Op):  # type: ignore[misc]
    """`total_log_likelihood` as an operation: the first output is the value, the others its slopes."""

    __props__ = ()
    varying = 5

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node; the inputs are those of `total_log_likelihood`, in order."""
        variables = [pt.as_tensor_variable(value) for value in inputs]
        slopes = [pt.vector(dtype="float64") for _ in range(self.varying)]
        return Apply(self, variables, [pt.scalar(dtype="float64"), *slopes])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the outputs in Python (where PyTensor does not compile to Numba)."""
        for storage, output in zip(output_storage, total_log_likelihood(*inputs), strict=True):
            storage[0] = output

    def infer_shape(self, node: Apply, shapes: Any) -> list[Any]:
        """Return the shapes of the outputs from those of the inputs."""
        return [()] + [shapes[0]] * self.varying

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the varying inputs are differentiated."""
        return [[i < self.varying] * (1 + self.varying) for i in range(len(node.inputs))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Return the gradient: the slopes are outputs already."""
        slopes = [cotangents[0] * slope for slope in outputs[1:]]
        return slopes + [disconnected_type() for _ in inputs[self.varying :]]


@register_funcify_default_op_cache_key(CurveLogLikelihood)  # type: ignore[untyped-decorator]
def _numba_curve_log_likelihood(op: Any, node: Any, **kwargs: Any) -> Any:
    return total_log_likelihood


def log_likelihood(residual: Any, design: ResidualDesign, scales: Scales) -> Any:
    """Return the log likelihood of all curves under the residual model, a scalar.

    Parameters
    ----------
    residual : PyTensor vector, shape (points,)
        Measured loss minus the law's curve.
    design : ResidualDesign
        Of these points.
    scales : Scales
        Of shape (points,).
    """
    outputs = CurveLogLikelihood()(
        residual,
        scales.fluctuation,
        scales.memory,
        scales.misfit,
        scales.offset,
        design.gap,
        design.follows,
        design.ramps,
        design.floating,
        design.first,
        design.last,
    )
    return outputs[0]
