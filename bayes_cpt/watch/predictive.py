"""What a fit expects of a run at its evaluations, and how far the run departs.

Curves are drawn from the posterior predictive distribution of a new run: what the fit is unsure of (the
law's coefficients), what the law misses, how losses fluctuate, how alike the errors of the two losses
are, and how unlike runs are in the size of these (`bayes_cpt.watch.learnt.curve_sizes`). Conditioning on
the points that have arrived updates all of them at once, in a time that does not grow with the run. Draws
that were not used for the covariances say how large departures are in runs on track.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.watch.departures import Departures, Row, Usual
from bayes_cpt.watch.drawn import Parts, drawn_parts, factors_by_row, in_time, law_curve
from bayes_cpt.watch.faults import faulty
from bayes_cpt.watch.learnt.curve_sizes import Sizes
from bayes_cpt.watch.learnt.left_out import LeftOut
from bayes_cpt.watch.likeness import APART, TOGETHER, Likeness
from bayes_cpt.watch.mixture import Mixture

# Curves for mean and covariance, and curves that say what is usual.
CURVES, USUAL_CURVES = 3000, 2000
# Sizes of residuals that are told apart.
MEMBERS = 80


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
    usual : ndarray, shape (likenesses, curves, rows)
        Drawn curves, of which departures are computed as of the run itself; of several targets for two
        likenesses of the validation sets (`bayes_cpt.watch.likeness`).
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
        sizes: Sizes,
        seed: int = 0,
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
        sizes : Sizes
            How unlike runs are.
        seed : int
        """
        generator = np.random.default_rng(seed)
        domains = posterior.frame.domains
        order, rows = in_time(domains, steps)
        kinds = _likenesses(domains)
        drawn = drawn_parts(posterior, plan, run, steps, CURVES + USUAL_CURVES, generator, kinds)
        faults = _patterns(posterior, run, plan, steps, order)
        return cls._made_of(drawn.at(order), CURVES, rows, domains, sizes, generator, faults)

    @classmethod
    def left_out(cls, posterior: Posterior, run: LeftOut, sizes: Sizes, curves: int) -> Self:
        """Draw the curves of a fitted run as though the fit had not seen it, at all points that it has.

        Parameters
        ----------
        posterior : Posterior
            Of one law.
        run : LeftOut
        sizes : Sizes
            How unlike runs are.
        curves : int
            For moments, and as many to say what is usual.
        """
        generator = np.random.default_rng(0)
        domains = posterior.frame.domains
        steps = np.unique(run.steps).tolist()
        order, rows = in_time(domains, steps)
        place = {at: i for i, at in enumerate(zip(run.domains, run.steps.tolist(), strict=True))}
        kept = [i for i, row in enumerate(rows) if (row.domain, row.step) in place]
        rows = tuple(rows[i] for i in kept)
        order = order[kept]
        measured = run.at([place[row.domain, row.step] for row in rows])
        kinds = _likenesses(domains)
        drawn = drawn_parts(posterior, run.study, run.run, steps, 2 * curves, generator, kinds)
        normals = generator.standard_normal((2 * curves, measured.directions.shape[1]))
        drawn = replace(drawn.at(order), expected=measured.mean + normals @ measured.directions.T)
        faults = _patterns(posterior, run.run, run.study, steps, order)
        return cls._made_of(drawn, curves, rows, domains, sizes, generator, faults)

    @classmethod
    def _made_of(
        cls,
        drawn: Parts,
        count: int,
        rows: tuple[Row, ...],
        domains: Sequence[str],
        sizes: Sizes,
        generator: np.random.Generator,
        faults: Mapping[str, Floats],
    ) -> Self:
        """Return that of drawn curves, the first so many of which are for moments."""
        of_row = np.array([domains.index(row.domain) for row in rows])
        several = len(domains) > 2
        members = factors_by_row(sizes, MEMBERS, len(domains), generator, of_row)
        curves = (len(drawn.expected) - count) // len(_likenesses(domains))
        usual = [factors_by_row(sizes, curves, len(domains), generator, of_row)]
        if several:
            members = Likeness.any(MEMBERS, of_row, generator).factors(members)
            likenesses = Likeness.none(curves, of_row), Likeness.any(curves, of_row, generator)
            usual = [likeness.factors(usual[0]) for likeness in likenesses]
        fitted, rest = drawn.first(count), drawn.last(curves)
        mixture = Mixture(fitted.expected.mean(axis=0), fitted.covariances(members))
        return cls(rows, mixture, np.stack([rest.curves(factors) for factors in usual]), faults)

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
            outlook = Outlook(*asked, off.probability(), off.likeliest_fault(), mean, spread)
            object.__setattr__(self, "_outlook", outlook)
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
        white = np.stack([self._expected.white(curves[:, rows]) for curves in self.usual])
        return Usual(whole, white, patterns, tuple(self.rows[row] for row in rows))


def _likenesses(domains: Sequence[str]) -> tuple[ErrorCorrelation | None, ...]:
    """Return the likenesses of the validation sets that runs are drawn for; None is the fit's."""
    return (APART, TOGETHER) if len(domains) > 2 else (None,)


def _patterns(
    posterior: Posterior, run: Run, plan: Study, steps: Sequence[int], order: NDArray[np.int64]
) -> dict[str, Floats]:
    """Return by how much losses would be off if something was wrong with the run, by what is."""
    planned = law_curve(posterior, plan, run, steps)
    return {
        name: (law_curve(posterior, plan, other, steps) - planned)[order]
        for name, other in faulty(run).items()
    }
