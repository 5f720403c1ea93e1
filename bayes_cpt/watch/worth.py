"""What going on as planned is worth against stopping now, or another rest of the schedule.

The end of the run as planned and of each other rest are drawn together with the points that have arrived:
one draw of the law, the misfit and the chance. So what the run has shown so far tells of every rest, by the
rule for Gaussians, and a difference between two rests has the error of the difference.
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
from bayes_cpt.watch.drawn import drawn_parts, factors_by_row, in_time
from bayes_cpt.watch.learnt.curve_sizes import Sizes

DRAWS = 2000
# Shares of the whole run over which a rest decays, where that ends before the run would.
DECAYS = (0.1, 0.2)
# A rest is advised where it is better with at least this probability.
SURE = 0.8
STOP = "stop now"


@dataclass(frozen=True)
class Rest:
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
class Worth:
    """What could be done with the rest of a run.

    Parameters
    ----------
    objective : str
    rests : tuple of Rest
        The best first.
    """

    objective: str
    rests: tuple[Rest, ...]

    @property
    def advised(self) -> Rest | None:
        """The best rest, None where going on as planned may as well be the best."""
        best = self.rests[0] if self.rests else None
        return best if best is not None and best.probability >= SURE and best.mean > 0 else None


def rests_of(run: Run, now: int) -> dict[str, tuple[Schedule, int]]:
    """Return other schedules and their last steps by name, each as long as the run.

    After its last step a schedule is held: the rows of all rests are then drawn by the same chance.

    Parameters
    ----------
    run : Run
    now : int
        Steps done, at least 1.
    """
    total = run.schedule.steps
    rate = float(run.schedule.learning_rates()[now - 1])
    done = run.schedule.first(now)
    ends = {f"decay to 0 until step {now + length}": now + length
            for length in (round(share * total) for share in DECAYS) if now + length < total}  # fmt: skip
    rests = {"decay to 0 evenly from now on": (done + linear(total - now, rate, 0.0), total)}
    for name, end in ends.items():
        rests[name] = (done + linear(end - now, rate, 0.0) + constant(total - end, 0.0), end)
    return rests


def worth(
    posterior: Posterior,
    run: Run,
    plan: Study,
    points: Mapping[int, Mapping[str, float]],
    objective: Objective,
    sizes: Sizes,
    *,
    interval: float = 0.9,
    seed: int = 0,
) -> Worth:
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
    sizes : Sizes
        How unlike runs are.
    interval : float
        Mass of the central intervals.
    seed : int
    """
    now, total = max(points, default=0), run.schedule.steps
    if not 0 < now < total:
        return Worth(objective.name, ())
    others = rests_of(run, now)
    steps = sorted({*points, *(end for _, end in others.values()), total})
    domains = posterior.frame.domains
    weights = objective.combination(domains)
    order, rows = in_time(domains, steps)
    of_row = np.array([domains.index(row.domain) for row in rows])
    scales = factors_by_row(sizes, DRAWS, len(domains), np.random.default_rng(seed), of_row)

    def drawn(other: Run) -> Floats:
        chance = np.random.default_rng(seed + 1)
        return drawn_parts(posterior, plan, other, steps, DRAWS, chance).at(order).curves(scales)

    def combined(losses: Floats, step: int) -> Floats:
        way = [i for i, row in enumerate(rows) if row.step == step]
        cost = objective.cost(step, plan.resources)
        return np.asarray(losses[:, way] @ weights[of_row[way]] + cost)

    planned = drawn(run)
    seen = [i for i, row in enumerate(rows) if row.domain in points.get(row.step, {})]
    measured = np.array([points[rows[i].step][rows[i].domain] for i in seen])
    end = combined(planned, total)
    gains = {
        name: (last, end - combined(drawn(replace(run, schedule=schedule)), last))
        for name, (schedule, last) in others.items()
    }
    if set(points[now]) >= set(domains):
        loss = weights @ np.array([points[now][domain] for domain in domains])
        gains[STOP] = (now, end - loss - objective.cost(now, plan.resources))
    ways = [
        _rest(name, last, *_given(gain, planned[:, seen], measured), interval)
        for name, (last, gain) in gains.items()
    ]
    return Worth(objective.name, tuple(sorted(ways, key=lambda way: -way.mean)))


def _given(gain: Floats, seen: Floats, measured: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of a gain given what was measured."""
    off = seen - seen.mean(axis=0)
    covariance = off.T @ off / (len(seen) - seen.shape[1] - 2) + 1e-10 * np.eye(seen.shape[1])
    across = off.T @ (gain - gain.mean()) / len(seen)
    slope = np.linalg.solve(covariance, across)
    variance = max(float(gain.var() - across @ slope), 0.0)
    return float(gain.mean() + slope @ (measured - seen.mean(axis=0))), variance**0.5


def _rest(name: str, end: int, mean: float, spread: float, interval: float) -> Rest:
    width = NormalDist().inv_cdf(0.5 + interval / 2) * spread
    probability = NormalDist(mean, max(spread, 1e-12)).cdf(0.0)
    return Rest(name, end, mean, mean - width, mean + width, 1.0 - probability)
