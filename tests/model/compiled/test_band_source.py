import sympy
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.model.compiled.band_source import (
    CURVE,
    POINT,
    Separated,
    band_source,
    curve_expressions,
)
from bayes_cpt.model.spec import read_spec

A, B, X, Y = sympy.symbols("a b x y", real=True)
ATOMS = st.sampled_from([A, B, X, Y, sympy.Integer(2), sympy.Rational(1, 3)])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda own: st.one_of(
        st.tuples(own, own).map(sum),
        st.tuples(own, own).map(lambda pair: pair[0] * pair[1]),
        own.map(sympy.exp),
        st.tuples(own, own).map(
            lambda pair: sympy.Piecewise((pair[0], A > 0), (pair[1], sympy.true))
        ),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_what_is_taken_out_does_not_move_and_put_back_gives_the_expression(
    expression: sympy.Expr,
) -> None:
    separated = Separated([X, Y], "s")
    found = separated(expression)
    assert found.free_symbols <= {X, Y, *separated.parts}
    for part in separated.parts.values():
        assert not part.free_symbols & {X, Y}
    values = {A: 0.3, B: -0.7, X: 0.2, Y: -0.4}
    back = found.subs({name: part.subs(values) for name, part in separated.parts.items()})
    assert abs(float(back.subs(values) - expression.subs(values))) < 1e-9


def test_the_largest_parts_are_taken_out_whole() -> None:
    separated = Separated([X], "s")
    found = separated(sympy.exp(A * B) * X + A + B * sympy.exp(A))
    assert len(separated.parts) == 2
    assert found.count(sympy.exp) == 0


def test_a_curve_depends_on_points_curves_and_parameters_alone() -> None:
    spec = read_spec("cpt-replay")
    for role in ("general", "target"):
        names = {str(s) for own in curve_expressions(spec, role) for s in own.free_symbols}
        given = {*POINT, *CURVE, "annealing_pt", "annealing_cpt", "noise"}
        assert {name for name in names - given if not name.startswith("p_")} == set()
        # A fit's parameters of PT alone play no part in CPT curves.
        assert not {"p_fluctuation_pt", "p_misfit_pt"} & names


def test_only_what_moves_along_a_curve_is_in_the_loop_over_draws() -> None:
    source = band_source(read_spec("cpt-replay"), "target")
    loop = source.split("def along")[1]
    # The power; the shift's progress; the transient; what is kept of the offset; the fluctuation's start.
    assert loop.count("exp(") == 3
    assert loop.count("expm1(") == 2
    assert loop.count("log1p(") == 1
    assert loop.count("sqrt(") == 1
