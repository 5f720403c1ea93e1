"""Final losses as one choice varies: loss potential, peak learning rate, or the base."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cpt.arrays import central
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.derived import annealed
from bayes_cpt.forecast.plans import Plan
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import (
    Trial,
    base_losses,
    law_draws,
    read_target,
    rewarmed,
    started_at,
    trial_losses,
)
from bayes_cpt.model.bases import GIVE_SCHEDULE
from bayes_cpt.model.groups import check_one_target, run_batch
from bayes_cpt.study.ranges import ALIKE_RATIO, outside_base, outside_span
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study

DRAWS = 1000
POTENTIALS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# Of the PT peak.
PEAK_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Response:
    """Posterior of the final losses along one choice, all else as in one run.

    Parameters
    ----------
    draws : xarray.Dataset
        ``start`` and ``loss`` (draw, value, domain): the law's loss of the base, and of the last step,
        nats/token. ``outside`` (value) says where a value lies outside the fitted range. Attributes:
        ``choice``, what varies; ``run``, what it is varied in; ``rewarmed``, whether each run is warmed up
        again.
    reference : int
        Index of the value that the others are compared with.
    """

    draws: xr.Dataset
    reference: int

    def table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return one row per validation set and value.

        Parameters
        ----------
        interval : float
            Mass of the intervals.

        Returns
        -------
        DataFrame
            Columns run, choice, rewarmed, domain, value, start (median); median, lower, upper of the final
            loss; difference, difference_lower, difference_upper of it to the reference value's, and
            lower_than_reference, the probability that it is lower; best, the probability that no other
            value ends lower; outside.
        """
        ends = self.draws.transpose("domain", "value", "draw")
        loss, start = ends["loss"].to_numpy(), ends["start"].to_numpy()
        gaps = loss - loss[:, [self.reference]]
        sets, count, draws = loss.shape
        is_best = loss.argmin(axis=1)[:, None] == np.arange(count)[:, None]
        attributes = {name: ends.attrs[name] for name in ("run", "choice", "rewarmed")}
        columns = {
            "domain": np.repeat(ends["domain"].to_numpy(), count),
            "value": ends["value"].to_numpy().tolist() * sets,
            "start": np.median(start, axis=-1).ravel(),
            **central(loss.reshape(-1, draws), interval),
            **central(gaps.reshape(-1, draws), interval, "difference"),
            "lower_than_reference": (gaps < 0).mean(axis=-1).ravel(),
            "best": is_best.mean(axis=-1).ravel(),
            "outside": ends["outside"].to_numpy().tolist() * sets,
        }
        return pd.DataFrame(attributes | columns)


def loss_potential_response(
    posterior: Posterior,
    plan: Plan = None,
    run: str | None = None,
    *,
    rewarmed_to_peak: bool,
    potentials: Sequence[float] = POTENTIALS,
    draws: int = DRAWS,
) -> Response:
    """Return the final losses of a run on bases that are annealed to different learning rates (Fig. 5).

    The bases have the steps, warm-up and peak of the run's own base, lie on the law, and anneal linearly
    over their last fifth to the loss potential (final over peak learning rate). Compared is with the base
    of the highest loss potential.

    Parameters
    ----------
    posterior, plan, draws
        As in `decompose`.
    run : str, optional
        The CPT run that is varied; see `main_run`.
    rewarmed_to_peak : bool
        Whether each run is warmed up to the given run's peak, or starts at its base's learning rate and
        follows the run's shape from there; a loss potential of 0 is then left out.
    potentials : sequence of float
        From 0 to 1.
    """
    if not all(0.0 <= potential <= 1.0 for potential in potentials):
        raise ValueError(f"loss potentials are {list(potentials)}: give shares from 0 to 1")
    target, chosen = main_run(posterior, plan, run)
    planned = Trial.of(posterior, target, chosen)
    pretraining = planned.base.schedule
    if pretraining is None:
        problem = "the schedule of the base is not known"
        raise StudyError.at(f"run {chosen.name}, base {chosen.base}", problem, GIVE_SCHEDULE)
    values = sorted(p for p in set(potentials) if p > 0 or rewarmed_to_peak)

    def trial(potential: float) -> Trial:
        base = annealed(pretraining, potential)
        if rewarmed_to_peak:
            schedule = rewarmed(chosen, base.final, chosen.peak)
        else:
            schedule = started_at(chosen, base.final)
        nowhere = (None,) * len(planned.base_losses)
        own = Base("annealed", base.steps, base)
        return replace(planned.with_schedule(schedule), base=own, base_losses=nowhere)

    used = [posterior.study.base(str(r.base)) for r in posterior.study.continual_runs]
    studied = [base.loss_potential for base in used if base.loss_potential is not None]
    notes = [outside_span("loss potential", value, studied) for value in values]
    about = {"choice": "loss potential", "rewarmed": rewarmed_to_peak}
    return _response(posterior, values, trial, notes, len(values) - 1, draws, **about)


