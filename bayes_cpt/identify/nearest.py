"""The priors nearest to a model's own under which changes of losses have given intervals."""

from dataclasses import dataclass

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.forecast.derived import start_loss
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.identify.statements import Statement
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors.families import Distribution, LogNormal
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import expected_loss

type Label = tuple[str, str]

# A power of two of quasi-random draws: their quantiles vary less than those of so many random ones.
DRAWS = 4096
SEED = 0
ROUNDS, PATIENCE = 25, 5
LONGEST_STEP, HALVINGS = 1.0, 5
# Mass to each side of a quantile that its density is taken from.
NEAR = 0.02
# A parameter that moves a change by less than this share of its interval stays as it is.
LEAST_SHARE = 0.1
# Share of a stated interval's width that the predicted one may be off by.
TOLERANCE, NEARLY = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Change:
    """The change of a loss that a statement is about."""

    frame: Frame
    statement: Statement
    curves: Curves
    index: int

    @property
    def domain(self) -> str:
        """The validation set."""
        return self.curves.curves[self.index].domain

    def values(self, parameters: dict[str, Floats]) -> Floats:
        """Return the change under draws of the parameters, shape (draws,), nats/token.

        Parameters
        ----------
        parameters : dict of str to ndarray, shape (draws, ...)
        """
        last = expected_loss(self.frame, parameters, self.curves)
        first = start_loss(self.frame, parameters, self.curves)
        return np.asarray((last - first)[:, self.index])

    def interval(self, parameters: dict[str, Floats]) -> Floats:
        """Return the interval of the stated mass under draws of the parameters.

        Parameters
        ----------
        parameters : dict of str to ndarray, shape (draws, ...)
        """
        return np.quantile(self.values(parameters), self.statement.tails)


def relevant(
    free: FreeParameters,
    priors: dict[Label, Distribution],
    labels: list[Label],
    changes: list[Change],
) -> list[Label]:
    """Return the parameters whose priors matter for the changes: drawn anew, each moves one of them.

    Parameters
    ----------
    free : FreeParameters
    priors : dict of Label to Distribution
    labels : list of Label
        Of the priors that may move.
    changes : list of Change
    """
    uniform = uniform_draws(len(priors))
    columns = columns_of(priors, uniform)
    before = [change.values(free.assembled(columns)) for change in changes]
    # Half a turn of a quasi-random sequence is as good as another draw.
    anew = dict(zip(priors, (uniform + 0.5).T % 1.0, strict=True))
    moving = []
    for label in labels:
        drawn = columns | {label: priors[label].quantiles(anew[label])}
        after = [change.values(free.assembled(drawn)) for change in changes]
        for change, one, other in zip(changes, before, after, strict=True):
            low, high = np.quantile(other - one, change.statement.tails)
            lower, upper = change.statement.interval
            if high - low > LEAST_SHARE * (upper - lower):
                moving.append(label)
                break
    return moving


