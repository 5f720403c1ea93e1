"""Landmarks in plain words: what to start from, how to re-warm, and whether general loss comes back."""

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from bayes_cpt.report.numbers import DECIMALS, MANY, SURE, Estimate, chance, signed, steps
from bayes_cpt.report.words import Words, render

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.landmarks.survey import Survey

# Outcomes that are less probable are left out.
WORTH_A_WORD = 0.02


def survey_words(survey: "Survey", interval: float = 0.9) -> Words:
    """Return what the landmarks of a plan come to."""
    tables, schedule = survey.tables(interval), survey.base.schedule
    general, target = (str(name) for name in survey.peaks.draws["domain"].to_numpy())
    before, peak = schedule.final if schedule else 0.0, survey.run.schedule.peak
    known = survey.choices is not None
    return render(
        "landmarks.txt",
        {
            "run": survey.run.name,
            "peak": f"{peak:g}",
            "base": survey.base.name,
            "general": general,
            "target": target,
            "known": known,
            "unknown": list(survey.unknown),
            "bases": _bases(tables["bases"], (target, general)) if known else None,
            "potential": _loss_potential(survey, tables["loss_potential"], interval)
            if known
            else None,
            "peaks": _peaks(survey, tables["peak_learning_rate"], (target, general), interval),
            # None where the re-warm-up does not lift the learning rate.
            "lift": None if before >= peak else f"{before:g}",
            "lifts": {
                domain: Estimate.of(survey.lift.sel(domain=domain).to_numpy(), interval).plain
                for domain in (target, general)
            },
            "back": _coming_back(survey, tables["turning_length"], general),
            "critical": _critical(survey, tables["critical_point"]) if known else None,
            "outside": "; ".join(_outside(survey, tables["turning_length"])),
        },
    )


def _differences(table: "pd.DataFrame", value: Any, interval: float) -> list[Estimate]:
    """Return by how much final losses at a value lie above those at the reference, by validation set."""
    width = 2.0 * NormalDist().inv_cdf(0.5 + interval / 2.0)
    return [
        Estimate(
            row["difference"],
            row["difference_lower"],
            row["difference_upper"],
            (row["difference_upper"] - row["difference_lower"]) / width,
            1.0 - row["lower_than_reference"],
        )
        for row in table[table["value"] == value].to_dict("records")
    ]


def _bases(table: "pd.DataFrame", domains: tuple[str, str]) -> dict[str, Any] | None:
    """Return the best base on each validation set; None where there is one base only."""
    if table["value"].nunique() == 1:
        return None
    best = {}
    for domain in domains:
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


def _loss_potential(survey: "Survey", table: "pd.DataFrame", interval: float) -> dict[str, Any]:
    parts = [table[table["rewarmed"] == again] for again in (False, True)]
    # Each from the base that is annealed the furthest.
    direct, rewarmed = (_differences(part, part["value"].min(), interval) for part in parts)
    lowest, highest = parts[0]["value"].min(), parts[0]["value"].max()
    return {
        "lowest": f"{100 * lowest:g} %",
        "highest": f"{100 * highest:g} %",
        "direct": direct,
        "rewarmed": rewarmed,
        "worse": direct[1].probability_positive >= SURE,
        "worse_rewarmed": rewarmed[1].probability_positive > SURE,
    }


def _half_peak(survey: "Survey", table: "pd.DataFrame") -> tuple[float, float]:
    """Return the peak that was tried nearest to half the planned one, and the planned one."""
    planned = float(survey.peaks.draws["value"].to_numpy()[survey.peaks.reference])
    values = table["value"].astype(float)
    return float(values[(values - 0.5 * planned).abs().idxmin()]), planned


def _peaks(
    survey: "Survey", table: "pd.DataFrame", domains: tuple[str, str], interval: float
) -> dict[str, Any]:
    half, planned = _half_peak(survey, table)
    lowest = []
    for domain in domains:
        ends = table[table["domain"] == domain]
        row = ends.loc[ends["best"].idxmax()]
        far = ", outside what was fitted" if row["outside"] else ""
        lowest.append(f"{row['value']:g} on {domain} ({chance(row['best'])}{far})")
    return {
        "half": f"{half:g}" if half != planned else "",
        "planned": f"{planned:g}",
        "changes": _differences(table, half, interval),
        "lowest": " and ".join(lowest),
    }


def _coming_back(survey: "Survey", table: "pd.DataFrame", general: str) -> list[dict[str, Any]]:
    """Return what becomes of general loss, and of the balance, as the surveyed run gets longer."""
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


def _critical(survey: "Survey", table: "pd.DataFrame") -> dict[str, Any] | None:
    """Return the row of the critical point at the run's replay ratio, and whether the base is past it."""
    choices, past = survey.choices, survey.past()
    if choices is None or past is None:
        return None
    row = table[table["replay"] == (survey.run.replay or 0.0)].iloc[0]
    return {
        "row": row,
        "none": row["exists"] < 1.0 - SURE,
        "rate": f"{choices.critical.draws.attrs['learning_rate']:g}",
        "far": row["lower"] > MANY,
        "past": past[0],
        "past_prior": past[1],
    }


def _outside(survey: "Survey", table: "pd.DataFrame") -> list[str]:
    """Return where the runs leave what was fitted, and that turning lengths do."""
    draws, longest = survey.turning.draws, survey.turning.longest
    notes = [
        f"{run}: {note}"
        for run, note in zip(draws["run"].to_numpy(), draws["outside"].to_numpy(), strict=True)
        if note
    ]
    if (table["median"] > longest).any():
        notes.append(f"turning lengths over {longest} steps, the longest run that was fitted")
    return notes


def effects(survey: "Survey", interval: float = 0.9) -> list[tuple[str, list[Estimate]]]:
    """Return each choice in words, and what it does to the last loss on each validation set."""
    tables = survey.tables(interval)
    peaks = tables["peak_learning_rate"]
    half, planned = _half_peak(survey, peaks)
    rows = []
    if half != planned:
        rows.append((f"peak {half:g}, not {planned:g}", _differences(peaks, half, interval)))
    choices = survey.choices
    if choices is None:
        return rows
    potential = _loss_potential(survey, tables["loss_potential"], interval)
    rows += [
        (f"base annealed to {potential['lowest']}, not re-warmed", potential["direct"]),
        ("base annealed to 0 %, re-warmed", potential["rewarmed"]),
    ]
    names = choices.bases.draws["value"].to_numpy()
    reference = names[choices.bases.reference]
    return rows + [
        (f"{name}, not {reference}", _differences(tables["bases"], name, interval))
        for name in names
        if name != reference
    ]
