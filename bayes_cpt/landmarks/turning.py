"""The turning length: how many CPT steps until a loss that rose is back at its starting value for good.

It is the fewest steps after which the loss is at or below its starting value and stays so to the end of the
curve. A loss that dips first, as a decay to a low learning rate makes it in short runs, has not turned.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cpt.arrays import Floats, central
from bayes_cpt.forecast.plans import Plan
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import (
    Trial,
    by_trial,
    check_measured,
    held,
    law_draws,
    read_target,
    trial_curves,
    trial_losses,
)
from bayes_cpt.model.evaluate import Draws, losses
from bayes_cpt.model.groups import check_one_target
from bayes_cpt.study.ranges import outside_range

type Course = Literal["stretched", "held"]

COURSES: tuple[Course, ...] = ("stretched", "held")
DRAWS = 500
# Up to how many times the longest run the law is evaluated step for step.
HORIZON = 30
# Lengths tried up to the horizon, and beyond it, where only the forward area still grows.
NEAR, FAR = 110, 90
FARTHEST = 1e9
# Beyond it how far an extrapolation goes makes no difference.
MOST_TOLD = 1000
# Nats: below it a rise is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TurningLength:
    """Posterior of turning lengths.

    Parameters
    ----------
    draws : xarray.Dataset
        ``length`` (draw, run, course, balance) in CPT steps, as in the module: 0 where the loss never rises
        above its start, infinite where the curve ends above it. ``change`` (draw, run, balance) is that of
        the run as planned, from its base to its last step, nats/token; ``steps`` (run) how long it is
        planned; ``outside`` (run) where it lies outside the fitted range.
    longest : int
        Steps of the longest CPT run of the study: lengths beyond it are extrapolations.
    """

    draws: xr.Dataset
    longest: int

    def table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return one row per run, course and balance.

        Parameters
        ----------
        interval : float
            Mass of the central interval.

        Returns
        -------
        DataFrame
            Columns run, course, balance; planned_steps; change, change_lower and change_upper at those
            steps, and back, the probability that it is not above 0; the probabilities never_rises,
            returns and never_returns, which sum to 1; median, lower, upper of the length given that the
            loss returns, NaN where it does in no draw; outside.
        """
        rows = []
        lengths = self.draws["length"]
        for run, course, balance in np.ndindex(lengths.shape[1:]):
            length = lengths[:, run, course, balance]
            change = self.draws["change"].to_numpy()[:, run, balance]
            values = length.to_numpy()
            returning = values[np.isfinite(values) & (values > 0)]
            turning = central(returning if returning.size else [np.nan], interval)
            row = {name: length[name].item() for name in ("run", "course", "balance")}
            row |= {"planned_steps": int(self.draws["steps"][run])}
            row |= central(change, interval, "change")
            row |= {"back": np.mean(change <= ROUNDING), "never_rises": np.mean(values == 0)}
            row |= {"returns": returning.size / values.size}
            row |= {"never_returns": np.mean(np.isinf(values)), **turning}
            rows.append(row | {"outside": self._outside(run, float(turning["median"]))})
        return pd.DataFrame(rows)

    def _outside(self, run: int, typical: float) -> str:
        notes = [str(self.draws["outside"].to_numpy()[run])]
        far = typical / self.longest
        if far > 1.0:
            times = f"{far:.1f}x" if far < MOST_TOLD else f"over {MOST_TOLD}x"
            notes.append(f"where it turns, after {times} the longest run")
        return "; ".join(note for note in notes if note)


def turning_length(
    posterior: Posterior,
    plan: Plan = None,
    runs: Collection[str] | None = None,
    *,
    balances: Sequence[float] = (1.0,),
    courses: Sequence[Course] = COURSES,
    horizon: int | None = None,
    draws: int = DRAWS,
) -> TurningLength:
    r"""Return after how many CPT steps a loss that rose is back at its starting value for good.

    What has to come back is the balance ``λ1·ΔL_Dpt + (1 - λ1)·ΔL_Dcpt`` (Eq. 5 of arXiv 2505.07796) of
    the changes from the base, in the law's curve; λ1 = 1 is the general loss alone. The turning length is
    the fewest steps after which it is at or below 0 and stays so to the end of the curve.

    Parameters
    ----------
    posterior, plan, draws
        As in `decompose`.
    runs : collection of str, optional
        Names of the CPT runs wanted; all whose base is known unless given.
    balances : sequence of float
        λ1, each from 0 to 1.
    courses : sequence of {"stretched", "held"}
        ``stretched``: a run of T steps has the planned schedule, drawn out or shortened to T, and it is
        its last loss that has to be back. ``held``: one run that stays at its peak learning rate after
        its warm-up (Fig. 7c).
    horizon : int, optional
        Up to here every length is evaluated with all its steps; 30 times the longest run, of study or
        plan, unless given. Beyond, annealing area stays as it is and forward area grows with the steps,
        up to 1e9 times the horizon.

    Notes
    -----
    Lengths are tried on a grid (every step at first, then about a tenth apart) and interpolated between.
    """
    if not all(0.0 <= balance <= 1.0 for balance in balances):
        raise ValueError(f"balances are {list(balances)}: give weights of the general loss, 0 to 1")
    check_one_target(posterior.study, "the turning length")
    target, chosen = read_target(posterior, plan, runs)
    known = posterior.with_new_groups(target, chosen)
    longest = max(run.schedule.steps for run in posterior.study.continual_runs)
    last = horizon or HORIZON * max(longest, *(run.schedule.steps for run in chosen))
    frame = posterior.frame
    shares = pd.DataFrame({"general": balances, "target": 1.0 - np.array(balances)})
    check_measured(frame, list(shares.columns[shares.any()]), "a turning length")
    weights = shares[list(frame.roles)].to_numpy()
    trials = [Trial.of(posterior, target, run) for run in chosen]
    batches = dict.fromkeys(trial.batch for trial in trials)
    laws = {batch: law_draws(known.in_batch(batch), draws) for batch in batches}
    parts = [[_of_law(d, own, courses, last, weights) for d in laws[own.batch]] for own in trials]
    joined = [map(np.concatenate, zip(*of_run, strict=True)) for of_run in parts]
    lengths, change = (np.stack(of_runs, axis=1) for of_runs in zip(*joined, strict=True))
    notes = ["; ".join(outside_range(posterior.study, target, run)) for run in chosen]
    coords: dict[str, Any] = {"draw": np.arange(len(lengths)), "run": [own.name for own in chosen]}
    coords |= {"course": list(courses), "balance": list(balances)}
    turning = xr.Dataset(
        {
            "length": (("draw", "run", "course", "balance"), lengths, {"units": "steps"}),
            "change": (("draw", "run", "balance"), change, {"units": "nats/token"}),
            "steps": ("run", [run.schedule.steps for run in chosen]),
            "outside": ("run", np.array(notes, dtype=object)),
        },
        coords=coords,
        attrs={"horizon": last},
    )
    return TurningLength(turning, longest)


