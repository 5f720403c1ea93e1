"""The arrays that the likelihood of a study's curves takes."""

from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.model.elements import elements
from bayes_cpt.model.points import Points
from bayes_cpt.model.setup import Setup

# What is known of a point whatever momenta and forward power are.
COLUMNS = ("cpt_steps", "learning_rate", "forward_cpt", "start_pt", "start_cpt", "paced_steps",
           "log_peak_pt")  # fmt: skip
# How many numbers depend on these: two levels with three slopes each, and the log forward area with one.
AREAS = 10
# Where in ``reference`` the intervals of the levels begin, and by which memory levels come.
SPANS = 7
MOMENTUM, WEIGHTED, MULTI_POWER = range(3)


def likelihood_data(setup: Setup) -> dict[str, NDArray[Any]]:
    """Return the arrays by name, in the order in which the likelihood takes them after the values.

    The last, ``loss``, is its first argument.

    ``loss`` (points,) is what was measured. The others say where: ``curve_...`` and ``base_...`` hold a row
    per curve, ``point_...`` a row per point, but ``..._columns`` a column for either; ``knot_...`` one per
    knot of the misfit (`ResidualDesign`), ``area_...`` one per step of a schedule, which several validation
    sets share; ``curve_member`` has the places among the values of what is of the curve's groups;
    ``reference`` holds the reference learning rate, forward areas, steps and unique steps, middle and
    half-width of the interval of forward powers, and the ``spans`` of
    `bayes_cpt.model.compiled.kernels.learning_rate_levels`.

    Parameters
    ----------
    setup : Setup
    """
    frame, design = setup.frame, setup.design
    points, bases = setup.curves.points, setup.curves.bases
    starts = design.first
    reference, form = frame.reference, frame.area_form
    powers = form.powers.interval
    return {
        "reference": np.array(
            [
                reference.learning_rate,
                reference.forward_pt,
                reference.forward_cpt,
                reference.steps,
                reference.unique_steps,
                powers.middle,
                powers.half_width,
                *_spans(form),
            ]
        ),
        "curve_domain": points.domain_index[starts].astype(np.int64),
        "curve_member": _members(setup, starts),
        "curve_shared": np.column_stack(
            [
                points.target_share[starts],
                points.log_size[starts],
                design.pretraining[starts],
                points.other_share[starts],
                points.mixture[starts],
            ]
        ),
        "base_known": bases.base_known.astype(np.float64),
        "base_loss": bases.loss.astype(np.float64),
        "point_columns": _columns(points),
        "base_columns": _columns(bases),
        **_areas(points, bases, design.pretraining.astype(bool)),
        "base_first": _first_of_each_base(setup),
        "point_gap": design.gap,
        "point_place": design.place,
        "point_height": design.height,
        "point_floating": design.floating,
        "curve_first": design.first,
        "curve_last": design.last,
        "knot_first": design.knot_first,
        "knot_carried": design.knot_carried,
        "knot_innovation": design.knot_innovation,
        "loss": points.loss.astype(np.float64),
    }


def _first_of_each_base(setup: Setup) -> NDArray[np.int64]:
    """Return of each curve the first one whose base the law sees as it sees its own, shape (curves,)."""
    points, bases, starts = setup.curves.points, setup.curves.bases, setup.design.first
    seen = np.column_stack(
        [
            *(points.domain_index[starts], points.log_size[starts], points.mixture[starts]),
            *(_members(setup, starts), _columns(bases).T, bases.level_pt, bases.log_forward),
        ]
    )
    _, first, place = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[place], dtype=np.int64)


def _areas(
    points: Points, bases: Points, pretraining: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return the areas at the steps of the schedules, each once, and which belong to points and bases."""
    level = np.where(pretraining[:, None], points.level_pt, points.level_cpt)
    levels = np.concatenate([level, bases.level_pt])
    forward = np.concatenate([points.log_forward, bases.log_forward])
    rows = np.hstack([levels, forward])
    # Compared byte by byte: number by number takes five times as long.
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    point_area, base_area = np.split(place, [len(level)])
    return {
        "area_level": levels[first],
        "area_forward": forward[first],
        "point_area": point_area,
        "base_area": base_area,
    }


def _spans(form: AreaForm) -> tuple[float, ...]:
    """Return the intervals of the levels, and which memory they come by."""
    momenta, weights = form.momenta.interval, form.weights.interval
    kind = WEIGHTED if weights.nodes > 1 else MOMENTUM
    kind = MULTI_POWER if form.multi_power else kind
    return (momenta.middle, momenta.half_width, kind, *astuple(weights))


def _members(setup: Setup, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in the values those of the groups of each curve stand, shape (curves, names).

    A column of 0 where the law compares no groups.
    """
    points = setup.curves.points
    places: dict[str, list[int]] = {}
    dims: dict[str, str] = {}
    for place, element in enumerate(elements(setup.frame)):
        if element.group is not None:
            places.setdefault(element.name, []).append(place)
            dims[element.name] = element.group
    members = [
        points.of_group(dims[name], np.array(indices))[starts] for name, indices in places.items()
    ]
    return np.array(members or [np.zeros(starts.size)], dtype=np.int64).T


def _columns(points: Points) -> NDArray[np.float64]:
    return np.array([getattr(points, name) for name in COLUMNS], dtype=np.float64)
