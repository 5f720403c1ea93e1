"""Shares of several laws in the draws of a stack, and what only one law can be asked."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError, Problem


class StackError(BayesCPTError):
    """Something that is asked of a stack and can only be answered by a fit of one law."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


def stack_error(study: str, laws: Sequence[str], asked: str) -> StackError:
    """Return the error for what is asked of a stack, naming the fits that can answer.

    Parameters
    ----------
    study : str
        That was fitted.
    laws : sequence of str
        Of the stack.
    asked : str
        What only a fit of one law has.
    """
    return StackError(
        Problem(
            f"fit of {study}",
            f"it is a stack of laws, and {asked} can only be had of one law",
            f"give the fit of one of them ({', '.join(laws)}): bayes-cpt compare -o FOLDER writes them "
            "beside the stack",
        )
    )


def stack_name(laws: Sequence[str], weights: Sequence[float]) -> str:
    """Return what a stack is called: its laws with their weights, the heaviest first.

    Parameters
    ----------
    laws : sequence of str
    weights : sequence of float

    Examples
    --------
    >>> stack_name(["cpt", "cpt-replay"], [0.3, 0.7])
    'a stack of 70 % cpt-replay and 30 % cpt'
    """
    order = sorted(range(len(laws)), key=lambda index: -weights[index])
    parts = [f"{100 * weights[index]:.0f} % {laws[index]}" for index in order]
    return f"a stack of {' and '.join(parts)}"


def apportioned(weights: Floats, count: int) -> NDArray[np.int64]:
    """Return whole numbers that add up to a count, as near to the weights as can be (largest remainder).

    Parameters
    ----------
    weights : ndarray, shape (laws,)
        They add up to 1.
    count : int

    Examples
    --------
    >>> apportioned(np.array([0.5, 0.26, 0.24]), 10).tolist()
    [5, 3, 2]
    """
    exact = weights * count
    whole = np.floor(exact).astype(np.int64)
    left = count - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole
