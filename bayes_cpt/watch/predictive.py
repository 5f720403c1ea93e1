"""What a fit expects of a run at its evaluations, and how far the run departs.

Curves are drawn from the posterior predictive distribution of a new run: what the fit is unsure of (the
law's coefficients), what the law misses, how losses fluctuate, how alike the errors of the two losses
are, and how unlike runs are in the size of these (`bayes_cpt.watch.curve_sizes`). Conditioning on the
points that have arrived updates all of them at once, in a time that does not grow with the run. Draws
that were not used for the covariances say how large departures are in runs on track.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import planned_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import expected_loss, simulate
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.watch.curve_sizes import Sizes
from bayes_cpt.watch.departures import Departures, Row, Usual
from bayes_cpt.watch.faults import faulty
from bayes_cpt.watch.mixture import Mixture

type Floats = NDArray[np.float64]

# Curves for mean and covariance, and curves that say what is usual.
CURVES, USUAL_CURVES = 3000, 2000
# Sizes of residuals that are told apart.
MEMBERS = 80
# A jitter for the covariance, nats: no loss is measured more finely.
FINEST_LOSS = 1e-5
FAULT_DRAWS = 40


@dataclass(frozen=True)
class Outlook:
    """What the points of a run say of it.

    Parameters
    ----------
    seen : tuple of int
        Rows that were measured.
    losses : tuple of float
    probability : float
        Share of runs on track that depart as far as this one has.
    fault : str or None
        What would explain it.
    mean, spread : ndarray, shape (rows,)
        Of every row given those that were measured, nats/token.
    """

    seen: tuple[int, ...]
    losses: tuple[float, ...]
    probability: float
    fault: str | None
    mean: Floats = field(repr=False)
    spread: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class Predictive:
    """The posterior predictive distribution of a run at its evaluations.

    Parameters
    ----------
    rows : tuple of Row
        In the order in which they are measured; the last step of the run is among them.
    mixture : Mixture
        Their distribution.
    usual : ndarray, shape (curves, rows)
        Drawn curves, of which departures are computed as of the run itself.
    faults : mapping of str to ndarray, shape (rows,)
        By how much the loss would be off if the run was not as planned, by what is wrong.
    """

    rows: tuple[Row, ...]
    mixture: Mixture
    usual: Floats
    faults: Mapping[str, Floats]
    _usual: "Usual | None" = field(default=None, init=False, repr=False)
    _expected: "Mixture | None" = field(default=None, init=False, repr=False)
    _outlook: Outlook | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        run: Run,
        plan: Study,
        steps: Sequence[int],
        seed: int = 0,
        sizes: Sizes | None = None,
    ) -> Self:
        """Draw the curves of a planned run at some steps.

        Parameters
        ----------
        posterior : Posterior
        run : Run
            Of the plan.
        plan : Study
        steps : sequence of int
            Rising, from 1.
        seed : int
        sizes : Sizes, optional
            How unlike runs are; learnt from the fitted curves unless given.
        """
        generator = np.random.default_rng(seed)
        sizes = sizes or Sizes.of(posterior, continual=run.phase == "cpt")
        order, rows = in_time(posterior.frame.domains, steps)
        drawn = drawn_parts(posterior, plan, run, steps, CURVES + USUAL_CURVES, generator).at(order)
        domains = np.array([posterior.frame.domains.index(row.domain) for row in rows])
        count = len(posterior.frame.domains)
        covariances = drawn.first(CURVES).covariances(
            *factors_by_row(sizes, MEMBERS, count, generator, domains)
        )
        usual = drawn.last(USUAL_CURVES)
        factors = factors_by_row(sizes, USUAL_CURVES, count, generator, domains)
        planned = _law(posterior, plan, run, steps)
        faults = {
            name: (_law(posterior, plan, other, steps) - planned)[order]
            for name, other in faulty(run).items()
        }
        mixture = Mixture(drawn.first(CURVES).expected.mean(axis=0), covariances)
        return cls(rows, mixture, usual.curves(*factors), faults)

    @property
    def mean(self) -> Floats:
        """Mean at the rows, nats/token."""
        return self.mixture.mean

    def given(self, seen: Sequence[int], losses: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every row given some, shape (rows,) each.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured.
        losses : ndarray, shape (seen,)
        """
        return self.mixture.given(seen, losses)

    def outlook(self, seen: Sequence[int], losses: Sequence[float]) -> Outlook:
        """Return what measured rows say; asked again for the same ones, what it found before.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured, rising: in time.
        losses : sequence of float
        """
        asked = tuple(seen), tuple(losses)
        if self._outlook is None or (self._outlook.seen, self._outlook.losses) != asked:
            measured = np.array(losses)
            off = self.departures(seen, measured)
            mean, spread = self.given(seen, measured)
            found = Outlook(*asked, off.probability(), off.likeliest_fault(), mean, spread)
            object.__setattr__(self, "_outlook", found)
        assert self._outlook is not None
        return self._outlook

    def departures(self, seen: Sequence[int], losses: Floats) -> Departures:
        """Return how far a run departs from what was expected, beside runs on track.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured, rising: in time.
        losses : ndarray, shape (seen,)
        """
        last = max(seen, default=-1)
        whole = (*seen, *range(last + 1, len(self.rows)))
        if self._usual is None or self._usual.whole != whole:
            # Rows that were passed by without a measurement are no part of the run any more.
            object.__setattr__(self, "_expected", self.mixture.of_rows(whole))
            object.__setattr__(self, "_usual", self._usual_of(whole))
        assert self._usual is not None
        assert self._expected is not None
        return Departures(self._usual, self._expected.white(losses[None])[0])

    def _usual_of(self, whole: tuple[int, ...]) -> Usual:
        assert self._expected is not None
        rows = list(whole)
        root = np.linalg.cholesky(self._expected.covariance)
        patterns = {name: np.linalg.solve(root, off[rows]) for name, off in self.faults.items()}
        white = self._expected.white(self.usual[:, rows])
        return Usual(whole, white, patterns, tuple(self.rows[row] for row in rows))


