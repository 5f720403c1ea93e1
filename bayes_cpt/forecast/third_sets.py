"""Third validation sets: their losses from those of the general and the target one (Eq. 6).

``L_ood = w1·L_pt + w2·L_cpt`` is taken of changes: bases differ in a third set by more than the two losses
explain, and one evaluation of a base removes that. So along a CPT run, t steps after its base,

    L_k(t) - L_k(0) = w1·(L_pt(t) - L_pt(0)) + w2·(L_cpt(t) - L_cpt(0)) + misfit + fluctuation,

with misfit and fluctuation of the set's own, of the same form as those of the law
(`bayes_cpt.model.residuals`); of several targets each has its weight. The losses on the right are, in each
posterior draw of the law, what the draw and the measured losses say of the curves without their
fluctuation: fluctuations of two validation sets are less alike than their courses, and would draw the
weights to 0. Nothing of a third set moves the law, so that its posterior is had from any fit of the study,
whenever it was made.

Sizes of the residual have a normal posterior in their logs about its mode, the weights integrated out;
given sizes and a draw of the law the weights are normal. Everything is vectorised over draws.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any, Self
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, central, chance
from bayes_cpt.checks import unknown
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.forecast.derived import check_continual
from bayes_cpt.forecast.plans import DRAWS, PlanError, Prepared, observed_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model import simulate
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

# Prior mean and sd of both weights; several targets have that mean together, and the sd each. The paper's
# eight pairs lie between -0.6 and 1.9, and the mean of each pair between 0.45 and 0.67 (docs/law.md).
WEIGHT_MEAN, WEIGHT_SD = 0.5, 1.0
# Medians and sds of the logs of misfit and fluctuation, nats/token, and of the correlation time as a share
# of the reference steps: those of the law's own losses, twice as wide.
SIZE_MEDIANS, SIZE_SDS = np.array([0.02, 0.01, 0.02]), np.array([1.6, 1.6, 1.0])
# Step of the differences that the curvature at the mode is taken from, in logs.
DIFFERENCE = 0.05
# Residuals of a run are averaged over its steps from this share on; fewer runs show no pattern.
LATE, FEWEST_RUNS = 0.75, 4
# The linear form is in doubt where what it leaves goes with how runs were trained so rarely by chance, or
# where it explains less of the change.
RARE, LEAST_EXPLAINED = 0.05, 0.8


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes of what the linear form leaves of a third set, shape (draws,) each."""

    # What the linear form misses and the fluctuation, as standard deviations in nats/token, and the
    # correlation time of the fluctuation in steps (see `bayes_cpt.model.residuals.Scales`)
    misfit: Floats
    fluctuation: Floats
    memory: Floats
    # Share of the fluctuation that is left at learning rate 0: the mean of the law's losses'
    floor: Floats

    @classmethod
    def of(cls, logs: Floats, steps: float, floor: Floats) -> Self:
        """Return sizes from their logs over the prior medians, shape (draws, 3); steps: the reference's."""
        misfit, fluctuation, memory = (SIZE_MEDIANS * np.exp(logs)).T
        return cls(misfit, fluctuation, memory * steps, floor)

    def residual(self, along: "Changes") -> simulate.CurveResidual:
        """Return the residual along a run of the set about the linear form."""
        floor = self.floor[:, None]
        heat = floor + (1.0 - floor) * along.learning_rate
        return simulate.CurveResidual(
            anchored=True,
            steps=along.steps,
            columns=self.misfit[:, None, None] * along.ramps,
            fluctuation=self.fluctuation[:, None] * heat + along.rewarming,
            memory=np.broadcast_to(self.memory[:, None], heat.shape),
        )

    def drawn(
        self,
        along: "Changes",
        generator: np.random.Generator,
        seen: NDArray[np.bool_] | None = None,
        residual: Floats | None = None,
    ) -> Floats:
        """Return residuals along a run, given those at the points that were seen, shape (draws, points)."""
        part = self.residual(along)
        if seen is None or residual is None:
            seen, residual = np.zeros(along.steps.size, bool), np.empty((self.misfit.size, 0))
        at_seen = replace(
            part,
            steps=part.steps[seen],
            columns=part.columns[:, seen],
            fluctuation=part.fluctuation[:, seen],
            memory=part.memory[:, seen],
        )
        return simulate.known_residual(part, at_seen, residual, generator)[0]


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes along a CPT run since its base: of the third set, and of the law's losses."""

    steps: Floats  # (points,)
    change: Floats  # of the third set, nats/token, (points,)
    # Of general and target losses without their fluctuation, nats/token, of shape (draws, points, sets)
    causes: Floats
    # As in `bayes_cpt.model.points.Points`, of shape (points,)
    learning_rate: Floats
    rewarming: Floats
    ramps: Floats  # of the misfit (see `bayes_cpt.model.residuals.ResidualDesign`), (points, knots)

    @classmethod
    def of(cls, frame: BoundModel, curves: Curves, losses: Floats) -> Self:
        """Return those of losses, (draws, points), along the curves of a run; NaN of the third set."""
        count, points = curves.points.steps.size // len(curves.curves), curves.points
        # The same on each validation set.
        names = ("steps", "learning_rate", "rewarming")
        steps, rate, rewarming = (getattr(points, name)[:count] for name in names)
        causes = np.stack(np.split(losses, len(curves.curves), axis=1), axis=2) - curves.bases.loss
        ramps = frame.residual_design(curves).ramps[:count]
        return cls(steps, np.full(count, np.nan), causes, rate, rewarming, ramps)

    def products(self, sizes: Sizes) -> tuple[Floats, Floats]:
        """Return `precision_products` of the change and its causes."""
        change = np.broadcast_to(self.change[:, None], (*self.causes.shape[:2], 1))
        columns = np.concatenate([change, self.causes], axis=2)
        columns = np.broadcast_to(columns, (sizes.misfit.size, *columns.shape[1:]))
        return simulate.precision_products(sizes.residual(self), columns)

    def linear(self, weights: Floats) -> Floats:
        """Return what the linear form makes of the causes, shape (draws, points)."""
        return np.asarray(np.einsum("dpi,di->dp", self.causes, weights))

    def late(self, values: Floats) -> Floats:
        """Return means over the late part of the run, (..., points) -> (...)."""
        return np.asarray(values[..., self.steps >= LATE * self.steps[-1]].mean(axis=-1))


