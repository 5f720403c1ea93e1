"""Published methods as baselines: the paper's, the D-CPT law and the data-mixing law, as point fits.

The paper (arXiv 2505.07796, following Tissue et al., arXiv 2408.11029) minimises the Huber loss of log
losses by L-BFGS from many starts. Its law, Eq. 8 as printed, stands here in plain NumPy with gradients by
hand, apart from `bayes_cpt.laws`, so that the two can check each other; they share studies and schedules.

The laws of final losses know nothing of learning rates or of the base, and are fitted by least squares. A
point along a curve counts as the end of a run of that length, as the D-CPT law is fitted; the data-mixing
law is of one length and is fitted to last losses alone, so it says the same at every step. Their r is the
share of the validation set's own data in the batches: general data for the general set, a target's data for
that target's.

None of them states an uncertainty: the bands are ours, by residual bootstrap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.study.study import Run, Study

if TYPE_CHECKING:
    import pandas as pd


class BaselineError(BayesCPTError, ValueError):
    """A baseline found no fit, or cannot answer what it is asked."""


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
    """Return S1 after each step, of raw learning rates."""
    return np.cumsum(np.asarray(learning_rates, dtype=np.float64))


def annealing_area(learning_rates: ArrayLike, initial_rate: float) -> Floats:
    """Return S2 after each step (Eq. 1): the double sum as one second-order recursion.

    S2_i = (1 + lambda) S2_{i-1} - lambda S2_{i-2} + (eta_{i-1} - eta_i); eta_0 is the initial rate.
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
        """Return the inputs of all parts, one after the other."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})


def inputs_of(study: Study, run: Run, steps: ArrayLike) -> Inputs:
    """Return what the law needs of a run at steps (0 is the base), in the order given."""
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
    """Return what the law needs of points with the columns run and step, in their order."""
    pairs = zip(points["run"], points["step"], strict=True)
    return Inputs.join([inputs_of(study, study.run(run), [step]) for run, step in pairs])


def observations(study: Study, domain: str) -> tuple[Inputs, Floats]:
    """Return inputs and losses (nats/token) of all points of a validation set that enter a fit.

    PT points past the warm-up and past the first tenth of the run; CPT points from step 1.
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
        """Return the logarithm of the loss at each point and its gradient, shape (parameters, points)."""
        losses, gradients = self._losses_and_gradients(parameters, inputs)
        usable = losses > LOWEST_LOSS
        floored = np.where(usable, losses, LOWEST_LOSS)
        return np.log(floored), np.where(usable, gradients / floored, 0.0)


HUBER_DELTA = 1e-3
# Starts of the paper's fit, and its bootstrap refits per validation set.
STARTS, REFITS = 54, 200
# Starts of a refit besides the best fit: near it, on the ridges of the law.
REFIT_NEIGHBOURS = 1
NEIGHBOUR_SPREAD = 0.3
# Residuals drawn per refit: so that tails of the band do not hang on the number of refits.
RESIDUALS_PER_REFIT = 5
# The same of laws of final losses, and points of a curve: neighbouring ones tell the same.
FINAL_STARTS, FINAL_REFITS, FINAL_RESIDUALS, FINAL_POINTS = 12, 40, 12, 20