def _of_law(
    draws: Draws, trial: Trial, courses: Sequence[Course], horizon: int, weights: Floats
) -> tuple[Floats, Floats]:
    """Return a run's turning lengths, (draws, courses, balances), and changes, (draws, balances)."""
    ends = trial_losses(draws, [trial], [[0, trial.run.schedule.steps]])[:, 0]
    lengths = np.empty((draws.count, len(courses), len(weights)))
    for j, course in enumerate(courses):
        steps, changes = _changes(draws, trial, course, horizon)
        for k, pair in enumerate(weights):
            lengths[:, j, k] = last_return(steps, np.tensordot(changes, pair, (1, 0)))
    return lengths, (ends[..., 1] - ends[..., 0]) @ weights.T


def last_return(steps: Floats, changes: Floats) -> Floats:
    """Return from which of rising numbers of steps on each row stays at or below 0, shape (draws,).

    Whole steps, interpolated in the logarithm between two points that are more than a step apart; 0 where a
    row is never above 0, infinite where it ends there.

    Examples
    --------
    >>> last_return(np.arange(1.0, 4.0), np.array([[-0.1, 0.5, -0.5], [-1.0, -1.0, 0.0]])).tolist()
    [3.0, 0.0]
    """
    above = changes > ROUNDING
    count = above.shape[1]
    # The first point after the last one above.
    after = np.minimum(count - np.argmax(above[:, ::-1], axis=1), count - 1)
    before, rows = np.maximum(after - 1, 0), np.arange(len(changes))
    high, low = changes[rows, before], changes[rows, after]
    # Where a row does not cross there is nothing to interpolate.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = high / (high - low)
        between = steps[before] * (steps[after] / steps[before]) ** share
    # A crossing just at a whole step must not be rounded up to the next.
    lengths = np.clip(np.ceil(between * (1.0 - 1e-12)), steps[before] + 1.0, steps[after])
    return np.where(above[:, -1], np.inf, np.where(above.any(axis=1), lengths, 0.0))


def _changes(draws: Draws, trial: Trial, course: Course, horizon: int) -> tuple[Floats, Floats]:
    """Return numbers of steps and the change of the loss at each, shape (draws, domains, lengths)."""
    near = np.unique(np.geomspace(1, horizon, NEAR).round().astype(np.int64))
    start = trial_losses(draws, [trial], [[0]])[:, 0]
    if course == "held":
        last = trial.with_schedule(held(trial.run, horizon))
        ends = trial_losses(draws, [last], [near])[:, 0]
        rates = last.run.schedule.learning_rates()[-1:]
    else:
        trials = [trial.with_schedule(trial.run.schedule.stretched(int(n))) for n in near]
        ends = trial_losses(draws, trials, [[n] for n in near])[..., 0].swapaxes(1, 2)
        last = trials[-1]
        rates = last.run.schedule.learning_rates()
    far = horizon * np.geomspace(1.0, FARTHEST, FAR)[1:]
    beyond = _beyond(draws, last, horizon, rates, far)
    steps = np.append(near.astype(np.float64), far)
    return steps, np.concatenate([ends, beyond], axis=2) - start


def _beyond(draws: Draws, trial: Trial, horizon: int, rates: Floats, steps: Floats) -> Floats:
    """Return losses at numbers of steps in which only areas grow, as at some learning rates."""
    curves = trial_curves(draws, [trial], [[horizon]])
    form, unit = draws.form, draws.form.reference_rate
    areas = {"log_forward": (form.powers, 1.0), "log_shift": (form.shift_powers, unit)}
    per_step = {
        "steps": 1.0,
        "cpt_steps": 1.0,
        "paced_steps": form.paces(rates).mean(),
        "squared_area": (rates**2).mean(),
    }

    def prolonged(name: str, values: Floats) -> Floats:
        grown = np.repeat(values, steps.size, axis=0)
        further = np.tile(steps - horizon, values.shape[0])
        if name in areas:
            powers, scale = areas[name]
            forward = scale * ((rates / scale)[:, None] ** powers.at_nodes()).mean(axis=0)
            area = np.exp(grown @ powers.basis(powers.at_nodes()).T) + further[:, None] * forward
            return powers.series(np.log(area))
        return grown + per_step[name] * further if name in per_step else grown

    beyond = replace(curves, points=curves.points.map(prolonged))
    return by_trial(losses(beyond, draws), draws, 1)[:, 0]
