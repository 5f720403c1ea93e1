from typing import Any

import numpy as np
import pytest

from bayes_cpt.decisions import risk
from bayes_cpt.decisions.measures import MEASURES, RiskMeasure
from bayes_cpt.errors import SpecError

VALUES = np.random.default_rng(0).gamma(2.0, 0.1, (50, 4))
BEST = VALUES.min(axis=1) - 0.01


def score(text: str, **options: Any) -> Any:
    return RiskMeasure.parse(text).score(VALUES, BEST, **options).tolist()


def test_every_name_leads_to_its_function() -> None:
    assert score("expected") == risk.expected_loss(VALUES).tolist()
    assert score("quantile:0.8") == risk.quantile(VALUES, 0.8).tolist()
    assert score("cvar") == risk.cvar(VALUES, 0.9).tolist()
    assert score("mean-sd:2") == risk.mean_plus_sd(VALUES, 2.0).tolist()
    assert score("worst") == risk.worst_draw(VALUES).tolist()
    assert score("expected-regret") == risk.expected_regret(VALUES, BEST).tolist()
    assert score("max-regret") == risk.maximum_regret(VALUES, BEST).tolist()
    found = score("best", tolerance=0.02)
    assert found == (-risk.probability_best(VALUES, BEST, 0.02)).tolist()
    noise = np.full_like(VALUES, 0.05)
    found = score("beat:r25", reference=0.2, noise=noise)
    assert found == (-risk.probability_below(VALUES, 0.2, noise)).tolist()


@pytest.mark.parametrize("name", MEASURES)
def test_a_candidate_that_is_better_in_every_draw_scores_no_worse(name: str) -> None:
    measure = RiskMeasure.parse("beat:r25" if name == "beat" else name)
    both = np.stack([VALUES[:, 0], VALUES[:, 0] + 0.03], axis=1)
    lower, higher = measure.score(both, VALUES[:, 0], reference=0.2, noise=np.full_like(both, 0.1))
    assert lower < higher


@pytest.mark.parametrize("name", MEASURES)
def test_texts_are_read_back(name: str) -> None:
    measure = RiskMeasure.parse("beat:r25" if name == "beat" else name)
    assert RiskMeasure.parse(str(measure)) == measure
    assert RiskMeasure.parse(measure) is measure
    assert "LEVEL" not in measure.meaning
    assert "RUN" not in measure.meaning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cvr", r"no risk measure 'cvr' \(did you mean 'cvar'\?\)"),
        ("cvar:95", r"'95' is no level of cvar. Write cvar:0.95 for 95 %"),
        ("quantile:0", "no level of quantile"),
        ("mean-sd:much", "'much' is no level of mean-sd"),
        ("mean-sd:nan", "no level"),
        ("expected:0.9", "expected has no level"),
        ("beat", "beat needs a run"),
    ],
)
def test_texts_that_name_no_measure(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RiskMeasure.parse(text)