def ranges_of(inputs: Inputs, losses: Floats) -> tuple[Floats, Floats]:
    """Return where starts are drawn from, and bounds, in the order of `PARAMETERS`; rows low, high.

    They fit the study's own areas: those of a lab study are not the paper's. Those of the forward area of
    an unknown base come last, where there is one.
    """
    unknown = bool(inputs.unknown.any())
    forward = float(np.median(inputs.forward_pt + inputs.forward_cpt))
    continual = inputs.forward_cpt[inputs.continual]
    forward_cpt = float(np.median(continual)) if continual.size else forward
    # A re-warm-up's is negative.
    areas = np.abs([inputs.annealing_pt, inputs.annealing_cpt])
    annealing = max(float(areas.max()), 1e-12)
    lowest = float(losses.min())
    table = np.array(
        [
            # start low, start high, bound low, bound high
            [0.5 * lowest, lowest, 0.0, 2.0 * lowest],
            [np.log(0.1), np.log(2.0), np.log(1e-3), np.log(1e2)],  # of A·S1^-alpha at `forward`
            [np.log(0.2), np.log(1.0), np.log(1e-2), np.log(5.0)],
            [0.0, 0.5 / annealing, 0.0, 5.0 / annealing],
            [0.0, 0.5 / annealing, 0.0, 5.0 / annealing],
            [-0.5, 0.5, -5.0, 5.0],
            [-2.0, 2.0, -50.0, 50.0],
            [np.log(1.0 / forward_cpt), np.log(1e4 / forward_cpt), -np.log(1e8), np.log(1e8)],
            [np.log(0.05), np.log(1.0), np.log(1e-3), np.log(10.0)],
            [-6.0, 6.0, -30.0, 30.0],
            # As in the priors of models/cpt-replay.toml: a base has seen more than a run of CPT.
            list(np.log(forward_cpt * np.array([1.0, 1e3, 1.0, 1e6]))),
        ][: None if unknown else -1]
    ).T
    # A is what the power term is at S1 = 1; starts are drawn for its size at the median S1.
    table[:, 1] += 0.5 * np.log(forward)
    return table[:2], table[2:]


def fit_huber(
    law: PrintedLaw, inputs: Inputs, log_losses: Floats, starts: Floats, bounds: Floats
) -> Floats:
    """Return the best parameters of the fits from each start, shape (parameters,)."""
    from scipy.optimize import minimize

    def objective(parameters: Floats) -> tuple[float, Floats]:
        predicted, gradients = law.log_losses_and_gradients(parameters, inputs)
        scaled = (predicted - log_losses) / HUBER_DELTA
        size = np.abs(scaled)
        huber = np.where(size <= 1.0, 0.5 * scaled**2, size - 0.5) * HUBER_DELTA
        return float(huber.sum()), gradients @ np.clip(scaled, -1.0, 1.0)

    options = {"maxiter": 2000, "maxfun": 3000, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-7}
    best: Floats | None = None
    lowest = np.inf
    for start in starts:
        optimum = minimize(
            objective,
            np.clip(start, *bounds),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds.T,
            options=options,
        )
        if optimum.fun < lowest:
            best, lowest = np.asarray(optimum.x), float(optimum.fun)
    if best is None:
        raise BaselineError("No start of the paper's method led to a finite fit.")
    return best


def fit_from_many_starts(
    law: PrintedLaw, inputs: Inputs, losses: Floats, generator: np.random.Generator
) -> Floats:
    """Return the best parameters of fits from starts drawn over wide ranges, shape (parameters,)."""
    within, bounds = ranges_of(inputs, losses)
    starts = generator.uniform(*within, size=(STARTS, within.shape[1]))
    return fit_huber(law, inputs, np.log(losses), starts, bounds)


def bootstrap_curves(
    law: PrintedLaw,
    inputs: Inputs,
    losses: Floats,
    wanted: Inputs,
    generator: np.random.Generator,
    refits: int = REFITS,
) -> Floats:
    """Return draws of the loss at wanted points by residual bootstrap.

    Residuals of the log loss are resampled among the points of the same phase (PT validation curves of a
    set that PT never saw wander far more than CPT curves), the law is fitted again, and the draw is the
    refitted curve times a resampled residual of the wanted point's phase.

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token; `RESIDUALS_PER_REFIT` draws per refit.
    """
    log_losses = np.log(losses)
    best = fit_from_many_starts(law, inputs, losses, generator)
    fitted, _ = law.log_losses_and_gradients(best, inputs)
    residuals = log_losses - fitted
    _, bounds = ranges_of(inputs, losses)
    draws = []
    for _ in range(refits):
        resampled = fitted + _resample(residuals, inputs.continual, inputs.continual, generator)
        noise = generator.normal(size=(REFIT_NEIGHBOURS, best.size))
        starts = np.vstack([best, best + NEIGHBOUR_SPREAD * noise])
        refit = fit_huber(law, inputs, resampled, starts, bounds)
        curve, _ = law.log_losses_and_gradients(refit, wanted)
        draws += [
            curve + _resample(residuals, inputs.continual, wanted.continual, generator)
            for _ in range(RESIDUALS_PER_REFIT)
        ]
    return np.exp(draws)


