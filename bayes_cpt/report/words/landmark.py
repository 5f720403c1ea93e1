"""Landmarks in plain words: what to start from, how to re-warm, and whether general loss comes back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.report.numbers import DECIMALS, MANY, SURE, Estimate, chance, listed, signed, steps
from bayes_cpt.report.rendering import Words, render

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.landmarks.responses import Response
    from bayes_cpt.landmarks.survey import Choices, Survey


# Outcomes that are less probable are left out.
WORTH_A_WORD = 0.02
# A critical point that the prior is this sure of is no finding.
FIXED = 0.99


def words(survey: "Survey", interval: float = 0.9) -> Words:
    """Return what a survey comes to.

    Parameters
    ----------
    survey : Survey
    interval : float
        Mass of the central intervals.
    """
    tables, choices = survey.tables(interval), survey.choices
    general, target = _domains(survey.peaks)
    return render(
        "landmarks.txt",
        {
            "run": survey.run.name,
            "steps": survey.run.schedule.steps,
            "peak": f"{survey.run.schedule.peak:g}",
            "base": survey.base.name,
            "general": general,
            "target": target,
            "known": choices is not None,
            "unknown": list(survey.unknown),
            "bases": _bases(survey, tables["bases"]) if choices else None,
            "potential": _loss_potential(choices, interval) if choices else None,
            "peaks": _peaks(survey, tables["peak_learning_rate"], interval),
            "lift": _lift(survey, interval),
            "back": _coming_back(survey, tables["turning_length"]),
            "critical": _critical(survey, tables),
            "outside": _outside(survey, tables["turning_length"]),
        },
    )


def _bases(survey: "Survey", table: "pd.DataFrame") -> dict[str, Any] | None:
    """Return the best base on each validation set; None where there is one base only."""
    if table["value"].nunique() == 1:
        return None
    general, target = _domains(survey.peaks)
    best = {}
    for domain in (target, general):
        ends = table[table["domain"] == domain].sort_values("median")
        first, second = ends.iloc[0], ends.iloc[1]
        best[domain] = {
            "name": first["value"],
            "best": float(first["best"]),
            "sure": first["best"] >= SURE,
            "second": second["value"],
            "gap": f"{second['median'] - first['median']:.{DECIMALS - 1}f}",
        }
    return {"count": table["value"].nunique(), "best": best}


def _loss_potential(choices: "Choices", interval: float) -> dict[str, Any]:
    lowest, highest = choices.direct.draws["value"].to_numpy()[[0, -1]]
    direct, again = gaps(choices.direct)[:, 0], gaps(choices.rewarmed)[:, 0]
    return {
        "lowest": f"{100 * lowest:g} %",
        "highest": f"{100 * highest:g} %",
        "direct": [Estimate.of(direct[:, index], interval) for index in (0, 1)],
        "rewarmed": [Estimate.of(again[:, index], interval) for index in (0, 1)],
        "worse": float(np.mean(direct[:, 1] > 0)) >= SURE,
        "worse_rewarmed": float(np.mean(again[:, 1] > 0)) > SURE,
    }


def _peaks(survey: "Survey", table: "pd.DataFrame", interval: float) -> dict[str, Any]:
    general, target = _domains(survey.peaks)
    values, reference = survey.peaks.draws["value"].to_numpy(), survey.peaks.reference
    half = int(np.argmin(np.abs(values - 0.5 * values[reference])))
    changes = gaps(survey.peaks)[:, half]
    lowest = []
    for domain in (target, general):
        ends = table[table["domain"] == domain]
        row = ends.loc[ends["best"].idxmax()]
        far = ", outside what was fitted" if row["outside"] else ""
        lowest.append(f"{row['value']:g} on {domain} ({chance(row['best'])}{far})")
    return {
        "half": f"{values[half]:g}" if half != reference else "",
        "planned": f"{values[reference]:g}",
        "changes": [Estimate.of(changes[:, index], interval) for index in (0, 1)],
        "lowest": " and ".join(lowest),
    }


def _lift(survey: "Survey", interval: float) -> dict[str, Any] | None:
    """Return how far the re-warm-up lifts the loss; None where there is none."""
    schedule, after = survey.base.schedule, survey.run.schedule.peak
    before = schedule.final if schedule else 0.0
    if before >= after:
        return None
    general, target = _domains(survey.peaks)
    lifts = {
        domain: Estimate.of(survey.lift.sel(domain=domain).to_numpy(), interval).plain
        for domain in (target, general)
    }
    return {
        "before": f"{before:g}",
        "nats": " and ".join(f"{lift} nats on {domain}" for domain, lift in lifts.items()),
    }


def _coming_back(survey: "Survey", table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return what becomes of general loss, and of the balance, as the surveyed run gets longer."""
    general, _ = _domains(survey.peaks)
    rows = table[table["run"] == survey.run.name].set_index("course")
    parts = []
    for balance in rows["balance"].unique():
        drawn_out, held = (
            rows[rows["balance"] == balance].loc[way] for way in ("stretched", "held")
        )
        spread = (drawn_out["change_upper"] - drawn_out["change_lower"]) / 3.0
        lower, upper = (signed(drawn_out[f"change_{end}"], spread) for end in ("lower", "upper"))
        parts.append(
            {
                "what": general if balance == 1.0 else f"the balance ({balance:g} {general})",
                "steps": drawn_out["planned_steps"],
                "change": signed(drawn_out["change"], spread),
                "band": f"{lower} to {upper}",
                "probability": float(drawn_out["back"]),
                "drawn_out": _becomes(drawn_out),
                "held": _becomes(held),
            }
        )
    return parts


