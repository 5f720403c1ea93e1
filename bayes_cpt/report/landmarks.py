"""Landmarks in plain words: what to start from, how to re-warm, and whether general loss comes back."""

from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.landmarks.responses import Response
from bayes_cpt.landmarks.survey import Choices, Survey
from bayes_cpt.report.numbers import Estimate
from bayes_cpt.report.tables import with_interval
from bayes_cpt.report.words import Words, render


def survey_words(survey: Survey, interval: float = 0.9) -> Words:
    """Return what the landmarks of a plan come to."""
    tables, turning = survey.tables(interval), survey.turning
    general, target = (str(name) for name in survey.peaks.draws["domain"].to_numpy())
    of_run = tables["turning_length"].set_index("run").loc[[survey.run.name]]
    ways = of_run.set_index("course").to_dict("index")
    noted = (turning.draws[name].to_numpy() for name in ("run", "outside"))
    facts = {
        "survey": survey,
        "general": general,
        "target": target,
        "peaks": _peaks(survey, tables["peak_learning_rate"], (target, general), interval),
        "lifts": {
            domain: Estimate.of(survey.lift.sel(domain=domain).to_numpy(), interval).plain
            for domain in (target, general)
        },
        # What becomes of general loss as the surveyed run gets longer.
        "change": with_interval(ways["stretched"], "change", "change"),
        "drawn_out": ways["stretched"],
        "held": ways["held"],
        "outside": {run: note for run, note in zip(*noted, strict=True) if note},
        "beyond": (tables["turning_length"]["median"] > turning.longest).any(),
        # Of bases of known history.
        **dict.fromkeys(("bases", "potential", "critical")),
    }
    if survey.choices is not None:
        critical = tables["critical_point"]
        facts["critical"] = critical[critical["replay"] == (survey.run.replay or 0.0)].iloc[0]
        facts["bases"] = _bases(tables["bases"], (target, general))
        facts["potential"] = _loss_potential(survey.choices, interval)
    return render("landmarks.txt", facts)


def _differences(response: Response, value: float, interval: float) -> list[Estimate]:
    """Return by how much final losses at a value lie above those at the reference, by validation set."""
    losses = response.draws["loss"].transpose("domain", "value", "draw")
    gaps = losses.sel(value=value) - losses.isel(value=response.reference)
    return [Estimate.of(own, interval) for own in gaps.to_numpy()]


def _bases(table: pd.DataFrame, domains: tuple[str, str]) -> dict[str, Any] | None:
    """Return the best base on each validation set; None where there is one base only."""
    if table["value"].nunique() == 1:
        return None
    ranked = table.sort_values("median")
    best = {own: ranked[ranked["domain"] == own].to_dict("records")[:2] for own in domains}
    return {"count": table["value"].nunique(), "best": best}


def _loss_potential(choices: Choices, interval: float) -> dict[str, Any]:
    potentials = choices.direct.draws["value"].to_numpy()
    ends = {end: f"{100 * getattr(potentials, end)():g} %" for end in ("min", "max")}
    ways = {"direct": choices.direct, "rewarmed": choices.rewarmed}
    # Each from the base that is annealed the furthest.
    return ends | {
        name: _differences(own, float(own.draws["value"].min()), interval)
        for name, own in ways.items()
    }


def _peaks(
    survey: Survey, table: pd.DataFrame, domains: tuple[str, str], interval: float
) -> dict[str, Any]:
    """Return the peak nearest to half the planned one, and where the loss is lowest."""
    values = survey.peaks.draws["value"].to_numpy()
    planned = values[survey.peaks.reference]
    half = values[np.abs(values - 0.5 * planned).argmin()]
    rows = [table[table["domain"] == domain] for domain in domains]
    return {
        "half": f"{half:.3g}" if half != planned else "",
        "planned": f"{planned:.3g}",
        "changes": _differences(survey.peaks, half, interval),
        "lowest": [own.loc[own["best"].idxmax()] for own in rows],
    }
