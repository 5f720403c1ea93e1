"""What going on as planned gains against stopping now, or against other ends of the schedule.

The end of the run as planned and of each continuation are drawn together with the points that have arrived:
one draw of the law, its discrepancy and the noise. So what the run has shown so far informs every
continuation, by conditioning a Gaussian, and a difference between two has the error of the difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant, linear
from bayes_cpt.study.study import Study
from bayes_cpt.watch.expected import drawn_curves, rows_at

DRAWS = 2000
# Shares of the whole run over which a continuation decays, where that ends before the run would.
DECAYS = (0.1, 0.2)
# A continuation is advised where it is better with at least this probability.
SURE = 0.8
STOP = "stop now"


@dataclass(frozen=True)
class Continuation:
    """One way to go on, beside the run as planned.

    Parameters
    ----------
    name : str
    end : int
        Its last step.
    mean, lower, upper : float
        By how much the objective ends below that of the run as planned, costs included, nats/token.
    probability : float
        That it ends below.
    """

    name: str
    end: int
    mean: float
    lower: float
    upper: float
    probability: float


@dataclass(frozen=True)
class Continuations:
    """What could be done with the rest of a run.

    Parameters
    ----------
    objective : str
    ways : tuple of Continuation
        The best first.
    """

    objective: str
    ways: tuple[Continuation, ...]

    @property
    def advised(self) -> Continuation | None:
        """The best one; None where going on as planned may as well be the best."""
        best = self.ways[0] if self.ways else None
        return best if best is not None and best.probability >= SURE and best.mean > 0 else None


def schedules_from(run: Run, now: int) -> dict[str, tuple[Schedule, int]]:
    """Return other schedules after so many steps and their last steps by name, each as long as the run.

    After its last step a schedule is held: all continuations are then drawn by the same random numbers.
    """
    total = run.schedule.steps
    rate = float(run.schedule.learning_rates()[now - 1])
    done = run.schedule.first(now)
    found = {"decay to 0 evenly from now on": (done + linear(total - now, rate, 0.0), total)}
    for end in (now + round(share * total) for share in DECAYS):
        if end < total:
            schedule = done + linear(end - now, rate, 0.0) + constant(total - end, 0.0)
            found[f"decay to 0 until step {end}"] = (schedule, end)
    return found


def continuations(
    posterior: Posterior,
    run: Run,
    plan: Study,
    points: Mapping[int, Mapping[str, float]],
    objective: Objective,
    *,
    interval: float = 0.9,
    seed: int = 0,
) -> Continuations:
    """Return what else could be done with a run, against going on as planned.

    Parameters
    ----------
    posterior : Posterior
    run : Run
        Of the plan.
    plan : Study
        Where the run is, with its base's losses.
    points : mapping of int to mapping of str to float
        Measured losses by step and validation set, nats/token.
    objective : Objective
        Its weights and costs count; its constraints do not.
    interval : float
        Mass of the central intervals.
    seed : int
    """
    now, total = max(points, default=0), run.schedule.steps
    if not 0 < now < total:
        return Continuations(objective.name, ())
    others = schedules_from(run, now)
    domains, roles = posterior.frame.domains, posterior.frame.roles
    objective = objective.of_measured(domains, roles)
    steps = sorted({*points, *(end for _, end in others.values()), total})
    rows = rows_at(domains, steps)
    weights = dict(zip(domains, objective.combination(domains, roles), strict=True))

    def drawn(other: Run) -> Floats:
        return drawn_curves(posterior, plan, other, rows, DRAWS, seed)[0]

    def combined(losses: Floats, step: int) -> Floats:
        total = sum(
            weights[row.domain] * losses[:, place]
            for place, row in enumerate(rows)
            if row.step == step
        )
        return np.asarray(total + objective.cost(step, plan.resources))

    planned = drawn(run)
    seen = [place for place, row in enumerate(rows) if row.domain in points.get(row.step, {})]
    measured = np.array([points[rows[place].step][rows[place].domain] for place in seen])
    end = combined(planned, total)
    gains = {
        name: (last, end - combined(drawn(replace(run, schedule=schedule)), last))
        for name, (schedule, last) in others.items()
    }
    if set(points[now]) >= set(domains):
        loss = sum(weights[domain] * points[now][domain] for domain in domains)
        gains[STOP] = (now, end - loss - objective.cost(now, plan.resources))
    width = NormalDist().inv_cdf(0.5 + interval / 2)
    ways = []
    for name, (last, gain) in gains.items():
        mean, spread = _given(gain, planned[:, seen], measured)
        better = 1.0 - NormalDist(mean, max(spread, 1e-12)).cdf(0.0)
        low, high = mean - width * spread, mean + width * spread
        ways.append(Continuation(name, last, mean, low, high, better))
    return Continuations(objective.name, tuple(sorted(ways, key=lambda way: -way.mean)))


def _given(gain: Floats, seen: Floats, measured: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of a gain given what was measured."""
    off = seen - seen.mean(axis=0)
    covariance = off.T @ off / (len(seen) - seen.shape[1] - 2) + 1e-10 * np.eye(seen.shape[1])
    across = off.T @ (gain - gain.mean()) / len(seen)
    slope = np.linalg.solve(covariance, across)
    variance = max(float(gain.var() - across @ slope), 0.0)
    return float(gain.mean() + slope @ (measured - seen.mean(axis=0))), variance**0.5
