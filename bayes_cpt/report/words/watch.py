"""A running job in plain words: whether to let it run, how sure that is, and what would change it."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import chance, fixed

if TYPE_CHECKING:
    from bayes_cpt.watch.continuation import Continuations
    from bayes_cpt.watch.watcher import Status

# Of a central interval of nine tenths, in standard deviations.
WIDTH = 3.3
# A share of runs that is told in whole percent.
COMMON = 0.1


def verdict(status: "Status") -> list[str]:
    """Return whether to let a run go on, how sure that is, and where it ends as things stand.

    Parameters
    ----------
    status : Status

    Returns
    -------
    list of str
        Three lines.
    """
    return [_what(status), _sure(status), f"What would change it: {_change(status)}."]


def _what(status: "Status") -> str:
    now = f"step {status.step} of {status.steps}"
    if not status.on_track:
        cause = f" It looks like {status.looks_like}." if status.looks_like else ""
        return f"OFF TRACK since step {status.off_since}, now at {now}: stop it and look.{cause}"
    if not status.step:
        return f"Nothing was measured yet of {status.steps} steps: wait."
    if status.step == status.steps:
        return f"On track to its end, {now}."
    return f"On track at {now}: let it run."


def _sure(status: "Status") -> str:
    if not status.step:
        return "How sure: not at all before its first evaluation."
    if not status.probability:
        return "How sure: certain; its loss is not finite."
    share = 100 * status.probability
    told = f"{share:.0f}" if status.probability >= COMMON else f"{share:.2g}"
    return f"How sure: of healthy runs, {told} % stray this far from their forecast at some time."


def _change(status: "Status") -> str:
    ends = " and ".join(
        f"{fixed(end['mean'], spread)} on {domain} "
        f"({fixed(end['lower'], spread)} to {fixed(end['upper'], spread)})"
        for domain, end in status.forecast.items()
        for spread in [end_spread(end)]
    )
    if status.step == status.steps:
        return "nothing; the run is over"
    return f"its later losses. Until then it is forecast to end at {ends}"


def ends_below(status: "Status", limits: Mapping[str, float], interval: float) -> list[str]:
    """Return how probably a run ends below some losses, a sentence each.

    Parameters
    ----------
    status : Status
    limits : mapping of str to float
        Nats/token, by validation set.
    interval : float
        Mass of the forecast's intervals.
    """
    return [
        f"It ends below {limit:g} on {domain} with probability {chance(share)}."
        for domain, limit in limits.items()
        for share in [below(status.forecast[domain], limit, interval)]
    ]


def below(forecast: Mapping[str, float], limit: float, interval: float) -> float:
    """Return the probability that a run ends below a loss: its end is forecast as normal.

    Parameters
    ----------
    forecast : mapping of str to float
        Of one validation set, as in `Status.forecast`.
    limit : float
        Nats/token.
    interval : float
        Mass of the forecast's interval.

    Examples
    --------
    >>> round(below({"mean": 2.4, "lower": 2.3, "upper": 2.5}, 2.5, 0.9), 3)
    0.95
    """
    width = NormalDist().inv_cdf(0.5 + interval / 2.0)
    spread = (forecast["upper"] - forecast["lower"]) / (2.0 * width)
    return NormalDist(forecast["mean"], spread).cdf(limit)


def end_spread(forecast: dict[str, float]) -> float:
    """Return about the standard deviation of the loss at a run's end, nats/token.

    Parameters
    ----------
    forecast : dict of str to float
        Of one validation set, as in `Status.forecast`.
    """
    return (forecast["upper"] - forecast["lower"]) / WIDTH


def advice(found: "Continuations", done: int, total: int) -> str:
    """Return what is better than going on as planned in a sentence, empty where nothing is.

    Parameters
    ----------
    found : Continuations
    done, total : int
        Steps done, and of the whole run.
    """
    best = found.advised
    if best is None:
        return ""
    spread = (best.upper - best.lower) / WIDTH
    gain, lower, upper = (fixed(value, spread) for value in (best.mean, best.lower, best.upper))
    return (
        f"For {found.objective}, better than going on from step {done} to {total} as planned: "
        f"{best.name}, by {gain} nats ({lower} to {upper}; {chance(best.probability)})"
    )
