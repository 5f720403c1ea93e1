"""Forecasts in plain words: where runs end, held-out runs, priors, and a run that is watched."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayes_cpt.history.population import FEWEST
from bayes_cpt.report.numbers import WIDTH, enumerated, fixed, signed
from bayes_cpt.report.words import paragraphs, sentence

if TYPE_CHECKING:
    from bayes_cpt.decisions.advice import Advice
    from bayes_cpt.history.learnt import Learnt
    from bayes_cpt.watch.log_forecast import LogForecast
    from bayes_cpt.watch.watcher import Continuations, Status

BAND = 0.9
# Of a measured loss.
PLACES = 3
# Standard errors beyond which a share is not that of the band.
ERRORS = 2.0


def forecast_verdict(bands: pd.DataFrame) -> list[str]:
    """Return where the runs of `forecast.bands` end, how sure that is, and what would change it."""
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    runs = {run: rows.to_dict("records") for run, rows in final.groupby("run", sort=False)}
    notes = {run: rows[0]["outside"] for run, rows in runs.items()}
    facts = {
        "runs": runs,
        # Validation sets are named once where all runs have the same.
        "alike": len({tuple(row["domain"] for row in rows) for rows in runs.values()}) == 1,
        "mass": f"{100 * float(bands.attrs['interval']):g} %",
        "kind": str(bands["kind"].iloc[0]),
        "reach": _reach(final, single=len(runs) == 1),
        "outside": {run: note for run, note in notes.items() if note},
    }
    return paragraphs("predict.txt", "verdict", facts)


def _reach(final: pd.DataFrame, *, single: bool) -> list[str]:
    """Return the intervals of a single run; of several how far they reach from the medians, at most."""
    parts = []
    for domain, rows in final.groupby("domain", sort=False):
        lower, upper, sd = (float(rows[name].iloc[0]) for name in ("lower", "upper", "sd"))
        if single:
            parts.append(f"{fixed(lower, sd)} to {fixed(upper, sd)} on {domain}")
            continue
        reach = rows[["lower", "upper"]].sub(rows["median"], axis=0).abs().to_numpy().max()
        words = "of that on" if not parts else "on"
        parts.append(f"{fixed(reach, rows['sd'].max())} {words} {domain}")
    return parts


def forecast_sentences(bands: pd.DataFrame) -> list[str]:
    """Return where each run of `bayes_cpt.forecast.bands.bands` ends, ready for a paper.

    As in "Run long_r25 is forecast to end at 2.79 nats/token on general after 12000 steps (90 % predictive
    interval 2.74 to 2.84).".
    """
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    facts = {
        "rows": final.to_dict("records"),
        "mass": f"{100 * float(bands.attrs['interval']):g} %",
        "kind": "predictive" if (bands["kind"] != "expected").all() else "credible",
    }
    return paragraphs("predict.txt", "sentences", facts)


def held_out_verdict(scores: pd.DataFrame, points: pd.DataFrame, refits: pd.DataFrame) -> list[str]:
    """Return whether to trust the bands, how sure that is, and what would change it.

    `scores` are the pooled rows of `bayes_cpt.validate.held_out.score_table`, `points` and `refits` of
    `score_folds` there.
    """
    rows, first = held_out_rows(scores), scores.iloc[0]
    made = refits["trustworthy"].astype(bool)
    facts = {
        "advice": _advice(first["coverage_90"], first["coverage_90_error"]),
        "first": rows[0],
        "others": rows[1:],
        "runs": points.loc[points["seen"] == first["seen"], "run"].nunique(),
        "short": int((~made).sum()),
        "refits": len(made),
    }
    return paragraphs("validate_forecast.txt", "verdict", facts)


def held_out_rows(scores: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what was left out, how many points that are, and the share in the 90 % bands, in words."""
    return [
        {"left_out": left_out(row["seen"]), "points": row["points"], "share": held(row)}
        for row in scores.to_dict("records")
    ]


def held(row: Mapping[str, Any]) -> str:
    """Return the share of points in their 90 % bands with its standard error, where it has one."""
    share, error = 100 * row["coverage_90"], 100 * row["coverage_90_error"]
    return f"{share:.0f} ± {error:.0f} %" if math.isfinite(error) else f"{share:.0f} %"


def _advice(share: float, error: float) -> str:
    if not math.isfinite(error):
        return "Too few runs to judge the bands"
    if share < BAND - ERRORS * error:
        return "The bands are too narrow"
    if share > BAND + ERRORS * error:
        return "The bands are wider than they need be"
    return "Trust the bands"


