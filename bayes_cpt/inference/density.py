"""The log density that NUTS samples: that of the `pymc.Model`, in white coordinates.

The model of a study has a variable for every parameter, and what PyTensor makes of it takes many seconds
to compile. What is sampled is the same density over one vector, from two functions: of all priors, and of
all curves. `tests/inference/test_density.py` holds it to `pymc.Model.logp`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference import coordinates as at
from bayes_cpt.inference.callbacks import log_density
from bayes_cpt.inference.metric import Metric
from bayes_cpt.laws.groups import OF_SIZES
from bayes_cpt.model.joint_priors import correlated, excess_precision
from bayes_cpt.model.law_kernel import likelihood_in_c
from bayes_cpt.model.likelihood import law_code, study_tables
from bayes_cpt.model.packing import packed
from bayes_cpt.model.priors import Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import Element, Setup, by_parameter, elements

FAMILIES = {Normal: at.NORMAL, LogNormal: at.LOG_NORMAL, LogitNormal: at.LOGIT_NORMAL}
# A long memory lies so many sds of its prior above the median.
LONG = 2.5


@dataclass(frozen=True, eq=False)
class Density:
    """The log density of the model of a study over the numbers that are sampled."""

    setup: Setup

    @cached_property
    def elements(self) -> list[Element]:
        """All numbers that the law takes."""
        return elements(self.setup.frame)

    @cached_property
    def places(self) -> list[int]:
        """Which of them are sampled."""
        return [k for k, one in enumerate(self.elements) if not isinstance(one.prior, Fixed)]

    @cached_property
    def _sampled(self) -> list[Element]:
        return [self.elements[k] for k in self.places]

    @property
    def size(self) -> int:
        """How many are sampled."""
        return len(self.places)

    @cached_property
    def _where(self) -> dict[tuple[str | None, int | str | None], int]:
        """Where numbers stand among the sampled ones, by name and member, or by name and domain."""
        places = enumerate(self._sampled)
        return {(own.name, key): j for j, own in places for key in (own.member, own.domain)}

    @cached_property
    def _units(self) -> list[int]:
        """Return which number each is sampled in units of, -1 for none.

        How far a size lies off a power of size is known well in nats, and in sds only as well as the sd.
        """
        spreads = dict(OF_SIZES.values())
        return [self._where.get((spreads.get(own.name), own.domain), -1) for own in self._sampled]

    @cached_property
    def _contrasts(self) -> Floats:
        """Columns DELTA to TIMES of each number, shape (numbers, 5), where runs have two replay ratios."""
        rows = np.tile([-1.0, -1.0, 0.0, 0.0, 0.0], (self.size, 1))
        shares = np.unique(self.setup.curves.points.target_share)
        shares = shares[shares > 0.0]
        if len(shares) != 2:
            return rows
        for row, own in zip(rows, self._sampled, strict=True):
            delta = self._where.get(("saturation_exponent", own.domain), -1)
            k = self._where.get(("replay_dilution", own.domain), -1)
            if own.name == "replay_dilution" and delta >= 0:
                row[:] = delta, -1, *shares, -1.0
            elif own.name == "shift_share" and min(delta, k) >= 0:
                row[:] = delta, k, shares.mean(), 1.0, 1.0 - shares.mean()
        return rows

    @cached_property
    def prior_tables(self) -> tuple[Floats, ...]:
        """Priors, template and pools as `evaluated` takes them."""
        frame, size = self.setup.frame, self.size
        excess = np.zeros((size, size))
        if tied := correlated(frame):
            rows = [self._where[element.name, element.member] for element in tied.elements]
            excess[np.ix_(rows, rows)] = excess_precision(tied.matrix)
        priors = [own.prior for own in self._sampled]
        bounds = [prior.bounds if _is_bounded(prior) else (0.0, 1.0) for prior in priors]
        columns: list[Any] = [
            self.places,
            [at.BOUNDED if _is_bounded(prior) else FAMILIES[type(prior)] for prior in priors],
            [prior.center for prior in priors],
            [prior.spread for prior in priors],
            *zip(*bounds, strict=True),
            self._units,
            *self._contrasts.T,
        ]
        every = [own.prior for own in self.elements]
        template = [prior.center if isinstance(prior, Fixed) else 0.0 for prior in every]
        pools = [
            [*(self._where[name, place] for place in pool), self._where.get((frame.spread, k), -1)]
            for k, name in enumerate(frame.pooled)
            for pool in frame.pools(name)
        ]
        return (
            np.column_stack([*columns, excess]).astype(np.float64),
            np.array(template, dtype=np.float64),
            np.array(pools or np.zeros((0, 1)), dtype=np.float64),
        )

    @property
    def spreads(self) -> Floats:
        """Of the priors, shape (numbers,)."""
        return np.asarray(self.prior_tables[0][:, at.SPREAD])

    @cached_property
    def starts(self) -> Floats:
        """Positions to climb from, shape (starts, numbers): the medians of the priors; a long memory.

        A memory of tens of steps beside a slow pace, and one of a thousand, are modes far apart.
        """
        table, is_memory = self.prior_tables[0], [own.name == "memory" for own in self._sampled]
        starts = table[:, at.CENTER] + LONG * np.outer([0.0, 1.0], is_memory * table[:, at.SPREAD])
        for j in np.flatnonzero(table[:, at.KIND] == at.BOUNDED):
            lower, upper = table[j, [at.LOWER, at.UPPER]]
            share = np.minimum((np.exp(starts[:, j]) - lower) / (upper - lower), 0.99)
            starts[:, j] = np.log(share / (1.0 - share))
        for j in np.flatnonzero(table[:, at.DELTA] >= 0):
            k = starts[0, int(table[j, at.DILUTION])] if table[j, at.DILUTION] >= 0 else 0.0
            c = at.contrast(starts[0, int(table[j, at.DELTA])], table[j])[0]
            starts[:, j] -= table[j, at.TIMES] * (c + k)
        return starts

    def in_metric(self, metric: Metric) -> "InMetric":
        """Return the function of white coordinates, shape (numbers,): log density and gradient."""
        return InMetric(self, metric)

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return every parameter at positions of shape (..., numbers), also the fixed ones.

        Each has the shape (..., members) of its coordinate, or (...) where it is shared.
        """
        flat = np.ascontiguousarray(positions.reshape(-1, self.size))
        unmoved = Metric(np.zeros(self.size), np.eye(self.size))
        given = (unmoved.table, unmoved.bends, *self.prior_tables)
        every = np.array([at.evaluated(row, given)[1] for row in flat])
        every = every.reshape(*positions.shape[:-1], len(self.elements))
        return by_parameter(self.setup.frame, np.moveaxis(every, -1, 0))

    def sampled(self, values: dict[str, Floats]) -> dict[str, Floats]:
        """Return of every parameter the members that are sampled, shape (..., members)."""
        kept: dict[str, list[Floats]] = {}
        for own in self._sampled:
            kept.setdefault(own.name, []).append(own.of(values))
        return {name: np.stack(members, axis=-1) for name, members in kept.items()}


class InMetric:
    """A log density as a function of white coordinates, for Python and for C."""

    def __init__(self, density: Density, metric: Metric) -> None:
        frame, loss = density.setup.frame, density.setup.curves.points.loss
        law = law_code(frame.spec, frame.roles).in_c()
        places = np.array([likelihood_in_c().address, law.address]).view(np.float64)
        study = [np.asarray(loss, dtype=np.float64), study_tables(density.setup), places]
        # Kept as long as the function is: C knows only where it is.
        self.data = packed([metric.table, metric.bends, *density.prior_tables, *study])

    def __call__(self, white: Floats) -> tuple[float, Floats]:
        """Return log density and gradient, shape (numbers,), at white coordinates of that shape."""
        gradient, total = np.empty(white.size), np.empty(1)
        arrays = (np.ascontiguousarray(white), gradient, total, self.data)
        kind: Any = log_density.ctypes.argtypes[1]
        log_density.ctypes(white.size, *(array.ctypes.data_as(kind) for array in arrays))
        return float(total[0]), gradient


def _is_bounded(prior: Any) -> bool:
    return isinstance(prior, LogNormal) and prior.lower is not None
