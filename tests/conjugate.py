"""A toy model whose posterior is known: SBC must pass on it, and fail where it is made wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from testbench.calibration import RANKED, ranked

MEASURED, NOISE = 5, 2.0


@dataclass(frozen=True)
class NormalMean:
    """Normal data with a standard normal mean; called with a seed.

    Parameters
    ----------
    widen : float
        Factor on the posterior's standard deviation; 1 is right.
    shift : float
        Added to its mean, in its standard deviations; 0 is right.
    problems : tuple of str
        What every refit says of itself.
    fails : int
        Refits of which one has no draws, by seed; 0 is none.
    """

    widen: float = 1.0
    shift: float = 0.0
    problems: tuple[str, ...] = ()
    fails: int = 0

    def __call__(self, seed: int) -> dict[str, Any]:
        generator = np.random.default_rng(seed)
        mean, later = generator.standard_normal(), generator.standard_normal()
        data = mean + NOISE * generator.standard_normal(MEASURED)
        truth = {"mean": mean, "next": mean + NOISE * later}
        if self.fails and seed % self.fails == 0:
            return ranked(truth, {}, ("no mode",), 0)
        precision = 1.0 + MEASURED / NOISE**2
        center, spread = data.sum() / NOISE**2 / precision, precision**-0.5
        draws = generator.standard_normal(RANKED) * self.widen + self.shift
        posterior = center + spread * draws
        later_draws = posterior + NOISE * generator.standard_normal(RANKED)
        return ranked(truth, {"mean": posterior, "next": later_draws}, self.problems)
