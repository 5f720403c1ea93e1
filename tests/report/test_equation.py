"""The printed law says what the fitted law has, and no more."""

from typing import Any

import numpy as np
import pytest
from target_family import several

from bayes_cpt.laws import Reference
from bayes_cpt.laws.areas import learning_rate_level
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.report.equation import COEFFICIENTS, equation, meaning
from bayes_cpt.report.paper.statements import statements

REFERENCE = Reference(2e-3, 24.0, 3.0, 3000.0)
PRINTED = {
    "forward_power": False,
    "level_power": False,
    "count_warmup": False,
    "carry_memory": False,
    "memory_clock": 0.0,
    "shift_power": 1.0,
}


def several_frame() -> Frame:
    return build_setup(read_spec("cpt-replay"), several()).frame


def frame(model: str = "cpt-replay", **changes: Any) -> Frame:
    table = read_spec(model).model_dump(mode="json")
    table["law"] |= changes
    for name in ("forward_power", "level_power"):
        if not table["law"][name]:
            table["priors"].pop(name, None)
    domains = ("general", "target")[: 2 if "shift" in table["law"]["terms"] else 1]
    return Frame(parse_spec(table, "test"), domains, domains, REFERENCE)


def printed(**changes: Any) -> list[str]:
    return equation(frame(**(PRINTED | changes)))


def test_with_the_areas_of_the_paper_nothing_is_said_of_them() -> None:
    lines = printed()
    assert not any("eta^rho" in line or "e at" in line or "T_cpt" in line for line in lines)
    assert any("·S1_cpt)^-beta" in line for line in lines)
    assert lines[-1].startswith("h(x)")


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"forward_power": True}, ["S1 = sum eta^rho", "T_cpt = sum eta, over CPT"]),
        ({"shift_power": 0.7}, ["T_cpt = 0.002·sum (eta/0.002)^0.7, over CPT"]),
        (
            {"memory_clock": 0.7},
            [
                "S2_pt = (eta after warm-up - e)/(1 - lambda)",
                "S2_cpt = (eta at the transfer - e)/(1 - lambda)",
                "e: in each step e + (1 - lambda^((eta/0.002)^0.7))·(eta - e),",
                "    from eta after warm-up, and in CPT from eta at the transfer",
            ],
        ),
        (
            {"level_power": True, "count_warmup": True, "carry_memory": True},
            [
                "S2_pt = (0.002^zeta - e^zeta)/(1 - lambda)",
                "S2_cpt = ((e at the transfer)^zeta - e^zeta)/(1 - lambda)",
                "e: in each step e + (1 - lambda)·(eta - e),",
                "    from 0 before the warm-up, and in CPT from the level at the transfer",
            ],
        ),
    ],
)
def test_an_option_is_printed_where_the_law_has_it(
    changes: dict[str, Any], added: list[str]
) -> None:
    lines = printed(**changes)
    assert [line for line in lines if line not in printed() and "^-beta" not in line] == added
    assert any("·T_cpt)^-beta" in line for line in lines) == any("T_cpt" in own for own in added)


def test_pretraining_alone_has_no_area_of_cpt() -> None:
    lines = equation(frame("pretrain"))
    assert "S1 = sum eta^rho" in lines
    assert not any("cpt" in line or "CPT" in line for line in lines)


def test_powers_have_their_meaning() -> None:
    assert {"rho", "zeta"} <= set(COEFFICIENTS)
    assert "forward area" in meaning(frame(), "rho")
    assert "annealing area" in meaning(frame(), "zeta")
    gain = meaning(frame(), "annealing_gain")
    assert gain.startswith(
        "fall of the loss when the learning rate goes from the reference LR to 0"
    )


def test_the_printed_step_of_the_level_is_the_one_computed() -> None:
    rates, momentum, level = np.array([1e-3, 2e-3, 5e-4]), 0.9, 0.0
    paces = (rates / 0.002) ** 0.7
    for eta, pace in zip(rates, paces, strict=True):
        level += (1.0 - momentum**pace) * (eta - level)
    assert learning_rate_level(rates, momentum, 0.0, paces)[-1] == pytest.approx(level, rel=1e-14)


def test_several_targets_are_remarked_upon() -> None:
    assert not any("psi" in line for line in equation(frame()))
    said = equation(several_frame())
    assert any("h(x) + psi·y in place of h" in line for line in said)
    assert "other targets" in meaning(several_frame(), "psi")
    assert "general validation set" in meaning(several_frame(), "phi")
    [first, *_] = statements(said)
    assert "mean of phi" in first.note