def _becomes(row: Any) -> list[str]:
    """Return what becomes of a loss as the run gets longer, the most probable first."""
    when = f"{steps(row['median'])} steps ({steps(row['lower'])} to {steps(row['upper'])}; "
    if row["lower"] > MANY:
        when = "over a million steps ("
    outcomes = (
        (row["never_rises"], f"never takes it above its base ({chance(row['never_rises'])})"),
        (row["returns"], f"brings it back after {when}{chance(row['returns'])})"),
        (row["never_returns"], f"never brings it back ({chance(row['never_returns'])})"),
    )
    likely = [pair for pair in outcomes if pair[0] >= WORTH_A_WORD]
    return [text for _, text in sorted(likely, key=lambda pair: -pair[0])]


def _critical(survey: "Survey", tables: "dict[str, pd.DataFrame]") -> dict[str, Any] | None:
    """Return what is said of the critical point at the run's replay ratio; None where nothing is."""
    choices, past = survey.choices, survey.past()
    if choices is None or past is None:
        return None
    replay, table = survey.run.replay or 0.0, tables["critical_point"]
    row = table[table["replay"] == replay].iloc[0]
    return {
        "replay": f"{replay:g}",
        "exists": float(row["exists"]),
        "prior": float(row["exists_prior"]),
        "is_fixed": row["exists_prior"] > FIXED,
        "none": row["exists"] < 1.0 - SURE,
        "rate": f"{choices.critical.draws.attrs['learning_rate']:g}",
        "far": row["lower"] > MANY,
        "median": float(row["median"]),
        "lower": float(row["lower"]),
        "upper": float(row["upper"]),
        "past": past[0],
        "past_prior": past[1],
    }


def _outside(survey: "Survey", table: "pd.DataFrame") -> str:
    """Return where the runs leave what was fitted, and that turning lengths do."""
    draws = survey.turning.draws
    notes = [
        f"{run}: {note}"
        for run, note in zip(draws["run"].to_numpy(), draws["outside"].to_numpy(), strict=True)
        if note
    ]
    longest = survey.turning.longest
    if (table["median"] > longest).any():
        notes.append(f"turning lengths over {longest} steps, the longest run that was fitted")
    return listed(notes, len(notes))


def effects(survey: "Survey", interval: float = 0.9) -> list[tuple[str, list[Estimate]]]:
    """Return what each choice does to the last losses of the surveyed run.

    Parameters
    ----------
    survey : Survey
    interval : float
        Mass of the intervals.

    Returns
    -------
    list of (str, list of Estimate)
        The choice in words, and the change on each validation set, nats/token.
    """

    def row(text: str, changes: Floats) -> tuple[str, list[Estimate]]:
        return text, [Estimate.of(change, interval) for change in changes.T]

    values, reference = survey.peaks.draws["value"].to_numpy(), survey.peaks.reference
    half = int(np.argmin(np.abs(values - 0.5 * values[reference])))
    rows = []
    if half != reference:
        text = f"peak {values[half]:g}, not {values[reference]:g}"
        rows.append(row(text, gaps(survey.peaks)[:, half]))
    choices = survey.choices
    if choices is None:
        return rows
    lowest = f"base annealed to {100 * float(choices.direct.draws['value'][0]):g} %"
    rows.append(row(f"{lowest}, not re-warmed", gaps(choices.direct)[:, 0]))
    rows.append(row("base annealed to 0 %, re-warmed", gaps(choices.rewarmed)[:, 0]))
    names = choices.bases.draws["value"].to_numpy()
    changes, reference = gaps(choices.bases), choices.bases.reference
    rows += [
        row(f"{name}, not {names[reference]}", changes[:, index])
        for index, name in enumerate(names)
        if index != reference
    ]
    return rows


def gaps(response: "Response") -> Floats:
    """Return final losses minus those at the reference, shape (draws, values, domains).

    Parameters
    ----------
    response : Response
    """
    loss = response.draws["loss"].transpose("draw", "value", "domain").to_numpy()
    return np.asarray(loss - loss[:, [response.reference]])


def _domains(response: "Response") -> tuple[str, str]:
    general, target = response.draws["domain"].to_numpy()
    return str(general), str(target)
