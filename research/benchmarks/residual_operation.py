"""The likelihood of curves as a PyTensor operation, for the model in PyMC.

As a graph of elementary operations the recursions of `bayes_cpt.model.compiled.likelihood` compile for
minutes; as one operation with its derivative written out they compile in seconds.
"""

import zlib
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayes_cpt.model.compiled import likelihood
from bayes_cpt.model.compiled.elimination import COMPILED
from bayes_cpt.model.compiled.likelihood import curve_log_likelihoods
from bayes_cpt.model.residuals import ResidualDesign, Scales

# PyTensor keeps what it compiled on disk: not beyond a change of this code.
SOURCE = zlib.crc32(Path(likelihood.__file__).read_bytes())


@numba.njit(**COMPILED)
def total_log_likelihood(*arguments):  # type: ignore[no-untyped-def]
    """Return the sum of `curve_log_likelihoods` over the curves, and its derivatives."""
    values, d_residual, d_fluctuation, d_memory, d_misfit, d_offset = curve_log_likelihoods(
        *arguments
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
    return total_log_likelihood, SOURCE


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
        *design.for_likelihood(),
    )
    return outputs[0]
