"""A forecast in plain words: where its runs end, how sure that is, and what would make it surer."""

from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import enumerated, fixed, listed

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
    runs = dict(list(final.groupby("run", sort=False)))
    mass = f"{100 * float(bands.attrs['interval']):g} %"
    meaning = MEANINGS[str(bands["kind"].iloc[0])]
    return [
        f"{listed(_medians(runs), NAMED)} (nats/token).",
        f"How sure: {mass} {meaning} within {_reach(final, single=len(runs) == 1)}.",
        f"What would change it: {_change(runs)}.",
    ]


def _medians(runs: "dict[str, pd.DataFrame]") -> list[str]:
    """Return where each run ends; validation sets are named once where all runs have the same."""
    told: list[str] = []
    alike = len({tuple(rows["domain"]) for rows in runs.values()}) == 1
    for run, rows in runs.items():
        losses = [fixed(row["median"], row["sd"]) for row in rows.to_dict("records")]
        if told and alike:
            told.append(f"{run} at {' and '.join(losses)}")
        else:
            named = (f"{loss} on {name}" for loss, name in zip(losses, rows["domain"], strict=True))
            told.append(f"{run} ends at {' and '.join(named)}")
    return told


def _reach(final: "pd.DataFrame", *, single: bool) -> str:
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
    return " and ".join(parts)


def _change(runs: "dict[str, pd.DataFrame]") -> str:
    outside = {run: str(rows["outside"].iloc[0]) for run, rows in runs.items()}
    left = [run for run, note in outside.items() if note]
    if not left:
        return "more runs of this kind; what is asked lies within what was fitted"
    if len(runs) == 1:
        return f"runs nearer to {left[0]}, which leaves what was fitted ({outside[left[0]]})"
    verb = "leaves" if len(left) == 1 else "leave"
    more = [f"{len(left) - NAMED} more"] if len(left) > NAMED else []
    names = enumerated([*left[:NAMED], *more])
    return f"runs nearer to {names}, which {verb} what was fitted"
