"""Risk measures by name: what `decide` minimises over the draws of an objective."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import suggestion
from bayes_cpt.decisions import mixtures, risk
from bayes_cpt.errors import SpecError

# Name, default level, and what it is, for tables and --help.
MEASURES: dict[str, tuple[float | None, str]] = {
    "expected": (None, "expected loss"),
    "quantile": (
        0.9,
        "value that all but the worst 1 - LEVEL of the draws stay below (value at risk)",
    ),
    "cvar": (0.9, "mean of the worst 1 - LEVEL of the draws"),
    "mean-sd": (1.0, "mean plus LEVEL standard deviations"),
    "worst": (None, "median of the largest loss of one run in every draw"),
    "expected-regret": (None, "expected distance from each draw's own best"),
    "max-regret": (None, "largest distance from any draw's own best"),
    "best": (None, "probability of being within the tolerance of the best, negative"),
    "beat": (None, "probability that a new run ends below a run of the study, beat:RUN, negative"),
}
SHARES = ("quantile", "cvar")


@dataclass(frozen=True)
class RiskMeasure:
    """A risk measure with its level; the lower it is, the better (see `bayes_cpt.decisions.risk`).

    Parameters
    ----------
    name : str
        One of `MEASURES`.
    level : float, optional
        Of quantile and CVaR, or the number of standard deviations.
    run : str, optional
        The run to beat.

    Examples
    --------
    >>> RiskMeasure.parse("cvar:0.95")
    RiskMeasure(name='cvar', level=0.95, run=None)
    >>> str(RiskMeasure.parse("quantile"))
    'quantile:0.9'
    """

    name: str
    level: float | None = None
    run: str | None = None
    # Measures that need to know how low each draw can get.
    RELATIVE: ClassVar[tuple[str, ...]] = ("expected-regret", "max-regret", "best")

    @classmethod
    def parse(cls, text: "str | RiskMeasure") -> Self:
        """Return the measure that a text names, as in ``cvar:0.95``, ``mean-sd:2`` or ``beat:RUN``.

        Parameters
        ----------
        text : str or RiskMeasure
            A measure is returned as it is.

        Raises
        ------
        SpecError
            If there is no such measure, or its level is no number that it can have.
        """
        if isinstance(text, cls):
            return text
        name, _, rest = str(text).partition(":")
        if name not in MEASURES:
            problem = f"there is no risk measure {name!r}{suggestion(name, MEASURES)}"
            raise SpecError.at("risk", problem, f"name one of {', '.join(MEASURES)}")
        default, _ = MEASURES[name]
        if name == "beat":
            if not rest:
                problem = "beat needs a run of the study to be beaten"
                raise SpecError.at("risk", problem, "write beat:RUN")
            return cls(name, run=rest)
        if default is None:
            if rest:
                raise SpecError.at("risk", f"{name} has no level", f"write {name}")
            return cls(name)
        return cls(name, _level(name, rest) if rest else default)

    def __str__(self) -> str:
        """Return the text that `parse` takes."""
        detail = self.run if self.level is None else f"{self.level:g}"
        return self.name if detail is None else f"{self.name}:{detail}"

    @property
    def meaning(self) -> str:
        """What it is, in words."""
        words = MEASURES[self.name][1]
        if self.name in SHARES:
            return words.replace("1 - LEVEL", f"{100 * (1 - (self.level or 0)):.3g} %")
        if self.run is not None:
            return f"probability that a new run ends below {self.run}, negative"
        return words.replace("LEVEL", f"{self.level:g}") if self.level is not None else words

    def score(
        self,
        values: Floats,
        best: Floats | None = None,
        *,
        tolerance: float = 0.0,
        noise: Floats | None = None,
        reference: ArrayLike = 0.0,
    ) -> Floats:
        """Return the measure of each candidate, shape (candidates,).

        Parameters
        ----------
        values : ndarray, shape (draws, candidates)
            Of the objective.
        best : ndarray, shape (draws,), optional
            Each draw's lowest, which the measures in `RELATIVE` need.
        tolerance : float
            For ``best``.
        noise : ndarray, shape (draws, candidates), optional
            Sd of a single run about its value: where it is given, a measure of loss is that of what a
            single run shows (see `bayes_cpt.decisions.mixtures`).
        reference : float or ndarray, shape (draws,)
            Value of the run to beat.
        """
        level = self.level or 0.0
        if noise is not None and self.name in mixtures.MEASURES:
            return mixtures.MEASURES[self.name](values, noise, level)
        match self.name:
            case "quantile":
                return risk.quantile(values, level)
            case "cvar":
                return risk.cvar(values, level)
            case "mean-sd":
                return risk.mean_plus_sd(values, level)
            case "worst":
                return risk.worst_draw(values)
            case "expected-regret":
                return risk.expected_regret(values, best)
            case "max-regret":
                return risk.maximum_regret(values, best)
            case "best":
                return -risk.probability_best(values, best, tolerance)
            case "beat":
                return -risk.probability_below(values, reference, noise)
        return risk.expected_loss(values)


def _level(name: str, text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = np.nan
    if (name in SHARES and 0 < level < 1) or (name not in SHARES and np.isfinite(level)):
        return level
    percent = name in SHARES and 1 <= level < 100
    fix = f"write {name}:{level / 100:g} for {level:g} %" if percent else f"as in {name}:0.9"
    raise SpecError.at("risk", f"{text!r} is no level of {name}", fix)
