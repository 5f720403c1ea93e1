"""A forecast in plain words: where its runs end, how sure that is, and what would make it surer."""

from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import fixed, listed

if TYPE_CHECKING:
    import pandas as pd

# Runs that are named in a line.
NAMED = 2
MEANINGS = {
    "new_run": "of such runs end",
    "known_run": "of what this run may yet show lies",
    "expected": "sure that the law's mean curve ends",
}


def verdict(bands: "pd.DataFrame") -> list[str]:
    """Return where the runs of a forecast end, how sure that is, and what would change it.

    Parameters
    ----------
    bands : DataFrame
        Of `bayes_cpt.forecast.bands.bands`, with its attribute ``interval``.

    Returns
    -------
    list of str
        Three lines.
    """
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    medians, ranges = [], []
    for run, rows in final.groupby("run", sort=False):
        told = rows.to_dict("records")
        ends = " and ".join(f"{fixed(row['median'], row['sd'])} on {row['domain']}" for row in told)
        medians.append(f"{run} ends at {ends}")
        between = " and ".join(
            f"{fixed(row['lower'], row['sd'])} to {fixed(row['upper'], row['sd'])} on {row['domain']}"
            for row in told
        )
        ranges.append(f"{between} ({run})" if final["run"].nunique() > 1 else between)
    mass = f"{100 * float(bands.attrs['interval']):g} %"
    meaning = MEANINGS[str(bands["kind"].iloc[0])]
    outside = [
        f"{row['run']}: {row['outside']}"
        for row in final.drop_duplicates("run").to_dict("records")
        if row["outside"]
    ]
    change = (
        f"runs nearer to what is asked, which leaves what was fitted ({listed(outside, NAMED)})"
        if outside
        else "more runs of this kind; what is asked lies within what was fitted"
    )
    return [
        f"{listed(medians, NAMED)} (nats/token).",
        f"How sure: {mass} {meaning} within {listed(ranges, NAMED)}.",
        f"What would change it: {change}.",
    ]
