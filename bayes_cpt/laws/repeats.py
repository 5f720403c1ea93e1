"""What repeated tokens are worth, as shares of new ones (Muennighoff et al. 2023)."""

from typing import Any


def effective_share(repeats: Any, constant: Any, xp: Any) -> Any:
    """Return the worth of all tokens seen as a share of what as many new ones would be worth, D'/D.

    Eq. 5 of arXiv 2305.16264: of U unique tokens, each repeated R times after the first epoch,
    ``D' = U + U·R*·(1 - exp(-R/R*))``; and ``D = U·(1 + R)`` were seen.

    Parameters
    ----------
    repeats : array
        R, epochs beyond the first; 0 or below is no repetition.
    constant : array
        R*, above 0: after so many repeats a repeated token is worth 1/e of a new one.
    xp : module
        `numpy` or `pytensor.tensor`.

    Examples
    --------
    >>> import numpy as np
    >>> effective_share(np.array([-0.5, 0.0, 3.0]), 15.0, np).round(3).tolist()
    [1.0, 1.0, 0.93]
    """
    repeated = xp.maximum(repeats, 0.0)
    return (1.0 - constant * xp.expm1(-repeated / constant)) / (1.0 + repeated)
