"""The one evaluator: the law, the sizes of its residuals, and the noise of a new run, at points in draws.

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
are taken in tiles that stay in the cache of a core (`at_points`). Nothing here starts threads but
`in_threads`, which callers use over parts of their work.

As the last point of a PT run, a base that was not measured is off the law by the level of that run, by the
law's misfit in PT and by the fluctuation. A CPT run that starts from it is off by the same at its first
step, and loses of it what it would lose of a measured base's offset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.term import Term
from bayes_cpt.model.discrepancy import misfit_variance
from bayes_cpt.model.groups import SIZES
from bayes_cpt.model.points import Curves, Points
from bayes_cpt.model.residuals import (
    ONSET_SHARE,
    PredictiveParts,
    Scales,
    beyond_studied,
    level_share,
    predictive_parts,
)
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.threads import one_thread

# Rows and draws of a tile, of fewer draws more rows: its few arrays stay in the cache of a core.
ROWS, COLUMNS = 64, 2000
# Of so many rows a curve it is worth while to take curves one by one.
LONG = 8


@dataclass(frozen=True, eq=False)
class Draws:
    """The law in some draws of its parameters, and all that depends on draws alone."""

    frame: BoundModel  # of the fit
    # What was sampled, and the law's coefficients, of shape (draws, ...)
    parameters: dict[str, Floats]
    coefficients: dict[str, Floats]
    # In which points must have their areas: around these draws, with fewer nodes than for all that the
    # prior allows
    form: AreaForm
    forward_basis: Floats  # the draws' part of the series of log forward areas, (columns, draws)
    # That of levels, and of log forward areas of the shift, on each validation set, or one for all,
    # of shape (domains, columns, draws)
    level_basis: Floats
    shift_basis: Floats

    @classmethod
    def of(
        cls, frame: BoundModel, parameters: dict[str, Floats], form: AreaForm | None = None
    ) -> Self:
        """Return the law in draws of its parameters, shape (draws, ...) each.

        The form is that of points that are there already, such as ``frame.area_form``; around the draws
        unless given.
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
    """Return the law's losses, moved by what is kept of the offset of each measured start."""
    return law_losses(curves.points, draws, start_offsets(curves, draws))


def start_offsets(curves: Curves, draws: Draws) -> Floats | None:
    """Return how far measured starts lie above the law, shape (curves, draws); None where none counts.

    A PT run that branches off another one keeps that; a CPT run, without a base offset, nothing.
    """
    points, has_offset = curves.points, draws.frame.law.base_offset is not None
    keeps = points.base_known if has_offset else points.branched
    started = np.unique(points.curve_index[keeps > 0])
    if not started.size:
        return None
    starts = curves.bases.map(lambda name, own: own[started])
    offsets = np.zeros((len(curves.curves), draws.count), draws.dtype)
    offsets[started] = starts.loss[:, None] - law_losses(starts, draws)
    return offsets


def law_losses(
    points: Points, draws: Draws, offsets: Floats | None = None, terms: Sequence[Term] | None = None
) -> Floats:
    """Return the losses that the law itself gives, shape (points, draws), of some of its terms.

    With offsets of curves (`start_offsets`) the losses are moved by what is kept of them.
    """
    law = draws.frame.law
    chosen = law if terms is None else replace(law, terms=tuple(terms))

    def loss(tile: Tile) -> dict[str, Any]:
        found = chosen.loss(tile, tile.gathered, np)
        return {"loss": found if offsets is None else found + tile.kept(offsets)}

    return at_points(points, draws, loss)["loss"]


