"""Generated loops against SymPy's own numbers."""

from math import exp, expm1, log, log1p, sqrt
from typing import Any

import numpy as np
import pytest
import sympy

from bayes_cpt.arrays import Floats
from bayes_cpt.model.compiled import elementary
from bayes_cpt.model.compiled.loops import OF_ARRAYS, Point, source_of
from bayes_cpt.model.compiled.symbols import Exp, Expm1, Log, Log1p, Sqrt

POINT = Point(
    parameters=("p_rate", "p_power"),
    reference=("reference_steps",),
    curve=("share",),
    columns=("steps",),
    areas=("start",),
    settled=frozenset({"start"}),
)
RATE, POWER = sympy.symbols("p_rate p_power", positive=True)
STEPS, START, SHARE = sympy.symbols("steps start share", real=True)
REFERENCE = sympy.Symbol("reference_steps", positive=True)
COLUMNS = np.array([[1.0, 4.0, 9.0, 16.0, 25.0], [0.3] * 5])
GIVEN = {RATE: 0.7, POWER: 1.3, REFERENCE: 10.0, SHARE: 0.25}


def filled(results: list[Any]) -> tuple[Floats, str]:
    """Return what the code for some results gives at each point, run as plain Python, and the code."""
    targets = [f"values[{k}, i]" for k in range(len(results))]
    source = source_of("rows", POINT, targets, results)
    scalar = {function.__name__: function for function in (exp, expm1, log, log1p, sqrt)}
    of_arrays = {name: getattr(elementary, name) for name in OF_ARRAYS.values()}
    names: dict[str, Any] = {"np": np, **scalar, **of_arrays}
    exec(source, names)
    values = np.empty((len(results), COLUMNS.shape[1]))
    numbers = (np.array([0.7, 1.3]), np.array([10.0]), np.array([0.25]))
    names["rows"](*numbers, COLUMNS[:1], COLUMNS[1:], values, None)
    return values, source


def wanted(result: Any) -> list[float]:
    plain = {Exp: sympy.exp, Log: sympy.log, Sqrt: sympy.sqrt}
    for ours, own in plain.items():
        result = result.replace(ours, own)
    result = result.replace(Expm1, lambda x: sympy.exp(x) - 1)
    result = result.replace(Log1p, lambda x: sympy.log(1 + x))
    return [float(result.subs(GIVEN | {STEPS: steps, START: start})) for steps, start in COLUMNS.T]


CALLS = {
    "one": Exp(-RATE * STEPS / REFERENCE),
    "of another": Exp(-POWER * Log1p(RATE * STEPS)) * Log(STEPS + START),
    "three deep": Log(2 + Exp(-POWER * Log1p(RATE * STEPS))),
    "less one": Expm1(-STEPS / REFERENCE) + Sqrt(STEPS),
    "before the loop": Exp(POWER * Log(START)) * SHARE,
    "in a case": sympy.Piecewise((Log(STEPS), STEPS > 5), (Exp(-STEPS), True)),
}


@pytest.mark.parametrize("results", [[call] for call in CALLS.values()], ids=list(CALLS))
def test_a_result_is_what_its_expression_says(results: list[Any]) -> None:
    np.testing.assert_allclose(filled(results)[0][0], wanted(results[0]), rtol=1e-13)


def test_all_results_at_once_share_what_they_have_in_common() -> None:
    values, source = filled(list(CALLS.values()))
    np.testing.assert_allclose(values, [wanted(call) for call in CALLS.values()], rtol=1e-13)
    # log1p of the second and of the third is one row.
    assert source.count("logarithms_of_one_more(room") == 1


def test_what_does_not_change_along_a_curve_needs_no_room() -> None:
    assert "room" not in filled([CALLS["before the loop"] + STEPS])[1]
