"""The law in JavaScript: written from the terms, and refused where the page does not know what it takes."""

from dataclasses import dataclass
from typing import Any

import pytest
import sympy
from scripts import in_engine
from sympy.codegen.cfunctions import expm1, log1p

from bayes_cpt.laws.term import Parameter
from bayes_cpt.model.law_table import LawTable
from bayes_cpt.model.spec import read_spec
from bayes_cpt.planner.law import UnknownToThePageError, javascript, law_code

X, Y = sympy.Symbol("x", real=True), sympy.Symbol("y", positive=True)
EXPRESSIONS = [
    sympy.exp(-X * sympy.log(Y)) + expm1(X) / log1p(Y),
    sympy.Piecewise((sympy.sqrt(Y), X > 0), (Y**3 / 7, True)) - X**-2,
    sympy.Abs(X) * sympy.Float(0.1) + sympy.Rational(1, 3),
]


def test_expressions_come_to_the_same_in_javascript() -> None:
    places = [(-1.3, 0.4), (0.7, 2.5)]
    lines = ", ".join(javascript(own) for own in EXPRESSIONS)
    found = in_engine(f"const at = (x, y) => [{lines}];", "given.map((own) => at(...own))", places)
    for (x, y), values in zip(places, found, strict=True):
        wanted = [sympy.lambdify((X, Y), own, "math")(x, y) for own in EXPRESSIONS]
        assert values == pytest.approx(wanted, rel=1e-13)


@dataclass(frozen=True)
class Weekday:
    """A term that takes of a run what the page does not know."""

    name: str = "weekday"

    def parameters(self) -> dict[str, Parameter]:
        return {"offset_time": Parameter("stands for one")}

    def coefficients(self, parameters: Any, reference: Any, xp: Any) -> dict[str, Any]:
        return {"D": parameters["offset_time"]}

    def loss(self, points: Any, coefficients: Any, xp: Any) -> Any:
        return coefficients["D"] * points.weekday


def test_a_term_that_the_page_does_not_know_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = LawTable.build

    def with_weekday(table: LawTable, roles: Any, reference: Any) -> Any:
        from dataclasses import replace

        law = build(table, roles, reference)
        return replace(law, terms=(*law.terms, Weekday()))

    spec = read_spec("cpt-replay")
    monkeypatch.setattr(LawTable, "build", with_weekday)
    with pytest.raises(UnknownToThePageError) as caught:
        law_code(spec, "general", "law")
    (problem,) = caught.value.problems
    assert problem.place == "model cpt-replay"
    assert "weekday" in problem.problem
    assert "predict" in problem.fix
