"""Risk measures: what many possible losses of a configuration come to, as one number.

Losses have the shape (draws, candidates), one row per posterior draw, all draws equally probable; a measure
is one number per candidate. Losses are minimised, so the *upper* tail is the bad one: a measure of loss or
regret is better where it is lower, a probability where it is higher.

Quantile and CVaR are of a mixture of normal distributions: in each draw a run ends about the law's loss
with that draw's own standard deviation. Nothing is drawn.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import unknown
from bayes_cpt.errors import SpecError

# Nats to which a root is found.
CLOSE = 1e-9
# Standard deviations below this count as this one.
SMALLEST = 1e-12


def probability_best(losses: Floats, best: Floats | None = None, tolerance: float = 0.0) -> Floats:
    """Return ``P(L <= min L + tolerance)``: how often a candidate is the best, or as good as it.

    With `best`, each draw's lowest loss over more candidates than these, that counts. Without a tolerance
    the probability falls towards 0 as candidates lie closer together.

    Examples
    --------
    >>> probability_best(np.array([[1.0, 3.0], [2.0, 1.0], [0.0, 1.0], [5.0, 6.0]])).tolist()
    [0.75, 0.25]
    """
    lowest = losses.min(axis=1) if best is None else best
    return np.asarray((losses - lowest[:, None] <= tolerance).mean(axis=0))


def probability_below(losses: Floats, reference: ArrayLike, noise: Floats) -> Floats:
    """Return ``P(L + noise·z < reference)``, z standard normal: how often a reference is beaten.

    The normal part is integrated, not drawn. A reference is one number, or one per draw.

    Examples
    --------
    >>> losses = np.array([[1.0, 3.0], [4.0, 1.0]])
    >>> probability_below(losses, 2.0, np.zeros_like(losses)).tolist()
    [0.5, 0.5]
    """
    margin = np.reshape(reference, (-1, 1)) - losses
    return np.asarray(ndtr(margin / np.maximum(noise, SMALLEST)).mean(axis=0))


def quantile(means: Floats, sds: Floats, level: float) -> Floats:
    """Return the value at risk, below which a run ends with probability `level`.

    The root of ``mean(Phi((q - means)/sds)) = level``.

    Examples
    --------
    >>> losses = quantile(np.array([[1.0], [1.0]]), np.array([[2.0], [2.0]]), 0.975)
    >>> round(float(losses[0]), 4)
    4.9199
    """
    means, sds = _double(means, sds)
    # Between the least and the largest of the draws' own.
    quantiles = means + sds * ndtri(level)

    def above(loss: Floats, own: Ints) -> Floats:
        return np.asarray(ndtr((loss - means[:, own]) / sds[:, own]).mean(axis=0) - level)

    found = find_root(
        above,
        (quantiles.min(axis=0) - CLOSE, quantiles.max(axis=0) + CLOSE),
        args=(np.arange(means.shape[1]),),
        tolerances={"xatol": CLOSE},
    )
    return np.asarray(found.x)


def cvar(means: Floats, sds: Floats, level: float) -> Floats:
    """Return the conditional value at risk: the mean loss of the worst ``1 - level`` of runs.

    ``CVaR = VaR + E[max(L - VaR, 0)]/(1 - level)`` (Rockafellar and Uryasev 2000,
    doi:10.21314/JOR.2000.038), with VaR from `quantile`.
    """
    at_risk = quantile(means, sds, level)
    means, sds = _double(means, sds)
    scaled = (at_risk - means) / sds
    density = np.exp(-0.5 * scaled**2) / np.sqrt(2.0 * np.pi)
    excess = sds * density - (at_risk - means) * ndtr(-scaled)
    return np.asarray(at_risk + excess.mean(axis=0) / (1.0 - level))


def _double(means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    return means.astype(np.float64), np.maximum(sds.astype(np.float64), SMALLEST)


# Name, default level, and what it is, for tables and --help.
MEASURES: dict[str, tuple[float | None, str]] = {
    "expected": (None, "expected loss"),
    "quantile": (
        0.9,
        "value that all but the worst 1 - LEVEL of the draws stay below (value at risk)",
    ),
    "cvar": (0.9, "mean of the worst 1 - LEVEL of the draws"),
    "best": (None, "probability of being within the tolerance of the best, negative"),
}
BEST = "best"


@dataclass(frozen=True)
class RiskMeasure:
    """A risk measure by its name, with its level; the lower it is, the better.

    Examples
    --------
    >>> RiskMeasure.parse("cvar:0.95")
    RiskMeasure(name='cvar', level=0.95)
    >>> str(RiskMeasure.parse("quantile"))
    'quantile:0.9'
    """

    name: str
    level: float | None = None

    @classmethod
    def parse(cls, text: "str | RiskMeasure") -> Self:
        """Return the measure that a text names, as in ``cvar:0.95``."""
        if isinstance(text, cls):
            return text
        name, _, rest = str(text).partition(":")
        if name not in MEASURES:
            raise SpecError.at("risk", *unknown("risk measure", name, MEASURES))
        default, _ = MEASURES[name]
        if rest and default is None:
            raise SpecError.at("risk", f"{name} has no level", f"write {name}")
        if not rest:
            return cls(name, default)
        try:
            level = float(rest)
        except ValueError:
            level = np.nan
        if 0 < level < 1:
            return cls(name, level)
        percent = f"write {name}:{level / 100:g} for {level:g} %"
        fix = percent if 1 <= level < 100 else f"as in {name}:0.9"
        raise SpecError.at("risk", f"{rest!r} is not a level of {name}", fix)

    def __str__(self) -> str:
        """Return the text that `parse` takes."""
        return self.name if self.level is None else f"{self.name}:{self.level:g}"

    @property
    def meaning(self) -> str:
        """What it is, in words."""
        words = MEASURES[self.name][1]
        return words.replace("1 - LEVEL", f"{100 * (1 - (self.level or 0)):.3g} %")

    def of_losses(self, means: Floats, sds: Floats) -> Floats:
        """Return a measure of losses about their means."""
        if self.level is None:
            return np.asarray(means.mean(axis=0))
        return {"quantile": quantile, "cvar": cvar}[self.name](means, sds, self.level)


EXPECTED = RiskMeasure("expected")
