"""What a run may take at most: epochs over its data, GPU time and money."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.errors import SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.resources import Compute, UniqueTokens

SPACE: dict[str, Any] = {
    "bases": ["annealed_0pct"],
    "replay": {"low": 0.0, "high": 0.8},
    "steps": {"low": 1000, "high": 3000},
    "unique_tokens": {"target": 2e6, "general": 2e7},
    "compute": {"seconds_per_step": 0.9, "gpus": 4, "price": 3.0},
}
GOAL: dict[str, Any] = {"preset": "domain-focus"}
OPTIONS: dict[str, Any] = {"draws": 60, "candidates": 512, "seed": 2}


@cache
def chosen(**limits: float) -> Decision:
    return decide(lab_posterior(), GOAL | {"limits": limits}, SPACE, **OPTIONS)


def test_the_table_counts_epochs_and_costs() -> None:
    table = chosen().table()
    tokens = table["steps"] * 2048
    np.testing.assert_allclose(table["target_epochs"], tokens * (1 - table["replay"]) / 2e6)
    np.testing.assert_allclose(table["general_epochs"], tokens * table["replay"] / 2e7)
    np.testing.assert_allclose(table["gpu_hours"], table["steps"] * 0.9 * 4 / 3600)
    np.testing.assert_allclose(table["money"], 3.0 * table["gpu_hours"])
    assert "GPU-hours" in " ".join(chosen().sentences())


def test_without_knowledge_of_the_data_nothing_changes() -> None:
    plain = {name: own for name, own in SPACE.items() if name not in ("unique_tokens", "compute")}
    before = decide(lab_posterior(), GOAL, plain, **OPTIONS).table()
    columns = ["general_epochs", "target_epochs", "gpu_hours", "money"]
    assert not set(columns) & set(before)
    assert chosen().table().drop(columns=columns).equals(before)


@pytest.mark.parametrize(
    ("name", "most"), [("target_epochs", 1.0), ("gpu_hours", 1.5), ("money", 4.5)]
)
def test_what_is_chosen_keeps_a_limit(name: str, most: float) -> None:
    free, limited = chosen().table(), chosen(**{name: most}).table()
    assert free[name][0] > most
    assert (limited[name] <= most).all()
    assert limited["score"][0] > free["score"][0]
    assert 0 < chosen(**{name: most}).search.feasible.mean() < 1


def test_limits_that_nothing_keeps_are_told() -> None:
    impossible = chosen(target_epochs=0.01)
    assert not impossible.feasible
    said = " ".join(impossible.verdict())
    assert "epochs over target data <= 0.01 is exceeded, with" in said


def scarce() -> Posterior:
    with pytest.warns(match="epochs over the target data"):
        study = replace(
            lab(), unique_tokens=UniqueTokens(target=5e5), compute=Compute(seconds_per_step=1.0)
        )
    return prior_as_posterior(study, draws=15)


def test_a_choice_that_repeats_its_data_is_warned_of() -> None:
    space = {"bases": ["annealed_0pct"], "replay": [0.0, 0.1], "steps": 3000}
    decision = decide(scarce(), "domain-focus", space, **OPTIONS)
    assert "It makes 1" in " ".join(decision.sentences())
    assert "epochs over the target data" in " ".join(decision.sentences())
    assert decision.plan().unique_tokens == UniqueTokens(target=5e5)


@pytest.mark.parametrize(
    ("goal", "space", "said"),
    [
        ({"limits": {"money": 5}}, {}, "of money.*add compute = "),
        ({"limits": {"target_epochs": 4}}, {}, r"add unique_tokens = \{ target"),
        ({"limits": {"epochs": 4}}, {}, "the key 'epochs' is unknown"),
        ({"limits": {"gpu_hours": 0}}, {}, "key limits.gpu_hours.*greater than 0"),
        ({}, {"compute": {"gpus": 8}}, "key compute.*seconds_per_step"),
        ({}, {"unique_tokens": 3e9}, "key unique_tokens.*write a table with the keys"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    goal: dict[str, Any], space: dict[str, Any], said: str
) -> None:
    plain = {"bases": ["annealed_0pct"], "replay": 0.5} | space
    with pytest.raises(SpecError, match=f"(?i){said}"):
        decide(lab_posterior(), GOAL | goal, plain, **OPTIONS)
