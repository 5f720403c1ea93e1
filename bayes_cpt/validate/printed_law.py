"""Eq. 8 of arXiv 2505.07796 as printed, in plain NumPy with gradients by hand.

The law of the baselines. Written apart from `bayes_cpt.laws` and `bayes_cpt.laws.areas`, so that the two
can check each other: only studies and schedules are shared.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.study.study import Run, Study

if TYPE_CHECKING:
    import pandas as pd


# The paper fixes it.
MOMENTUM = 0.999
# The first PT steps are not on the power law yet; `bayes_cpt` leaves out as many.
SKIPPED_PRETRAINING = 0.1
# Below it the replay factor is its series: the quotient would lose its digits.
SMALL_BEND = 1e-4
# No loss is lower: keeps the logarithm finite while the optimiser strays.
LOWEST_LOSS = 1e-3

PARAMETERS = (
    "floor",  # L0
    "log_size",  # log A
    "log_exponent",  # log alpha
    "gain_pt",  # C1
    "gain_cpt",  # C2
    "gain_replay",  # a1
    "shift",  # B·(1 - exp(-a2)) on D_pt, B·(exp(a2) - 1) on D_cpt: what B stands for at replay 0
    "log_shift_rate",  # log E
    "log_shift_exponent",  # log beta
    "replay_bend",  # a2 on D_pt, -a2 on D_cpt
)


def forward_area(learning_rates: ArrayLike) -> Floats:
    """Return S1 after each step.

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw.
    """
    return np.cumsum(np.asarray(learning_rates, dtype=np.float64))


def annealing_area(learning_rates: ArrayLike, initial_rate: float) -> Floats:
    """Return S2 after each step (Eq. 1): the double sum as one second-order recursion.

    S2_i = (1 + lambda) S2_{i-1} - lambda S2_{i-2} + (eta_{i-1} - eta_i).

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw.
    initial_rate : float
        eta_0.
    """
    from scipy.signal import lfilter

    falls = -np.diff(np.asarray(learning_rates, dtype=np.float64), prepend=initial_rate)
    return np.asarray(lfilter([1.0], [1.0, -(1.0 + MOMENTUM), MOMENTUM], falls))


def _pretraining_annealing(rates: Floats, warmup_steps: int) -> Floats:
    """Return S2 after each PT step: a warm-up does not count."""
    area = np.zeros(rates.size)
    area[warmup_steps:] = annealing_area(rates[warmup_steps:], rates[max(warmup_steps - 1, 0)])
    return area


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the law needs of each point, one array per quantity, each of shape (points,).

    Areas are in LR·steps, `target_share` is r_cpt and 0 in PT. From an unknown base, which counts as
    annealed, `forward_pt` and `annealing_pt` are 0.
    """

    forward_pt: Floats
    forward_cpt: Floats
    annealing_pt: Floats
    annealing_cpt: Floats
    target_share: Floats
    continual: NDArray[np.bool_]
    unknown: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Return the inputs of all parts, one after the other.

        Parameters
        ----------
        parts : list of Inputs
        """
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})


def inputs_of(study: Study, run: Run, steps: ArrayLike) -> Inputs:
    """Return what the law needs of a run at steps (0 is the base), in the order given.

    Parameters
    ----------
    study : Study
    run : Run
    steps : array_like of int, shape (points,)
    """
    points = np.asarray(steps, dtype=np.int64)
    rates = run.schedule.learning_rates()
    ones, nothing = np.ones(points.size), np.zeros(points.size)
    if run.phase == "pt":
        forward = np.append(0.0, forward_area(rates))[points]
        annealing = _pretraining_annealing(rates, run.schedule.warmup_steps)
        area = np.append(0.0, annealing)[points]
        no = nothing.astype(bool)
        return Inputs(forward, nothing, area, nothing, nothing, no, no)
    base = study.base(str(run.base)).schedule
    area_pt, annealing_pt, initial_rate = 0.0, 0.0, 0.0
    if base is not None:
        base_rates = base.learning_rates()
        area_pt, initial_rate = float(base_rates.sum()), base.final
        annealing_pt = float(_pretraining_annealing(base_rates, base.warmup_steps)[-1])
    return Inputs(
        forward_pt=area_pt * ones,
        forward_cpt=np.append(0.0, forward_area(rates))[points],
        annealing_pt=annealing_pt * ones,
        annealing_cpt=np.append(0.0, annealing_area(rates, initial_rate))[points],
        target_share=(1.0 - float(run.replay or 0.0)) * ones,
        continual=ones.astype(bool),
        unknown=np.full(points.size, base is None),
    )


def inputs_at(study: Study, points: "pd.DataFrame") -> Inputs:
    """Return what the law needs of points with the columns run and step, in their order.

    Parameters
    ----------
    study : Study
    points : DataFrame
    """
    pairs = zip(points["run"], points["step"], strict=True)
    return Inputs.join([inputs_of(study, study.run(run), [step]) for run, step in pairs])


def observations(study: Study, domain: str) -> tuple[Inputs, Floats]:
    """Return inputs and losses (nats/token) of all points of a validation set that enter a fit.

    PT points past the warm-up and past the first tenth of the run; CPT points from step 1.

    Parameters
    ----------
    study : Study
    domain : str
    """
    parts, losses = [], []
    for run in study.runs:
        steps, measured = study.curve(run.name, domain)
        first = 0.0
        if run.phase == "pt":
            first = max(run.schedule.warmup_steps, SKIPPED_PRETRAINING * run.schedule.steps)
        kept = steps > first
        parts.append(inputs_of(study, run, steps[kept]))
        losses.append(measured[kept])
    return Inputs.join(parts), np.concatenate(losses)


def _replay_factor(bend: float, share: Floats) -> tuple[Floats, Floats]:
    """Return the replay factor over its value at replay 0, and its slope in the bend.

    Over that value, the factors printed for D_pt and D_cpt are one function: B and a2 would be so
    entangled, B going to 0 as a2 falls, that few starts arrive. The fitted curves are the same.
    """
    if abs(bend) < SMALL_BEND:
        return share + bend * share * (1.0 - share) / 2.0, share * (1.0 - share) / 2.0
    factor = np.expm1(-bend * share) / np.expm1(-bend)
    slope = (np.exp(-bend) * factor - share * np.exp(-bend * share)) / np.expm1(-bend)
    return factor, slope


@dataclass(frozen=True)
class PrintedLaw:
    """The law of one validation set.

    With ``bend = a2`` on D_pt and ``bend = -a2`` on D_cpt, and B over what `PARAMETERS` says, it is
    Eq. 8 letter by letter.

    Parameters
    ----------
    is_target : bool
        Whether it is D_cpt: the two sets differ in how replay enters.
    """

    is_target: bool

    def losses(self, parameters: ArrayLike, inputs: Inputs) -> Floats:
        """Return the loss at each point, shape (points,), for `PARAMETERS` in their order.

        With points from a base whose schedule is not known the log of its S1_pt comes last (App. G).

        Parameters
        ----------
        parameters : array_like, shape (parameters,)
        inputs : Inputs
        """
        return self._losses_and_gradients(parameters, inputs)[0]

    def _losses_and_gradients(self, parameters: ArrayLike, inputs: Inputs) -> tuple[Floats, Floats]:
        """Return the loss at each point and its gradient, shape (parameters, points)."""
        values = np.asarray(parameters, dtype=np.float64)
        floor, log_size, log_exponent, gain_pt, gain_cpt, gain_replay = values[:6]
        shift, log_shift_rate, log_shift_exponent, replay_bend = values[6 : len(PARAMETERS)]
        unknown_area = np.exp(values[len(PARAMETERS) :]).sum() * inputs.unknown
        exponent, shift_exponent = np.exp([log_exponent, log_shift_exponent])

        forward = inputs.forward_pt + unknown_area + inputs.forward_cpt
        log_forward = np.log(forward)
        power = np.exp(log_size - exponent * log_forward)

        share = inputs.target_share if self.is_target else 1.0 - inputs.target_share
        annealing = inputs.annealing_cpt * np.exp(gain_replay * share)

        replay_factor, replay_slope = _replay_factor(replay_bend, inputs.target_share)
        progress = np.exp(log_shift_rate) * inputs.forward_cpt
        left = np.exp(-shift_exponent * np.log1p(progress))
        curve = 1.0 - left

        losses = (
            floor
            + power
            - gain_pt * inputs.annealing_pt
            - gain_cpt * annealing
            + shift * curve * replay_factor
        )
        unknown_slope = -exponent * power * unknown_area / forward
        gradients = np.stack(
            [
                np.ones_like(power),
                power,
                -exponent * log_forward * power,
                -inputs.annealing_pt,
                -annealing,
                -gain_cpt * share * annealing,
                curve * replay_factor,
                shift * replay_factor * shift_exponent * left * progress / (1.0 + progress),
                shift * replay_factor * shift_exponent * left * np.log1p(progress),
                shift * curve * replay_slope,
                *([unknown_slope] if values.size > len(PARAMETERS) else []),
            ]
        )
        return losses, gradients

    def log_losses_and_gradients(
        self, parameters: ArrayLike, inputs: Inputs
    ) -> tuple[Floats, Floats]:
        """Return the logarithm of the loss at each point and its gradient.

        Parameters
        ----------
        parameters : array_like, shape (parameters,)
        inputs : Inputs
        """
        losses, gradients = self._losses_and_gradients(parameters, inputs)
        usable = losses > LOWEST_LOSS
        floored = np.where(usable, losses, LOWEST_LOSS)
        return np.log(floored), np.where(usable, gradients / floored, 0.0)