def _posterior_of_weights(data: Sequence[Changes], sizes: Sizes) -> tuple[Floats, ...]:
    """Return precision and precision times mean of the weights, square of the data, log determinant."""
    parts = [own.products(sizes) for own in data]
    products, determinant = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
    targets = products.shape[-1] - 2
    prior = np.eye(1 + targets) / WEIGHT_SD**2
    means = WEIGHT_MEAN / np.array([1.0, *[targets] * targets])
    projection = products[:, 1:, 0] + prior @ means
    return prior + products[:, 1:, 1:], projection, products[:, 0, 0], determinant


def draw_sizes(
    data: Sequence[Changes], steps: float, floor: Floats, generator: np.random.Generator
) -> Sizes:
    """Return a draw of the sizes for each of the floor: normal in their logs about the mode.

    Mode and curvature are those at the mean of the law's draws, which serves any number of sizes.
    """
    from scipy.differentiate import hessian
    from scipy.optimize import minimize

    means = [replace(own, causes=own.causes.mean(axis=0, keepdims=True)) for own in data]

    def surprise(logs: Floats) -> Floats:
        """Return minus the log posterior density of log sizes, the weights integrated out."""
        places = logs.reshape(3, -1).T
        sizes = Sizes.of(places, steps, np.full(len(places), floor.mean()))
        precision, projection, square, determinant = _posterior_of_weights(means, sizes)
        explained = (projection * simulate.normal_draw(precision, projection)).sum(axis=1)
        likelihood = explained - square - determinant - np.linalg.slogdet(precision)[1]
        prior = ((places / SIZE_SDS) ** 2).sum(axis=1)
        return np.asarray(0.5 * (prior - likelihood).reshape(logs.shape[1:]))

    mode = minimize(surprise, np.zeros(3)).x
    curvature = hessian(surprise, mode, initial_step=DIFFERENCE, order=2, maxiter=1).ddf
    curvatures, directions = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # No direction is wider than the prior.
    sds = 1.0 / np.sqrt(np.maximum(curvatures, 1.0 / SIZE_SDS.max() ** 2))
    logs = mode + generator.standard_normal((floor.size, 3)) @ (directions * sds).T
    return Sizes.of(logs, steps, floor)


def draw_weights(data: Sequence[Changes], sizes: Sizes, generator: np.random.Generator) -> Floats:
    """Return a draw of the weights in each draw of the law and the sizes, shape (draws, sets)."""
    precision, projection, *_ = _posterior_of_weights(data, sizes)
    return simulate.normal_draw(precision, projection, generator.standard_normal(projection.shape))


