"""Scores of predictive draws against measured losses: coverage, PIT, CRPS, error, sharpness."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError

MASSES = (50, 80, 90)
# What is averaged over points, by its name in tables.
COVERED = {f"coverage_{mass}": f"covered_{mass}" for mass in MASSES}
MEANS = COVERED | {"crps": "crps", "mae": "absolute_error", "bias": "error", "width_90": "width_90"}
ALL_RUNS = "all points"
EQUAL_RUNS = "equal weight per run"
ALL_DOMAINS = "all sets"
# Upper edges of the horizon's bins and what tables call them; `share` and `ratio` are those of `Fold`.
EDGES = {"share": (0.05, 0.25, 0.5, 0.75, 1.0), "ratio": (1.0, 1.5, 2.0, 3.0, np.inf)}
HORIZONS = {
    "share": ("first 5 %", "5 to 25 %", "25 to 50 %", "50 to 75 %", "75 to 100 %"),
    "ratio": ("up to 1x", "1 to 1.5x", "1.5 to 2x", "2 to 3x", "over 3x"),
}
# Steps are whole: the last one before a bin's edge may round to just above it.
EDGE_SLACK = 1e-9


class DrawsError(BayesCPTError, ValueError):
    """Predictive draws that a method cannot give, or that cannot be scored."""


def crps(draws: ArrayLike, observed: ArrayLike) -> Floats:
    """Return the continuous ranked probability score of draws, by the fair estimator.

    E|X - y| - E|X - X'|/2, with X' taken from the other draws only: unbiased for the score of the
    distribution behind the draws, however few they are (Ferro 2014, doi:10.1002/qj.2270). Sorting
    turns the mean over pairs into one weighted sum.

    Of draws of shape (draws, points), at least two. In the unit of the losses; smaller is better. Can fall
    slightly below 0 by chance.
    """
    values, truth = np.asarray(draws, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    count = len(values)
    ordered = np.sort(values, axis=0)
    ranks = np.arange(1, count + 1)
    pair_mean = (2 * ranks - count - 1) @ ordered / (count * (count - 1))
    return np.asarray(np.abs(values - truth).mean(axis=0) - pair_mean)


def probability_transform(draws: ArrayLike, observed: ArrayLike) -> Floats:
    """Return the probability integral transform: the share of draws below each measured value.

    Uniform on 0...1 over measurements where the forecast is calibrated; a draw equal to the measured value
    counts half.

    Examples
    --------
    >>> probability_transform([[1.0], [2.0], [3.0], [4.0]], [3.0]).tolist()
    [0.625]
    """
    sides = np.sign(np.asarray(observed) - np.asarray(draws))
    return np.asarray(0.5 + 0.5 * sides.mean(axis=0))


def score_points(points: pd.DataFrame, draws: ArrayLike) -> pd.DataFrame:
    """Return one row of scores per point, of predictive draws of shape (draws, points), at least two.

    Points have columns run, domain, step and loss, the measured one; these and others are kept. Added are
    median, lower_M, upper_M, covered_M (0 or 1) and width_M of the central bands of M % mass,
    absolute_error and error of the median (positive: predicted too high), crps and pit.
    """
    values, truth = np.asarray(draws, dtype=np.float64), points["loss"].to_numpy(np.float64)
    if not np.isfinite(values).all():
        bad = points[~np.isfinite(values).all(axis=0)].iloc[0]
        raise DrawsError(f"a draw is not finite at run {bad.run}, {bad.domain}, step {bad.step}")
    scored = points.reset_index(drop=True)
    scored["median"] = np.median(values, axis=0)
    for mass in MASSES:
        tail = (1.0 - mass / 100.0) / 2.0
        lower, upper = np.quantile(values, [tail, 1.0 - tail], axis=0)
        scored[f"lower_{mass}"], scored[f"upper_{mass}"] = lower, upper
        scored[f"covered_{mass}"] = ((lower <= truth) & (truth <= upper)).astype(np.float64)
        scored[f"width_{mass}"] = upper - lower
    scored["error"] = scored["median"] - truth
    scored["absolute_error"] = scored["error"].abs()
    scored["crps"] = crps(values, truth)
    scored["pit"] = probability_transform(values, truth)
    return scored


def summarize(scored: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return mean scores per run and validation set, and pooled, of each group by further columns.

    Columns are `by`, run, domain, points, runs, coverage_50, coverage_80, coverage_90 (shares),
    coverage_50_error and so on (their standard errors, see `mean_scores`; NaN where there is one run),
    crps, mae, bias and width_90 (the sharpness; nats/token). The runs come first, then for each validation
    set and for all together the mean over all points and the mean over runs.
    """
    together = scored.assign(domain=ALL_DOMAINS)
    parts = [mean_scores(scored, [*by, "run", "domain"])]
    for pool, mean in ((ALL_RUNS, mean_scores), (EQUAL_RUNS, means_of_runs)):
        for points in (scored, together):
            pooled = mean(points.assign(pool=pool), [*by, "pool", "domain"])
            parts.append(pooled.rename(columns={"pool": "run"}))
    return pd.concat(parts, ignore_index=True)


def mean_scores(scored: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the mean scores of each group of points: the columns of `summarize` after the keys.

    In the standard error of a coverage each run is one observation, as points of a run are not independent.
    A few runs that are covered alike do not show how runs differ: to their spread comes that of one more
    run, which lies wholly in bands or out of them.
    """
    means = {name: (column, "mean") for name, column in MEANS.items()}
    counts = {"points": ("loss", "size"), "runs": ("run", "nunique")}
    table = scored.groupby(keys, sort=False).agg(**counts, **means)
    runs = scored.groupby(list(dict.fromkeys([*keys, "run"])), sort=False)[[*COVERED.values()]]
    shares = runs.mean().groupby(keys, sort=False)
    in_or_out = [mass * (100 - mass) / 1e4 for mass in MASSES]
    squares = shares.var().mul(shares.size() - 1, axis=0) + in_or_out
    errors = np.sqrt(squares).div(shares.size(), axis=0)
    return table.join(errors.set_axis([f"{name}_error" for name in COVERED], axis=1)).reset_index()


def by_horizon(scored: pd.DataFrame, axis: str, keys: Sequence[str] = ()) -> pd.DataFrame:
    """Return mean scores by how far a point lies along its run, or beyond what was fitted.

    Columns are `keys`, horizon (the bin in words) and the scores of `summarize`. Bins without points are
    left out.
    """
    edges = [-np.inf, *np.add(EDGES[axis], EDGE_SLACK)]
    binned = scored.assign(horizon=pd.cut(scored[axis], edges, labels=HORIZONS[axis]))
    binned = binned.sort_values("horizon", kind="stable").astype({"horizon": str})
    return mean_scores(binned, [*keys, "horizon"])


def means_of_runs(scored: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return `mean_scores` with every run of a group weighing the same; of the points their number."""
    runs = scored.groupby([*keys, "run"], sort=False)[["loss", *MEANS.values()]].mean()
    points = scored.groupby(keys, sort=False).size()
    return mean_scores(runs.reset_index(), keys).assign(points=points.to_numpy())
