"""Templates: a ¶ begins a paragraph, white space does not matter, and every fact must be there."""

from pathlib import Path

import pytest
from jinja2 import DictLoader, UndefinedError

from bayes_cpt.report import rendering
from bayes_cpt.report.rendering import Words, render

TEMPLATE = """
{% block verdict %}
¶ Train {{ run }}
  {% if short %} now {% endif %} .
¶
{% endblock %}
{% block detail %}
¶ One
  line ; {{ gain | signed }} nats
  ({{ probability | chance }} ) .

¶ Another,
after {{ count | steps }} steps.
{% endblock %}
"""
FACTS = {"run": "a", "short": True, "gain": 0.25, "probability": 0.4, "count": 1234.0}


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> str:
    environment = rendering.environment().overlay(loader=DictLoader({"own.txt": TEMPLATE}))
    monkeypatch.setattr(rendering, "environment", lambda: environment)
    return "own.txt"


def test_paragraphs_are_single_lines(template: str) -> None:
    assert render(template, FACTS) == Words(
        verdict=("Train a now.",),
        paragraphs=("One line; +0.250 nats (40 %).", "Another, after 1200 steps."),
    )


def test_a_missing_fact_is_an_error(template: str) -> None:
    with pytest.raises(UndefinedError, match="'run' is undefined"):
        render(template, {name: value for name, value in FACTS.items() if name != "run"})


def test_templates_lie_beside_the_module() -> None:
    """In the package: so they are in the wheel."""
    folder = Path(rendering.__file__).parent / "templates"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"decision.txt", "landmarks.txt", "next_run.txt", "schedule.txt"}
