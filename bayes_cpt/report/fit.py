"""A study and its fit in plain words: whether to use it, what its runs determine, where its law fails."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.identify.determination import Facts
from bayes_cpt.inference.law_checks import WILD, LawCheck
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.groups import FEWEST, checked_batches, fitted_sizes
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.report.numbers import enumerated, number
from bayes_cpt.report.words import notation, paragraphs, sentence
from bayes_cpt.study.batches import UNSAID, batch_of
from bayes_cpt.study.ranges import BASE, FAMILY, LENGTH, PEAK_RATE, Factor, factors
from bayes_cpt.study.study import Study

PHASES = {"pt": "PT", "cpt": "CPT"}
# Where all runs share one of these, conclusions about another rest on the law's form alone.
RESTING = (PEAK_RATE, BASE, FAMILY)
# Fewer runs than this leave a law with ridges that no sampler likes.
FEW_RUNS = 3
# Sizes closer together than this ratio of the largest to the smallest hardly bend a power of size.
SPAN = 8.0
# A further size lies so far below the smallest: small models cost least.
APART = 4.0


def fit_verdict(posterior: Posterior, quality: pd.DataFrame, facts: Facts) -> list[str]:
    """Return whether to use a fit, how sure that is, and what would change it: one line each.

    Of one that cannot be trusted its `warning`. `quality` is of `bayes_cpt.forecast.quality.fit_quality`,
    `facts` of `bayes_cpt.identify.determination.facts`.
    """
    if not posterior.trustworthy:
        return warning(posterior)
    said = {
        "posterior": posterior,
        "trust": trust(quality),
        "passed": checks_passed(posterior),
        "shared": rests_on(posterior.study, continual=posterior.frame.spec.law.continual),
    }
    return paragraphs("fit.txt", "verdict", said | effect_words(facts))


def warning(posterior: Posterior, *, advice: bool = True) -> list[str]:
    """Return why a fit cannot be trusted and what to do, a line per reason; nothing where it can.

    Without `advice`, as for a paper, not what to do.
    """
    return paragraphs("fit.txt", "warning", {**_law_facts(posterior), "advice": advice})


def warned(posterior: Posterior, verdict: Sequence[str], *, advice: bool = True) -> list[str]:
    """Return a verdict that stands on a fit, first the `warning` where that cannot be trusted."""
    doubts = warning(posterior, advice=advice)
    return doubts + [line for line in verdict if line not in doubts]


def alarm_words(posterior: Posterior) -> list[str]:
    """Return where the law of a fit misses its runs, a sentence per check that says so."""
    return paragraphs("fit.txt", "alarms", _law_facts(posterior))


def unmeasured_words(frame: BoundModel) -> str:
    """Return what a fit of one validation set leaves unknown; empty where general and target are known."""
    return "".join(paragraphs("fit.txt", "unmeasured", {"frame": frame}))


def _law_facts(posterior: Posterior) -> Mapping[str, Any]:
    alarms = posterior.law_checks.alarms
    phases = {check.phase for check in posterior.law_checks.checks if check.phase}
    settings = [factor for phase in phases for factor in factors(posterior.study, phase)]
    return {
        "posterior": posterior,
        "lacking": what_is_lacking(posterior),
        "alarms": [alarm_text(alarm) for alarm in alarms],
        "wild": sum(alarm.kind == WILD for alarm in alarms),
        "probabilities": [f"{max(alarm.probability, 1e-9):.1g}" for alarm in alarms],
        "factors": sorted({factor.name for factor in settings if factor.differs}),
    }


def alarm_text(check: LawCheck) -> str:
    """Return what a check found, in one sentence without its full stop."""
    return sentence("fit.txt", check.kind, {"check": check, "phase": PHASES.get(check.phase, "")})


def checks_passed(posterior: Posterior) -> str:
    """Return what a fit that can be trusted has passed, a clause."""
    said = {"checks": posterior.law_checks.checks, "missed": posterior.missed_modes}
    return sentence("fit.txt", "passed", {"law": posterior.frame.spec.law} | said)


def what_is_lacking(posterior: Posterior) -> str:
    """Return what helps a study whose fit falls short of its diagnostics."""
    spec = posterior.frame.spec
    runs = len(spec.law.last_phase_runs(posterior.study))
    return sentence("fit.txt", "lacking", {"runs": runs, "few": runs < FEW_RUNS, "model": spec})


def trust(quality: pd.DataFrame) -> str:
    """Return how far the curves of a fit are from its losses, a sentence."""
    return sentence("fit.txt", "trust", {"rows": quality.to_dict("records")})


def summarise(facts: Facts, *, fitted: bool) -> list[str]:
    """Return what the runs determine, and what they leave open with the most telling run: two lines."""
    return paragraphs("fit.txt", "determined", effect_words(facts) | {"fitted": fitted})


def effect_words(facts: Facts) -> dict[str, str]:
    """Return what is ``settled``, what is ``open`` and the most ``telling`` run, in words.

    An effect has its validation sets where it is not so on all of them.
    """
    kinds = {"settled": facts.determined, "open": facts.left_open}
    effects_called = notation()["effects"]
    everywhere = len({domain for own in kinds.values() for sets in own.values() for domain in sets})
    words = {
        kind: ", ".join(
            effects_called[name]["subject"]
            + (f" (on {', '.join(sets)})" if len(sets) < everywhere else "")
            for name, sets in effects.items()
        )
        for kind, effects in kinds.items()
    }
    return words | {"telling": facts.telling}


def rests_on(study: Study, *, continual: bool, most: int | None = None) -> str:
    """Return what conclusions rest on one of: a peak learning rate, a base, a schedule family.

    As in "one PT peak learning rate (0.002) and one base (stable)"; of more than `most` the others are
    counted. Empty where runs differ in all of them.
    """
    parts = []
    for phase, settings in _settings(study, continual=continual).items():
        for factor in settings:
            if factor.name in RESTING and factor.values and not factor.differs:
                shown = next(iter(factor.values.values()))
                shown = number(shown) if isinstance(shown, float) else shown
                whose = "" if factor.name == BASE else f"{phase} "
                parts.append(f"one {whose}{factor.name} ({shown})")
    if most is not None and len(parts) > most + 1:
        # Those of the runs that are to be chosen first.
        parts.sort(key=lambda part: part.startswith("one PT "))
        parts[most:] = [f"{len(parts) - most} more such choices"]
    return enumerated(parts)


def resting(study: Study, *, continual: bool) -> str:
    """Return `rests_on` as a sentence that says what follows from it; empty where runs differ in it all."""
    facts = {"shared": rests_on(study, continual=continual)}
    return "".join(paragraphs("fit.txt", "resting", facts))


def power_words(posterior: Posterior, interval: float) -> str:
    """Return what the power of the learning rate in the forward area makes of a higher peak, in a sentence.

    Empty where the law has no such power, or knows it, and for a stack of laws.
    """
    laws = [law for law, _ in posterior.shares()]
    power = np.ravel(laws[0].parameters().get("forward_power", np.ones(1)))
    if len(laws) > 1 or np.ptp(power) == 0.0:
        return ""
    ends = np.quantile(power, [0.5 - interval / 2, 0.5 + interval / 2])
    return sentence("fit.txt", "power", {"ends": ends, "mass": f"{100 * interval:g} %"})


def undivided(study: Study, *, continual: bool) -> list[str]:
    """Return what no two runs of each phase differ in, a line per phase."""
    phases = _settings(study, continual=continual)
    return paragraphs("check.txt", "alike", {"phases": phases})


def _settings(study: Study, *, continual: bool) -> dict[str, tuple[Factor, ...]]:
    """Return what the runs of each phase may differ in, by the phase in words."""
    return {
        said: factors(study, phase) for phase, said in PHASES.items() if continual or phase == "pt"
    }


def size_words(study: Study, *, continual: bool) -> list[str]:
    """Return how many model sizes there are, and which would tell the exponents of size; at most a line."""
    sizes = fitted_sizes(study, continual=continual)
    missing = FEWEST - len(sizes)
    further = [f"{sizes[0] / APART**place:.3g}M" for place in range(1, missing + 1)]
    facts = {"sizes": sizes, "missing": missing, "further": further, "span": SPAN}
    return paragraphs("check.txt", "sizes", facts)


def batch_words(study: Study) -> list[str]:
    """Return which batches there are, what cannot be separated, and which runs would tell more."""
    batches, measured = checked_batches(study), study.measured_runs("cpt")
    names = {
        batch: own
        for batch in batches
        if (own := [run.name for run in measured if batch_of(study, run) == batch])
    }
    members = []
    for batch, runs in names.items():
        others = [run.name for run in measured if run.name not in runs]
        apart = [
            factor.name
            for factor in factors(study, "cpt")
            if factor.name != LENGTH
            and all(_differ(factor, run, other) for run in runs for other in others)
        ]
        members.append({"batch": batch.words, "runs": len(runs), "apart": apart})
    facts = {"unsaid": batches == (UNSAID,), "members": members}
    return paragraphs("check.txt", "batches", facts)


def _differ(factor: Factor, *runs: str) -> bool:
    return replace(factor, values={run: factor.values[run] for run in runs}).differs


def convergence(posterior: Posterior, table: pd.DataFrame) -> dict[str, Any]:
    """Return the diagnostics of a fit by name, of which `table` is the summary.

    Of its draws those kept of each chain, and those that were cut off at full depth (``saturated``); the
    modes that were found and not sampled (``missed_modes``).
    """
    sampled, tree = table[table["kind"] == "parameter"], posterior.tree
    statistics = tree["sample_stats"].dataset
    return {
        "chains": tree["posterior"].sizes["chain"],
        "draws": tree["posterior"].sizes["draw"],
        "attempts": int(tree.attrs["attempts"]),
        "missed_modes": posterior.missed_modes,
        "max_r_hat": float(sampled["r_hat"].max()),
        "min_ess_bulk": float(sampled["ess_bulk"].min()),
        "min_ess_tail": float(sampled["ess_tail"].min()),
        "divergences": int(statistics["diverging"].sum()),
        "saturated": int(statistics["reached_max_treedepth"].sum()),
    }
