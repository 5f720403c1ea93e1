"""Landmarks in plain words: what to start from, how to re-warm, and whether general loss comes back."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.landmarks.responses import Response
    from bayes_cpt.landmarks.survey import Choices, Survey

type Floats = NDArray[np.float64]

# What is this probable is said without ifs.
SURE = 0.9
MANY = 1e6


def advise(survey: "Survey", interval: float = 0.9) -> list[str]:
    """Return what a survey comes to, one paragraph per question.

    Parameters
    ----------
    survey : Survey
    interval : float
        Mass of the central intervals in brackets.
    """
    tables, own = survey.tables(interval), survey.choices
    peak = _peak(survey, tables["peak_learning_rate"], interval)
    back = _coming_back(survey, tables["turning_length"])
    outside = _outside(survey, tables["turning_length"])
    if own is None:
        return [text for text in (peak, back, _no_choice(survey), outside) if text]
    found = [
        _base(survey, own, tables["bases"]),
        _loss_potential(survey, own, interval),
        peak,
        back,
        _critical(survey, own, tables["critical_point"]),
        _unknown(survey, own, interval),
        outside,
    ]
    return [paragraph for paragraph in found if paragraph]


def _no_choice(survey: "Survey") -> str:
    return (
        f"Base: the history of {survey.base.name} is not known, and runs from it alone tell nothing of its "
        "critical point, of other loss potentials or of other bases."
    )


def _base(survey: "Survey", own: "Choices", table: "pd.DataFrame") -> str:
    if table["value"].nunique() == 1:
        return ""
    general, target = _domains(own.bases)
    best, parts = {}, []
    for domain in (target, general):
        ends = table[table["domain"] == domain].sort_values("median")
        first, second = ends.iloc[0], ends.iloc[1]
        best[domain] = first["value"]
        gap = second["median"] - first["median"]
        parts.append(
            f"{first['value']} ends lowest on {domain} ({chance(first['best'])}), {gap:.3f} nats below "
            f"{second['value']}"
        )
    verdict = f"start from {best[target]}"
    if best[general] != best[target]:
        verdict += f" for {target}, from {best[general]} for {general}"
    return (
        f"Base: {verdict}. Of {table['value'].nunique()} bases of known history, each re-warmed to "
        f"{survey.run.schedule.peak:g} and then trained like {survey.run.name}, {'; '.join(parts)}."
    )


def _loss_potential(survey: "Survey", own: "Choices", interval: float) -> str:
    general, target = _domains(own.direct)
    lowest, highest = own.direct.draws["value"].to_numpy()[[0, -1]]
    direct, again = _gaps(own.direct)[:, 0], _gaps(own.rewarmed)[:, 0]
    text = (
        f"Loss potential: without a re-warm-up a base annealed to {100 * lowest:g} % of its peak ends "
        f"{_moved(direct[:, 1], interval)} on {target} and {_moved(direct[:, 0], interval)} on {general} "
        f"than one left at {100 * highest:g} %. Re-warmed to {survey.run.schedule.peak:g}, a fully "
        f"annealed one ends {_moved(again[:, 1], interval)} on {target} and "
        f"{_moved(again[:, 0], interval)} on {general}. "
    )
    worse, worse_again = (float(np.mean(gap[:, 1] > 0)) for gap in (direct, again))
    if worse < SURE:
        return f"{text}Annealing before CPT is no sure loss on {target}."
    if worse_again > SURE:
        return f"{text}For {target}, ask for a checkpoint from before the anneal."
    return (
        f"{text}For {target}, do not start an annealed base at its own learning rate: re-warm it, or ask "
        "for a checkpoint from before the anneal."
    )


def _peak(survey: "Survey", table: "pd.DataFrame", interval: float) -> str:
    general, target = _domains(survey.peaks)
    values, reference = survey.peaks.draws["value"].to_numpy(), survey.peaks.reference
    half = int(np.argmin(np.abs(values - 0.5 * values[reference])))
    text = "Peak learning rate: "
    if half != reference:
        gaps = _gaps(survey.peaks)[:, half]
        text += (
            f"{survey.run.name} with {values[half]:g} in place of {values[reference]:g} ends "
            f"{_moved(gaps[:, 1], interval)} on {target} and {_moved(gaps[:, 0], interval)} on {general}. "
        )
    lowest = []
    for domain in (target, general):
        own = table[table["domain"] == domain]
        row = own.loc[own["best"].idxmax()]
        far = ", outside what was fitted" if row["outside"] else ""
        lowest.append(f"{row['value']:g} on {domain} ({chance(row['best'])}{far})")
    text += f"Of the peaks tried, the lowest end has {' and '.join(lowest)}."
    schedule, after = survey.base.schedule, survey.run.schedule.peak
    before = schedule.final if schedule else 0.0
    if before >= after:
        return text
    lifts = [
        f"{_band(survey.lift.sel(domain=domain).to_numpy(), interval)} nats on {domain}"
        for domain in (target, general)
    ]
    return (
        f"{text} Warming up from {before:g} to {after:g} lifts the loss by up to "
        f"{' and '.join(lifts)}, until annealing takes that back."
    )


def _coming_back(survey: "Survey", table: "pd.DataFrame") -> str:
    general, _ = _domains(survey.peaks)
    own = table[table["run"] == survey.run.name].set_index("course")
    parts = []
    for balance in own["balance"].unique():
        stretched, held = (own[own["balance"] == balance].loc[way] for way in ("stretched", "held"))
        what = general if balance == 1.0 else f"the balance ({balance:g} {general})"
        parts.append(
            f"After its {stretched['planned_steps']} steps {survey.run.name} has moved {what} by "
            f"{_signed(stretched['change'])} nats ({_signed(stretched['change_lower'])} to "
            f"{_signed(stretched['change_upper'])}; at or below its base: {chance(stretched['back'])}). "
            f"Drawn out, the run {_becomes(stretched)}; held at its peak and never annealed, it "
            f"{_becomes(held)}."
        )
    return f"Coming back: {' '.join(parts)}"


def _becomes(row: Any) -> str:
    """Return what becomes of a loss as the run gets longer."""
    when = f"{steps(row['median'])} steps ({steps(row['lower'])} to {steps(row['upper'])}; "
    if row["lower"] > MANY:
        when = "over a million steps ("
    back = f"brings it back after {when}{chance(row['returns'])})"
    outcomes = (
        (row["never_rises"], f"never takes it above its base ({chance(row['never_rises'])})"),
        (row["returns"], back),
        (row["never_returns"], f"never brings it back ({chance(row['never_returns'])})"),
    )
    return " or ".join(text for probability, text in outcomes if probability >= 0.01)


def _critical(survey: "Survey", own: "Choices", table: "pd.DataFrame") -> str:
    general, _ = _domains(own.bases)
    replay = survey.run.replay or 0.0
    row = table[table["replay"] == replay].iloc[0]
    head = f"Critical point: at replay {replay:g}"
    if row["exists"] < 1.0 - SURE:
        return (
            f"{head} there is none ({chance(1.0 - row['exists'])}): if the run is long enough, {general} "
            "comes back from any base."
        )
    past = _past(survey, own)
    rate = own.critical.draws.attrs["learning_rate"]
    if row["lower"] > MANY:
        text = f"{head} it lies beyond a million PT steps at {rate:g}"
    else:
        text = (
            f"{head} it lies at {steps(row['median'])} PT steps at {rate:g} ({steps(row['lower'])} to "
            f"{steps(row['upper'])})"
        )
    verdict = (
        f"Past it, not all of {general} comes back: keep it by replay, a lower peak or fewer steps."
        if past > 0.5
        else f"Short of it, {general} comes back, given enough steps."
    )
    return f"{text}; that {survey.base.name} is past it has probability {chance(past)}. {verdict}"


def _past(survey: "Survey", own: "Choices") -> float:
    return float(own.critical.past(survey.base).sel(replay=survey.run.replay or 0.0))


def _unknown(survey: "Survey", own: "Choices", interval: float) -> str:
    general, target = _domains(own.rewarmed)
    whose = "If the history of a base is not known"
    if survey.unknown:
        whose = f"The history of {', '.join(survey.unknown)} is not known"
    gap = _gaps(own.rewarmed)[:, 0, 1]
    text = (
        f"{whose} (open weights): take it as annealed to 0, as released models are, and re-warm it; by "
        f"this fit that ends {_moved(gap, interval)} on {target} than a base left at its peak. Measure its "
        "loss on both validation sets before the first step, with a sample of a public crawl as general "
        "data, and write down an approximate PT schedule: steps times learning rate is what counts. Or fit "
        "short runs from it by themselves, with known = false."
    )
    if _past(survey, own) > 0.5:
        text += (
            f" {survey.base.name} is past its critical point, and a base trained for longer the more so: "
            f"do not wait for {general} to come back, choose replay."
        )
    return text


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
    return f"Outside what was fitted, to be trusted less: {'; '.join(notes)}." if notes else ""


def _domains(response: "Response") -> tuple[str, str]:
    general, target = response.draws["domain"].to_numpy()
    return str(general), str(target)


def _gaps(response: "Response") -> Floats:
    """Return final losses minus those at the reference, shape (draws, values, domains)."""
    loss = response.draws["loss"].transpose("draw", "value", "domain").to_numpy()
    return np.asarray(loss - loss[:, [response.reference]])


def _moved(gap: Floats, interval: float) -> str:
    """Return a difference of losses in words."""
    median, lower, upper = _quantiles(gap, interval)
    way = "higher" if median > 0 else "lower"
    sure = float(np.mean(gap > 0 if median > 0 else gap < 0))
    return f"{abs(median):.3f} nats {way} ({_signed(lower)} to {_signed(upper)}; {chance(sure)})"


def _band(values: Floats, interval: float) -> str:
    median, lower, upper = _quantiles(values, interval)
    return f"{median:.3f} ({lower:.3f} to {upper:.3f})"


def _quantiles(values: Floats, interval: float) -> Floats:
    return np.quantile(values, [0.5, 0.5 - interval / 2, 0.5 + interval / 2])


def chance(probability: float) -> str:
    """Return a probability with as many digits as some hundred draws give it.

    Examples
    --------
    >>> chance(0.123), chance(0.0), chance(1.0)
    ('12 %', 'under 1 %', 'over 99 %')
    """
    if probability < 0.01:
        return "under 1 %"
    return "over 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"


def steps(count: float) -> str:
    """Return a number of steps in words.

    Examples
    --------
    >>> steps(8423.4), steps(3.2e8)
    ('8423', 'over a million')
    """
    return "over a million" if count > MANY else f"{count:.0f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
