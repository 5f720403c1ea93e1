"""The printed equation as LaTeX and MathML: the same sum as the law computes."""

import ast
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from synthetic import lab_for

from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.report.equation import equation
from bayes_cpt.report.paper.notation import latex, latex_symbol, mathml, mathml_symbol
from bayes_cpt.report.paper.statements import Statement, statements


@pytest.mark.parametrize("model", shipped_models())
def test_the_law_of_every_model_is_printed_whole(model: str) -> None:
    runs = ["pt_trunk", "r25_cos"]
    frame = build_setup(read_spec(model), lab_for(model).subset(runs)).frame
    lines = equation(frame)
    found = statements(lines)
    assert len(found) == sum(" = " in line for line in lines)
    for line in lines:
        if not line.startswith(" ") and " = " not in line:
            assert any(line in statement.note for statement in found)
    for statement in found:
        names = {node.id for node in ast.walk(statement.right) if isinstance(node, ast.Name)}
        for name in names - {"exp", "expm1", "sum"}:
            printed = latex_symbol(name.replace("lambda_", "lambda"))
            if not name.startswith("lambda_"):
                assert printed in latex(statement)
                inner = mathml_symbol(name).removeprefix("<math>").removesuffix("</math>")
                assert inner in mathml(statement)
        for text in (latex(statement).replace("\\{", ""),):
            assert text.count("{") == text.count("}")
            assert text.count("\\left") == text.count("\\right")
        ElementTree.fromstring(mathml(statement))


NAMES = st.sampled_from(["a", "b", "c"])
EXPRESSIONS = st.recursive(
    NAMES | st.sampled_from(["1", "2"]),
    lambda inner: st.builds(
        lambda left, sign, right: f"({left}){sign}({right})",
        inner,
        st.sampled_from([" + ", " - ", "·"]),
        inner,
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
@example("(((a) + (a)) - ((a) + (b))) + (c)")
def test_parentheses_keep_the_value(expression: str) -> None:
    """Sums, differences and products that LaTeX shows, read again, are worth the same."""
    (statement,) = statements([f"x = {expression}"])
    shown = latex(Statement(statement.left, statement.right, "")).split("=", 1)[1]
    for command, sign in (
        ("\\begin{aligned}", ""),
        ("\\end{aligned}", ""),
        ("\\\\", ""),
        ("&", ""),
        ("{}", ""),
        ("\\left", ""),
        ("\\right", ""),
        ("\\,", "*"),
    ):
        shown = shown.replace(command, sign)
    values = {"a": 2.3, "b": -0.7, "c": 5.1}
    told = eval(" ".join(shown.split()), {}, values)
    meant = eval(expression.replace("·", "*"), {}, values)
    np.testing.assert_allclose(told, meant, atol=1e-9)


def test_a_line_that_is_no_equation_is_refused() -> None:
    with pytest.raises((SyntaxError, ValueError)):
        statements(["no equation"])
