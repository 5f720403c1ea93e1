"""Forward area S1 and annealing area S2 (LAW.md section 2): the only place they are computed.

Areas are in raw learning rate times steps. The annealing area depends on the momentum lambda; where
lambda is estimated, `MomentumInterpolant` replaces the recursion by a matrix product.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.schedules import Schedule
from bayes_cpt.segments import FloatArray

type IntArray = NDArray[np.int64]

# The Chebyshev interval is a little wider than the momentum range, so that the derivative of arccos
# stays finite for every momentum in it.
INTERVAL_MARGIN = 0.01
# Aimed-at truncation error of the interpolant; its tests hold it to 1e-8.
INTERPOLATION_ERROR = 1e-11


def forward_area(learning_rates: ArrayLike) -> FloatArray:
    """Return the forward area S1 after each step (LAW.md section 2).

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw learning rate of each step.

    Returns
    -------
    ndarray, shape (steps,)
        S1 in LR·steps.

    Examples
    --------
    >>> forward_area([0.5, 0.25, 0.25]).tolist()
    [0.5, 0.75, 1.0]
    """
    return np.cumsum(np.asarray(learning_rates, dtype=np.float64))


def _memory_curve(
    learning_rates: ArrayLike,
    momentum: float,
    initial_learning_rate: float,
    initial_memory: float,
) -> FloatArray:
    """Return m_1 ... m_steps of m_i = lambda m_{i-1} + (eta_{i-1} - eta_i)."""
    from scipy.signal import lfilter

    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum is {momentum}: give a number from 0 up to but not including 1")
    rates = np.asarray(learning_rates, dtype=np.float64)
    falls = -np.diff(rates, prepend=initial_learning_rate)
    memory, _ = lfilter([1.0], [1.0, -momentum], falls, zi=[momentum * initial_memory])
    return np.asarray(memory, dtype=np.float64)


def annealing_area(
    learning_rates: ArrayLike,
    momentum: float,
    initial_learning_rate: float,
    initial_memory: float = 0.0,
) -> FloatArray:
    """Return the annealing area S2 after each step (Eq. 1 of arXiv 2505.07796).

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw learning rate of each step.
    momentum : float
        lambda, from 0 up to but not including 1.
    initial_learning_rate : float
        eta_0, the rate before the first step: in CPT the last PT learning rate.
    initial_memory : float
        m_0; 0 unless the memory is carried across the transfer.

    Returns
    -------
    ndarray, shape (steps,)
        S2 in LR·steps; negative after a re-warm-up.

    Raises
    ------
    ValueError
        If the momentum is outside [0, 1).

    Examples
    --------
    >>> annealing_area([0.5, 0.5], momentum=0.5, initial_learning_rate=1.0).tolist()
    [0.5, 0.75]
    """
    return np.cumsum(_memory_curve(learning_rates, momentum, initial_learning_rate, initial_memory))


def annealing_memory(
    learning_rates: ArrayLike,
    momentum: float,
    initial_learning_rate: float,
    initial_memory: float = 0.0,
) -> float:
    """Return m after the last step, to carry over (arguments as in `annealing_area`)."""
    curve = _memory_curve(learning_rates, momentum, initial_learning_rate, initial_memory)
    return float(curve[-1]) if curve.size else initial_memory


@dataclass(frozen=True)
class MomentumRange:
    """The range of momenta an interpolant serves.

    Parameters
    ----------
    low, high : float
        0.1 <= low < high < 1. A memory shorter than that is none: 1/(1 - lambda) counts its steps.

    Raises
    ------
    ValueError
        If the bounds are not in that order.
    """

    low: float = 0.9
    high: float = 0.9999

    def __post_init__(self) -> None:
        if not 0.1 <= self.low < self.high < 1.0:
            raise ValueError(
                f"the momentum range is {self.low} to {self.high}: give 0.1 <= low < high < 1"
            )

    @property
    def interval(self) -> tuple[float, float]:
        """Middle and half-width of the Chebyshev interval in u = log(1 - lambda)."""
        first, last = math.log1p(-self.high), math.log1p(-self.low)
        half_width = 0.5 * (last - first) * (1.0 + INTERVAL_MARGIN)
        return 0.5 * (first + last), half_width

    @property
    def nodes(self) -> int:
        """Number of Chebyshev nodes for an error below 1e-8 (see `MomentumInterpolant`).

        1 - lambda^k, as a function of u, grows without bound only beyond Im u = pi/2. That strip
        holds a Bernstein ellipse whose parameter gives the geometric rate of convergence.
        """
        _, half_width = self.interval
        height = 0.5 * math.pi / half_width
        rate = height + math.hypot(1.0, height)
        return math.ceil(-math.log(INTERPOLATION_ERROR) / math.log(rate))

    def node_momenta(self) -> FloatArray:
        """Return the momentum at each Chebyshev node, shape (nodes,), highest last."""
        middle, half_width = self.interval
        angles = (np.arange(self.nodes) + 0.5) * (np.pi / self.nodes)
        return np.asarray(-np.expm1(middle + half_width * np.cos(angles)))


def chebyshev_basis(momentum: Any, momentum_range: MomentumRange, xp: Any = np) -> Any:
    """Return the basis whose product with `MomentumInterpolant.coefficients` is S2.

    Parameters
    ----------
    momentum : float, ndarray or PyTensor variable, shape (...)
        lambda inside the range.
    momentum_range : MomentumRange
        The one the coefficients were built for.
    xp : module
        Where `log`, `cos`, `arccos` and `expand_dims` come from: `numpy` or `pytensor.tensor`.

    Returns
    -------
    ndarray or PyTensor variable, shape (..., nodes)
        T_j(x) / (1 - lambda), with x linear in log(1 - lambda).
    """
    middle, half_width = momentum_range.interval
    distance = 1.0 - momentum
    angle = xp.arccos((xp.log(distance) - middle) / half_width)
    waves = xp.cos(xp.expand_dims(angle, -1) * np.arange(momentum_range.nodes))
    return waves / xp.expand_dims(distance, -1)


@dataclass(frozen=True, eq=False)
class MomentumInterpolant:
    """S2 at chosen steps as a function of lambda, in a Chebyshev series in u = log(1 - lambda).

    Interpolated is (1 - lambda) S2, which stays near the size of the learning rates over the whole
    range. The error of S2 is below 1e-8 of the curve's largest |S2| over the range, for schedules
    of up to 100,000 steps (tested; about 1e-11 as built).

    Parameters
    ----------
    coefficients : ndarray, shape (points, nodes)
        S2 at the points is ``coefficients @ chebyshev_basis(momentum, momentum_range)``.
    momentum_range : MomentumRange
        Where the series holds.
    """

    coefficients: FloatArray
    momentum_range: MomentumRange

    @classmethod
    def from_areas(
        cls, areas_at_nodes: FloatArray, momentum_range: MomentumRange
    ) -> "MomentumInterpolant":
        """Build the series from S2 at `momentum_range.node_momenta()`, shape (points, nodes)."""
        from scipy.fft import dct

        scaled = areas_at_nodes * (1.0 - momentum_range.node_momenta())
        coefficients = dct(scaled, type=2, axis=1) / momentum_range.nodes
        coefficients[:, 0] *= 0.5
        return cls(coefficients, momentum_range)

    def evaluate(self, momentum: float | FloatArray) -> FloatArray:
        """Return S2 at the points, shape (..., points) for momenta of shape (...).

        Raises
        ------
        ValueError
            If a momentum lies outside the range.
        """
        momenta = np.asarray(momentum, dtype=np.float64)
        low, high = self.momentum_range.low, self.momentum_range.high
        if np.any((momenta < low) | (momenta > high)):
            raise ValueError(f"a momentum lies outside {low} to {high}: build a wider interpolant")
        basis = chebyshev_basis(momenta, self.momentum_range)
        return np.asarray(basis @ self.coefficients.T)


@dataclass(frozen=True, eq=False)
class PhaseAreas:
    """Areas and learning rate of one run at chosen steps, on both sides of the transfer.

    Parameters
    ----------
    steps : ndarray of int, shape (points,)
        Steps inside the run's own phase; 0 is the base itself.
    learning_rates : ndarray, shape (points,)
        Raw learning rate of each of the steps; at step 0 the one before the first step.
    forward_pt, forward_cpt : ndarray, shape (points,)
        S1_pt and S1_cpt in LR·steps. In a PT run S1_cpt is 0.
    annealing_pt, annealing_cpt : MomentumInterpolant
        S2_pt and S2_cpt at the points. In a PT run S2_cpt is 0.
    """

    steps: IntArray
    learning_rates: FloatArray
    forward_pt: FloatArray
    annealing_pt: MomentumInterpolant
    forward_cpt: FloatArray
    annealing_cpt: MomentumInterpolant


def pretraining_areas(
    schedule: Schedule,
    steps: ArrayLike,
    momentum_range: MomentumRange = MomentumRange(),
) -> PhaseAreas:
    """Return the areas of a PT run: its warm-up counts in S1, not in S2 (LAW.md section 2).

    Parameters
    ----------
    schedule : Schedule
        Of the PT run, from its first step.
    steps : array_like of int, shape (points,)
        Between 0 and the schedule's length.
    momentum_range : MomentumRange
        Where the annealing areas will be evaluated.

    Raises
    ------
    ValueError
        If a step lies outside the schedule.
    """
    points = _points(schedule, steps)
    nothing = np.zeros(points.size)
    return PhaseAreas(
        steps=points,
        learning_rates=_at(schedule.learning_rates(), points, schedule.learning_rates()[0]),
        forward_pt=_at(forward_area(schedule.learning_rates()), points),
        annealing_pt=_pretraining_interpolant(schedule, points, momentum_range),
        forward_cpt=nothing,
        annealing_cpt=_zero_interpolant(points, momentum_range),
    )


def continual_areas(
    base: Schedule | None,
    schedule: Schedule,
    steps: ArrayLike,
    *,
    carry_memory: bool = False,
    momentum_range: MomentumRange = MomentumRange(),
) -> PhaseAreas:
    """Return the areas of a CPT run on its base (LAW.md section 2).

    Parameters
    ----------
    base : Schedule or None
        The base's whole PT schedule, whose last learning rate is eta_0. None for an unknown base:
        taken as annealed to 0, with S1_pt and S2_pt given as 0 (LAW.md section 3).
    schedule : Schedule
        Of the CPT run.
    steps : array_like of int, shape (points,)
        Between 0, the base itself, and the schedule's length.
    carry_memory : bool
        Whether m starts at the PT's last m (its decay after the transfer adds to S2_cpt) or at 0.
    momentum_range : MomentumRange
        Where the annealing areas will be evaluated.

    Raises
    ------
    ValueError
        If a step lies outside the schedule.
    """
    points = _points(schedule, steps)
    rates = schedule.learning_rates()
    initial_rate = base.final if base else 0.0
    node_momenta = momentum_range.node_momenta()
    memories = np.zeros(momentum_range.nodes)
    forward_pt = 0.0
    annealing_pt = _zero_interpolant(points, momentum_range)
    if base:
        forward_pt = float(forward_area(base.learning_rates())[-1])
        last_step = np.full(points.size, base.steps)
        annealing_pt = _pretraining_interpolant(base, last_step, momentum_range)
        if carry_memory:
            base_rates, base_initial = _after_warmup(base)
            memories = np.array(
                [annealing_memory(base_rates, float(m), base_initial) for m in node_momenta]
            )
    areas = [
        _at(annealing_area(rates, float(momentum), initial_rate, float(memory)), points)
        for momentum, memory in zip(node_momenta, memories, strict=True)
    ]
    return PhaseAreas(
        steps=points,
        learning_rates=_at(rates, points, initial_rate),
        forward_pt=np.full(points.size, forward_pt),
        annealing_pt=annealing_pt,
        forward_cpt=_at(forward_area(rates), points),
        annealing_cpt=MomentumInterpolant.from_areas(np.stack(areas, axis=1), momentum_range),
    )


def _points(schedule: Schedule, steps: ArrayLike) -> IntArray:
    points = np.atleast_1d(np.asarray(steps, dtype=np.int64))
    if np.any((points < 0) | (points > schedule.steps)):
        raise ValueError(
            f"steps {points.min()} to {points.max()} are asked for: the schedule has steps 0 to "
            f"{schedule.steps}; ask inside it or lengthen it"
        )
    return points


def _at(curve: FloatArray, points: IntArray, before: float = 0.0) -> FloatArray:
    """Return the curve of steps 1, 2, ... at the points, `before` at step 0."""
    return np.concatenate([[before], curve])[points]


def _after_warmup(schedule: Schedule) -> tuple[FloatArray, float]:
    """Return the PT rates that anneal and eta_0 before them: a warm-up does not count in S2."""
    rates = schedule.learning_rates()
    warmup = schedule.warmup_steps
    return rates[warmup:], float(rates[max(warmup - 1, 0)])


def _pretraining_interpolant(
    schedule: Schedule, points: IntArray, momentum_range: MomentumRange
) -> MomentumInterpolant:
    rates, initial_rate = _after_warmup(schedule)
    after_warmup = np.maximum(points - schedule.warmup_steps, 0)
    areas = [
        _at(annealing_area(rates, float(momentum), initial_rate), after_warmup)
        for momentum in momentum_range.node_momenta()
    ]
    return MomentumInterpolant.from_areas(np.stack(areas, axis=1), momentum_range)


def _zero_interpolant(points: IntArray, momentum_range: MomentumRange) -> MomentumInterpolant:
    return MomentumInterpolant(np.zeros((points.size, momentum_range.nodes)), momentum_range)
