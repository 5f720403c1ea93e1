"""Whether a law fits its runs, and what no two of its runs differ in, in plain words."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.inference.law_checks import DRIFT, FACTOR, SIZE
from bayes_cpt.report.numbers import enumerated
from bayes_cpt.report.rendering import Words, render
from bayes_cpt.study.ranges import BASE, FAMILY, PEAK_RATE, factors

if TYPE_CHECKING:
    from bayes_cpt.inference.law_checks import LawCheck
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

PHASES = {"pt": "PT", "cpt": "CPT"}
# What a conclusion about another run rests on the law alone for, where all runs share it.
RESTING = (PEAK_RATE, BASE, FAMILY)


def law_words(posterior: "Posterior") -> Words:
    """Return where the law of a fit does not fit its runs; nothing where it does.

    Parameters
    ----------
    posterior : Posterior
    """
    checks = posterior.law_checks
    alarms = checks.alarms
    differing = dict.fromkeys(
        factor.name
        for phase in {check.phase for check in checks.checks if check.phase}
        for factor in factors(posterior.study, phase)
        if factor.differs
    )
    return render(
        "law_checks.txt",
        {
            "model": posterior.frame.spec.name,
            "alarms": [alarm_text(alarm) for alarm in alarms],
            "probabilities": [f"{alarm.probability:.1g}" for alarm in alarms],
            "more": len(alarms) - 1,
            "factors": sorted(differing),
            "trustworthy_sampling": not posterior.problems,
        },
    )


def alarm_text(check: "LawCheck") -> str:
    """Return what a check found, in one sentence without its full stop.

    Parameters
    ----------
    check : LawCheck
    """
    on = "" if check.domain == "all" else f" on {check.domain}"
    size, phase = f"{abs(check.value):.2g} nats", PHASES.get(check.phase, "")
    if check.kind == SIZE:
        return (
            f"{check.subject}{on} is {size} where the prior's median is {check.usual:.2g}: what the law "
            "leaves is taken for noise"
        )
    if check.kind == FACTOR:
        return (
            f"What the law leaves of {phase} runs{on} goes with their {check.subject}, over {size}"
        )
    sds = f"{abs(check.score):.1f} times what its noise and misfit allow"
    if check.kind == DRIFT:
        way = "rises" if check.value > 0 else "falls"
        return f"Run {check.subject}{on} {way} by {size} against the law from its start to its end, {sds}"
    side = "above" if check.value > 0 else "below"
    return f"Run {check.subject}{on} lies {size} {side} the law, {sds}"


def undivided(study: "Study", *, continual: bool) -> list[str]:
    """Return what no two runs of each phase differ in, a line per phase.

    Parameters
    ----------
    study : Study
    continual : bool
        Whether CPT runs count.
    """
    lines = []
    for phase in ("pt", "cpt") if continual else ("pt",):
        settings = factors(study, phase)
        runs = len(settings[0].values)
        alike = [factor.name for factor in settings if not factor.differs]
        if runs == 1:
            lines.append(f"There is one {PHASES[phase]} run: nothing can be compared with it.")
        elif runs and alike:
            lines.append(f"No two {PHASES[phase]} runs differ in: {', '.join(alike)}.")
    return lines


def rests_on(study: "Study", *, continual: bool, most: int | None = None) -> str:
    """Return what conclusions rest on one of: a peak learning rate, a base, a schedule family.

    Parameters
    ----------
    study : Study
        What was fitted.
    continual : bool
        Whether the law is about CPT runs.
    most : int, optional
        How many are named, where a line has to be short; the others are counted.

    Returns
    -------
    str
        As in "one PT peak learning rate (0.002) and one base (stable)"; empty where runs differ in it all.
    """
    parts = []
    for phase in ("pt", "cpt") if continual else ("pt",):
        for factor in factors(study, phase):
            values = list(factor.values.values())
            if factor.name in RESTING and values and not factor.differs:
                shown = f"{values[0]:.2g}" if isinstance(values[0], float) else values[0]
                whose = "" if factor.name == BASE else f"{PHASES[phase]} "
                parts.append(f"one {whose}{factor.name} ({shown})")
    if most is not None and len(parts) > most + 1:
        parts[most:] = [f"{len(parts) - most} more such choices"]
    return enumerated(parts)


def power_words(posterior: "Posterior", interval: float) -> str:
    """Return what the power of the learning rate in the forward area makes of a higher peak, in a sentence.

    Parameters
    ----------
    posterior : Posterior
    interval : float
        Mass of the interval.

    Returns
    -------
    str
        Empty where the law has no such power, or knows it, and for a stack of laws.
    """
    laws = [law for law, _ in posterior.shares()]
    power = np.ravel(laws[0].parameters().get("forward_power", np.ones(1)))
    if len(laws) > 1 or np.ptp(power) == 0.0:
        return ""
    ends = np.quantile(power, [0.5 - interval / 2, 0.5 + interval / 2])
    gains = 100.0 * (2.0**ends - 1.0)
    return (
        f"The forward area grows with the learning rate to the power rho, {ends[0]:.2f} to {ends[1]:.2f} "
        f"({100 * interval:g} % interval): twice the peak LR gives {gains[0]:.0f} to {gains[1]:.0f} % more "
        "of it, where twice the steps give 100 %."
    )


def resting(study: "Study", *, continual: bool) -> str:
    """Return `rests_on` as a sentence that says what follows from it; empty where runs differ in it all.

    Parameters
    ----------
    study : Study
    continual : bool
    """
    told = rests_on(study, continual=continual)
    meaning = "what another would do follows from the law's form and the priors alone"
    return f"It rests on {told}: {meaning}." if told else ""
