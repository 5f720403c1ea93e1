"""Weighted sums of validation losses: of the law's two, and of third sets that follow from them (Eq. 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.decisions.search.block import Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.third_sets.curves import unmeasured_base
from bayes_cpt.forecast.third_sets.weights import ThirdSet
from bayes_cpt.model.misfit.knots import unit_ramps
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.runs import Base


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of losses.

    Parameters
    ----------
    weights : ndarray, shape (domains,) or (domains, draws)
        On the law's losses; in each draw where third sets are among them, whose weights are not known.
    thirds : tuple of (float, ThirdSet)
        The third sets with their shares.
    model : FinalLosses
    """

    weights: Floats
    thirds: tuple[tuple[float, ThirdSet], ...]
    model: FinalLosses
    _offsets: dict[tuple[str, ...], Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        shares: Mapping[str, float],
        objective: Objective,
        thirds: Mapping[str, ThirdSet],
        model: FinalLosses,
    ) -> Self:
        """Return the sum of some validation sets.

        Parameters
        ----------
        shares : mapping of str to float
            Weight of each, by name.
        objective : Objective
            For its mixtures.
        thirds : mapping of str to ThirdSet
            The third sets of the study that are among the names.
        model : FinalLosses
        """
        typed = [
            share * objective.share(name, model.domains)
            for name, share in shares.items()
            if name not in thirds
        ]
        weights = np.sum([np.zeros(len(model.domains)), *typed], axis=0)
        used = tuple((share, thirds[name]) for name, share in shares.items() if name in thirds)
        if used:
            weights = weights[:, None] + sum(share * third.weights.T for share, third in used)
        return cls(np.asarray(weights), used, model)

    def sum(self, losses: Floats) -> Floats:
        """Return the sum over validation sets without `offset`, (domains, ...) -> (...).

        Parameters
        ----------
        losses : ndarray, shape (domains, ..., draws)
            Of the law.
        """
        weights = self.weights.astype(losses.dtype)
        if weights.ndim == 1:
            return np.asarray(np.tensordot(weights, losses, axes=1))
        return np.asarray(np.einsum("xd,x...d->...d", weights, losses))

    def offset(self, bases: tuple[Base, ...]) -> Floats:
        """Return what bases add to the sum, shape (bases, draws): where third sets start from.

        Parameters
        ----------
        bases : tuple of Base

        Raises
        ------
        SpecError
            If a base was not measured on a third set or on one of the law's.
        """
        names = tuple(base.name for base in bases)
        if names not in self._offsets:
            table, study = self.model.bases(bases), self.model.study
            offsets = np.zeros(table.loss.shape[1:])
            problems = []
            known = {base.name for base in study.bases}
            for place, base in enumerate(bases):
                for share, third in self.thirds:
                    domains = [third.name, *self.model.domains]
                    losses = [
                        study.base_loss(base.name, domain) if base.name in known else None
                        for domain in domains
                    ]
                    for domain, loss in zip(domains, losses, strict=True):
                        if loss is None:
                            problems.append(unmeasured_base("objective", base.name, domain))
                    linear = (third.weights.T * table.loss[:, place]).sum(axis=0)
                    offsets[place] += share * ((losses[0] or 0.0) - linear)
            if problems:
                raise SpecError(list(dict.fromkeys(problems)))
            self._offsets[names] = offsets
        return self._offsets[names]

    def of_candidates(self, candidates: Candidates, losses: Floats) -> Floats:
        """Return the sum for some candidates, shape (candidates, draws).

        Parameters
        ----------
        candidates : Candidates
        losses : ndarray, shape (domains, candidates, draws)
            Of the law.
        """
        total = self.sum(losses)
        if self.thirds:
            total = total + self.offset(candidates.bases)[candidates.base].astype(losses.dtype)
        return total

    def sizes(self, candidates: Candidates, spread: Spread, *, single_run: bool) -> Floats:
        """Return the sd of what moves the sum about the law's, shape (candidates, draws).

        Parameters
        ----------
        candidates : Candidates
        spread : Spread
            Of the law's losses.
        single_run : bool
            Whether what is the run's own counts, or the expected loss is asked for.
        """
        sizes = spread.of_sum(self.weights, single_run=single_run)
        if not self.thirds:
            return sizes
        frame = self.model.sample.frame
        variance = sum(
            share**2 * _third_variance(third, frame, candidates, single_run=single_run)
            for share, third in self.thirds
        )
        return np.asarray(np.sqrt(sizes**2 + variance).astype(sizes.dtype))


def _third_variance(
    own: ThirdSet, frame: Frame, candidates: Candidates, *, single_run: bool
) -> Floats:
    """Return the variance of a third set about the linear form after the last step, (candidates, draws).

    Parameters
    ----------
    own : ThirdSet
    frame : Frame
        Of the fit.
    candidates : Candidates
    single_run : bool
        Whether the fluctuation of a run counts.
    """
    batch = candidates.schedules
    lengths, place = np.unique(batch.steps, return_inverse=True)
    onset = ONSET_SHARE * frame.reference.steps
    squares = (unit_ramps(lengths, onset, frame.spec.residuals.misfit_memory) ** 2).sum(axis=1)
    variance = squares[place][:, None] * own.misfit**2
    if single_run:
        rate = (batch.last_rate / frame.reference.learning_rate)[:, None]
        heat = own.floor + (1.0 - own.floor) * rate
        # A curve starts at its base's measured loss, where it does not fluctuate yet.
        started = -np.expm1(-2.0 * batch.steps[:, None] / own.memory)
        variance = variance + (own.fluctuation * heat) ** 2 * started
    return np.asarray(variance)
