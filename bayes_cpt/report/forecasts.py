"""Forecasts in plain words: where runs end, held-out runs, priors, and a run that is watched."""

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import pandas as pd

from bayes_cpt.decisions.advice import PEAKS, Advice
from bayes_cpt.history.population import FEWEST
from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO
from bayes_cpt.report.numbers import spread_of
from bayes_cpt.report.words import Words, paragraphs, render, sentence
from bayes_cpt.study.validation import SAME_NUMBER

if TYPE_CHECKING:
    from bayes_cpt.history.learnt import Learnt
    from bayes_cpt.watch.log_forecast import LogForecast
    from bayes_cpt.watch.watcher import Continuations, Status


def forecast_words(bands: pd.DataFrame) -> Words:
    """Return where the runs of `bayes_cpt.forecast.bands.bands` end.

    The verdict says how sure that is and what would change it; the sentences are ready for a paper, as in
    "Run long_r25 is forecast to end at 2.79 nats/token on general after 12000 steps (90 % predictive
    interval 2.74 to 2.84).".
    """
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    # As many digits as the table has.
    final = final.assign(sd=list(map(spread_of, final["median"], final["lower"], final["upper"])))
    runs = {run: rows.to_dict("records") for run, rows in final.groupby("run", sort=False)}
    # How far intervals reach from the medians, at most.
    reach = final[["lower", "upper"]].sub(final["median"], axis=0).abs().max(axis=1)
    furthest = final.assign(reach=reach).groupby("domain", sort=False).max(numeric_only=True)
    facts = {
        "runs": runs,
        # Validation sets are named once where all runs have the same.
        "alike": len({tuple(row["domain"] for row in rows) for rows in runs.values()}) == 1,
        "mass": f"{100 * float(bands.attrs['interval']):g} %",
        "kind": str(bands["kind"].iloc[0]),
        # Not where every run was measured to its end.
        "reach": furthest[furthest["reach"] > SAME_NUMBER].to_dict("index"),
        "below_zero": final.loc[final["lower"] <= 0.0, "run"].unique().tolist(),
        "outside": {run: rows[0]["outside"] for run, rows in runs.items() if rows[0]["outside"]},
    }
    return render("predict.txt", facts)


def held_out_verdict(scores: pd.DataFrame, refits: pd.DataFrame) -> list[str]:
    """Return whether to trust the bands, how sure that is, and what would change it.

    `scores` are the pooled rows of `bayes_cpt.validate.held_out.score_table`, `refits` of `score_folds`
    there.
    """
    first, *others = scores.to_dict("records")
    short = int((~refits["trustworthy"].astype(bool)).sum())
    facts = {"first": first, "others": others, "short": short, "refits": len(refits)}
    return paragraphs("validate.txt", "verdict", facts)


def prior_words(name: str, ends: pd.DataFrame, interval: float) -> Words:
    """Return when to use a model's prior, how sure what it says is, what would change it, and cautions.

    `ends` is of `bayes_cpt.identify.prior_predictive.expected_ends`.
    """
    ranges = ends.groupby("domain", sort=False).agg({"lower": "min", "upper": "max"})
    facts = {
        "name": name,
        "moves": bool((ends["quantity"] == "change").all()),
        "ranges": ranges.to_dict("index"),
        "runs": ends["run"].nunique(),
        "mass": f"{100 * interval:g} %",
        "worst": ends.loc[ends["below_zero"].idxmax()],
        "most": MOST_BELOW_ZERO,
    }
    return render("prior.txt", facts)


def learnt_words(
    learnt: "Learnt", file: str, skipped: Mapping[str, Sequence[str]], below: Mapping[str, float]
) -> Words:
    """Return whether to use learnt priors, how sure that is, and what varies together over studies.

    Of studies by name: why fits were left out, and which share of the prior curves ends below 0.
    """
    wide = [name for name, share in below.items() if share > MOST_BELOW_ZERO]
    population = learnt.population.problems
    facts = {"file": file, "learnt": learnt, "fewest": FEWEST, "skipped": skipped, "wide": wide}
    facts |= {"trustworthy": not (skipped or population or wide), "population": population}
    return render("learn_priors.txt", facts | {"most": MOST_BELOW_ZERO, "below": below})


def ends_below(status: "Status", limits: Mapping[str, float], interval: float) -> list[str]:
    """Return how probably a run ends below some losses, a sentence each."""
    if status.disagreements or not status.on_track:
        return []
    found = {
        domain: {"limit": limit, "probability": below(status.forecast[domain], limit, interval)}
        for domain, limit in limits.items()
    }
    return paragraphs("watch.txt", "below", {"limits": found})


def below(forecast: Mapping[str, float], limit: float, interval: float) -> float:
    """Return the probability that a run ends below a loss: its end is forecast as normal, or known.

    Examples
    --------
    >>> round(below({"mean": 2.4, "lower": 2.3, "upper": 2.5}, 2.5, 0.9), 3)
    0.95
    """
    width = NormalDist().inv_cdf(0.5 + interval / 2.0)
    spread = (forecast["upper"] - forecast["lower"]) / (2.0 * width)
    if spread == 0.0:
        return float(forecast["mean"] < limit)
    return NormalDist(forecast["mean"], spread).cdf(limit)


# Ways that the verdict has room for.
WAYS_SHOWN = 2


def log_verdict(found: "LogForecast") -> list[str]:
    """Return where a run ends by its log alone, in each of its ways, and how sure that is."""
    table, untold = found.table, dict[str, list[str]]()
    for domain, names in found.on_priors.items():
        for name in names:
            untold.setdefault(name, []).append(domain)
    facts = {
        "found": found,
        "ways": [
            (name, rows.to_dict("records"))
            for name, rows in list(table.groupby("way", sort=False))[:WAYS_SHOWN]
        ],
        "nows": table.drop_duplicates("domain").to_dict("records"),
        "mass": f"{100 * float(table['interval'].iloc[0]):g} %",
        "untold": untold,
    }
    return paragraphs("forecast.txt", "verdict", facts)


def advice_verdict(found: Advice) -> list[str]:
    """Return what to expect of a long run before any other, how sure that is, and what to train first."""
    first, ends = found.told.iloc[0], found.ends
    middle = ends[(ends["replay"] == first["replay"]) & (ends["peak"] == PEAKS[1])]
    facts = {
        "about": found.about,
        "ends": middle.to_dict("records"),
        "mass": f"{100 * found.about['interval']:g} %",
        "told": found.told.to_dict("records"),
    }
    return paragraphs("advise.txt", "verdict", facts)


def advice(found: "Continuations", done: int, total: int) -> str:
    """Return what is better than going on as planned in a sentence, empty where nothing is."""
    if found.advised is None:
        return ""
    facts = {"found": found, "best": found.advised, "done": done, "total": total}
    return sentence("watch.txt", "advice", facts)
