"""How forecasts of what no fit saw turned out, in plain words: three lines."""

import math
from typing import TYPE_CHECKING, Any

from bayes_cpt.report.page.calibration import left_out
from bayes_cpt.validate.held_out import OURS

if TYPE_CHECKING:
    import pandas as pd

BAND = 0.9
# Standard errors from which a share is not that of the band.
ERRORS = 2.0


def verdict(scores: "pd.DataFrame", points: "pd.DataFrame", refits: "pd.DataFrame") -> list[str]:
    """Return whether to trust the bands, how sure that is, and what would change it.

    Parameters
    ----------
    scores : DataFrame
        The pooled rows of `bayes_cpt.validate.held_out.score_table`: one per share seen and method.
    points, refits : DataFrame
        Of `bayes_cpt.validate.held_out.score_folds`.

    Returns
    -------
    list of str
        Three lines.
    """
    ours = scores[scores["method"] == OURS].sort_values("seen").to_dict("records")
    first, others = ours[0], ours[1:]
    runs = points.loc[points["seen"] == first["seen"], "run"].nunique()
    made = refits.loc[refits["method"] == OURS, "trustworthy"].astype(bool)
    short = int((~made).sum())
    among = "".join(f"; {left_out(row['seen'])}: {_share(row)}" for row in others)
    return [
        f"{_advice(first)}: the 90 % bands held {_share(first)} of {first['points']} points that no fit "
        f"saw ({left_out(first['seen'])}){among}.",
        f"How sure: {runs} run{'s, each one observation' if runs > 1 else ', one observation'}; "
        f"{short or 'none'} of {len(made)} refits {'falls' if short == 1 else 'fall'} short of the "
        "diagnostics.",
        "What would change it: more runs, above all unlike these.",
    ]


def _advice(row: dict[str, Any]) -> str:
    share, error = row["coverage_90"], row["coverage_90_error"]
    if not math.isfinite(error):
        return "Too few runs to judge the bands"
    if share < BAND - ERRORS * error:
        return "The bands are too narrow"
    if share > BAND + ERRORS * error:
        return "The bands are wider than they need be"
    return "Trust the bands"


def _share(row: dict[str, Any]) -> str:
    error = row["coverage_90_error"]
    size = f" ± {100 * error:.0f}" if math.isfinite(error) else ""
    return f"{100 * row['coverage_90']:.0f}{size} %"
