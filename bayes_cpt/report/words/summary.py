"""A fit in plain words: what its runs determine, what they leave open, and which run would help."""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Effects of `bayes_cpt.forecast.derived`: in a list, and as what a table compares.
SUBJECTS = {
    "run_change": "the whole run",
    "replay_effect": "replay",
    "rate_effect": "peak learning rate",
    "decay_effect": "decay",
    "base_effect": "annealing of the base",
    "anneal_effect": "annealing",
    "length_effect": "length",
}
COMPARISONS = {
    "run_change": "end against start",
    "replay_effect": "replay 0.5 against 0",
    "rate_effect": "half the peak LR",
    "decay_effect": "decay to 0 against none",
    "base_effect": "from an annealed base",
    "anneal_effect": "decay to 0 against none",
    "length_effect": "4 times as long",
}


def trust(quality: "pd.DataFrame") -> str:
    """Return how far the curves of a fit are from its losses.

    Parameters
    ----------
    quality : DataFrame
        Of `bayes_cpt.forecast.quality.fit_quality`.
    """
    misses = ", ".join(
        f"{row['mean_absolute_error']:.2g} on {row['domain']}" for row in quality.to_dict("records")
    )
    return f"Its curves miss the measured losses by {misses} on average, nats/token."


def open_effects(determined: "pd.DataFrame") -> "pd.DataFrame":
    """Return the effects that the runs leave open: they rest on the prior, or no two runs differ in them.

    Parameters
    ----------
    determined : DataFrame
        Of `bayes_cpt.identify.determination.determination`.
    """
    effects = determined[determined["kind"] == "effect"]
    return effects[~(effects["identified"].astype(bool) & effects["tried"].astype(bool))]


def summarise(determined: "pd.DataFrame") -> list[str]:
    """Return what the runs determine, and what they leave open with the run that would tell most of it.

    Parameters
    ----------
    determined : DataFrame
        Of `bayes_cpt.identify.determination.determination`.

    Returns
    -------
    list of str
        Two lines at the most.
    """
    effects, left = determined[determined["kind"] == "effect"], open_effects(determined)
    settled = effects[~effects.index.isin(left.index)]
    lines = [
        f"Determined by these runs: {listed_effects(settled, effects) or 'nothing that can be chosen'}."
    ]
    if left.empty:
        return [*lines, "Left open: nothing of that."]
    open_ones = listed_effects(left, effects)
    return [*lines, f"Left open: {open_ones}. Most telling next: {most_telling(left)}."]


def most_telling(left: "pd.DataFrame") -> str:
    """Return the run that tells most of what is left open.

    Parameters
    ----------
    left : DataFrame
        Of `open_effects`, with at least one row.
    """
    ((advice, _),) = Counter(left["advice"]).most_common(1)
    return str(advice)


def listed_effects(rows: "pd.DataFrame", effects: "pd.DataFrame") -> str:
    """Return effects in words, with the validation set where it is not on all of them.

    Parameters
    ----------
    rows, effects : DataFrame
        Of `bayes_cpt.identify.determination.determination`: those to name, among all effects.
    """
    everywhere = effects["domain"].nunique()
    parts = []
    for quantity, of_quantity in rows.groupby("quantity", sort=False):
        partly = (
            f" (on {', '.join(of_quantity['domain'])})" if len(of_quantity) < everywhere else ""
        )
        parts.append(f"{SUBJECTS[str(quantity)]}{partly}")
    return ", ".join(parts)
