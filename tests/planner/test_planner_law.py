"""The law in JavaScript: written from the terms, and refused where the page does not know what it takes."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from bayes_cpt.laws.term import Parameter
from bayes_cpt.model.law_table import LawTable
from bayes_cpt.model.spec import read_spec
from bayes_cpt.planner.law import UnknownToThePageError, law_code


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

    def with_weekday(*given: Any) -> Any:
        law = build(*given)
        return replace(law, terms=(*law.terms, Weekday()))

    spec = read_spec("cpt-replay")
    monkeypatch.setattr(LawTable, "build", with_weekday)
    with pytest.raises(UnknownToThePageError) as caught:
        law_code(spec, "general", "law")
    (problem,) = caught.value.problems
    assert problem.place == "model cpt-replay"
    assert "weekday" in problem.problem
    assert "predict" in problem.fix
