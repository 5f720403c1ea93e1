"""Drawn curves of a run, by what they are made of: the law, what it misses, and fluctuations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import planned_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import expected_loss, simulate
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.watch.departures import Row
from bayes_cpt.watch.learnt.curve_sizes import Sizes
from bayes_cpt.watch.learnt.left_out import FINEST_LOSS

# Draws that the law's mean curve is of.
LAW_DRAWS = 40


@dataclass(frozen=True, eq=False)
class Parts:
    """Drawn curves by what they are made of, shape (curves, rows) each.

    Parameters
    ----------
    expected : ndarray
        The law's curves.
    residuals : tuple of ndarray
        For each likeness of the validation sets: what the law misses, with what is not known of the level;
        and the fluctuation.
    """

    expected: Floats
    residuals: tuple[Floats, ...]

    def at(self, order: NDArray[np.int64]) -> Self:
        """Return other rows.

        Parameters
        ----------
        order : ndarray of int
            Which rows, in their new order.
        """
        return self._of((slice(None), order))

    def first(self, count: int) -> Self:
        """Return the first curves.

        Parameters
        ----------
        count : int
        """
        return self._of(slice(None, count))

    def last(self, count: int) -> Self:
        """Return the last curves.

        Parameters
        ----------
        count : int
        """
        return self._of(slice(-count, None))

    def _of(self, place: Any) -> Self:
        return type(self)(self.expected[place], tuple(part[place] for part in self.residuals))

    def curves(self, factors: Sequence[Floats]) -> Floats:
        """Return whole curves whose residuals are larger by factors, shape (curves, rows).

        Parameters
        ----------
        factors : sequence of ndarray, shape (curves, rows)
            For each of the residuals.
        """
        whole = self.expected
        for factor, part in zip(factors, self.residuals, strict=True):
            whole = whole + factor * part
        return whole

    def covariances(self, factors: Sequence[Floats]) -> Floats:
        """Return covariances, widened for their uncertainty, shape (members, rows, rows).

        Parameters
        ----------
        factors : sequence of ndarray, shape (members, rows)
            For each of the residuals.
        """
        count, rows = self.expected.shape
        covariance = np.cov(self.expected, rowvar=False)
        for factor, part in zip(factors, self.residuals, strict=True):
            covariance = covariance + factor[:, :, None] * factor[:, None] * np.cov(
                part, rowvar=False
            )
        return np.asarray(
            covariance * (count - 1) / (count - rows - 2) + FINEST_LOSS**2 * np.eye(rows)
        )


def drawn_parts(
    posterior: Posterior,
    plan: Study,
    run: Run,
    steps: Sequence[int],
    count: int,
    generator: np.random.Generator,
    likenesses: Sequence[ErrorCorrelation | None] = (None,),
) -> Parts:
    """Draw curves of a run, of all laws by their weights, in no order.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    run : Run
    steps : sequence of int
    count : int
        How many curves.
    generator : numpy.random.Generator
        Runs of one length are drawn by the same chance if theirs are in the same state.
    likenesses : sequence of ErrorCorrelation or None
        Of the validation sets, each for residuals of its own; None is the one that the fit tells.

    Returns
    -------
    Parts
        Rows by validation set, then step.
    """
    laws = [(law, law.parameters(share)) for law, share in posterior.shares()]
    ends = np.cumsum([len(next(iter(parameters.values()))) for _, parameters in laws])
    chosen = generator.permutation(np.resize(generator.permutation(ends[-1]), count))
    places, drawn = [], []
    for (law, parameters), end in zip(laws, ends, strict=True):
        first = end - len(next(iter(parameters.values())))
        rows = np.flatnonzero((first <= chosen) & (chosen < end))
        taken = {name: values[chosen[rows] - first] for name, values in parameters.items()}
        curves = _points(law, plan, run, steps)
        parts = [expected_loss(law.frame, taken, curves)]
        for likeness in likenesses:
            alike = likeness or error_correlation(law)
            parts += _residuals(law, taken, curves, parts[0], run.phase, alike, generator)
        drawn.append(parts)
        places.append(rows)
    order = np.argsort(np.concatenate(places))
    expected, *residuals = (np.concatenate(part)[order] for part in zip(*drawn, strict=True))
    return Parts(expected, tuple(residuals))


def _residuals(
    law: Posterior,
    parameters: dict[str, Floats],
    curves: Curves,
    expected: Floats,
    phase: str,
    alike: ErrorCorrelation,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return misfit and fluctuation: curves of the same chance differ by their fluctuation alone."""
    seed = generator.integers(2**63)

    def drawn(values: dict[str, Floats]) -> Floats:
        return simulate(law.frame, values, curves, None, np.random.default_rng(seed), alike).loss

    calm = f"fluctuation_{phase}"
    whole = drawn(parameters)
    if calm not in parameters:
        return np.zeros_like(whole), whole - expected
    still = drawn({**parameters, calm: 0.0 * parameters[calm]})
    return still - expected, whole - still


def factors_by_row(
    sizes: Sizes,
    count: int,
    domains: int,
    generator: np.random.Generator,
    of_row: NDArray[np.int64],
) -> tuple[Floats, ...]:
    """Return factors of misfit and fluctuation for the rows of curves, shape (count, rows) each.

    Parameters
    ----------
    sizes : Sizes
    count : int
    domains : int
    generator : numpy.random.Generator
    of_row : ndarray of int, shape (rows,)
        Place of each row's validation set.
    """
    fluctuation, misfit = sizes.draw(count, domains, generator)
    return misfit[:, of_row], fluctuation[:, of_row]


def in_time(
    domains: Sequence[str], steps: Sequence[int]
) -> tuple[NDArray[np.int64], tuple[Row, ...]]:
    """Return the order that puts curves one after the other into time, and its rows.

    Parameters
    ----------
    domains : sequence of str
    steps : sequence of int
    """
    rows = [Row(int(step), domain) for domain in domains for step in steps]
    order = np.array(sorted(range(len(rows)), key=lambda i: (rows[i].step, i)), dtype=np.int64)
    return order, tuple(rows[i] for i in order)


def _points(posterior: Posterior, plan: Study, run: Run, steps: Sequence[int]) -> Curves:
    import pandas as pd

    at = pd.MultiIndex.from_product(
        [[run.name], posterior.frame.domains, [int(step) for step in steps]],
        names=["run", "domain", "step"],
    ).to_frame(index=False)
    changed = replace(
        plan, runs=(run,), is_plan=True, losses=plan.losses[plan.losses["run"] == run.name]
    )
    return planned_curves(posterior, changed, at=at, runs=[run.name])[1]


def law_curve(posterior: Posterior, plan: Study, run: Run, steps: Sequence[int]) -> Floats:
    """Return the law's curve, the mean over some draws, shape (rows,).

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    run : Run
    steps : sequence of int
    """
    expected = [
        expected_loss(law.frame, law.parameters(share), _points(law, plan, run, steps))
        for law, share in posterior.shares(LAW_DRAWS)
    ]
    return np.asarray(np.concatenate(expected).mean(axis=0))