def nearest(
    free: FreeParameters,
    priors: dict[Label, Distribution],
    moving: list[Label],
    changes: list[Change],
) -> dict[Label, Distribution]:
    """Return priors under which the changes have their intervals, moved as little as can be.

    The unknowns are, per prior, the shift of its mean in its own sds and the log of the factor of its sd:
    half the squared shift and the squared log are its Kullback-Leibler distance to second order. Each
    round solves the linearised problem (Gauss-Newton with minimal norm).

    Parameters
    ----------
    free : FreeParameters
    priors : dict of Label to Distribution
    moving : list of Label
        Of the priors that are moved.
    changes : list of Change
    """
    uniform = uniform_draws(len(priors))
    places = dict(zip(priors, uniform.T, strict=True))
    fixed = columns_of(priors, uniform)
    wanted = np.concatenate([change.statement.interval for change in changes])
    widths = np.repeat(np.diff(wanted.reshape(-1, 2), axis=1), 2)
    size = len(moving)
    weights = np.repeat([1.0, 0.5], size)

    def drawn(unknown: Floats) -> list[Floats]:
        columns = dict(fixed)
        for i, label in enumerate(moving):
            center, spread = _moved(priors[label], unknown[i], unknown[size + i])
            columns[label] = priors[label].quantiles(places[label], center=center, spread=spread)
        parameters = free.assembled(columns)
        return [change.values(parameters) for change in changes]

    def missed(values: list[Floats]) -> Floats:
        reached = [
            np.quantile(drawn_values, change.statement.tails)
            for drawn_values, change in zip(values, changes, strict=True)
        ]
        return np.asarray((np.concatenate(reached) - wanted) / widths)

    unknown = np.zeros(2 * size)
    values = drawn(unknown)
    now = missed(values)
    stalled = 0
    for _ in range(ROUNDS):
        if np.abs(now).max() < TOLERANCE / 2 or stalled == PATIENCE:
            break
        scores = _scores([places[label] for label in moving], unknown)
        slopes = np.concatenate(
            [
                _slopes(of_change, c.statement.tails, scores)
                for of_change, c in zip(values, changes, strict=True)
            ]
        )
        slopes /= widths[:, None]
        normal = (slopes * weights) @ slopes.T
        # A hair of damping: statements that say the same leave the system singular.
        normal += 1e-9 * np.trace(normal) * np.eye(now.size)
        # Far off, the whole way from the model's own priors is chosen anew; near by, only the rest.
        start = unknown if np.abs(now).max() > NEARLY else np.zeros_like(unknown)
        aim = np.linalg.solve(normal, slopes @ start - now)
        step = weights * (slopes.T @ aim) - start
        step /= max(1.0, np.abs(step).max() / LONGEST_STEP)
        for _ in range(HALVINGS):
            values = drawn(unknown + step)
            if np.abs(ahead := missed(values)).max() < np.abs(now).max():
                break
            step /= 2.0
        stalled = stalled + 1 if np.abs(ahead).max() > 0.9 * np.abs(now).max() else 0
        unknown, now = unknown + step, ahead
    if np.abs(now).max() > TOLERANCE:
        _give_up(free, changes, values)
    return priors | {
        label: priors[label].moved(*_moved(priors[label], unknown[i], unknown[size + i]))
        for i, label in enumerate(moving)
    }


def _scores(places: list[Floats], unknown: Floats) -> Floats:
    """Return the slopes of the log density in the unknowns, shape (draws, unknowns)."""
    from scipy.special import ndtri

    normal = ndtri(np.stack(places, axis=1))
    factors = np.exp(unknown[normal.shape[1] :])
    return np.concatenate([normal / factors, normal**2 - 1.0], axis=1)


def _slopes(values: Floats, tails: tuple[float, float], scores: Floats) -> Floats:
    """Return the slopes of two quantiles in the unknowns, shape (2, unknowns).

    The mass below a value changes by the mean score of the draws below it, and its quantile by that over
    the density there.
    """
    slopes = []
    for tail in tails:
        near = np.quantile(values, [max(tail - NEAR, 0.001), tail, min(tail + NEAR, 0.999)])
        share = min(tail + NEAR, 0.999) - max(tail - NEAR, 0.001)
        below = np.mean(scores * (values <= near[1])[:, None], axis=0)
        slopes.append(-below * (near[2] - near[0]) / share)
    return np.stack(slopes)


def _moved(prior: Distribution, shift: float, factor: float) -> tuple[float, float]:
    center, spread = prior.center, prior.spread
    return _inside(prior, center + shift * spread), float(spread * np.exp(factor))


def _inside(prior: Distribution, center: float) -> float:
    """Return a mean between a prior's bounds, where it has any: a specification takes no other."""
    if isinstance(prior, LogNormal) and prior.lower and prior.upper:
        low, high = np.log([prior.lower, prior.upper])
        return float(np.clip(center, low + 0.01 * (high - low), high - 0.01 * (high - low)))
    return center


def _give_up(free: FreeParameters, changes: list[Change], values: list[Floats]) -> None:
    problems = []
    for change, drawn in zip(changes, values, strict=True):
        low, high = np.quantile(drawn, change.statement.tails)
        problems.append(
            Problem(
                f"statement: {change.statement.words}",
                f"no priors near those of {free.frame.spec.name} say it; they come to "
                f"{low:.3g} to {high:.3g}",
                "widen the interval, or leave out a statement that contradicts it",
            )
        )
    raise SpecError(problems)


def uniform_draws(count: int) -> Floats:
    """Return quasi-random draws that every set of priors is looked at through, shape (draws, count).

    Parameters
    ----------
    count : int
        Of priors.
    """
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(count, rng=SEED).random(DRAWS))


def columns_of(priors: dict[Label, Distribution], uniform: Floats) -> dict[Label, Floats]:
    """Return a column of draws of each prior.

    Parameters
    ----------
    priors : dict of Label to Distribution
    uniform : ndarray, shape (draws, count)
        A column per prior, in their order.
    """
    return {
        label: prior.quantiles(column)
        for (label, prior), column in zip(priors.items(), uniform.T, strict=True)
    }