def pattern_probability(
    data: Sequence[Changes],
    residuals: Sequence[Floats],
    sizes: Sizes,
    runs: Sequence[Run],
    generator: np.random.Generator,
) -> float:
    """Return how often the model's own residuals go as closely with a quantity of the runs as these do.

    A posterior predictive p-value of the largest absolute correlation over runs of the late residual with
    replay ratio, peak learning rate, mixture of targets or the late change of a loss of the law; NaN of too
    few runs.
    """
    if len(data) < FEWEST_RUNS:
        return float("nan")
    targets = sorted({name for run in runs for name in run.mixture})
    causes = [own.late(own.causes.mean(axis=0).T) for own in data]
    settings = [(run.replay or 0.0, np.log(run.peak)) for run in runs]
    mixtures = [[run.mixture.get(name, 0.0) for name in targets] for run in runs]
    features = np.hstack([causes, settings, mixtures]).T
    # Two replay ratios or peaks that differ by a rounding error are one.
    features = features[np.ptp(features, axis=1) > 1e-9]
    measured = np.stack([own.late(left) for own, left in zip(data, residuals, strict=True)])
    drawn = np.stack([own.late(sizes.drawn(own, generator)) for own in data])
    return float(np.mean(_closest(drawn, features) >= _closest(measured, features)))


def _closest(values: Floats, features: Floats) -> Floats:
    """Return the largest absolute correlation over runs with any feature, (runs, draws) -> (draws,)."""
    from scipy.spatial.distance import cdist

    if not len(features):
        return np.zeros(values.shape[1])
    return np.asarray(np.abs(1.0 - cdist(features, values.T, "correlation")).max(axis=0))


# From a run and steps of it: the changes of the law's losses.
type Along = Callable[[str, tuple[int, ...]], Changes]


@dataclass(frozen=True, eq=False)
class ThirdSet(Sizes):
    """A third validation set in some draws of the law."""

    name: str
    weights: Floats  # of the changes of general and target losses, (draws, sets)
    runs: tuple[str, ...]  # CPT runs that it was learnt from
    # Share of the mean square change over the late part of the runs that the linear form explains; the
    # median over draws, NaN where that is less than the fluctuation
    explained: float
    pattern: float  # `pattern_probability`

    @property
    def caution(self) -> str:
        """What to say where the linear form is in doubt; empty otherwise."""
        reasons = []
        if self.explained < LEAST_EXPLAINED:
            losses = "losses" if self.weights.shape[1] > 2 else "loss"
            share = chance(self.explained)
            reasons.append(f"general and target {losses} explain {share} of its change")
        if self.pattern < RARE:
            reasons.append("what they leave goes with how the runs were trained")
        if not reasons:
            return ""
        return f"Eq. 6 misses {self.name}: {', and '.join(reasons)}. Its bands are wide for that."