def left_out(seen: float) -> str:
    """Return in words what of the runs was left out: all, or what follows a share of the steps.

    Examples
    --------
    >>> left_out(0.0), left_out(0.25)
    ('whole runs', 'after 25 %')
    """
    return f"after {100 * seen:g} %" if seen else "whole runs"


def prior_verdict(name: str, ends: pd.DataFrame, interval: float) -> list[str]:
    """Return when to use a model's prior, how sure what it says is, and what would change it.

    `ends` is of `bayes_cpt.identify.prior_predictive.expected_ends`.
    """
    moves = bool((ends["quantity"] == "change").all())
    written = signed if moves else fixed
    ranges = []
    for domain, rows in ends.groupby("domain", sort=False):
        low, high = float(rows["lower"].min()), float(rows["upper"].max())
        spread = (high - low) / WIDTH
        ranges.append(f"{written(low, spread)} to {written(high, spread)} on {domain}")
    facts = {
        "name": name,
        "moves": moves,
        "ranges": ranges,
        "runs": ends["run"].nunique(),
        "mass": f"{100 * interval:g} %",
    }
    return paragraphs("prior.txt", "verdict", facts)


def learnt_verdict(learnt: "Learnt", file: str, *, trustworthy: bool) -> list[str]:
    """Return whether to use learnt priors, how sure that is, and what would change it."""
    facts = {"file": file, "trustworthy": trustworthy, "learnt": learnt, "fewest": FEWEST}
    return paragraphs("learn_priors.txt", "verdict", facts)


def together(learnt: "Learnt") -> str:
    """Return which parameters vary together over studies, in a sentence."""
    pairs = learnt.population.pairs
    facts = {"pairs": pairs, "shown": [pair for pair in pairs if pair.shown], "fewest": FEWEST}
    return sentence("learn_priors.txt", "together", facts)


def watch_verdict(status: "Status") -> list[str]:
    """Return whether to let a run go on, how sure that is, and where it ends as things stand."""
    return paragraphs("watch.txt", "verdict", {"status": status, "width": WIDTH})


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


# What a run's losses hardly tell, in words.
UNTOLD = {
    "annealing_gain": "the losses of {} hardly tell what annealing gains",
    "shift_share": "the losses of {} hardly tell how far the new data can take it",
}
# Ways that the verdict has room for.
WAYS_SHOWN = 2


def log_verdict(found: "LogForecast") -> list[str]:
    """Return where a run ends by its log alone, in each of its ways, and how sure that is."""
    table = found.table
    last = table.drop_duplicates("domain")
    untold: dict[str, list[str]] = {}
    for domain, names in found.on_priors.items():
        for name in names:
            untold.setdefault(name, []).append(domain)
    facts = {
        "ways": [
            {"name": name, "step": int(rows["step"].max()), "ends": rows.to_dict("records")}
            for name, rows in list(table.groupby("way", sort=False))[:WAYS_SHOWN]
        ],
        "now": found.now,
        "nows": " and ".join(
            f"{row.now:.{PLACES}f} on {row.domain}" for row in last.itertuples(index=False)
        ),
        "mass": f"{100 * float(table['interval'].iloc[0]):g} %",
        "problems": list(found.problems),
        "on_priors": [UNTOLD[name].format(enumerated(domains)) for name, domains in untold.items()],
        "count": len(found.measured),
    }
    return paragraphs("forecast.txt", "verdict", facts)


def advice_verdict(found: "Advice") -> list[str]:
    """Return what to expect of a long run before any other, how sure that is, and what to train first."""
    first = found.told.iloc[0]
    middle = found.ends[(found.ends["replay"] == first["replay"]) & (found.ends["peak"] == 0.33)]
    facts = {
        "about": found.about,
        "replay": float(first["replay"]),
        "peak": 0.33,
        "ends": middle.to_dict("records"),
        "mass": f"{100 * found.about['interval']:g} %",
        "told": found.told.to_dict("records"),
    }
    return paragraphs("advise.txt", "verdict", facts)


def advice(found: "Continuations", done: int, total: int) -> str:
    """Return what is better than going on as planned in a sentence, empty where nothing is."""
    best = found.advised
    if best is None:
        return ""
    facts = {"found": found, "best": best, "done": done, "total": total}
    facts["spread"] = (best.upper - best.lower) / WIDTH
    return sentence("watch.txt", "advice", facts)