def at_points(
    points: Points, draws: Draws, values_of: "Callable[[Tile], Mapping[str, Any]]"
) -> dict[str, Floats]:
    """Return what values of tiles, by name, are at each point in each draw, shape (points, draws) each."""
    found: dict[str, Floats] = {}
    for place, block in draws.blocks:
        for rows in _tiles(points, max(ROWS, ROWS * COLUMNS // block.count)):
            for name, own in values_of(Tile(points, rows, place, block)).items():
                if name not in found:
                    found[name] = np.empty((points.steps.size, draws.count), draws.dtype)
                found[name][rows, place] = own
    return found


def noise(curves: Curves, draws: Draws) -> Floats:
    """Return the sd of a new run's loss about the law's, of the shape and precision of `losses`."""
    return np.sqrt(np.asarray(sum(variances(curves, draws))))


def variances(curves: Curves, draws: Draws) -> PredictiveParts:
    """Return the `predictive_parts` of the square of `noise`, shape (points, draws) each."""
    frame, points = draws.frame, curves.points
    table, onset = frame.spec.residuals, ONSET_SHARE * frame.reference.steps
    elapsed = curves.elapsed
    memory = np.where(curves.in_pretraining > 0, table.misfit_memory_pt, table.misfit_memory)
    columns = (
        elapsed,
        level_share(elapsed, onset, points.base_known, points.branched),
        points.base_known,
        beyond_studied(curves, frame.studied),
        misfit_variance(elapsed, onset, memory),
    )
    sizes = _sizes_of(curves, draws)

    def parts(tile: Tile) -> dict[str, Any]:
        steps, floating, anchored, beyond, misfit = map(tile.column, columns)
        found = predictive_parts(sizes(tile), steps, floating, anchored, beyond, misfit, np)
        return found._asdict()

    return PredictiveParts(**at_points(points, draws, parts))


def scales_of(curves: Curves, draws: Draws) -> Scales:
    """Return the sizes of the residuals at the points of curves, shape (draws, points) each."""
    sizes = _sizes_of(curves, draws)
    found = at_points(curves.points, draws, lambda tile: vars(sizes(tile)))
    return Scales(**{name: own.T for name, own in found.items()})


def _sizes_of(curves: Curves, draws: Draws) -> "Callable[[Tile], Scales]":
    """Return what gives the sizes of residuals in a tile."""

    def sizes(tile: Tile) -> Scales:
        own, pretraining = tile.draws, tile.column(curves.in_pretraining)
        return draws.frame.residual_scales(tile, pretraining, own.parameters, own.coefficients, np)

    return sizes


def _tiles(points: Points, size: int) -> Iterator[slice | Ints]:
    """Yield the rows of each tile: of one validation set, and of one curve where curves are long."""
    curves = int(points.curve_index.max()) + 1
    key = points.curve_index if points.steps.size >= LONG * curves else points.domain_index
    order = np.lexsort((points.curve_index, points.domain_index))
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        for rows in np.array_split(group, -(-group.size // size)):
            together = rows[-1] - rows[0] == rows.size - 1
            yield slice(int(rows[0]), int(rows[-1]) + 1) if together else rows


def _shared(values: Any) -> Any:
    return values[:1] if (values == values[0]).all() else values


class Tile:
    """Points of one validation set against some draws, as the terms of a law take points.

    Attributes are those of `Points`, shape (rows, 1), or (1, 1) of what all rows share.
    """

    def __init__(self, points: Points, rows: slice | Ints, place: slice, draws: Draws) -> None:
        # `place` says which of all draws these are.
        self.place, self.draws = place, draws
        self._points, self._rows = points, rows
        self.domain_index = int(points.domain_index[rows][0])
        self.curve_index = _shared(points.curve_index[rows])

    def __getattr__(self, name: str) -> Any:
        """Return a column of the points, which is then kept."""
        column = self.column(getattr(self._points, name))
        setattr(self, name, column)
        return column

    def column(self, values: Any) -> Any:
        """Return a value of each of the rows, given those of all points."""
        return self._series(values)[:, None]

    def _series(self, values: Any) -> Any:
        return _shared(values[self._rows]).astype(self.draws.dtype)

    @cached_property
    def gathered(self) -> dict[str, Any]:
        """The law's coefficients at the points."""
        return gather(self, self.draws.coefficients, np)

    def kept(self, offsets: Floats) -> Floats:
        """Return what is left at the points of what curves start with, shape (curves, draws)."""
        share = self.draws.frame.law.kept(self, self.gathered, np)
        return np.asarray(offsets[self.curve_index, self.place] * share)

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        """Return the levels of PT and CPT in each draw, shape (rows or 1, draws)."""
        basis, points = self._own(self.draws.level_basis), self._points
        before, after = (self._series(own) @ basis for own in (points.level_pt, points.level_cpt))
        return np.maximum(before, SMALLEST), np.maximum(after, SMALLEST)

    def shift_area(self, coefficients: Any, xp: Any) -> Floats:
        """Return the forward area of the shift in each draw, shape (rows or 1, draws or 1), LR·steps."""
        series, basis = self._series(self._points.log_shift), self._own(self.draws.shift_basis)
        # Where its power is fixed it is the same in every draw.
        return np.asarray(np.exp(series @ (basis[:, :1] if len(basis) == 1 else basis)))

    def _own(self, basis: Floats) -> Floats:
        """Return the part of a basis that is of these points' validation set."""
        return np.asarray(basis[self.domain_index if len(basis) > 1 else 0])

    def log_forward_area(self, coefficients: Any, xp: Any) -> Floats:
        """Return the log of S1 in each draw, shape (rows or 1, draws)."""
        return np.asarray(self._series(self._points.log_forward) @ self.draws.forward_basis)

    def of_group(self, dims: str, values: Any) -> Floats:
        """Return values along the coordinate of groups, (draws, members), of each row's, (rows, draws)."""
        members = self._points.size_member if dims == SIZES else self._points.batch_member
        return np.asarray(values.T[_shared(members[self._rows])])

    def of_mixture(self, values: Any) -> Floats:
        """Return the mean of values, (draws, domains), by the shares of each row's mixture."""
        return np.asarray(self._series(self._points.mixture) @ values.T)


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
