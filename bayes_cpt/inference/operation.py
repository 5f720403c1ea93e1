"""The log density in white coordinates as one PyTensor operation: what nutpie compiles."""

import hashlib
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayes_cpt.inference import coordinates
from bayes_cpt.inference.coordinates import unwhiten, unwhitened_slopes

# Of the compiled code that PyTensor keeps: another number with every change of it.
VERSION = int(hashlib.sha256(Path(coordinates.__file__).read_bytes()).hexdigest()[:12], 16)


class WhiteLogDensity(Op):  # type: ignore[misc]
    """Log density, shape (1,), and its gradient by white coordinates, shape (numbers,).

    The inputs are white coordinates, what `bayes_cpt.inference.coordinates.unwhiten` takes beside them, and
    losses and tables of the study (`bayes_cpt.model.likelihood`).

    Parameters
    ----------
    key : str
        Of the law.
    log_likelihoods : function
        Of the law, compiled.
    """

    __props__ = ("key",)

    def __init__(self, key: str, log_likelihoods: Any) -> None:
        self.key, self.log_likelihoods = key, log_likelihoods

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node of some inputs."""
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [pt.vector(dtype="float64"), pt.vector(dtype="float64")])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the outputs (where PyTensor does not compile to Numba)."""
        for storage, output in zip(
            output_storage, log_density_of(self.log_likelihoods)(*inputs), strict=True
        ):
            storage[0] = output

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the density is differentiated, by white coordinates alone."""
        return [[i == 0, False] for i in range(len(node.inputs))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Return the gradient, which is an output already."""
        return [cotangents[0][0] * outputs[1], *(disconnected_type() for _ in inputs[1:])]


@register_funcify_default_op_cache_key(WhiteLogDensity)  # type: ignore[untyped-decorator]
def _numba_white_log_density(op: Any, node: Any, **kwargs: Any) -> Any:
    return log_density_of(op.log_likelihoods), VERSION


def log_density_of(log_likelihoods: Any) -> Any:
    """Return the compiled function of white coordinates, their tables, losses and study of a law."""

    @numba.njit(error_model="numpy", nogil=True)
    def white_log_density(white, given, loss, study):  # type: ignore[no-untyped-def]
        total, values = unwhiten(white, given)
        likelihoods, slopes = log_likelihoods(loss, values, study)
        by_values = np.zeros(values.size)
        for curve in range(likelihoods.size):
            total[0] += likelihoods[curve]
            for k in range(values.size):
                by_values[k] += slopes[curve, k]
        return total, unwhitened_slopes(white, given, by_values)

    return white_log_density
