"""One log density with its gradient, beside the law evaluated once on the same points."""

import math
import sys
from typing import Any

import numba
import numpy as np
import sympy
from synthetic import lab

from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.whitening import Metric
from bayes_cpt.laws import Reference
from bayes_cpt.model.build import model_of
from bayes_cpt.model.compiled import elementary
from bayes_cpt.model.compiled.compilation import compiled_law
from bayes_cpt.model.compiled.loops import OF_ARRAYS, source_of
from bayes_cpt.model.compiled.symbolic import (
    AREA,
    AREAS,
    REFERENCE,
    _outputs,
    _parameter_symbol,
    given_at,
    parameters_of,
)
from bayes_cpt.model.elements import elements
from bayes_cpt.model.likelihood_data import COLUMNS, likelihood_data
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, Setup, build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from benchmarks.report import Row, fastest
from benchmarks.studies import study_of

CALLS, TARGET = 50, 3.0
START, AREA_ROW = COLUMNS.index("start_cpt"), AREAS.index(AREA)


def _one_by_one(function: Any) -> Any:
    """Return what takes a function of the C library of each number of an array, in place."""

    @numba.njit(error_model="numpy")
    def taken(numbers):  # type: ignore[no-untyped-def]
        for i in range(numbers.size):
            numbers[i] = function(numbers[i])

    return taken


OURS = {name: getattr(elementary, name) for name in OF_ARRAYS.values()}
ONE_BY_ONE = {
    name: _one_by_one(getattr(math, own.__name__.lower())) for own, name in OF_ARRAYS.items()
}


def measure(*, quick: bool = False) -> list[Row]:
    """Return the cost on the bundled study, and on larger ones."""
    spec = read_spec("cpt-replay-printed" if quick else "cpt-replay")
    studies = {"cpt-lab": lab(), "100 runs x 100 points": study_of(100, 100)}
    rows = []
    for name, study in list(studies.items())[: 1 if quick else None]:
        setup = build_setup(spec, study)
        density = density_of(model_of(setup))
        size = setup.curves.points.steps.size
        one, scalar, law, plain = (
            _microseconds(function)
            for function in (
                gradient_of(density),
                fused_law(spec, setup, ONE_BY_ONE),
                fused_law(spec, setup, OURS),
                numpy_law(setup),
            )
        )
        what = f"log density and gradient, {name}, {size} points"
        rows += [
            Row(what, one, "us", "the law, C's functions", scalar, "<= 3x", one <= TARGET * scalar),
            Row(what, one, "us", "the law, our functions", law),
            Row(what, one, "us", "the law, NumPy", plain),
            Row("a point of it", 1e3 * one / size, "ns", "the law's", 1e3 * law / size),
        ]
    return rows


def _microseconds(function: Any) -> float:
    """Return what a call costs once the function is compiled."""
    function()
    return 1e6 / CALLS * fastest(lambda: [function() for _ in range(CALLS)])


def gradient_of(density: Density) -> Any:
    """Return a call of log density and gradient at the priors' medians."""
    size = density.start.size
    function = density.in_metric(Metric(density.start, np.eye(size)))
    white = np.zeros(size)
    return lambda: function(white)


def numpy_law(setup: Setup) -> Any:
    """Return an evaluation of the law and the offsets of its bases in array expressions."""
    frame, curves = setup.frame, setup.curves
    parameters = {name: value[0] for name, value in draw_priors(frame, 1, seed=0).items()}

    def evaluate() -> Any:
        coefficients = frame.law.coefficients(parameters, np)
        return frame.law.curve_loss(curves.points, curves.bases, coefficients, np)

    return evaluate