def _resample(
    residuals: Floats,
    continual: NDArray[np.bool_],
    wanted_continual: NDArray[np.bool_],
    generator: np.random.Generator,
) -> Floats:
    """Return a residual for each wanted point, drawn from the points of its phase."""
    drawn = np.empty(wanted_continual.size)
    for phase in (False, True):
        here = wanted_continual == phase
        if here.any():
            drawn[here] = generator.choice(residuals[continual == phase], size=here.sum())
    return drawn


def paper_predict(
    fit_study: Study, plan: Study, points: "pd.DataFrame", *, seed: int = 0, refits: int = REFITS
) -> Floats:
    """Fit the first study by the paper's method and return draws of the plan's losses at points.

    Points have columns run, domain and step; the plan's losses are not read.

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token.
    """
    if len(fit_study.targets) > 1:
        raise BaselineError(
            f"The paper's method is for one target, and the study has {len(fit_study.targets)}: "
            "leave it out."
        )
    generator = np.random.default_rng(seed)
    draws = np.empty((refits * RESIDUALS_PER_REFIT, len(points)))
    for domain in sorted(set(points["domain"])):
        law = PrintedLaw(is_target=domain == fit_study.target)
        inputs, losses = observations(fit_study, domain)
        columns = np.flatnonzero(points["domain"] == domain)
        wanted = inputs_at(plan, points.iloc[columns])
        draws[:, columns] = bootstrap_curves(law, inputs, losses, wanted, generator, refits)
    return draws


def d_cpt_losses(parameters: Floats, steps: Floats, share: Floats) -> Floats:
    """Return losses by the D-CPT law at one model size (Que et al. 2024, arXiv 2406.01375, Eq. 6).

    ``E + B·r^eta/D^beta + C/(r + epsilon)^gamma``, D in steps over the typical length; A/N^alpha is a part
    of E.

    Parameters are E and the logs of B, eta, beta, C, epsilon and gamma; `share` is r.
    """
    limit = parameters[0]
    size, eta, beta, mixing, shift, gamma = np.exp(parameters[1:])
    floor = np.maximum(share, 1e-9)
    return np.asarray(limit + size * floor**eta * steps**-beta + mixing * (share + shift) ** -gamma)


def mixing_losses(parameters: Floats, steps: Floats, share: Floats) -> Floats:
    """Return losses by the data-mixing law of two kinds of data (Ye et al. 2024, arXiv 2403.16952, Eq. 1).

    ``c + k·exp(t·r)``; parameters are c, the log of k, and t. Steps are not used.
    """
    limit, log_size, rate = parameters
    return np.asarray(limit + np.exp(log_size + rate * share))


@dataclass(frozen=True)
class FinalLossLaw:
    """A law of final losses.

    Parameters
    ----------
    name : str
    losses : callable
        As `d_cpt_losses`.
    lowest, highest : tuple of float
        Where starts are drawn from; the first parameter is counted from the mean loss.
    last_only : bool
        Whether it is fitted to the last losses of runs alone.
    """

    name: str
    losses: Callable[[Floats, Floats, Floats], Floats]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    last_only: bool


D_CPT = FinalLossLaw(
    "d-cpt",
    d_cpt_losses,
    (-1.0, -4.0, -3.0, -3.0, -5.0, -4.0, -2.0),
    (0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.7),
    last_only=False,
)
DATA_MIXING = FinalLossLaw(
    "data-mixing", mixing_losses, (-1.0, -4.0, -8.0), (0.5, 0.5, 0.0), last_only=True
)
FINAL_LOSS_LAWS = {law.name: law for law in (D_CPT, DATA_MIXING)}