def peak_response(
    posterior: Posterior,
    plan: Plan = None,
    run: str | None = None,
    *,
    peaks: Sequence[float] | None = None,
    draws: int = DRAWS,
) -> Response:
    """Return the final losses of a run as its peak learning rate varies (Fig. 7a and b).

    Each run changes linearly from its base's learning rate to the peak, over the run's own warm-up (a
    fortieth of its steps where it has none), and then follows the run's shape. Compared is with the peak
    nearest to the run's own.

    Parameters
    ----------
    posterior, plan, run, draws
        As in `loss_potential_response`.
    peaks : sequence of float, optional
        Raw learning rates; unless given the run's own, those that CPT runs tried, and others from a
        twentieth of the PT peak to all of it.
    """
    target, chosen = main_run(posterior, plan, run)
    planned = Trial.of(posterior, target, chosen)
    start = planned.base.schedule.final if planned.base.schedule else 0.0
    top = posterior.frame.reference.learning_rate
    studied = [other.peak for other in posterior.study.measured_runs("cpt")]
    if peaks is None:
        peaks = []
        for rate in (chosen.peak, *studied, *(share * top for share in PEAK_SHARES)):
            if all(max(rate / own, own / rate) > ALIKE_RATIO for own in peaks):
                peaks.append(rate)
    values = sorted(set(peaks))
    notes = [outside_span("peak LR", value, studied) for value in values]
    nearest = int(np.argmin(np.abs(np.array(values) - chosen.peak)))

    def trial(peak: float) -> Trial:
        return planned.with_schedule(rewarmed(chosen, start, peak))

    return _response(posterior, values, trial, notes, nearest, draws, choice="peak learning rate")


def base_response(
    posterior: Posterior, plan: Plan = None, run: str | None = None, *, draws: int = DRAWS
) -> Response:
    """Return the final losses of a run from each base of plan and study whose schedule is known.

    Each run is warmed up from its base's learning rate to the run's peak, as in `peak_response`. Measured
    losses of the bases count. Compared is with the run's own base.

    Parameters
    ----------
    posterior, plan, run, draws
        As in `loss_potential_response`.
    """
    target, chosen = main_run(posterior, plan, run)
    named = {base.name: (posterior.study, base) for base in posterior.study.bases}
    named |= {base.name: (target, base) for base in target.bases}
    bases = {name: own for name, own in named.items() if own[1].schedule is not None}
    batch = run_batch(target, chosen, posterior.frame.batches)

    def trial(name: str) -> Trial:
        home, base = bases[name]
        assert base.schedule is not None
        schedule = rewarmed(chosen, base.schedule.final, chosen.peak)
        losses = base_losses(home, base, posterior.frame.domains)
        # Another size has the batch that is usual for it.
        tokens = chosen.batch_tokens if base.model_size == target.model_size(chosen) else None
        size = base.model_size
        run = replace(chosen, schedule=schedule, model_size=size, batch_tokens=tokens, branch=None)
        return Trial(base, run, losses, batch)

    notes = [outside_base(posterior.study, base) for _, base in bases.values()]
    reference = list(bases).index(str(chosen.base))
    return _response(posterior, list(bases), trial, notes, reference, draws, choice="base")


def main_run(posterior: Posterior, plan: Plan, run: str | None) -> tuple[Study, Run]:
    """Return a plan and the CPT run to vary: the one named, else the first that ends below its peak."""
    check_one_target(posterior.study, "what each choice of a run does")
    target, chosen = read_target(posterior, plan, None if run is None else [run])
    decaying = [own for own in chosen if own.schedule.final < own.peak]
    return target, (decaying or chosen)[0]


def _response[Value: (float, str)](
    posterior: Posterior,
    values: list[Value],
    trial_of: Callable[[Value], Trial],
    notes: list[list[str]],
    reference: int,
    draws: int,
    **about: Any,
) -> Response:
    trials = [trial_of(value) for value in values]
    steps = [[0, trial.run.schedule.steps] for trial in trials]
    known = posterior.with_new_sizes(trial.run.model_size for trial in trials)
    # The trials are one run, varied.
    laws = law_draws(known.in_batch(trials[0].batch), draws)
    losses = np.concatenate([trial_losses(law, trials, steps) for law in laws])
    dims, domains = ("draw", "value", "domain"), list(posterior.frame.domains)
    ends = xr.Dataset(
        {
            "start": (dims, losses[..., 0], {"units": "nats/token"}),
            "loss": (dims, losses[..., 1], {"units": "nats/token"}),
            "outside": ("value", np.array(["; ".join(note) for note in notes], dtype=object)),
        },
        coords={"draw": np.arange(len(losses)), "value": values, "domain": domains},
        attrs={"run": trials[0].run.name, "rewarmed": True, **about},
    )
    return Response(ends, reference)
