"""The likelihood of a compiled law as native code calls it: by its address, with pointers to its arrays."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

# Sizes that `native_likelihood` is given.
SIZE = 5
NUMBERS = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
PLACES = types.CPointer(types.int32)  # type: ignore[no-untyped-call]
SIZES = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
NATIVE_SIGNATURE = types.void(NUMBERS, NUMBERS, NUMBERS, PLACES, SIZES, NUMBERS, NUMBERS)


def packed_log_likelihoods(loss: Any, values: Any, numbers: Any, places: Any) -> Any:
    """Stand for the likelihood of a compiled law, which the generated module defines under this name.

    Parameters
    ----------
    loss, values, numbers, places : ndarray
        As `bayes_cpt.model.compiled.operation.LawLogLikelihood` takes them.
    """
    raise NotImplementedError(
        "native_likelihood runs in the modules that bayes_cpt.model.compiled.compilation writes"
    )


def native_likelihood(loss, values, numbers, places, sizes, totals, slopes):  # type: ignore[no-untyped-def]
    """Fill in the log likelihood of each curve, and its slopes by the values.

    Parameters
    ----------
    loss, values, numbers, places : pointer
        To the arrays that ``packed_log_likelihoods`` takes.
    sizes : pointer
        To how long these four are, and how many curves there are.
    totals, slopes : pointer
        To what is filled in, shape (curves,) and (curves, values).
    """
    count = carray(sizes, (SIZE,))
    curves, width = count[4], count[1]
    every_total, every_slope = packed_log_likelihoods(
        carray(loss, (count[0],)),
        carray(values, (width,)),
        carray(numbers, (count[2],)),
        carray(places, (count[3],)),
    )
    total, slope = carray(totals, (curves,)), carray(slopes, (curves, width))
    for c in range(curves):
        total[c] = every_total[c]
        for k in range(width):
            slope[c, k] = every_slope[c, k]


@intrinsic
def call_law(  # type: ignore[no-untyped-def]
    typing_context, address, loss, values, numbers, places, sizes, totals, slopes
):
    """Call the `native_likelihood` that lies at an address, from compiled code.

    Code compiled once then serves every law: a law that it was linked to would be compiled into it again.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    address : int
        Of the compiled function.
    loss, values, numbers, places, sizes, totals, slopes : ctypes of ndarray
        Its arguments.
    """
    given = (loss, values, numbers, places, sizes, totals, slopes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = [
            context.cast(builder, value, kind, wanted)
            for value, kind, wanted in zip(arguments[1:], given, NATIVE_SIGNATURE.args, strict=True)
        ]
        function = ir.FunctionType(ir.VoidType(), [pointer.type for pointer in pointers])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(address, *given), generate
