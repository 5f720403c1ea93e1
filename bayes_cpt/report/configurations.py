"""A configuration of a CPT run, and a short run, in words."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.study.runs import mixture_words

if TYPE_CHECKING:
    from bayes_cpt.decisions.candidates import Candidates
    from bayes_cpt.study.runs import Run

# Heading, what it is, and what its values are shares of.
QUANTITIES = {
    "loss_potential": ("Loss potential", "loss potential", ""),
    "replay": ("Replay", "replay ratio", ""),
    "peak": ("Peak LR", "peak LR", ""),
    "relative_peak": ("Peak LR", "peak LR", " of the PT peak"),
    "warmup_steps": ("Re-warm-up", "re-warm-up", " steps"),
    "warmup_share": ("Re-warm-up", "re-warm-up", " of the run"),
    "decay_share": ("Decay", "length of the decay", " of the steps after the re-warm-up"),
    "final": ("Final LR", "final LR", ""),
    "relative_final": ("Final LR", "final LR", " of the peak"),
    "steps": ("Length", "length", " steps"),
}
# Of the peak: what ends above that is not annealed.
HELD = 0.95


def in_short(candidates: "Candidates", row: int) -> str:
    """Return what matters most of a configuration: base, length, replay ratio and peak.

    Parameters
    ----------
    candidates : Candidates
    row : int
    """
    base = candidates.bases[candidates.base[row]].name
    return (
        f"from {base}, {candidates.schedules.steps[row]} steps, "
        f"{100 * candidates.replay[row]:.0f} % general data{_mixture(candidates, row)}, "
        f"peak LR {candidates.schedules.peak[row]:.3g}"
    )


def configuration(candidates: "Candidates", row: int) -> str:
    """Return one configuration in words.

    Parameters
    ----------
    candidates : Candidates
    row : int
    """
    batch, base = candidates.schedules, candidates.bases[candidates.base[row]]
    initial, peak, last = batch.initial[row], batch.peak[row], batch.last_rate[row]
    warmup, decay, steps = batch.warmup_steps[row], batch.decay_steps[row], batch.steps[row]
    relative = candidates.column("relative_peak")[row]
    share = f" ({relative:.2g} of the PT peak)" if np.isfinite(relative) else ""
    share = " (the PT peak)" if np.isclose(relative, 1.0) else share
    if warmup:
        way = "re-warm" if peak > initial else "lower the LR"
        parts = [f"{way} in {warmup} steps from {initial:g} to {peak:g}{share}"]
    elif np.isclose(peak, initial):
        parts = [f"go on at {peak:g}{share}"]
    else:
        parts = [f"start at {peak:g}{share} without a re-warm-up"]
    if steps > warmup + decay:
        parts.append(f"stay there for {steps - warmup - decay} steps")
    if decay:
        shape = str(candidates.column("decay_shape")[row]).replace("_", " ")
        parts.append(f"decay in {decay} steps ({shape}) to {last:g}")
    return (
        f"from {base.name}, {steps} steps with {100 * candidates.replay[row]:.3g} % general data"
        f"{_mixture(candidates, row)}: "
        f"{', '.join(parts)}"
    )


def _mixture(candidates: "Candidates", row: int) -> str:
    """Return the mixture of targets in words; nothing where there is one target."""
    words = str(candidates.column("targets")[row])
    return f" (the rest {words})" if words else ""


def short_run(run: "Run") -> str:
    """Return a short run in words.

    Parameters
    ----------
    run : Run
    """
    rates = run.schedule
    course = (
        f"at up to {rates.peak:.3g}"
        if rates.final >= HELD * rates.peak
        else f"from {rates.peak:.3g} down to {rates.final:.2g}"
    )
    share = f"{100 * (run.replay or 0.0):.3g} % general data"
    rest = f" (the rest {mixture_words(run.mixture)})" if run.mixture else ""
    origin = f" from {run.base} with {share}{rest}" if run.base else ""
    return f"{rates.steps} steps{origin}, {course}"


def quantity_text(value: float, digits: int = 3) -> str:
    """Return a value of a quantity that may be chosen.

    Parameters
    ----------
    value : float
    digits : int
        Significant ones; a value that is inferred is known to two at the most.

    Examples
    --------
    >>> quantity_text(0.39412), quantity_text(0.39412, 2), quantity_text(12345.0)
    ('0.394', '0.39', '12345')
    """
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
