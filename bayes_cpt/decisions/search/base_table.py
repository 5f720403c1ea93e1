"""What the law says of bases at the transfer, and how far those that nobody measured may lie off it."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.landmarks.trials import LawSample, Trial
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.phase_areas import transfer_state
from bayes_cpt.model.misfit.base_level import unmeasured_level
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant

type Losses = tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class BaseTable:
    """What the law says of some bases at the transfer.

    Parameters
    ----------
    start : ndarray, shape (bases,)
        Learning rate that S2_pt counts from, raw LR.
    log_peak : ndarray, shape (bases,)
        Log of the highest learning rate of PT, as a share of the reference one.
    level : ndarray, shape (bases, draws)
        Level of the learning rate at the end of PT, raw LR.
    loss, offset : ndarray, shape (domains, bases, draws)
        What was measured, else the law's loss; and how far it lies above the law's.
    known : ndarray of bool, shape (domains, bases)
        Whether it was measured.
    forward : ndarray, shape (bases, power nodes)
        S1_pt at each node of rho, 0 of an unknown base.
    initial : ndarray, shape (bases, momentum nodes)
        Level before the first step of CPT at each node of lambda.
    log_size : ndarray, shape (bases,)
        As in `bayes_cpt.model.points.Points`.
    size_member : ndarray of int, shape (domains, bases)
        As in `bayes_cpt.model.points.Points`.
    """

    start: Floats
    log_peak: Floats
    level: Floats
    loss: Floats
    offset: Floats
    known: NDArray[np.bool_]
    forward: NDArray[np.float64]
    initial: NDArray[np.float64]
    log_size: NDArray[np.float64]
    size_member: NDArray[np.int64]

    @classmethod
    def of(cls, sample: LawSample, bases: tuple[Base, ...], measured: list[Losses]) -> Self:
        """Return the table of bases with their measured losses, None where there is none.

        Parameters
        ----------
        sample : LawSample
        bases : tuple of Base
        measured : list of tuple
            Of each base its loss on every validation set, or None.
        """
        frame, coefficients = sample.frame, sample.coefficients
        step = constant(1, frame.reference.learning_rate)
        trials = [
            Trial(base.schedule, step, 0.0, losses, base.model_size)
            for base, losses in zip(bases, measured, strict=True)
        ]
        _, points = sample.points(trials, [[]] * len(trials))
        table = (len(bases), len(frame.domains))
        law = np.asarray(frame.law.loss(points, gather(points, coefficients, np), np))
        level, _ = points.learning_rate_levels(coefficients, np)
        loss = np.where(points.base_known > 0, points.loss, law)
        states = [transfer_state(base.schedule, sample.form) for base in bases]
        return cls(
            start=points.start_pt.reshape(table)[:, 0],
            log_peak=points.log_peak_pt.reshape(table)[:, 0],
            level=level.reshape(-1, *table)[..., 0].T,
            loss=loss.reshape(-1, *table).transpose(2, 1, 0),
            offset=(loss - law).reshape(-1, *table).transpose(2, 1, 0),
            known=points.base_known.reshape(table).T > 0,
            forward=np.array([state.forward for state in states]),
            initial=np.array([state.initial_levels(sample.form) for state in states]),
            log_size=points.log_size.reshape(table)[:, 0],
            size_member=points.size_member.reshape(table).T,
        )

    def unmeasured(
        self, frame: Frame, parameters: dict[str, NDArray[np.float64]], bases: tuple[Base, ...]
    ) -> Floats:
        """Return the sd of the loss of each base about the law's, 0 where it was measured.

        Parameters
        ----------
        frame : Frame
        parameters : dict of str to ndarray, shape (draws, ...)
            What was sampled.
        bases : tuple of Base
            Those of the table.

        Returns
        -------
        ndarray, shape (domains, bases, draws)
        """
        levels = np.zeros(self.loss.shape)
        for domain, index in np.argwhere(~self.known):
            schedule = bases[index].schedule
            if schedule is not None:
                end = (schedule.steps, schedule.final)
                levels[domain, index] = unmeasured_level(frame, parameters, int(domain), *end)
        return levels
