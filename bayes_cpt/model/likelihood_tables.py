"""A study as the likelihood takes it: tables of numbers, integers among them as numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.model.groups import BATCHES, SIZES
from bayes_cpt.model.points import Points
from bayes_cpt.model.setup import BoundModel, Setup, elements
from bayes_cpt.model.spec import ModelSpec

# How many tables there are.
TABLES = 7
# What is known of a point whatever memory and forward power are.
COLUMNS = ("cpt_steps", "rewarming", "learning_rate", "start_pt", "start_cpt", "paced_steps",
           "squared_area", "carried", "log_peak_pt")  # fmt: skip
# What a whole curve shares, and what beside that where there are several targets: their mixture follows.
CURVE = ("target_share", "log_size", "log_batch", "base_misfit", "base_rate")
MIXED = ("pretraining", "other_share")
REFERENCE = ("learning_rate", "forward_pt", "forward_cpt", "steps", "unique_steps")
# Rows of the table of points, before those of `COLUMNS`: the row of its areas, steps since the point
# before, place among the knots of the misfit, the misfit's height there, and the share of the curve's
# unknown level.
AREA, GAP, PLACE, HEIGHT, FLOATING, POINT_HEAD = range(6)
# Columns of the table of curves, before those of `COLUMNS` at the base.
(DOMAIN, FIRST, LAST, PRETRAINING, BASE_KNOWN, BASE_LOSS, BASE_AREA, KNOT_FIRST, KNOT_LAST,
 CURVE_HEAD) = range(10)  # fmt: skip
# Columns of the table of series: where its nodes stand in a row of areas, how many, and over which
# interval; whether it is a series in the logarithm of 1/number; whether PT and CPT have a value each.
NODE_FIRST, NODES, MIDDLE, HALF_WIDTH, IN_LOGARITHM, OF_PHASES = range(6)
LOGARITHMS = ("log_forward", "log_shift")
# Stands between the name of a parameter and the place of one of its members.
MEMBER = "__"


@dataclass(frozen=True)
class Series:
    """A number at each point that is tabulated as a Chebyshev series in one parameter."""

    parameter: str  # what it is a series in
    names: tuple[str, ...]  # of its value in PT and in CPT, two names where they differ

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of values and slopes as the printed code takes them, four of each series."""
        both = self.names if len(self.names) == 2 else (self.names[0], f"{self.names[0]}_unused")
        return tuple(row for name in both for row in (name, f"{name}_slope"))


LEVEL = Series("memory", ("level_pt", "level_cpt"))
SLOW_LEVEL = Series("slow_memory", ("slow_level_pt", "slow_level_cpt"))
LOG_FORWARD = Series("forward_power", ("log_forward",))
LOG_SHIFT = Series("shift_power", ("log_shift",))


def series_of(spec: ModelSpec) -> tuple[Series, ...]:
    """Return the series that a law takes of the schedules, in the order of the likelihood's tables."""
    slow = (SLOW_LEVEL,) if "slow_share" in spec.priors else ()
    return (LEVEL, *slow, LOG_FORWARD, LOG_SHIFT)


def likelihood_tables(setup: Setup, places: Floats) -> dict[str, Floats]:
    """Return the tables by name, in the order in which the likelihood takes them.

    ``places`` are those of the printed law (`bayes_cpt.model.likelihood.law_code`). ``points`` has a
    column for each point, ``curves`` a row for each curve: `CURVE_HEAD` columns, those of `COLUMNS` at
    its base, the places among the values of what is of its groups, and what all its points share.
    ``areas`` has a row for each step of a schedule, which several validation sets share; ``knots``
    carried and innovation of each knot of the misfit (`bayes_cpt.model.residuals.ResidualDesign`);
    ``series`` a row for each of `series_of`; ``reference`` the number of groups of a curve and what
    printed laws call the reference.
    """
    frame, design = setup.frame, setup.design
    points, bases, starts = setup.curves.points, setup.curves.bases, setup.design.first
    pretraining = setup.curves.in_pretraining
    areas, point_area, base_area = _areas(points, bases, pretraining > 0)
    members, reference = _members(setup, starts), frame.reference
    head = [
        points.domain_index[starts],
        design.first,
        design.last,
        pretraining[starts],
        bases.base_known,
        bases.loss,
        base_area,
        design.knot_first[:-1],
        design.knot_first[1:],
    ]
    of_points = vars(points) | {"pretraining": pretraining}
    shared = [of_points[name][starts] for name in (*CURVE, *MIXED, "mixture")]
    beside = (point_area, design.gap, design.place, design.height, design.floating)
    tables = {
        "places": places,
        "points": np.vstack([*beside, _columns(points)]),
        "curves": np.column_stack([*head, _columns(bases).T, members, *shared]),
        "areas": areas,
        "knots": np.stack([design.knot_carried, design.knot_innovation]),
        "series": _series(frame),
        "reference": np.array([members.shape[1], *(getattr(reference, k) for k in REFERENCE)]),
    }
    return {name: np.asarray(table, dtype=np.float64) for name, table in tables.items()}


def _series(frame: BoundModel) -> Floats:
    form, first = frame.area_form, 0
    rows: dict[Series, tuple[float, ...]] = {}
    for interval, named, kinds in (
        (form.momenta, (LEVEL, SLOW_LEVEL), (1, 1)),
        (form.powers, (LOG_FORWARD,), (0, 0)),
        (form.shift_powers, (LOG_SHIFT,), (0, 0)),
    ):
        own = (first, interval.nodes, interval.middle, interval.half_width, *kinds)
        rows |= dict.fromkeys(named, own)
        first += interval.nodes
    table = np.array([rows[series] for series in series_of(frame.spec)])
    # A slow memory is counted in reference steps, of which the series knows nothing.
    slow = [series is SLOW_LEVEL for series in series_of(frame.spec)]
    table[slow, MIDDLE] += np.log(frame.reference.steps)
    return table


def _areas(points: Points, bases: Points, pretraining: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """Return the areas at the steps of the schedules, each once, and which belong to points and bases."""
    level = np.where(pretraining[:, None], points.level_pt, points.level_cpt)
    levels = np.concatenate([level, bases.level_pt])
    series = (np.concatenate([getattr(p, name) for p in (points, bases)]) for name in LOGARITHMS)
    rows = np.hstack([levels, *series])
    # Compared byte by byte: number by number takes five times as long.
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    of_levels, of_bases = np.split(place, [len(level)])
    return rows[first], of_levels, of_bases


def _members(setup: Setup, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in the values those of the groups of each curve stand, shape (curves, names)."""
    points = setup.curves.points
    places: dict[tuple[str, str], list[int]] = {}
    for place, element in enumerate(elements(setup.frame)):
        if element.group is not None:
            places.setdefault((element.name, element.group), []).append(place)
    own = {SIZES: points.size_member[starts], BATCHES: points.batch_member[starts]}
    members = [np.array(indices)[own[group]] for (_, group), indices in places.items()]
    return np.array(members, dtype=np.int64).reshape(len(members), starts.size).T


def _columns(points: Points) -> Floats:
    return np.array([getattr(points, name) for name in COLUMNS], dtype=np.float64)
