"""The prior of a fit once the losses of the bases are known, and nothing else.

A CPT run starts at the measured loss of its base, which a fit takes for a loss of pre-training like any
other (`bayes_cpt.model.bases.lone_bases`). What a fit expects of runs before it sees them is therefore not
what its priors say, but what is left of them given these losses: p(parameters | losses of the bases).

Nearly all that one base tells is the level of the law, `reference_loss`, in which the law is linear with
slope 1: it is drawn from what the bases say of it given the other parameters. What several bases tell of
annealing, say, is brought in little by little: sequential Monte Carlo over powers of the likelihood (Del
Moral, Doucet and Jasra 2006), whose moves keep the priors (preconditioned Crank-Nicolson; Cotter et al.
2013).
"""

import warnings
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyWarning
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.model.elements import elements
from bayes_cpt.model.points import Curves, Points
from bayes_cpt.model.priors.correlations import correlated
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.priors.families import Fixed
from bayes_cpt.model.residuals import Placed, ResidualDesign, Scales, predictive_covariance
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study

LEVEL = "reference_loss"
# Moves of every draw after each power of the likelihood, and after the last.
MOVES, LAST_MOVES = 4, 12
# Share of independent draws that a step to a higher power leaves, and of proposals that are to be taken.
LEFT, TAKEN = 0.5, 0.3
SHORTEST, LONGEST = 0.02, 1.0


def draw_given_bases(frame: Frame, plan: Study, draws: int, seed: int) -> dict[str, Floats]:
    """Return draws of every parameter from the priors given the losses of a plan's bases.

    Parameters
    ----------
    frame : Frame
    plan : Study
        Its CPT runs say which bases count: those whose pre-training is known and whose loss was measured.
    draws, seed : int

    Returns
    -------
    dict of str to ndarray, shape (draws, members) or (draws,)
        The priors' own draws where no base tells anything.
    """
    curves = base_curves(frame, plan)
    if curves is None:
        return draw_priors(frame, draws, seed)
    # What correlates the priors comes in with what the bases tell: moves keep independent priors.
    independent = replace(frame, spec=frame.spec.model_copy(update={"correlations": ()}))
    parameters = draw_priors(independent, draws, seed)
    generator = np.random.default_rng([seed, 1])
    free = FreeParameters(frame)
    low, high = np.array([prior.standard_bounds for prior in free.priors.values()]).T
    places = free.places(parameters)
    parameters, weights = _levelled(frame, parameters, curves, generator)
    power, reach = 0.0, 0.5
    while power < 1.0:
        before, power = power, _next_power(weights, power)
        chosen = _resampled((power - before) * weights, generator)
        places, weights = places[chosen], weights[chosen]
        parameters = {name: values[chosen] for name, values in parameters.items()}
        for _ in range(MOVES if power < 1.0 else LAST_MOVES):
            kept = np.sqrt(1.0 - reach**2)
            moved = kept * places + reach * generator.standard_normal(places.shape)
            moved_parameters, moved_weights = _levelled(
                frame, free.values(moved), curves, generator
            )
            chance = np.log(generator.uniform(size=draws))
            taken = (chance < power * (moved_weights - weights)) & np.all(
                (moved > low) & (moved < high), axis=1
            )
            places[taken], weights[taken] = moved[taken], moved_weights[taken]
            for name, values in parameters.items():
                values[taken] = moved_parameters[name][taken]
            reach = float(np.clip(reach * np.exp(taken.mean() - TAKEN), SHORTEST, LONGEST))
    return parameters


def _next_power(weights: Floats, power: float) -> float:
    """Return the highest power at which so many independent draws are left, 1 at the most."""

    def left(other: float) -> float:
        tempered = np.exp((other - power) * (weights - weights.max()))
        return float(tempered.sum() ** 2 / (tempered**2).sum() / tempered.size)

    if left(1.0) >= LEFT:
        return 1.0
    low, high = power, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if left(middle) >= LEFT else (low, middle)
    # A weight that towers above all others must not stop the way up.
    return max(high, power + 1e-4)