def fused_law(spec: ModelSpec, setup: Setup, functions: dict[str, Any]) -> Any:
    """Return an evaluation of the law at every point in compiled loops: no slopes, no residuals.

    Exponentials and logarithms of arrays are taken by the functions given.
    """
    names: dict[str, Any] = {"numba": numba}
    exec("from math import exp, expm1, log, log1p, sqrt\nimport numpy as np", names)
    names |= functions
    laws = [_compiled(spec, role, names) for role in setup.frame.roles]
    law = compiled_law(spec, setup.frame.roles)
    indices = sys.modules[f"bayes_cpt_law_{law.key}"].PARAMETER_PLACES
    arrays = likelihood_data(setup)
    reference, middle, half_width, power_middle, power_half_width = np.split(
        arrays["reference"], [4, 5, 6, 7]
    )
    domain, shared, columns = (
        arrays[name] for name in ("curve_domain", "curve_shared", "point_columns")
    )
    here, start_of = arrays["point_area"], arrays["base_area"]
    own_level, base_level = arrays["area_level"][here], arrays["area_level"][start_of]
    log_areas = arrays["area_forward"][here]
    carried = setup.frame.spec.law.carry_memory
    first, last = setup.design.first, setup.design.last
    values = draw_priors(setup.frame, 1, seed=0)
    chosen = np.array(
        [
            values[element.name].reshape(-1)[element.member if element.domain else 0]
            for element in elements(setup.frame)
        ]
    )
    general, target = laws

    @numba.njit(error_model="numpy", fastmath=True)
    def fill(number, middle, half_width, coefficients, found):  # type: ignore[no-untyped-def]
        nodes = coefficients.shape[1]
        angle = np.arccos((number - middle) / half_width)
        waves = np.cos(np.arange(nodes) * angle)
        for i in range(coefficients.shape[0]):
            total = 0.0
            for k in range(nodes):
                total += coefficients[i, k] * waves[k]
            found[i] = total

    @numba.njit(error_model="numpy")
    def evaluate(number, power, areas, level, before, area, found):  # type: ignore[no-untyped-def]
        fill(number, middle[0], half_width[0], own_level, level)
        fill(number, middle[0], half_width[0], base_level, before)
        fill(power, power_middle[0], power_half_width[0], log_areas, area)
        none = np.empty((0, 0))
        for c in range(first.size):
            start, stop = first[c], last[c]
            continual = shared[c, 2] == 0.0
            parameters = chosen[indices[domain[c]]]
            for i in range(start, stop):
                areas[0, i] = before[c] if continual else level[i]
                # In PT the level of CPT is where its area counts from, and the area is 0.
                areas[1, i] = level[i] if continual or carried else columns[START, i]
                areas[AREA_ROW, i] = area[i]
            own = (
                *(parameters, reference, shared[c], columns[:, start:stop], areas[:, start:stop]),
                *(found[:, start:stop], none),
            )
            if domain[c] == 0:
                general(*own)
            else:
                target(*own)

    size = columns.shape[1]
    room = (np.zeros((len(AREAS), size)), np.empty(size), np.empty(first.size), np.empty(size),
            np.empty((1, size)))  # fmt: skip
    number = -float(np.log(values["memory"][0]))
    power = float(values["forward_power"][0]) if "forward_power" in values else 1.0
    return lambda: evaluate(number, power, *room)


def _compiled(spec: ModelSpec, role: str, names: dict[str, Any]) -> Any:
    """Return the law of a validation set without slopes and residual scales, compiled."""
    reference = Reference(**{k: sympy.Symbol(f"reference_{k}", positive=True) for k in REFERENCE})
    frame = Frame(spec, (role,), (role,), reference)
    symbols = {
        own: _parameter_symbol(own, spec.priors[own].of(role)) for own in parameters_of(spec, role)
    }
    law = _outputs(frame, symbols)[0]
    name = f"law_{role}"
    # Of CPT and PT alike: what does not change along the curves of either stands before the loop.
    point = given_at(spec, symbols, pretraining=True)
    exec(source_of(name, point, ["values[0, i]"], [law]), names)
    return numba.njit(error_model="numpy")(names[name])
