"""Published methods as baselines: the paper's, the D-CPT law and the data-mixing law, as point fits.

The paper (arXiv 2505.07796, following Tissue et al., arXiv 2408.11029) minimises the Huber loss of log
losses from many starts. Its law, Eq. 8 as printed, stands here in plain NumPy, apart from `bayes_cpt.laws`,
so that the two can check each other; they share studies and schedules.

The laws of final losses know nothing of learning rates or of the base, and are fitted by least squares. A
point along a curve counts as the end of a run of that length, as the D-CPT law is fitted; the data-mixing
law is of one length and is fitted to last losses alone, so it says the same at every step. Their r is the
share of the validation set's own data in the batches: general data for the general set, a target's data for
that target's.

None of them states an uncertainty: the bands are ours, by residual bootstrap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Run, Study
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer, Method
from bayes_cpt.validate.scores import DrawsError


class BaselineError(DrawsError):
    """A baseline found no fit, or cannot answer what it is asked."""


# The paper fixes it.
MOMENTUM = 0.999
# The first PT steps are not on the power law yet; `bayes_cpt` leaves out as many.
SKIPPED_PRETRAINING = 0.1
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


def annealing_area(learning_rates: ArrayLike, initial_rate: float) -> Floats:
    """Return S2 after each step (Eq. 1): the double sum as one second-order recursion.

    S2_i = (1 + lambda) S2_{i-1} - lambda S2_{i-2} + (eta_{i-1} - eta_i); eta_0 is the initial rate.
    """
    from scipy.signal import lfilter

    falls = -np.diff(np.asarray(learning_rates, dtype=np.float64), prepend=initial_rate)
    return np.asarray(lfilter([1.0], [1.0, -(1.0 + MOMENTUM), MOMENTUM], falls))


def _pretraining_annealing(schedule: Schedule) -> Floats:
    """Return S2 from before the first PT step on: a warm-up does not count."""
    rates, warmup = schedule.learning_rates(), schedule.warmup_steps
    area = np.zeros(rates.size + 1)
    area[warmup + 1 :] = annealing_area(rates[warmup:], rates[max(warmup - 1, 0)])
    return area


class Inputs(NamedTuple):
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
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


def inputs_of(study: Study, run: Run, steps: ArrayLike) -> Inputs:
    """Return what the law needs of a run at steps (0 is the base), in the order given."""
    points = np.asarray(steps, dtype=np.int64)
    rates = run.schedule.learning_rates()
    forward = np.append(0.0, np.cumsum(rates))[points]
    ones, nothing = np.ones(points.size), np.zeros(points.size)
    if run.phase == "pt":
        annealing, no = _pretraining_annealing(run.schedule)[points], nothing > 0
        return Inputs(forward, nothing, annealing, nothing, nothing, no, no)
    base = study.base(str(run.base)).schedule
    area_pt, annealing_pt, initial_rate = 0.0, 0.0, 0.0
    if base is not None:
        area_pt, initial_rate = float(base.learning_rates().sum()), base.final
        annealing_pt = float(_pretraining_annealing(base)[-1])
    return Inputs(
        forward_pt=area_pt * ones,
        forward_cpt=forward,
        annealing_pt=annealing_pt * ones,
        annealing_cpt=np.append(0.0, annealing_area(rates, initial_rate))[points],
        target_share=(1.0 - float(run.replay or 0.0)) * ones,
        continual=ones > 0,
        unknown=np.full(points.size, base is None),
    )


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


def _replay_factor(bend: float, share: Floats) -> Floats:
    """Return the replay factor over its value at replay 0.

    Over that value, the factors printed for D_pt and D_cpt are one function: B and a2 would be so
    entangled, B going to 0 as a2 falls, that few starts arrive. The fitted curves are the same.
    """
    from scipy.special import exprel

    return np.asarray(share * exprel(-bend * share) / exprel(-bend))


def printed_losses(parameters: ArrayLike, inputs: Inputs, *, is_target: bool) -> Floats:
    """Return the loss of one validation set at each point, for `PARAMETERS` in their order.

    With ``bend = a2`` on D_pt and ``bend = -a2`` on D_cpt, and B over what `PARAMETERS` says, it is Eq. 8
    letter by letter. With points from a base whose schedule is not known the log of its S1_pt comes last
    (App. G).

    Parameters
    ----------
    parameters : array_like, shape (parameters,)
    inputs : Inputs
    is_target : bool
        Whether it is D_cpt: the two sets differ in how replay enters.
    """
    values = np.asarray(parameters, dtype=np.float64)
    floor, log_size, log_exponent, gain_pt, gain_cpt, gain_replay = values[:6]
    shift, log_shift_rate, log_shift_exponent, replay_bend = values[6 : len(PARAMETERS)]
    unknown_area = np.exp(values[len(PARAMETERS) :]).sum() * inputs.unknown
    forward = inputs.forward_pt + unknown_area + inputs.forward_cpt
    share = inputs.target_share if is_target else 1.0 - inputs.target_share
    progress = np.exp(log_shift_rate) * inputs.forward_cpt
    approach = -np.expm1(-np.exp(log_shift_exponent) * np.log1p(progress))
    return np.asarray(
        floor
        + np.exp(log_size - np.exp(log_exponent) * np.log(forward))
        - gain_pt * inputs.annealing_pt
        - gain_cpt * inputs.annealing_cpt * np.exp(gain_replay * share)
        + shift * approach * _replay_factor(replay_bend, inputs.target_share)
    )


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


class Effort(NamedTuple):
    """Starts of a fit, refits of a bootstrap, and residuals drawn in each.

    Several residuals a refit, so that tails of the band do not hang on the number of refits.
    """

    starts: int
    refits: int
    residuals: int


# The paper's starts; ours of laws of final losses.
PAPER_EFFORT, FINAL_EFFORT = Effort(54, 200, 5), Effort(12, 40, 12)
# Of laws of final losses, points of a curve: neighbouring ones tell the same.
FINAL_POINTS = 20
HUBER_DELTA = 1e-3
# One more start of a refit than the best fit: near it, on the ridges of the law.
NEIGHBOUR_SPREAD = 0.3
MOST_EVALUATIONS = 200


@dataclass(frozen=True, eq=False)
class PointFit:
    """How a law is fitted to the points of one validation set.

    Parameters
    ----------
    losses : callable
        Returns losses, nats/token, of parameters and points; ``points.continual`` says which lie in CPT.
    within, bounds : ndarray, shape (2, parameters)
        Lowest and highest: of starts, and of parameters.
    logs : bool
        Whether the Huber loss of log losses is minimised, else the squares of losses.
    """

    losses: Callable[[Floats, Any], Floats]
    within: Floats
    bounds: Floats
    logs: bool

    def curve(self, parameters: Floats, points: Any) -> Floats:
        """Return what is fitted: losses, or their logs."""
        found = self.losses(parameters, points)
        return np.log(np.maximum(found, LOWEST_LOSS)) if self.logs else found

    def best(self, points: Any, measured: Floats, starts: Floats) -> Floats:
        """Return the best parameters of the fits from each start to losses, or to their logs."""
        from scipy.optimize import least_squares

        best: Floats | None = None
        lowest = np.inf
        for start in np.clip(starts, *self.bounds):
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(self.curve(start, points)).all():
                    continue
                found = least_squares(
                    lambda parameters: self.curve(parameters, points) - measured,
                    start,
                    bounds=self.bounds,
                    x_scale="jac",
                    loss="huber" if self.logs else "linear",
                    f_scale=HUBER_DELTA,
                    max_nfev=MOST_EVALUATIONS,
                )
            if found.cost < lowest:
                best, lowest = np.asarray(found.x), float(found.cost)
        if best is None:
            raise BaselineError("No start of the fit led to finite losses.")
        return best

    def from_many_starts(
        self, points: Any, losses: Floats, generator: np.random.Generator, starts: int
    ) -> Floats:
        """Return the best parameters of fits from starts drawn over wide ranges."""
        drawn = generator.uniform(*self.within, size=(starts, self.within.shape[1]))
        return self.best(points, np.log(losses) if self.logs else losses, drawn)

    def bootstrap(
        self,
        points: Any,
        losses: Floats,
        wanted: Any,
        generator: np.random.Generator,
        effort: Effort,
    ) -> Floats:
        """Return draws of the loss at wanted points by residual bootstrap, shape (draws, points).

        Residuals are resampled among the points of the same phase (PT validation curves of a set that PT
        never saw wander far more than CPT curves), the law is fitted again, and the draw is the refitted
        curve with a resampled residual of the wanted point's phase.
        """
        best = self.from_many_starts(points, losses, generator, effort.starts)
        fitted = self.curve(best, points)
        residuals = (np.log(losses) if self.logs else losses) - fitted
        resampled = partial(_resample, residuals, points.continual, generator=generator)
        draws = []
        for _ in range(effort.refits):
            near = best + NEIGHBOUR_SPREAD * generator.normal(size=best.size)
            refit = self.best(points, fitted + resampled(points.continual), np.stack([best, near]))
            curve = self.curve(refit, wanted)
            draws += [curve + resampled(wanted.continual) for _ in range(effort.residuals)]
        return np.exp(draws) if self.logs else np.asarray(draws)


def _resample(
    residuals: Floats,
    continual: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    generator: np.random.Generator,
) -> Floats:
    """Return a residual for each wanted point, drawn from the points of its phase."""
    drawn = np.empty(wanted.size)
    for phase in np.unique(wanted):
        here = wanted == phase
        drawn[here] = generator.choice(residuals[continual == phase], size=here.sum())
    return drawn


def printed_fit(study: Study, domain: str) -> tuple[PointFit, Inputs, Floats]:
    """Return how the paper fits a validation set of a study, and its points and losses."""
    inputs, losses = observations(study, domain)
    law = partial(printed_losses, is_target=domain == study.target)
    return PointFit(law, *ranges_of(inputs, losses), logs=True), inputs, losses


def paper_predict(study: Study, plan: Study, points: pd.DataFrame, *, seed: int = 0) -> Floats:
    """Fit a study by the paper's method and return draws of the plan's losses at points.

    Points have columns run, domain and step; the plan's losses are not read.

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token.
    """
    if len(study.targets) > 1:
        raise BaselineError(
            f"The paper's method is for one target, and the study has {len(study.targets)}: "
            "leave it out."
        )

    def asked(domain: str, rows: pd.DataFrame) -> tuple[PointFit, Inputs, Floats, Inputs]:
        pairs = zip(rows["run"], rows["step"], strict=True)
        wanted = Inputs.join([inputs_of(plan, plan.run(run), [step]) for run, step in pairs])
        return *printed_fit(study, domain), wanted

    return _by_domain(points, asked, seed, PAPER_EFFORT)


def _by_domain(
    points: pd.DataFrame, asked: Callable[[str, Any], Any], seed: int, effort: Effort
) -> Floats:
    """Return draws at points, each validation set fitted by itself."""
    generator = np.random.default_rng(seed)
    draws = np.empty((effort.refits * effort.residuals, len(points)))
    for domain in sorted(set(points["domain"])):
        here = np.flatnonzero(points["domain"] == domain)
        fit, fitted, losses, wanted = asked(domain, points.iloc[here])
        draws[:, here] = fit.bootstrap(fitted, losses, wanted, generator, effort)
    return draws


class Ends(NamedTuple):
    """Ends of CPT runs: steps over the typical length, and the share r, of each."""

    steps: Floats
    share: Floats

    @property
    def continual(self) -> NDArray[np.bool_]:
        """Which lie in CPT: all."""
        return np.ones(self.steps.size, dtype=bool)


def d_cpt_losses(parameters: Floats, ends: Ends) -> Floats:
    """Return losses by the D-CPT law at one model size (Que et al. 2024, arXiv 2406.01375, Eq. 6).

    ``E + B·r^eta/D^beta + C/(r + epsilon)^gamma``, D in steps over the typical length; A/N^alpha is a part
    of E. Parameters are E and the logs of B, eta, beta, C, epsilon and gamma.
    """
    limit = parameters[0]
    size, eta, beta, mixing, shift, gamma = np.exp(parameters[1:])
    learnt = size * np.maximum(ends.share, 1e-9) ** eta * ends.steps**-beta
    return np.asarray(limit + learnt + mixing * (ends.share + shift) ** -gamma)


def mixing_losses(parameters: Floats, ends: Ends) -> Floats:
    """Return losses by the data-mixing law of two kinds of data (Ye et al. 2024, arXiv 2403.16952, Eq. 1).

    ``c + k·exp(t·r)``; parameters are c, the log of k, and t. Steps are not used.
    """
    limit, log_size, rate = parameters
    return np.asarray(limit + np.exp(log_size + rate * ends.share))


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
    losses: Callable[[Floats, Ends], Floats]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    last_only: bool

    def fit_to(self, losses: Floats) -> PointFit:
        """Return how it is fitted to some losses."""
        within = np.array([self.lowest, self.highest])
        bounds = within + np.array([[-6.0], [3.0]])
        bounds[:, 0] = (-np.inf, np.inf)
        within[:, 0] += losses.mean()
        return PointFit(self.losses, within, bounds, logs=False)


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
    law: FinalLossLaw, study: Study, plan: Study, points: pd.DataFrame, *, seed: int = 0
) -> Floats:
    """Fit a law to the CPT runs of a study and return draws of a plan's losses.

    Parameters and result are those of `paper_predict`; the plan's runs are CPT runs.
    """
    check_asked(law, study, plan, points)
    typical = float(np.median([run.schedule.steps for run in study.continual_runs]))

    def asked(domain: str, rows: pd.DataFrame) -> tuple[PointFit, Ends, Floats, Ends]:
        steps, share, losses = _final_points(law, study, domain)
        shares = [_share(plan, plan.run(str(name)), domain) for name in rows["run"]]
        wanted = Ends(rows["step"].to_numpy(np.float64) / typical, np.array(shares))
        return law.fit_to(losses), Ends(steps / typical, share), losses, wanted

    return _by_domain(points, asked, seed, FINAL_EFFORT)


def check_asked(law: FinalLossLaw, study: Study, plan: Study, points: pd.DataFrame) -> None:
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
    parts = [np.empty((3, 0))]
    for run in study.continual_runs:
        steps, losses = study.curve(run.name, domain)
        # A run that was seen part-way has no final loss.
        there = np.flatnonzero(steps == run.schedule.steps if law.last_only else steps > 0)
        places = np.linspace(0, there.size - 1, min(there.size, FINAL_POINTS)).round()
        kept = there[places.astype(int)]
        share = np.full(kept.size, _share(study, run, domain))
        parts.append(np.stack([steps[kept], share, losses[kept]]))
    steps, shares, measured = np.concatenate(parts, axis=1)
    return steps, shares, measured


def _answer(question: Question, seed: int, *, predict: Callable[..., Floats]) -> Answer:
    return Answer(predict(question.study, question.plan, question.points, seed=seed))


PAPER = "paper"
paper_answer = partial(_answer, predict=paper_predict)
FINAL_LOSS_ANSWERS: dict[str, Method] = {
    name: partial(_answer, predict=partial(final_loss_predict, law))
    for name, law in FINAL_LOSS_LAWS.items()
}