def _resampled(log_weights: Floats, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return draws chosen by weight, at evenly spaced quantiles, in any order."""
    weights = np.cumsum(np.exp(log_weights - log_weights.max()))
    even = (np.arange(weights.size) + generator.uniform()) / weights.size
    chosen = np.searchsorted(weights / weights[-1], even).clip(max=weights.size - 1)
    return np.asarray(generator.permutation(chosen))


def above_zero(losses: Floats) -> NDArray[np.bool_]:
    """Return the draws in which all losses can be losses: finite, and above 0.

    Where one is not, nobody can have measured it: what a fit expects of runs that will be measured are the
    other draws. Given losses that were measured, and lie above 0, a posterior is the same with and without
    them.

    Parameters
    ----------
    losses : ndarray, shape (draws, points)
    """
    return np.asarray((np.isfinite(losses) & (losses > 0.0)).all(axis=1))


def base_curves(frame: Frame, plan: Study) -> Curves | None:
    """Return the losses of a plan's bases as points of PT curves, those on one PT run on one curve.

    Parameters
    ----------
    frame : Frame
    plan : Study

    Returns
    -------
    Curves or None
        None where no run of the plan starts from a known base that was measured.
    """
    import pandas as pd

    if not frame.spec.law.continual or frame.spec.law.unknown_base:
        return None
    names = dict.fromkeys(str(run.base) for run in plan.continual_runs)
    bases = [base for name in names if (base := plan.base(name)).schedule is not None]
    runs: dict[str, Run] = {}
    rows = []
    for base in sorted(bases, key=_steps):
        # Of bases on one PT run the last repeats the schedule of those before it.
        key = str(base.run or base.name)
        assert base.schedule is not None
        runs[key] = Run(key, "pt", base.schedule, model_size=base.model_size)
        rows += [
            (key, base.steps, domain, loss)
            for domain in frame.domains
            if (loss := plan.base_loss(base.name, domain)) is not None
        ]
    if not rows:
        return None
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    losses = losses.drop_duplicates(["run", "step", "domain"])
    with warnings.catch_warnings():
        # That runs of one point each have few points.
        warnings.simplefilter("ignore", StudyWarning)
        whole = replace(plan, runs=tuple(runs.values()), bases=(), losses=losses, is_plan=False)
    return frame.curves(whole, lambda run, domain: whole.curve(run.name, domain)[0].tolist())


def _steps(base: Base) -> int:
    return int(base.steps or 0)


def _levelled(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, generator: np.random.Generator
) -> tuple[dict[str, Floats], Floats]:
    """Return parameters with levels drawn anew given the bases, and log weights, shape (draws,)."""
    # Far in the tails of wide priors a curve may overflow: such a draw has no weight.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        levels, weights = _levels(frame, parameters, curves, generator)
        parameters = parameters | {LEVEL: levels}
        if tied := correlated(frame):
            weights = weights + tied.log_density(parameters)
    return parameters, np.where(np.isfinite(weights), weights, -1e300)


def _levels(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    law = expected_loss(frame, parameters, curves)
    seen = _Seen.of(frame, parameters, curves)
    levels = parameters[LEVEL].copy()
    log_weights = np.zeros(len(law))
    for element in elements(frame):
        if element.name != LEVEL:
            continue
        before = levels[:, element.member].copy()
        told: list[tuple[Floats, Floats]] = []
        for rows in seen.curves_on(frame.domains.index(str(element.domain))):
            own_level = curves.points.loss[rows] - law[:, rows] + before[:, None]
            told.append((own_level, seen.covariance(rows)))
        if not told:
            continue
        mean, variance, left = _pooled(told)
        if isinstance(element.prior, Fixed):
            log_weights += left - 0.5 * ((before - mean) ** 2 / variance + np.log(variance))
            continue
        level = mean + np.sqrt(variance) * generator.standard_normal(len(law))
        levels[:, element.member] = level
        # Levels were drawn from the likelihood: what is left of the weight is their prior.
        log_weights += left + element.prior.log_density(level)
    return levels, log_weights


@dataclass(frozen=True, eq=False)
class _Seen:
    """What makes measured bases differ from the law, in draws of the parameters."""

    points: Points
    design: ResidualDesign
    scales: Scales

    @classmethod
    def of(cls, frame: Frame, parameters: dict[str, Floats], curves: Curves) -> Self:
        points, design = curves.points, frame.residual_design(curves)
        law = frame.law.coefficients(parameters, np)
        scales = frame.residual_scales(points, design.pretraining, parameters, law, np)
        return cls(points, design, scales)

    def curves_on(self, domain: int) -> list[slice]:
        """Return the points of each curve on one validation set."""
        ends = zip(self.design.first, self.design.last, strict=True)
        every = [slice(int(first), int(last)) for first, last in ends]
        return [rows for rows in every if self.points.domain_index[rows][0] == domain]

    def covariance(self, rows: slice) -> Floats:
        """Return that of the losses of one curve about the law's, shape (draws, points, points)."""
        ramps = self.design.ramps[rows]
        shape = (self.draws, self.points.steps.size)
        sizes = {
            field.name: np.broadcast_to(getattr(self.scales, field.name), shape)
            for field in fields(self.scales)
        }

        def placed(along: tuple[slice | None, ...]) -> Placed:
            scales = Scales(**{name: size[:, rows][:, *along] for name, size in sizes.items()})
            own = self.design
            columns = (self.points.steps, own.floating, own.anchored, own.beyond)
            return Placed(scales, *(values[rows][along] for values in columns))

        first, second = placed((slice(None), None)), placed((None, slice(None)))
        return np.asarray(predictive_covariance(first, second, ramps @ ramps.T, np))

    @property
    def draws(self) -> int:
        return len(np.atleast_2d(self.scales.fluctuation))


def _pooled(told: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of a level that some curves tell of, and the log of what else they tell.

    The density of the curves is that of the level, normal, times what does not depend on it.

    Parameters
    ----------
    told : list of (ndarray, ndarray), shapes (draws, points) and (draws, points, points)
        The level that each point asks for, and the covariance of these, by curve.
    """
    draws = len(told[0][0])
    precision, mean, square, log_size = (np.zeros(draws) for _ in range(4))
    for levels, covariance in told:
        ones = np.ones_like(levels)
        solved = np.linalg.solve(covariance, np.stack([levels, ones], axis=-1))
        mean = mean + solved[..., 0].sum(axis=1)
        precision = precision + solved[..., 1].sum(axis=1)
        square = square + (levels * solved[..., 0]).sum(axis=1)
        log_size = log_size + np.linalg.slogdet(covariance)[1]
    variance = 1.0 / precision
    mean = variance * mean
    left = -0.5 * (square - mean**2 / variance + log_size - np.log(variance))
    return mean, variance, left
