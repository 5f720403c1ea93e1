"""Points and curves built by hand, to evaluate laws and residuals without a study."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import Interval
from bayes_cpt.model.groups import SIZES
from bayes_cpt.model.points import Curve, Curves, Points

MOMENTUM = 0.999
FORM = AreaForm(Interval.of_momenta(0.99, 0.9995))
# Learning rate from which hand-made annealing areas count.
START = 1e-3


def level_series(area: ArrayLike) -> Floats:
    """Return the series of a level at which S2, counted from `START`, has this value at `MOMENTUM`."""
    values = np.atleast_1d(np.asarray(area, dtype=np.float64))
    series = np.zeros((values.size, FORM.momenta.nodes))
    series[:, 0] = START - values * (1.0 - MOMENTUM)
    return series


# What a point has unless a test says otherwise. S2 are those at `MOMENTUM`.
# Of a base that nobody measured: the sd of a misfit of size 1 at its end, and its last learning rate.
BASE_MISFIT, BASE_RATE = 1.5, 0.5
PLAIN: dict[str, ArrayLike] = {
    "steps": 1.0, "continual": True, "domain": 0, "curve": 0, "learning_rate": 1.0, "loss": np.nan,
    "forward_pt": 8.0, "forward_cpt": 0.0, "annealing_pt": 0.0, "annealing_cpt": 0.0,
    "target_share": 1.0, "other_share": 0.0, "log_size": 0.0, "log_batch": 0.0,
    "size_member": 0, "batch_member": 0, "base_known": 0.0, "branched": 0.0,
    "base_misfit": BASE_MISFIT, "base_rate": BASE_RATE,
}  # fmt: skip
INDICES = {"domain": "domain_index", "curve": "curve_index"}


class HandPoints(Points):
    """Points with the areas that a law of one draw asks for; of the powers none is free."""

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        basis = self.form.momenta.basis(np.log(1.0 - coefficients["lambda"]))
        return self.level_pt @ basis, self.level_cpt @ basis

    def log_forward_area(self, coefficients: Any, xp: Any) -> Floats:
        return np.asarray(self.log_forward[:, 0])

    def shift_area(self, coefficients: Any, xp: Any) -> Floats:
        return np.asarray(np.exp(self.log_shift[:, 0]))

    def of_group(self, dims: str, values: Any) -> Floats:
        return np.asarray(values[self.size_member if dims == SIZES else self.batch_member])

    def of_mixture(self, values: Any) -> Floats:
        return np.asarray(self.mixture @ values)


def hand_points(*, mixture: ArrayLike = (1.0, 0.0), **given: ArrayLike) -> HandPoints:
    """Return points that are `PLAIN` but for what is given, which is broadcast to the longest."""
    assert given.keys() <= PLAIN.keys()
    size = max(np.size(value) for value in given.values()) if given else 1
    whole: dict[str, Any] = {
        INDICES.get(name, name): np.broadcast_to(value, size).astype(np.float64)
        for name, value in (PLAIN | given).items()
    }
    phase = whole.pop("continual")
    for name in (*INDICES.values(), "size_member", "batch_member"):
        whole[name] = whole[name].astype(np.int64)
    for phase_name in ("pt", "cpt"):
        whole[f"level_{phase_name}"] = level_series(whole.pop(f"annealing_{phase_name}"))
    with np.errstate(divide="ignore"):
        log_shift = np.log(whole["forward_cpt"])[:, None]
    log_forward = np.log(whole.pop("forward_pt") + whole.pop("forward_cpt"))[:, None]
    since = whole["steps"] * phase
    return HandPoints(
        **whole,
        **dict.fromkeys(("start_pt", "start_cpt"), np.full(size, START)),
        mixture=np.tile(np.asarray(mixture, dtype=np.float64), (size, 1)),
        log_forward=log_forward,
        log_shift=log_shift,
        cpt_steps=since,
        paced_steps=since,
        squared_area=0.0 * since,
        carried=np.zeros(size),
        log_peak_pt=np.zeros(size),
        rewarming=np.zeros(size),
        form=FORM,
    )


def hand_curves(
    steps: list[list[float]],
    *,
    continual: list[bool],
    base_known: list[bool],
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
