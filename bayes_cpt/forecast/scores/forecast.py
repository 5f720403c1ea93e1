"""Forecasts of benchmark scores: draws of losses through draws of the link."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.errors import Problem
from bayes_cpt.forecast.plans import PlanError
from bayes_cpt.forecast.scores.link import ScoreFit

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def score_table(
    dataset: "xr.Dataset", fit: ScoreFit, interval: float = 0.9, seed: int = 0
) -> "pd.DataFrame":
    """Return bands of the scores of a forecast.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `bayes_cpt.forecast.predict.predict`.
    fit : ScoreFit
    interval : float
        Mass of the central interval between lower and upper.
    seed : int
        Of which draws of link and law go together, and of the scatter.

    Returns
    -------
    DataFrame
        Columns run, step, benchmark, domain, mean, median, sd, lower, upper (shares, 0...1), kind and
        outside, in words where the losses leave those of the pairs or the run what was fitted. Of the kind
        ``expected`` the scatter of single evaluations is left out.

    Raises
    ------
    PlanError
        If a benchmark goes with a validation set that was not forecast.
    """
    import pandas as pd

    kind = str(dataset.attrs["kind"])
    known = dataset["domain"].to_numpy().tolist()
    unknown = [link.pairs for link in fit.links.values() if link.pairs.domain not in known]
    if unknown:
        raise PlanError(
            Problem(
                f"benchmark {pairs.benchmark}",
                f"its scores go with {pairs.domain}, which is not forecast",
                f"ask for it too: --sets {pairs.domain}",
            )
            for pairs in unknown
        )
    variable = "expected" if kind == "expected" else "loss"
    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    draws = dataset.sizes["chain"] * dataset.sizes["draw"]
    parts = []
    for place, (name, link) in enumerate(fit.links.items()):
        resampled = link.resampled(draws, seed + place)
        generator = np.random.default_rng([seed, place])
        for run in dataset["run"].to_numpy():
            curve = dataset.sel(run=run, domain=link.pairs.domain)
            losses = curve[variable].stack(sample=("chain", "draw")).transpose("step", "sample")
            values = losses.to_numpy()
            kept = np.isfinite(values[:, 0])
            if not kept.any():
                continue
            values = values[kept]
            scores = (
                resampled.scores(values)
                if kind == "expected"
                else resampled.drawn(values, generator)
            )
            median, lower, upper = np.quantile(scores, marks, axis=1)
            parts.append(
                pd.DataFrame(
                    {
                        "run": run,
                        "step": dataset["step"].to_numpy()[kept],
                        "benchmark": name,
                        "domain": link.pairs.domain,
                        "mean": scores.mean(axis=1),
                        "median": median,
                        "sd": scores.std(axis=1, ddof=1),
                        "lower": lower,
                        "upper": upper,
                        "kind": kind,
                        "outside": _outside(
                            np.median(values, axis=1),
                            link.pairs.losses,
                            str(curve["outside"].item()),
                        ),
                    }
                )
            )
    table = pd.concat(parts, ignore_index=True)
    table.attrs["interval"] = interval
    return table


def _outside(
    losses: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    paired: Sequence[float] | np.ndarray,
    run: str,
) -> list[str]:
    """Return for each loss in words whether it lies outside what scores were measured at."""
    low, high = float(np.min(paired)), float(np.max(paired))
    return [
        "; ".join(
            part
            for part in (
                run,
                ""
                if low <= loss <= high
                else f"loss {loss:.3g}, scores from {low:.3g} to {high:.3g}",
            )
            if part
        )
        for loss in losses
    ]