def final_loss_predict(
    law: FinalLossLaw, study: Study, plan: Study, points: "pd.DataFrame", *, seed: int = 0
) -> Floats:
    """Fit a law to the CPT runs of a study and return draws of a plan's losses.

    Parameters and result are those of `paper_predict`; the plan's runs are CPT runs.
    """
    generator = np.random.default_rng(seed)
    typical = float(np.median([run.schedule.steps for run in study.continual_runs] or [1]))
    draws = np.empty((FINAL_REFITS * FINAL_RESIDUALS, len(points)))
    check_asked(law, study, plan, points)
    for domain in sorted(set(points["domain"])):
        steps, share, losses = _final_points(law, study, domain)
        here = np.flatnonzero(points["domain"] == domain)
        rows = points.iloc[here]
        wanted = (
            rows["step"].to_numpy(np.float64) / typical,
            np.array([_share(plan, plan.run(str(name)), domain) for name in rows["run"]]),
        )
        best = _least_squares(
            law, steps / typical, share, losses, _final_starts(law, losses, generator)
        )
        fitted = law.losses(best, steps / typical, share)
        residuals = losses - fitted
        drawn = []
        for _ in range(FINAL_REFITS):
            resampled = fitted + generator.choice(residuals, residuals.size)
            refit = _least_squares(law, steps / typical, share, resampled, best[None])
            curve = law.losses(refit, *wanted)
            drawn += [
                curve + generator.choice(residuals, len(here)) for _ in range(FINAL_RESIDUALS)
            ]
        draws[:, here] = drawn
    return draws


def check_asked(law: FinalLossLaw, study: Study, plan: Study, points: "pd.DataFrame") -> None:
    """Raise a `BaselineError` where `final_loss_predict` would."""
    for domain in sorted(set(points["domain"])):
        count = _final_points(law, study, domain)[2].size
        if count <= len(law.lowest):
            raise BaselineError(
                f"The {law.name} law has {len(law.lowest)} parameters, and the study {count} losses "
                f"of CPT runs on {domain}: measure more runs, or leave the baseline out."
            )
    if any(plan.run(str(name)).phase == "pt" for name in set(points["run"])):
        raise BaselineError(f"The {law.name} law is about CPT runs: leave PT runs out.")


def _share(study: Study, run: Run, domain: str) -> float:
    """Return the share of a validation set's own data; of one that none train on that of replay."""
    replay = float(run.replay or 0.0)
    if domain not in study.targets:
        return replay
    return (1.0 - replay) * study.mixture(run).get(domain, 0.0)


def _final_points(law: FinalLossLaw, study: Study, domain: str) -> tuple[Floats, Floats, Floats]:
    """Return steps, shares and losses of the points that a law is fitted to."""
    parts = []
    for run in study.continual_runs:
        steps, losses = study.curve(run.name, domain)
        kept = steps > 0
        if law.last_only:
            # A run that was seen part-way has no final loss.
            kept = steps == run.schedule.steps
        elif kept.sum() > FINAL_POINTS:
            chosen = np.linspace(0, kept.sum() - 1, FINAL_POINTS).round().astype(np.int64)
            kept = np.isin(steps, steps[kept][chosen])
        share = np.full(int(kept.sum()), _share(study, run, domain))
        parts.append((steps[kept].astype(np.float64), share, losses[kept]))
    columns = zip(*parts, strict=True) if parts else [[np.empty(0)]] * 3
    every, shares, measured = (np.concatenate(column).astype(np.float64) for column in columns)
    return every, shares, measured


def _final_starts(law: FinalLossLaw, losses: Floats, generator: np.random.Generator) -> Floats:
    starts = generator.uniform(law.lowest, law.highest, size=(FINAL_STARTS, len(law.lowest)))
    starts[:, 0] += losses.mean()
    return np.asarray(starts)


def _least_squares(
    law: FinalLossLaw, steps: Floats, share: Floats, losses: Floats, starts: Floats
) -> Floats:
    """Return the parameters of least squares from some starts."""
    from scipy.optimize import least_squares

    low = np.array([-np.inf, *(np.array(law.lowest[1:]) - 6.0)])
    high = np.array([np.inf, *(np.array(law.highest[1:]) + 3.0)])
    best, lowest = starts[0], np.inf
    for start in starts:
        solution = least_squares(
            lambda parameters: law.losses(parameters, steps, share) - losses,
            np.clip(start, low, high),
            bounds=(low, high),
            max_nfev=200,
        )
        if np.isfinite(solution.cost) and solution.cost < lowest:
            best, lowest = solution.x, float(solution.cost)
    return np.asarray(best)
