"""The law and the likelihood of its curves as one PyTensor operation, with its gradient.

As a graph of elementary operations law and likelihood compile for minutes; as one operation, whose code is
generated from the law's terms and compiled once per machine, the model compiles in seconds.
"""

from functools import cached_property
from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayes_cpt.model.compiled.compilation import CompiledLaw, compiled_law, law_key
from bayes_cpt.model.spec import ModelSpec

# Place of the values among the inputs: what the likelihood is differentiated by.
VALUES = 1


class LawLogLikelihood(Op):  # type: ignore[misc]
    """Log likelihood of each curve, shape (curves,), and its slopes, shape (curves, values).

    The first input holds the measured losses, the second the values of the law's parameters, in the order
    of `bayes_cpt.model.elements.elements`; the others are the study's arrays of numbers and places, see
    `bayes_cpt.model.compiled.packing.packed`.

    Parameters
    ----------
    spec : ModelSpec
    roles : tuple of str
        Of the validation sets.
    """

    __props__ = ("key",)

    def __init__(self, spec: ModelSpec, roles: tuple[str, ...]) -> None:
        self.spec, self.roles = spec, roles
        self.key = law_key(spec, roles)

    @cached_property
    def law(self) -> CompiledLaw:
        """The law, compiled when it is first evaluated: a model may be looked at without."""
        return compiled_law(self.spec, self.roles)

    def __reduce__(self) -> Any:
        """Be made anew in another process, where the law lies elsewhere."""
        return LawLogLikelihood, (self.spec, self.roles)

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node of some inputs.

        Parameters
        ----------
        *inputs : variables or arrays
            In the order above.
        """
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [pt.vector(dtype="float64"), pt.matrix(dtype="float64")])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the outputs (where PyTensor does not compile to Numba).

        Parameters
        ----------
        node : Apply
        inputs : list of ndarray
        output_storage : list of lists
            What takes the outputs.
        """
        for storage, output in zip(output_storage, self.law.log_likelihoods(*inputs), strict=True):
            storage[0] = output

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the likelihood is differentiated, by the values alone.

        Parameters
        ----------
        node : Apply
        """
        return [[i == VALUES, False] for i in range(len(node.inputs))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Return the gradient: the slopes are outputs already.

        Parameters
        ----------
        inputs, outputs : list of variables
            Of the node.
        cotangents : list of variables
            Slopes by the outputs.
        """
        # A sum compiles faster than a product of matrices.
        slopes = (cotangents[0][:, None] * outputs[1]).sum(axis=0)
        return [slopes if i == VALUES else disconnected_type() for i in range(len(inputs))]


@register_funcify_default_op_cache_key(LawLogLikelihood)  # type: ignore[untyped-decorator]
def _numba_law_log_likelihood(op: Any, node: Any, **kwargs: Any) -> Any:
    return op.law.function, int(op.key, 16)