def check_names(posterior: Posterior, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of third validation sets, each once; ``all`` stands for all there are."""
    study, names = posterior.study, (names,) if isinstance(names, str) else names
    if len(names):
        check_continual(posterior.frame, "third validation sets follow from its losses")
    known = study.third_domains
    wanted = known if tuple(names) == ("all",) else tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            problem, fix = unknown("third validation set", name, known)
            fix = fix if known else f"add its losses to {study.origin.losses}"
            raise StudyError.at(f"study {study.name}", problem, fix)
    return wanted


def third_sets(
    posterior: Posterior, names: Sequence[str], parameters: dict[str, Floats], seed: int = 0
) -> tuple[ThirdSet, ...]:
    """Return third validation sets in some draws of one law (see `Posterior.shares`)."""
    floors = parameters.get("fluctuation_floor", np.ones((1, 1)))
    floor = np.broadcast_to(floors.reshape(len(floors), -1).mean(axis=1), len(parameters["memory"]))

    # Sets that were measured at the same steps share them.
    along = cache(partial(_law_changes, posterior, parameters))
    sets = []
    for name in names:
        # A set's own seed: it does not hang on which others are asked for.
        generator = np.random.default_rng([seed, crc32(name.encode())])
        sets.append(_third_set(posterior, name, floor, along, generator))
        if sets[-1].caution:
            warnings.warn(sets[-1].caution, StudyWarning, stacklevel=2)
    return tuple(sets)


def weight_table(
    posterior: Posterior,
    names: Sequence[str] = ("all",),
    draws: int = DRAWS,
    seed: int = 0,
    interval: float = 0.9,
) -> pd.DataFrame:
    """Return the weights of third validation sets of a fit's study, one row each.

    Parameters
    ----------
    posterior : Posterior
        Of one law or a stack.
    names : sequence of str
        ``("all",)`` stands for all there are.
    draws : int
    seed : int
    interval : float
        Mass of the central credible intervals.

    Returns
    -------
    DataFrame
        Columns domain, runs, those of `cause_names` (medians of the weights) with ``_lower`` and
        ``_upper``, misfit (nats/token per e-fold of steps), explained, pattern and caution (see
        `ThirdSet`).

    Raises
    ------
    StudyError
        As `check_names` and `third_sets`.
    """
    wanted = check_names(posterior, names)
    laws = [third_sets(law, wanted, law.parameters(n), seed) for law, n in posterior.shares(draws)]
    return weights_of(laws, posterior.study, interval)


def weights_of(laws: Iterable[Sequence[ThirdSet]], study: Study, interval: float) -> pd.DataFrame:
    """Return `weight_table` of third sets in the draws of each law."""
    causes, rows = cause_names(study), []
    for third in map(pooled, zip(*laws, strict=True)):
        row: dict[str, Any] = {"domain": third.name, "runs": len(third.runs)}
        for cause, weights in zip(causes, third.weights.T, strict=True):
            row |= central(weights, interval, cause)
        told = {name: getattr(third, name) for name in ("explained", "pattern", "caution")}
        rows.append(row | {"misfit": float(np.median(third.misfit))} | told)
    return pd.DataFrame(rows)


def cause_names(study: Study) -> tuple[str, ...]:
    """Return what the losses that weights are of are called in tables: several targets by their names."""
    return ("general", *(study.targets if len(study.targets) > 1 else ("target",)))


def pooled(laws: Sequence[ThirdSet]) -> ThirdSet:
    """Return a third set in the draws of several laws, which stand side by side."""
    names = (*(own.name for own in fields(Sizes)), "weights")
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(law, name) for law in laws]) for name in names
    }
    worst = {name: min(getattr(law, name) for law in laws) for name in ("explained", "pattern")}
    return replace(laws[0], **joined, **worst)


def _law_changes(
    posterior: Posterior, parameters: dict[str, Floats], run: str, steps: Sequence[int]
) -> Changes:
    """Return the changes of the law's losses at some steps of a run.

    They are without their fluctuation, and in each draw their mean.
    """
    frame, study = posterior.frame, posterior.study
    curves = frame.curves(study, lambda *_: steps, [study.run(run)])
    observed = observed_curves(posterior, curves)
    slow = simulate.expected_loss(frame, parameters, curves)
    for rows, part, seen, residual in simulate.known_parts(frame, parameters, curves, observed):
        slow[:, rows] += simulate.slow_mean(part, seen, residual)
    return Changes.of(frame, curves, slow)


def _third_set(
    posterior: Posterior, name: str, floor: Floats, along: Along, generator: np.random.Generator
) -> ThirdSet:
    study, frame = posterior.study, posterior.frame
    runs = [run for run in study.continual_runs if _tells(study, frame, run, name)]
    if not runs:
        problem = f"no CPT run tells how it goes with {' and '.join(frame.domains)}"
        fix = "measure it beside them along a CPT run and at its base (step 0), or leave it out"
        raise StudyError.at(f"study {study.name}, domain {name}", problem, fix)
    data = []
    for run in runs:
        wanted = tuple(frame.fitted_steps(study, run, name))
        steps, losses = study.curve(run.name, name)
        change = losses[np.isin(steps, wanted)] - float(study.base_loss(str(run.base), name) or 0.0)
        data.append(replace(along(run.name, wanted), change=change))
    sizes = draw_sizes(data, frame.reference.steps, floor, generator)
    weights = draw_weights(data, sizes, generator)
    residuals = [own.change - own.linear(weights) for own in data]
    left = sum(own.late(values) ** 2 for own, values in zip(data, residuals, strict=True))
    whole = sum(own.late(own.change) ** 2 for own in data)
    moves = whole > len(data) * np.median(sizes.fluctuation) ** 2
    return ThirdSet(
        **vars(sizes),
        name=name,
        weights=weights,
        runs=tuple(run.name for run in runs),
        explained=float(np.median(1.0 - left / whole)) if moves else float("nan"),
        pattern=pattern_probability(data, residuals, sizes, runs, generator),
    )


def _tells(study: Study, frame: BoundModel, run: Run, name: str) -> bool:
    """Return whether a run was measured on a set and those of the law, and its base too."""
    return all(
        study.curve(run.name, domain)[0][-1:].any()
        and study.base_loss(str(run.base), domain) is not None
        for domain in (*frame.domains, name)
    )


def check_bases(prepared: Prepared, domains: Iterable[str]) -> None:
    """Raise PlanError unless the base of every CPT run was measured on all of some validation sets."""
    problems = [
        unmeasured_base(f"run {run.name}", str(run.base), domain)
        for run in prepared.runs
        for domain in domains
        if run.phase == "cpt" and prepared.study.base_loss(str(run.base), domain) is None
    ]
    if problems:
        raise PlanError(problems)


def unmeasured_base(place: str, base: str, domain: str) -> Problem:
    """Return the problem that a base was not measured on a validation set that Eq. 6 needs."""
    return Problem(
        f"{place}, domain {domain}",
        f"the base {base} was not measured on it, and third validation sets count from there",
        f"evaluate the base once and add a row at step 0 with domain {domain}",
    )
