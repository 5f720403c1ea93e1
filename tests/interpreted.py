"""Models without compilation: for a function that a test calls a few times."""

import re
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from pytensor.compile.mode import Mode

from bayes_cpt.model.compiled import compilation, kernels, packing
from bayes_cpt.model.compiled.packing import packed
from bayes_cpt.model.elements import elements
from bayes_cpt.model.likelihood_data import likelihood_data
from bayes_cpt.model.setup import Setup

# PyTensor as it is written.
INTERPRETED = Mode(linker="py", optimizer=None)


def generated_likelihoods(setup: Setup, parameters: dict[str, np.ndarray]) -> tuple[Any, Any]:
    """Return what the code generated for a law gives, run as plain Python.

    Log likelihoods, shape (draws, curves), and their slopes, shape (draws, curves, elements).
    """
    source = compilation._source(setup.frame.spec, setup.frame.roles)
    law = ModuleType("generated_law")
    plain = re.sub(r"@numba\.njit\([^\n]*\)\n", "", source.split(compilation.COMPILE_EQUATIONS)[0])
    exec(compile(plain, "generated_law", "exec"), law.__dict__)
    names = {
        **vars(kernels),
        **{
            name: function.py_func
            for name, function in vars(packing).items()
            if hasattr(function, "py_func")
        },
        "evaluate": lambda _, *given: law.evaluate(*given),
    }
    kernel = FunctionType(kernels.law_log_likelihoods.__code__, names)
    names["law_log_likelihoods"] = kernel
    exec(packing.unpacking(), names)
    arrays = likelihood_data(setup)
    loss = arrays.pop("loss")
    data = packed(arrays)
    rows = np.stack(
        [
            parameters[own.name] if own.domain is None else parameters[own.name][:, own.member]
            for own in elements(setup.frame)
        ],
        axis=1,
    )
    curves = len(setup.curves.curves)
    values, slopes = np.empty((len(rows), curves)), np.empty((len(rows), curves, rows.shape[1]))
    tables = (law.PARAMETER_PLACES, law.SLOPE_OUTPUTS, law.SLOPE_INPUTS, law.PACE_PLACES)
    for k, row in enumerate(rows):
        names["packed_log_likelihoods"](0, tables, loss, row, *data, values[k], slopes[k])
    return values, slopes
