"""Models without compilation: for a function that a test calls a few times."""

import re
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from pytensor.compile.mode import Mode

from bayes_cpt.model import law_kernel
from bayes_cpt.model.likelihood import _printed
from bayes_cpt.model.likelihood_tables import likelihood_tables
from bayes_cpt.model.packing import packed
from bayes_cpt.model.setup import Setup, elements

# PyTensor as it is written.
INTERPRETED = Mode(linker="py", optimizer=None)


def generated_likelihoods(setup: Setup, parameters: dict[str, np.ndarray]) -> tuple[Any, Any]:
    """Return what the code printed from a law gives, run as plain Python.

    Log likelihoods, shape (draws, curves), and their slopes, shape (draws, curves, elements).
    """
    law = ModuleType("printed_law")
    plain = re.sub(r"@numba\.njit\([^\n]*\)\n", "", _printed(setup.frame.spec, setup.frame.roles))
    exec(compile(plain, "printed_law", "exec"), law.__dict__)
    study = packed(list(likelihood_tables(setup, law.PLACES).values()))
    rows = np.stack([own.of(parameters) for own in elements(setup.frame)], axis=1)
    kernel: Any = law_kernel.law_log_likelihoods
    found = [law_kernel.room_for_results(row, study) for row in rows]
    with patch.object(law_kernel, "call", lambda law, given: law(*given)):
        for row, filled in zip(rows, found, strict=True):
            kernel(law.evaluate, setup.curves.points.loss, row, study, *filled)
    values, slopes = (np.stack(part) for part in zip(*found, strict=True))
    return values, slopes
