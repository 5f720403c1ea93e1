"""What priors expect of runs, in plain words: three lines."""

from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import fixed, signed

if TYPE_CHECKING:
    import pandas as pd

# Of a central 90 % interval, what is about one standard deviation.
SPREAD = 3.3


def verdict(name: str, ends: "pd.DataFrame", interval: float) -> list[str]:
    """Return when to use a prior, how sure what it says is, and what would change it.

    Parameters
    ----------
    name : str
        Of the model.
    ends : DataFrame
        Of `bayes_cpt.identify.prior_predictive.expected_ends`.
    interval : float
        Mass of its intervals.

    Returns
    -------
    list of str
        Three lines.
    """
    moves = bool((ends["quantity"] == "change").all())
    written = signed if moves else fixed
    ranges = []
    for domain, rows in ends.groupby("domain", sort=False):
        low, high = float(rows["lower"].min()), float(rows["upper"].max())
        spread = (high - low) / SPREAD
        ranges.append(f"{written(low, spread)} to {written(high, spread)} on {domain}")
    what = "end this far from their start" if moves else "end at"
    runs = ends["run"].nunique()
    whose = "the run's" if runs == 1 else f"the lowest and the highest of {runs} runs'"
    return [
        f"Use {name} if you expect runs to {what}: {', '.join(ranges)} (nats/token).",
        f"How sure: these ends are {whose} {100 * interval:g} % intervals, before any of their losses "
        "is seen.",
        "What would change it: priors of your own, stated as intervals in a model file (docs/models.md).",
    ]