@dataclass(frozen=True, eq=False)
class Parts:
    """Drawn curves by what they are made of, shape (curves, rows) each.

    Parameters
    ----------
    expected : ndarray
        The law's curves.
    misfit : ndarray
        What the law misses, with what is not known of the level.
    fluctuation : ndarray
    """

    expected: Floats
    misfit: Floats
    fluctuation: Floats

    def at(self, order: NDArray[np.int64]) -> Self:
        """Return other rows.

        Parameters
        ----------
        order : ndarray of int
            Which rows, in their new order.
        """
        return type(self)(*(part[:, order] for part in self._all))

    def first(self, count: int) -> Self:
        """Return the first curves.

        Parameters
        ----------
        count : int
        """
        return type(self)(*(part[:count] for part in self._all))

    def last(self, count: int) -> Self:
        """Return the last curves.

        Parameters
        ----------
        count : int
        """
        return type(self)(*(part[-count:] for part in self._all))

    @property
    def _all(self) -> tuple[Floats, Floats, Floats]:
        return self.expected, self.misfit, self.fluctuation

    def curves(self, fluctuation: Floats, misfit: Floats) -> Floats:
        """Return whole curves whose residuals are larger by factors, shape (curves, rows) each.

        Parameters
        ----------
        fluctuation, misfit : ndarray, shape (curves, rows)
            Factors of their sizes.
        """
        return self.expected + misfit * self.misfit + fluctuation * self.fluctuation

    def covariances(self, fluctuation: Floats, misfit: Floats) -> Floats:
        """Return the covariance for factors of shape (members, rows), widened for its uncertainty.

        Parameters
        ----------
        fluctuation, misfit : ndarray, shape (members, rows)
            Factors of their sizes.
        """
        count, rows = self.expected.shape
        expected, missed, moved = (np.cov(part, rowvar=False) for part in self._all)
        found = (
            expected
            + misfit[:, :, None] * misfit[:, None] * missed
            + fluctuation[:, :, None] * fluctuation[:, None] * moved
        )
        return np.asarray(found * (count - 1) / (count - rows - 2) + FINEST_LOSS**2 * np.eye(rows))


def drawn_parts(
    posterior: Posterior,
    plan: Study,
    run: Run,
    steps: Sequence[int],
    count: int,
    generator: np.random.Generator,
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
        own = np.flatnonzero((first <= chosen) & (chosen < end))
        taken = {name: values[chosen[own] - first] for name, values in parameters.items()}
        drawn.append(_parts(law, taken, _points(law, plan, run, steps), run.phase, generator))
        places.append(own)
    order = np.argsort(np.concatenate(places))
    return Parts(*(np.concatenate(parts)[order] for parts in zip(*drawn, strict=True)))


def _parts(
    law: Posterior,
    parameters: dict[str, Floats],
    curves: Curves,
    phase: str,
    generator: np.random.Generator,
) -> tuple[Floats, Floats, Floats]:
    """Return the parts of drawn curves: those of the same chance differ by their fluctuation alone."""
    seed = generator.integers(2**63)
    alike = error_correlation(law)

    def drawn(values: dict[str, Floats]) -> Floats:
        return simulate(law.frame, values, curves, None, np.random.default_rng(seed), alike).loss

    calm = f"fluctuation_{phase}"
    expected = expected_loss(law.frame, parameters, curves)
    whole = drawn(parameters)
    if calm not in parameters:
        return expected, np.zeros_like(whole), whole - expected
    still = drawn({**parameters, calm: 0.0 * parameters[calm]})
    return expected, still - expected, whole - still


def factors_by_row(
    sizes: Sizes,
    count: int,
    domains: int,
    generator: np.random.Generator,
    of_row: NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """Return factors of fluctuation and misfit for the rows of curves, shape (count, rows) each.

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
    return fluctuation[:, of_row], misfit[:, of_row]


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


def _law(posterior: Posterior, plan: Study, run: Run, steps: Sequence[int]) -> Floats:
    """Return the law's curve, the mean over some draws."""
    expected = [
        expected_loss(law.frame, law.parameters(share), _points(law, plan, run, steps))
        for law, share in posterior.shares(FAULT_DRAWS)
    ]
    return np.asarray(np.concatenate(expected).mean(axis=0))
