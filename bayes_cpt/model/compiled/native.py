"""Calls of compiled code by its address: what is compiled once then serves every law.

Code that a law were linked to would be compiled into it again. A law is known by the address of its record:
the addresses of the kernel and of its own equations, then the tables by which the kernel reads these.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from bayes_cpt.jit import numba
from bayes_cpt.model.compiled.packing import COUNTED, KEYS, SIGNATURE

# Sizes that `native_likelihood` is given.
SIZE = 6
# What a record begins with: two addresses, then the sizes of the tables that follow.
KERNEL, EQUATIONS, DOMAINS, PARAMETERS, KINDS, SLOPES, HEAD = range(7)
PACES = 4
NUMBERS = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
PLACES = types.CPointer(types.int32)  # type: ignore[no-untyped-call]
SIZES = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
INTEGER = types.int64
NATIVE_SIGNATURE = types.void(INTEGER, NUMBERS, NUMBERS, NUMBERS, PLACES, SIZES, NUMBERS, NUMBERS)
EQUATIONS_SIGNATURE = types.void(INTEGER, *[NUMBERS] * 7, *[INTEGER] * 3)


def record_of(
    kernel: int, equations: int, parameters: Any, outputs: Any, inputs: Any, paces: Any
) -> Any:
    """Return the record of a law, shape (numbers,).

    Parameters
    ----------
    kernel, equations : int
        Addresses of `native_likelihood` and of the law's own code.
    parameters, outputs, inputs, paces : ndarray of int
        The tables of `bayes_cpt.model.compiled.kernels.law_log_likelihoods`.
    """
    head = [kernel, equations, *parameters.shape, *outputs.shape]
    tables = (parameters, outputs, inputs, paces)
    return np.concatenate([head, *(table.ravel() for table in tables)]).astype(np.int64)


@intrinsic
def call_law(typing_context, law, place, arguments):  # type: ignore[no-untyped-def]
    """Call the function whose address stands at a place of a law's record, from compiled code.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    law : int
        Address of the record.
    place : int
        `KERNEL` or `EQUATIONS`.
    arguments : tuple of int and ndarray
        Of the function, which takes 64-bit integers, and the first member of each array.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = []
        for index, kind in enumerate(arguments):
            value = builder.extract_value(values[2], index)
            if isinstance(kind, types.Array):
                given.append(context.make_array(kind)(context, builder, value).data)
            else:
                given.append(context.cast(builder, value, kind, INTEGER))
        record = builder.inttoptr(values[0], cgutils.intp_t.as_pointer())
        address = builder.load(builder.gep(record, [values[1]]))
        function = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(builder.inttoptr(address, function.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(INTEGER, INTEGER, arguments), generate


@intrinsic
def pointer_to(typing_context, address):  # type: ignore[no-untyped-def]
    """Return a pointer to the integers at an address, from compiled code.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    address : int
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.intp_t.as_pointer())

    return SIZES(INTEGER), generate


@intrinsic
def address_of(typing_context, symbol):  # type: ignore[no-untyped-def]
    """Return the address that LLVM knows by a name, from compiled code.

    Code that is kept on disk then holds the name: an address is another one in every process.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    symbol : str
        Literal.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        name, module = symbol.literal_value, builder.module
        known = module.globals.get(name) or ir.GlobalVariable(module, cgutils.intp_t, name)
        return builder.ptrtoint(known, cgutils.intp_t)

    return INTEGER(symbol), generate


@numba.njit((INTEGER, *SIGNATURE), nogil=True, cache=True)
def log_likelihoods(law, loss, values, numbers, places):  # type: ignore[no-untyped-def]
    """Return the log likelihood of each curve under a law, and its slopes, shape (curves, values).

    Parameters
    ----------
    law : int
        Address of its record.
    loss, values, numbers, places : ndarray
        As `bayes_cpt.model.compiled.operation.LawLogLikelihood` takes them.
    """
    curves = np.int64(places[KEYS * COUNTED + 1])
    totals, slopes = np.empty(curves), np.empty((curves, values.size))
    sizes = np.array([loss.size, values.size, numbers.size, places.size, curves, values.size])
    call_law(law, KERNEL, (law, loss, values, numbers, places, sizes, totals, slopes))  # type: ignore[call-arg]
    return totals, slopes


@numba.njit((INTEGER, SIGNATURE[0], types.float64[:, ::1], *SIGNATURE[2:]), nogil=True, cache=True)
def log_likelihoods_of_draws(law, loss, draws, numbers, places):  # type: ignore[no-untyped-def]
    """Return the log likelihood of each curve under a law at each draw, shape (draws, curves).

    Parameters
    ----------
    law, loss, numbers, places
        As in `log_likelihoods`.
    draws : ndarray, shape (draws, values)
    """
    curves = np.int64(places[KEYS * COUNTED + 1])
    totals, slopes = np.empty((draws.shape[0], curves)), np.empty((curves, 0))
    sizes = np.array([loss.size, draws.shape[1], numbers.size, places.size, curves, 0])
    for draw in range(draws.shape[0]):
        given = (law, loss, draws[draw], numbers, places, sizes, totals[draw], slopes)
        call_law(law, KERNEL, given)  # type: ignore[call-arg]
    return totals


def packed_log_likelihoods(  # type: ignore[no-untyped-def]
    law, tables, loss, values, numbers, places, totals, slopes
):
    """Stand for the kernel that unpacks its arrays, which the generated module defines under this name.

    Parameters
    ----------
    law, tables, loss, values, totals, slopes : int, tuple or ndarray
        As `bayes_cpt.model.compiled.kernels.law_log_likelihoods` takes them.
    numbers, places : ndarray
        From `bayes_cpt.model.compiled.packing.packed`.
    """
    raise NotImplementedError(
        "packed_log_likelihoods runs in the module that bayes_cpt.model.compiled.compilation writes"
    )


def native_likelihood(law, loss, values, numbers, places, sizes, totals, slopes):  # type: ignore[no-untyped-def]
    """Fill in the log likelihood of each curve, and its slopes by the values.

    Parameters
    ----------
    law : int
        Address of its record.
    loss, values, numbers, places : pointer
        To the arrays that `log_likelihoods` takes.
    sizes : pointer
        To how long these four are, how many curves there are, and how many slopes are wanted of each: one
        for each value, or none.
    totals, slopes : pointer
        To what is filled in, shape (curves,) and (curves, slopes).
    """
    count = carray(sizes, (SIZE,))
    record = carray(pointer_to(law), (HEAD,))  # type: ignore[call-arg]
    domains, width = record[DOMAINS], record[PARAMETERS]
    kinds, outputs = record[KINDS], record[SLOPES]
    first = HEAD + domains * width
    second = first + kinds * outputs
    third = second + kinds * outputs
    record = carray(pointer_to(law), (third + PACES,))
    tables = (
        record[HEAD:first].reshape((domains, width)),
        record[first:second].reshape((kinds, outputs)),
        record[second:third].reshape((kinds, outputs)),
        record[third:],
    )
    packed_log_likelihoods(
        law,
        tables,
        carray(loss, (count[0],)),
        carray(values, (count[1],)),
        carray(numbers, (count[2],)),
        carray(places, (count[3],)),
        carray(totals, (count[4],)),
        carray(slopes, (count[4], count[5])),
    )
