"""Points and curves built by hand, to evaluate laws and residuals without a study."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import MomentumRange
from bayes_cpt.model.points import Curve, Curves, Points

MOMENTUM = 0.999
FORM = AreaForm(MomentumRange(0.99, 0.9995))
# Learning rate from which hand-made annealing areas count.
START = 1e-3


def level_series(area: ArrayLike) -> Floats:
    """Return the series of a level at which S2, counted from `START`, has this value at `MOMENTUM`."""
    values = np.atleast_1d(np.asarray(area, dtype=np.float64))
    series = np.zeros((values.size, FORM.momenta.interval.nodes))
    series[:, 0] = START - values * (1.0 - MOMENTUM)
    return series


def hand_points(
    *,
    steps: ArrayLike = 1.0,
    continual: ArrayLike = True,
    domain: ArrayLike = 0,
    curve: ArrayLike = 0,
    learning_rate: ArrayLike = 1.0,
    forward_pt: ArrayLike = 8.0,
    forward_cpt: ArrayLike = 0.0,
    annealing_pt: ArrayLike = 0.0,
    annealing_cpt: ArrayLike = 0.0,
    target_share: ArrayLike = 1.0,
    other_share: ArrayLike = 0.0,
    mixture: ArrayLike = (1.0, 0.0),
    log_size: ArrayLike = 0.0,
    size_member: ArrayLike = 0,
    batch_member: ArrayLike = 0,
    loss: ArrayLike = np.nan,
    base_known: ArrayLike = 0.0,
    branched: ArrayLike = 0.0,
) -> Points:
    """Return points; every argument is broadcast to the longest. S2 are those at `MOMENTUM`."""
    given: dict[str, Any] = {
        "steps": steps,
        "continual": continual,
        "domain_index": domain,
        "curve_index": curve,
        "learning_rate": learning_rate,
        "forward_pt": forward_pt,
        "forward_cpt": forward_cpt,
        "annealing_pt": annealing_pt,
        "annealing_cpt": annealing_cpt,
        "target_share": target_share,
        "other_share": other_share,
        "log_size": log_size,
        "size_member": size_member,
        "batch_member": batch_member,
        "loss": loss,
        "base_known": base_known,
        "branched": branched,
    }
    size = max(np.size(value) for value in given.values())
    whole = {name: np.broadcast_to(value, size).astype(np.float64) for name, value in given.items()}
    phase = whole.pop("continual")
    for name in ("domain_index", "curve_index", "size_member", "batch_member"):
        whole[name] = whole[name].astype(np.int64)
    levels = {
        f"level_{name}": level_series(whole.pop(f"annealing_{name}")) for name in ("pt", "cpt")
    }
    log_forward = np.log(whole.pop("forward_pt") + whole["forward_cpt"])[:, None]
    with np.errstate(divide="ignore"):
        log_shift = np.log(whole.pop("forward_cpt"))[:, None]
    starts = dict.fromkeys(("start_pt", "start_cpt"), np.full(size, START))
    since = whole["steps"] * phase
    return Points(
        **whole,
        **levels,
        **starts,
        mixture=np.tile(np.asarray(mixture, dtype=np.float64), (size, 1)),
        log_forward=log_forward,
        log_shift=log_shift,
        cpt_steps=since,
        paced_steps=since,
        carried=np.zeros(size),
        log_peak_pt=np.zeros(size),
        form=FORM,
    )


def hand_curves(
    steps: list[list[float]],
    *,
    continual: list[bool],
    base_known: list[bool],
    losses: list[list[float]] | None = None,
    rates: list[list[float]] | None = None,
    domains: list[int] | None = None,
) -> Curves:
    """Return curves with these steps, one list per curve, and bases with loss 3."""
    count = len(steps)
    index = np.repeat(np.arange(count), [len(own) for own in steps])
    domains = domains or [0] * count
    points = hand_points(
        steps=np.concatenate(steps),
        continual=np.array(continual)[index],
        domain=np.array(domains)[index],
        curve=index,
        learning_rate=1.0 if rates is None else np.concatenate(rates),
        forward_cpt=np.concatenate(steps) * 2e-4 * np.array(continual)[index],
        target_share=np.array(continual)[index],
        loss=np.nan if losses is None else np.concatenate(losses),
        base_known=np.array(base_known)[index],
    )
    bases = hand_points(
        steps=np.zeros(count),
        continual=continual,
        domain=domains,
        curve=np.arange(count),
        target_share=np.array(continual, dtype=np.float64),
        loss=3.0,
        base_known=np.array(base_known, dtype=np.float64),
    )
    named = tuple(
        Curve(f"run {i}", f"domain {domains[i]}", continual[i], base_known[i]) for i in range(count)
    )
    return Curves(named, points, bases)
