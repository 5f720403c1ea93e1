"""Final losses under several laws: the draws of all stand side by side (see `Posterior.shares`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.search.base_table import BaseTable
from bayes_cpt.decisions.search.block import Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.evaluate import DRAWS, FinalLosses
from bayes_cpt.decisions.search.layout import Layout
from bayes_cpt.forecast.third_sets.weights import pooled
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.runs import Base


def final_losses(posterior: Posterior, draws: int = DRAWS, seed: int = 0) -> FinalLosses:
    """Return the final losses that a fit of one law, or a stack, expects.

    Parameters
    ----------
    posterior : Posterior
    draws : int
        In all.
    seed : int
        Of what the laws miss.
    """
    laws = [FinalLosses.of(law, count or draws, seed) for law, count in posterior.shares(draws)]
    return laws[0] if len(laws) == 1 else PooledLosses.of_laws(laws)


@dataclass(frozen=True, eq=False)
class PooledLosses(FinalLosses):
    """Final losses under several laws; what only one law has is that of the first.

    Parameters
    ----------
    laws : tuple of FinalLosses
    """

    laws: tuple[FinalLosses, ...]

    @classmethod
    def of_laws(cls, laws: Sequence[FinalLosses]) -> Self:
        """Return the losses of some laws of one study side by side.

        Parameters
        ----------
        laws : sequence of FinalLosses
        """
        parts = vars(laws[0]) | {"third": lambda name: pooled([law.third(name) for law in laws])}
        return cls(**parts, laws=tuple(laws))

    @property
    def draws(self) -> int:
        """Number of posterior draws, of all laws together."""
        return sum(law.draws for law in self.laws)

    def normals(self, seed: int) -> NDArray[np.float64]:
        """Return those of each law, one law after the other.

        Parameters
        ----------
        seed : int
        """
        return np.concatenate([law.normals(seed) for law in self.laws])

    def bases(self, bases: tuple[Base, ...]) -> BaseTable:
        """Return losses and offsets of bases under all laws; what else a table holds is of the first.

        Parameters
        ----------
        bases : tuple of Base
        """
        tables = [law.bases(bases) for law in self.laws]
        loss, offset = (
            _pooled([getattr(table, name) for table in tables]) for name in ("loss", "offset")
        )
        return replace(tables[0], loss=loss, offset=offset)

    def base_levels(self, bases: tuple[Base, ...]) -> Floats:
        """Return the sd of the loss of bases about each law's, of all laws side by side.

        Parameters
        ----------
        bases : tuple of Base
        """
        return _pooled([law.base_levels(bases) for law in self.laws])

    @property
    def levels(self) -> Floats:
        """How far a base that nobody measured lies off each law, over its sd."""
        return _pooled([law.levels for law in self.laws])

    def layout(self, candidates: Candidates) -> Layout:
        """Return candidates laid out for every law.

        Parameters
        ----------
        candidates : Candidates
        """
        layouts = [law.layout(candidates) for law in self.laws]
        shared = {name: getattr(layouts[0], name) for name in Layout.__dataclass_fields__}
        return PooledLayout(**shared, laws=tuple(layouts))


@dataclass(frozen=True, eq=False)
class PooledLayout(Layout):
    """Candidates laid out for several laws; what only one law has is that of the first.

    Parameters
    ----------
    laws : tuple of Layout
    """

    laws: tuple[Layout, ...]

    def prepare(self) -> None:
        """Compute what all candidates share."""
        for law in self.laws:
            law.prepare()

    def losses(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return `Layout.losses` in the draws of all laws.

        Parameters
        ----------
        rows, dtype
            As in `Layout.missed`.
        """
        return _pooled([law.losses(rows, dtype) for law in self.laws])

    def many(self, rows: Ints) -> Floats:
        """Return `Layout.many` in the draws of all laws.

        Parameters
        ----------
        rows
            As in `Layout.missed`.
        """
        return _pooled([law.many(rows) for law in self.laws])

    def missed(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return `Layout.missed` in the draws of all laws.

        Parameters
        ----------
        rows, dtype
            As in `Layout.missed`.
        """
        return _pooled([law.missed(rows, dtype) for law in self.laws])

    def spread(self, rows: Ints, dtype: Any = np.float64) -> Spread:
        """Return `Layout.spread` in the draws of all laws, losses as alike as under the first.

        Parameters
        ----------
        rows, dtype
            As in `Layout.missed`.
        """
        parts = [law.spread(rows, dtype) for law in self.laws]
        law, level, run_misfit, fluctuation = (
            _pooled([getattr(part, name) for part in parts])
            for name in ("law", "level", "own", "fluctuation")
        )
        return Spread(law, level, run_misfit, fluctuation, parts[0].correlation)


def _pooled(parts: Sequence[Floats]) -> Floats:
    """Return arrays of draws, which come last, side by side."""
    return np.concatenate(parts, axis=-1)
