from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.decisions.objective import PRESETS, Objective, read_objective
from bayes_cpt.errors import SpecError
from bayes_cpt.study.resources import Compute, Resources

DOMAINS = ("prose", "kernel")
TEXT = """
name = "code, but mind the prose"
reference = "annealed"
cost_per_1000_steps = 0.002

[weights]
general = 1
kernel = 2
maths = 1

[mixtures.maths]
general = -0.078
target = 1.2

[[constraints]]
domain = "general"
rise = 0.02
probability = 0.1

[[constraints]]
domain = "maths"
limit = 2.5
probability = 0.25
kind = "expected"
"""


@pytest.fixture
def objective(tmp_path: Path) -> Objective:
    path = tmp_path / "objective.toml"
    path.write_text(TEXT)
    return read_objective(path)


def test_weights_of_all_validation_sets_add_up_on_the_two_losses(objective: Objective) -> None:
    general, target = 3.1, 2.7
    maths = -0.078 * general + 1.2 * target
    wanted = (general + 2 * target + maths) / 4
    assert objective.combination(DOMAINS) @ [general, target] == pytest.approx(wanted)
    np.testing.assert_array_equal(objective.share("maths", DOMAINS), [-0.078, 1.2])


def test_a_validation_set_has_its_role_and_its_name(objective: Objective) -> None:
    for name, own in (("general", "prose"), ("target", "kernel")):
        np.testing.assert_array_equal(objective.share(name, DOMAINS), objective.share(own, DOMAINS))


def test_constraints_are_read_aloud(objective: Objective) -> None:
    assert [str(own) for own in objective.constraints] == [
        "P(general loss rises by more than 0.02) <= 0.1",
        "P(maths loss above 2.5) <= 0.25",
    ]
    assert [own.kind for own in objective.constraints] == ["new_run", "expected"]


def test_costs_are_in_nats(objective: Objective) -> None:
    np.testing.assert_allclose(objective.cost([0, 500, 4000], Resources()), [0.0, 0.001, 0.008])
    priced = Objective(weights={"target": 1}, cost_per_billion_tokens=0.5, cost_per_1000_steps=0.1)
    np.testing.assert_allclose(priced.cost([2000], Resources(4e6)), [0.2 + 0.5 * 8.0])
    with pytest.raises(SpecError, match=r"tokens have a price.*Add tokens_per_step"):
        priced.cost([2000], Resources())


def test_gpu_time_and_money_have_a_price() -> None:
    priced = Objective(weights={"target": 1}, cost_per_1000_gpu_hours=0.5, cost_per_1000_spent=0.25)
    known = Resources(compute=Compute(seconds_per_step=1.8, gpus=2000, price=4.0))
    # 1000 steps take 1000 GPU-hours, and these 4000 of money.
    np.testing.assert_allclose(priced.cost([1000, 2000], known), [1.5, 3.0])
    with pytest.raises(SpecError, match=r"GPU-hours.*Add compute = \{ seconds_per_step"):
        priced.cost([1000], Resources())
    unpriced = Resources(compute=Compute(seconds_per_step=1.8))
    with pytest.raises(SpecError, match=r"of money.*price = "):
        priced.cost([1000], unpriced)


@given(st.floats(0, 10), st.floats(1e-3, 10), st.floats(0.1, 100))
def test_weights_are_shares(general: float, target: float, scale: float) -> None:
    one = Objective(weights={"general": general, "target": target})
    other = Objective(weights={"general": scale * general, "target": scale * target})
    found = one.combination(DOMAINS)
    np.testing.assert_allclose(found, other.combination(DOMAINS), rtol=0, atol=1e-12)
    assert found.sum() == pytest.approx(1.0)


def test_presets_are_in_the_order_of_their_names() -> None:
    assert list(PRESETS) == ["domain-focus", "balanced", "general-preserving"]
    found = [read_objective(name) for name in PRESETS]
    assert [own.name for own in found] == list(PRESETS)
    assert all(sum(own.weights.values()) == pytest.approx(1.0) for own in found)
    weights = [own.weights["general"] for own in found]
    assert weights == sorted(weights)
    assert weights[1] == 0.5


def test_a_table_starts_from_a_preset() -> None:
    found = read_objective({"preset": "balanced", "cost_per_1000_steps": 0.1, "name": "mine"})
    assert (found.weights, found.name) == ({"general": 0.5, "target": 0.5}, "mine")
    assert read_objective(found) is found


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "objective, key weights: the key 'weights' is missing. Add the key."),
    ({"weights": {}}, "key weights: Dictionary should have at least 1 item"),
    ({"weights": {"general": -1, "target": 2}},
     "key weights.general: Input should be greater than or equal to 0; it is -1"),
    ({"weights": {"general": 0}}, "all are 0, so that nothing is to be minimised"),
    ({"weights": {"general": "much"}}, "key weights.general: Input should be a valid number"),
    ({"preset": "balance"}, "key preset: there is no preset 'balance' (did you mean 'balanced'?)"),
    ({"preset": ["balanced"]}, "key preset: there is no preset ['balanced']"),
    ({"preset": "balanced", "wieghts": {}}, "'wieghts' is unknown (did you mean 'weights'?)"),
    ({"preset": "balanced", "cost_per_1000_steps": -1}, "key cost_per_1000_steps: Input should"),
    ({"preset": "balanced", "mixtures": {"target": {"general": 1, "target": 1}}}, "is taken"),
    ({"preset": "balanced", "mixtures": {"code": {"general": 1}}}, "key mixtures.code.target"),
    ({"preset": "balanced", "constraints": [{"domain": "general", "probability": 0.1}]},
     "key constraints.0: give either rise, nats above the base, or limit"),
    ({"preset": "balanced", "constraints": [{"domain": "general", "rise": 0, "probability": 10}]},
     "key constraints.0.probability: Input should be less than 1"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_objective(table)
    assert message in str(caught.value)


def test_all_problems_come_at_once() -> None:
    table = {"preset": "balanced", "reference": 1, "cost_per_1000_steps": "x", "more": 1}
    with pytest.raises(SpecError) as caught:
        read_objective(table)
    assert len(caught.value.problems) == 3


def test_a_validation_set_that_is_unknown(objective: Objective) -> None:
    with pytest.raises(SpecError, match=r"'kernle' \(did you mean 'kernel'\?\).*mixtures.kernle"):
        objective.share("kernle", DOMAINS)
