"""The one evaluator of forecasts and decisions: the law, and the noise of a new run, at points in draws.

A caller makes points and draws, and gets arrays of shape (points, draws)::

    draws = Draws.of(posterior.frame, posterior.parameters(1000))
    curves = frame.curves(plan, steps_of, form=draws.form)      # or any other `Curves`
    losses(curves, draws)                                       # the law's, from measured starts
    noise(curves, draws)                                        # sd of a new run's loss about them

*Points* come as `bayes_cpt.model.points.Curves`: rows in any order, of any curves and validation sets.
``points.curve_index`` says to which of ``curves.curves`` a row belongs, and which row of ``curves.bases``
is its start. A curve is one start on one validation set: candidates that share a base and a validation set
may share a curve. Areas must have been reckoned in the form of the draws, ``draws.form``.

*Draws* are those of one law. A stack (`Posterior.shares`) has several laws, each with curves of its own;
the columns of their losses stand side by side.

The terms of `bayes_cpt.laws` are elementwise: with points of shape (rows, 1) and coefficients of shape
(draws,) they give losses of shape (rows, draws). Here rows are grouped by validation set, and by curve
where curves have many rows: what is the same along a curve is then computed once a draw. Rows and draws
are taken in tiles that stay in the cache of a core. Nothing here starts threads but `in_threads`, which
callers use over parts of their work.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.laws.law import gather
from bayes_cpt.model.discrepancy import misfit_variance
from bayes_cpt.model.groups import SIZES
from bayes_cpt.model.points import Curves, Points
from bayes_cpt.model.residuals import (
    ONSET_SHARE,
    Placed,
    PredictiveParts,
    level_share,
    predictive_parts,
    steps_beyond,
)
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import unmeasured_levels, with_base_levels
from bayes_cpt.threads import one_thread

# Rows and draws of a tile: its few intermediate arrays stay in the cache of a core.
ROWS, COLUMNS = 64, 2000
# Of so many rows a curve it is worth while to take curves one by one.
LONG = 8


@dataclass(frozen=True, eq=False)
class Draws:
    """The law in some draws of its parameters, and all that depends on draws alone.

    Parameters
    ----------
    frame : BoundModel
        Of the fit.
    parameters, coefficients : dict of str to ndarray, shape (draws, ...)
        What was sampled, and the law's coefficients.
    form : AreaForm
        In which points must have their areas: around these draws, with fewer nodes than for all that the
        prior allows.
    forward_basis : ndarray, shape (columns, draws)
        The draws' part of the series of log forward areas.
    level_basis, shift_basis : ndarray, shape (domains, columns, draws)
        That of levels, and of log forward areas of the shift, on each validation set, or one for all.
    """

    frame: BoundModel
    parameters: dict[str, Floats]
    coefficients: dict[str, Floats]
    form: AreaForm
    forward_basis: Floats
    level_basis: Floats
    shift_basis: Floats

    @classmethod
    def of(
        cls, frame: BoundModel, parameters: dict[str, Floats], form: AreaForm | None = None
    ) -> Self:
        """Return the law in draws of its parameters.

        Parameters
        ----------
        parameters : dict of str to ndarray, shape (draws, ...)
        form : AreaForm, optional
            Of points that are there already, such as ``frame.area_form``; around the draws unless given.
        """
        coefficients = frame.law.coefficients(parameters, np)
        # Values of one validation set are to stand side by side.
        coefficients = {name: np.asfortranarray(own) for name, own in coefficients.items()}
        form = form or frame.area_form.around(coefficients)
        count = len(next(iter(parameters.values())))
        bases = []
        for basis_of in (form.forward_basis, form.level_basis, form.shift_basis):
            basis = basis_of(coefficients)
            whole = np.broadcast_to(basis, (*basis.shape[:-2], count, basis.shape[-1]))
            bases.append(np.ascontiguousarray(whole.swapaxes(-1, -2)))
        return cls(frame, parameters, coefficients, form, *bases)

    @property
    def count(self) -> int:
        """How many draws there are."""
        return int(self.level_basis.shape[-1])

    @property
    def dtype(self) -> Any:
        """In which precision losses are evaluated."""
        return self.level_basis.dtype.type

    def take(self, which: slice | Ints) -> Self:
        """Return the law in some of the draws."""
        return self._map(lambda own: own[which], lambda basis: basis[..., which])

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the draws in another precision: of single precision losses are within 2e-6 nats."""
        return self._map(lambda own: own.astype(dtype), lambda basis: basis.astype(dtype))

    def _map(self, of_draws: Callable[[Any], Any], of_basis: Callable[[Any], Any]) -> Self:
        return replace(
            self,
            parameters={name: of_draws(own) for name, own in self.parameters.items()},
            coefficients={name: of_draws(own) for name, own in self.coefficients.items()},
            forward_basis=np.ascontiguousarray(of_basis(self.forward_basis)),
            level_basis=np.ascontiguousarray(of_basis(self.level_basis)),
            shift_basis=np.ascontiguousarray(of_basis(self.shift_basis)),
        )

    @cached_property
    def blocks(self) -> "list[tuple[slice, Draws]]":
        """The draws in parts of a tile's size, and which they are."""
        size = -(-self.count // -(-self.count // COLUMNS))
        places = [slice(start, start + size) for start in range(0, self.count, size)]
        return [(place, self.take(place)) for place in places]


def losses(curves: Curves, draws: Draws) -> Floats:
    """Return the law's losses, moved by what is kept of the offset of each measured start.

    Parameters
    ----------
    curves : Curves
        Where losses are wanted, and where the curves start (``base_known`` 0: nowhere).
    draws : Draws
        Of one law.

    Returns
    -------
    ndarray, shape (points, draws)
        nats/token, in the precision of the draws.
    """
    points = curves.points
    started = np.unique(points.curve_index[points.base_known > 0])
    if not started.size:
        return law_losses(points, draws)
    starts = curves.bases.map(lambda name, own: own[started])
    offsets = np.zeros((len(curves.curves), draws.count), draws.dtype)
    offsets[started] = starts.loss[:, None] - law_losses(starts, draws)
    return law_losses(points, draws, offsets)


def law_losses(points: Points, draws: Draws, offsets: Floats | None = None) -> Floats:
    """Return the losses that the law itself gives, wherever curves start, shape (points, draws).

    Parameters
    ----------
    offsets : ndarray, shape (curves, draws), optional
        How far curves start from the law, nats/token: the losses are moved by what is kept of that.
    """
    law, found = draws.frame.law, np.empty((points.steps.size, draws.count), draws.dtype)
    for place, block in draws.blocks:
        for rows in _tiles(points):
            tile = _Tile(points, rows, block)
            gathered = gather(tile, block.coefficients, np)
            loss = law.loss(tile, gathered, np)
            if offsets is not None:
                loss = loss + offsets[tile.curve_index, place] * law.kept(tile, gathered, np)
            found[rows, place] = loss
    return found


def noise(curves: Curves, draws: Draws) -> Floats:
    """Return the sd of a new run's loss about the law's (`bayes_cpt.model.residuals.predictive_parts`).

    Parameters
    ----------
    curves, draws
        As of `losses`.

    Returns
    -------
    ndarray, shape (points, draws)
        nats/token, in the precision of the draws.
    """
    return np.sqrt(np.asarray(sum(variances(curves, draws))))


def variances(curves: Curves, draws: Draws) -> PredictiveParts:
    """Return the parts of the square of `noise`, shape (points, draws) each.

    Parameters
    ----------
    curves, draws
        As of `losses`.
    """
    shape = (curves.points.steps.size, draws.count)
    found = PredictiveParts(*(np.empty(shape, draws.dtype) for _ in PredictiveParts._fields))
    for rows, place, at, misfit in _placed(curves, draws):
        for whole, own in zip(found, predictive_parts(at, misfit, np), strict=True):
            whole[rows, place] = own
    return found


def _placed(curves: Curves, draws: Draws) -> Iterator[tuple[slice | Ints, slice, Placed, Floats]]:
    """Yield tiles: rows, draws, what residuals are made of, and the variance of a misfit of size 1."""
    frame, points, dtype = draws.frame, curves.points, draws.dtype
    table, onset = frame.spec.residuals, ONSET_SHARE * frame.reference.steps
    elapsed, anchored = curves.elapsed, points.base_known
    in_pt = np.array([float(not curve.continual) for curve in curves.curves])[points.curve_index]
    columns = (
        elapsed,
        level_share(elapsed, onset, anchored, points.branched),
        anchored,
        steps_beyond(curves, frame.studied),
        misfit_variance(
            elapsed, onset, np.where(in_pt > 0, table.misfit_memory_pt, table.misfit_memory)
        ),
    )
    for place, block in draws.blocks:
        levels = unmeasured_levels(frame, block.parameters, curves)
        for rows in _tiles(points):
            tile: Any = _Tile(points, rows, block)
            own = [_column(column[rows], dtype) for column in columns]
            pretraining = _column(in_pt[rows], dtype)
            scales = frame.residual_scales(
                tile, pretraining, block.parameters, block.coefficients, np
            )
            if levels is not None:
                level = levels[tile.curve_index]
                scales = with_base_levels(frame, scales, level, tile, block.coefficients)
            yield rows, place, Placed(scales, *own[:-1]), own[-1]


def _tiles(points: Points) -> Iterator[slice | Ints]:
    """Yield the rows of each tile: of one validation set, and of one curve where curves are long."""
    curves = int(points.curve_index.max()) + 1
    key = points.curve_index if points.steps.size >= LONG * curves else points.domain_index
    order = np.lexsort((points.curve_index, points.domain_index))
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        for rows in np.array_split(group, -(-group.size // ROWS)):
            together = rows[-1] - rows[0] == rows.size - 1
            yield slice(int(rows[0]), int(rows[-1]) + 1) if together else rows


def _column(values: Any, dtype: Any) -> Any:
    """Return a value of each row, shape (rows, 1), or (1, 1) where all rows share it."""
    return _shared(values).astype(dtype)[:, None]


def _shared(values: Any) -> Any:
    return values[:1] if (values == values[0]).all() else values


class _Tile:
    """Points of one validation set against draws, as the terms of a law take `Points`.

    Attributes are those of `Points`, shape (rows, 1), or (1, 1) of what all rows share.
    """

    def __init__(self, points: Points, rows: slice | Ints, draws: Draws) -> None:
        self._points, self._rows, self._draws = points, rows, draws
        self.domain_index = int(points.domain_index[rows][0])
        self.curve_index = _shared(points.curve_index[rows])

    def __getattr__(self, name: str) -> Any:
        """Return a column, which is then kept."""
        column = _column(getattr(self._points, name)[self._rows], self._draws.dtype)
        setattr(self, name, column)
        return column

    def _series(self, name: str) -> Any:
        return _shared(getattr(self._points, name)[self._rows]).astype(self._draws.dtype)

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        """Return the levels of PT and CPT in each draw, shape (rows or 1, draws)."""
        basis = self._own(self._draws.level_basis)
        before, after = (self._series(name) @ basis for name in ("level_pt", "level_cpt"))
        return np.maximum(before, SMALLEST), np.maximum(after, SMALLEST)

    def shift_area(self, coefficients: Any, xp: Any) -> Floats:
        """Return the forward area of the shift in each draw, shape (rows or 1, draws or 1)."""
        series, basis = self._series("log_shift"), self._own(self._draws.shift_basis)
        # Where its power is fixed it is the same in every draw.
        return np.asarray(np.exp(series @ (basis[:, :1] if len(basis) == 1 else basis)))

    def _own(self, basis: Floats) -> Floats:
        """Return the part of a basis that is of these points' validation set."""
        return np.asarray(basis[self.domain_index if len(basis) > 1 else 0])

    def log_forward_area(self, coefficients: Any, xp: Any) -> Floats:
        """Return the log of S1 in each draw, shape (rows or 1, draws)."""
        return np.asarray(self._series("log_forward") @ self._draws.forward_basis)

    def of_group(self, dims: str, values: Any) -> Floats:
        """Return values along the coordinate of groups, (draws, members), of each row's, (rows, draws)."""
        members = self._points.size_member if dims == SIZES else self._points.batch_member
        return np.asarray(values.T[_shared(members[self._rows])])

    def of_mixture(self, values: Any) -> Floats:
        """Return the mean of values, (draws, domains), by the shares of each row's mixture."""
        return np.asarray(self._series("mixture") @ values.T)


def some_of(curves: Curves, rows: slice | Ints) -> Curves:
    """Return curves at some of their points."""
    return replace(curves, points=curves.points.map(lambda name, values: values[rows]))


def paired_normals(draws: int, seed: int) -> Floats:
    """Return a standard normal number for each draw: the middles of equal masses, in random order."""
    from scipy.special import ndtri

    middles = ndtri((np.arange(draws) + 0.5) / draws)
    return np.random.default_rng(seed).permutation(middles)


def in_threads[Part, Result](
    function: Callable[[Part], Result], parts: Iterable[Part], cores: int | None = None
) -> list[Result]:
    """Return what a function makes of each part, in as many threads as there are cores unless told."""
    from joblib import cpu_count

    # The threads of a matrix product would wait for those of the parts.
    with one_thread("blas"), ThreadPoolExecutor(cores or cpu_count()) as pool:
        return list(pool.map(function, parts))
