"""Simulation-based calibration in plain words: three lines."""

import math
from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import listed
from bayes_cpt.validate.calibration import EDGE, FAILS, FALSE_ALARM, HOLDS

if TYPE_CHECKING:
    from bayes_cpt.validate.calibration import Verdict

# The interval whose coverage says how much so many simulations can see.
MASS = 0.9
# Simulations from which that coverage is known to 3 %.
ENOUGH = 100
# Quantities that are named one by one.
NAMED = 4


def verdict(name: str, design: str, found: "Verdict") -> list[str]:
    """Return whether to trust a model's intervals, how sure that is, and what would change it.

    Parameters
    ----------
    name : str
        Of the model.
    design : str
        Name of the study whose runs were simulated.
    found : Verdict

    Returns
    -------
    list of str
        Three lines.
    """
    judged = found.quantities["verdict"]
    counts = {word: int((judged == word).sum()) for word in (HOLDS, EDGE, FAILS)}
    off = found.quantities.loc[judged == FAILS, "quantity"].tolist()
    ranked = found.simulations - found.failed
    error = 100.0 * math.sqrt(MASS * (1.0 - MASS) / max(ranked, 1))
    if found.passed:
        use = (
            f"Trust the intervals of {name}: in simulated studies they hold the truth as they say."
            if ranked >= ENOUGH
            else f"So far nothing speaks against the intervals of {name}: so few simulations see coarse "
            "faults alone."
        )
        change = f"more simulations (-n), or runs unlike those of {design} (--design)."
    elif off:
        use = (
            f"Do not trust the intervals of {name}: too often or too seldom they hold the true "
            f"{listed(off, NAMED)}."
        )
        change = "other priors, or another law; ranks.png and the table below say which way they are off."
    else:
        use = f"Not to be told whether the intervals of {name} can be trusted: too many refits fall short."
        change = "refits that meet their diagnostics."
    return [
        use,
        f"How sure: {ranked} simulations, by which the coverage of a 90 % interval is known to "
        f"± {error:.0f} %. Of {len(judged)} quantities {counts[HOLDS]} hold, {counts[EDGE]} are at "
        f"the edge ({FALSE_ALARM * len(judged):.1f} expected), {counts[FAILS]} fail.",
        f"What would change it: {change}",
    ]
