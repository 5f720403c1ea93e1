"""Which evaluations of a run are looked at: one of each stretch, so that memory does not grow."""

import math
from collections.abc import Iterable

# A run is parted into so many stretches, even in the square root of the step, and one evaluation of each is
# looked at: those between tell little more.
STRETCHES = 40


def stretch(step: int, total: int) -> int:
    """Return the stretch that a step lies in, from 0.

    Parameters
    ----------
    step : int
    total : int
        Steps of the whole run.
    """
    return min(int(STRETCHES * math.sqrt(step / total)), STRETCHES - 1)


def watched_steps(steps: Iterable[int], total: int) -> list[int]:
    """Return the first step of each stretch, rising.

    Parameters
    ----------
    steps : iterable of int
        From 1.
    total : int
        Steps of the whole run.
    """
    first = {stretch(step, total): step for step in sorted(steps, reverse=True)}
    return sorted(first.values())
