"""The printed law is the fitted law: the same numbers, in text, LaTeX and MathML."""

import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy
from open_weights import open_study
from size_family import family_of_cpt_alone
from synthetic import lab_for
from target_family import several

from bayes_cpt.laws.areas import run_levels
from bayes_cpt.laws.groups import factors
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.spec import parse_spec, read_spec, shipped_models
from bayes_cpt.report.equation import (
    COEFFICIENTS,
    OF_FACTOR,
    Equation,
    equation,
    latex,
    law_equations,
    letter_meanings,
    lettered,
    mathml,
    meaning,
)

LEVEL = sympy.Function("m")
REFERENCE = Reference(2e-3, 24.0, 3.0, 3000.0)
# Steps and the like, so that repeated tokens count.
SPECIAL = {"t": 3000.0, "U_steps": 1000.0, "r_cpt": 0.7, "x": 0.7, "n": 2.5, "eta_ref": 2e-3}


def fitted(model: str) -> BoundModel:
    return build_setup(read_spec(model), lab_for(model).subset(["pt_trunk", "r25_cos"])).frame


def frame(model: str = "cpt-replay", **changes: Any) -> BoundModel:
    table = read_spec(model).model_dump(mode="json")
    for name, given in changes.items():
        if given == "printed":
            del table["priors"][name]
        else:
            table["law"][name] = given
    domains = ("general", "target")[: 2 if "shift" in table["law"]["terms"] else 1]
    return BoundModel(parse_spec(table, "test"), domains, domains, REFERENCE)


FRAMES: dict[str, Callable[[], BoundModel]] = {
    **{model: partial(fitted, model) for model in shipped_models()},
    "several targets": lambda: build_setup(read_spec("cpt-replay"), several()).frame,
    "open weights": lambda: build_setup(read_spec("cpt-replay"), open_study()).frame,
    "sizes, CPT alone": lambda: (
        build_setup(read_spec("cpt-replay-sizes"), family_of_cpt_alone()).frame
    ),
}


@pytest.fixture(params=FRAMES)
def any_frame(request: pytest.FixtureRequest) -> BoundModel:
    made: BoundModel = FRAMES[request.param]()
    return made


def numbers(equations: list[Equation]) -> dict[str, float]:
    """Return a number for every letter."""
    generator = np.random.default_rng(0)
    symbols = {
        symbol.name
        for own in equations
        for part in (own.left, *own.summands)
        for symbol in part.atoms(sympy.Symbol)
    }
    return {name: SPECIAL.get(name, float(generator.uniform(0.2, 0.9))) for name in sorted(symbols)}


def value(own: Equation, given: dict[str, float], h: float = 1.0) -> float:
    """Return what an equation comes to."""
    whole = sum(own.summands)
    whole = whole.replace(sympy.Function("h"), lambda share: sympy.Float(h))
    whole = whole.replace(sympy.Function("exp"), sympy.exp)
    return float(whole.subs({symbol: given[symbol.name] for symbol in whole.free_symbols}))


def test_the_printed_law_comes_to_what_the_terms_compute(any_frame: BoundModel) -> None:
    equations = law_equations(any_frame)
    # Of an open-weights base C1 is not printed, and only its shape is asked for.
    given = {"C1": 0.5} | numbers(equations)
    for own in reversed(equations[1:]):
        if own.left.is_Symbol and not own.summands[0].atoms(sympy.Sum, sympy.Indexed, LEVEL):
            given[own.left.name] = value(own, given)
    point = SimpleNamespace(
        log_forward_area=lambda *_: np.log(given.get("S1_pt", 0.0) + given.get("S1_cpt", 0.0)),
        learning_rate_levels=lambda *_: (given.get("m_pt", 0.1), given.get("m_cpt", 0.1)),
        start_pt=given.get("eta_ref") if any_frame.spec.law.count_warmup else given.get("eta_warm"),
        start_cpt=given.get("eta_transfer", 0.1),
        log_peak_pt=given.get("p"),
        log_size=np.log(given.get("n", 1.0)),
        log_batch=np.log(given.get("V", 1.0)),
        carried=int(any_frame.carries_memory),
        shift_area=lambda *_: given.get("T_cpt", given.get("S1_cpt")),
        cpt_steps=SPECIAL["t"],
        paced_steps=given.get("u", 0.0),
        squared_area=given.get("S3_cpt", 0.0),
        target_share=SPECIAL["r_cpt"] + given.get("y", 0.0),
        other_share=given.get("y", 0.0),
    )
    replay = [
        own
        for own in equations
        if own.left == sympy.Function("h")(sympy.Symbol("x", positive=True))
    ]
    for place, factor in enumerate(any_frame.roles):
        form = getattr(any_frame.spec.law.replay_factor, factor)
        absent = {name for other, own in OF_FACTOR.items() if other != form for name in own}
        gathered = {
            name: np.float64(number)
            for name, number in (given | factors(point, given, np)).items()
            if name not in absent
        }
        h = value(replay[min(place, len(replay) - 1)], given) if replay else 1.0
        for term, printed in zip(any_frame.law.terms, equations[0].summands, strict=False):
            wanted = term.loss(point, gathered, np)
            assert value(Equation(sympy.Symbol("L"), (printed,)), given, h) == pytest.approx(
                float(wanted), rel=1e-9
            ), term.name


def test_every_letter_is_explained(any_frame: BoundModel) -> None:
    said = letter_meanings(any_frame)
    notes = " ".join(own.note for own in law_equations(any_frame))
    defined = {str(own.left) for own in law_equations(any_frame)}
    unsaid = numbers(law_equations(any_frame)).keys() - said.keys() - defined - {"x"}
    assert all(re.search(rf"\b{name}\b", notes) for name in unsaid), unsaid
    # Notes print it as a letter, not as its name.
    words = lettered(notes, lambda name: "").replace("_", " ").split()
    assert not {name for name in said if len(name) > 1} & {own.strip("().;:,") for own in words}


def test_text_latex_and_mathml_are_whole(any_frame: BoundModel) -> None:
    equations = law_equations(any_frame)
    text = "\n".join(equation(any_frame))
    for own in equations:
        shown = latex(own).replace("\\{", "")
        assert shown.count("{") == shown.count("}")
        assert shown.count("\\left") == shown.count("\\right")
        assert ElementTree.fromstring(html.unescape(mathml(own).replace("&lt;", ""))).tag == "math"
        for slip in ("1.0", "nan", "zoo", "Piecewise", "+ -"):
            assert slip not in text
            assert slip not in shown


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "T_cpt = eta_ref*Sum((eta[i]/eta_ref)**rho_s, (i, 1, t))"),
        ({}, "m = w_slow*m(lambda_slow) + (1 - w_slow)*m(lambda)"),
        # Letters that no table of coefficients holds have their values here.
        ({}, "(Delta_base: how far the base lies off the law; S1_half = 3 LR·steps; tau_0 = 75 steps;"),
        ({}, "w_slow = Q = Z = 0 on general)"),
        ({}, "(on target; c = 16)"),
        ({"shift_power": "printed"}, "T_cpt = Sum(eta[i], (i, 1, t))"),
        ({"forward_power": "printed", "shift_power": "printed"}, "S1 = Sum(eta[i], (i, 1, t))"),
        ({"memory_clock": 0.0}, "m[i] = lambda*m[i - 1] + (1 - lambda)*eta[i]"),
        ({"level_power": "printed", "count_warmup": False}, "S2_pt = (eta_warm - m_pt)/(1 - lambda)"),
        ({"level_power": "printed", "carry_memory": False}, "S2_cpt = (eta_transfer - m_cpt)/(1 - lambda)"),
        ({"replay_rate": "printed"}, "+ B*(1 - 1/(1 + E*T_cpt)**beta)*h(r_cpt)"),
        ({"gain_replay": "printed"}, "- C1*S2_pt - C2*S2_cpt"),
    ],
)  # fmt: skip
def test_an_option_is_printed_where_the_law_has_it(changes: dict[str, Any], said: str) -> None:
    lines = equation(frame(**changes))
    assert any(line.strip() == said for line in lines), lines


def test_after_a_reset_annealing_counts_from_the_last_learning_rate() -> None:
    lines = equation(replace(frame(), resets=True))
    assert "S2_cpt = (eta_transfer**zeta - m_cpt**zeta)/(1 - lambda)" in lines
    assert any("and in CPT from eta at the" in line for line in lines)


def test_pretraining_alone_has_no_area_of_cpt() -> None:
    lines = equation(frame("pretrain"))
    assert lines[:3] == ["L = L0 + A/S1_pt**alpha", "    - C1*S2_pt", "    + G1*p + G2*p**2"]
    assert not any("cpt" in line or "CPT" in line for line in lines)


def test_coefficients_have_their_meaning() -> None:
    assert {"rho", "zeta"} <= set(COEFFICIENTS)
    assert "forward area" in meaning(frame(), "rho")
    assert meaning(frame(), "annealing_gain").startswith(
        "fall of the loss when the learning rate goes from the reference LR to 0"
    )


def test_the_printed_step_of_the_mean_is_the_one_computed() -> None:
    rates, momentum, mean = np.array([1e-3, 2e-3, 5e-4]), 0.9, 0.0
    paces = (rates / 0.002) ** 0.7
    for eta, pace in zip(rates, paces, strict=True):
        mean = momentum**pace * mean + (1.0 - momentum**pace) * eta
    levels = run_levels(rates, paces, np.zeros(1), np.array([momentum]), np.array([3]))
    assert levels[0, 0] == pytest.approx(mean, rel=1e-14)


def test_a_slash_is_of_two_letters_alone() -> None:
    one, two, three = sympy.symbols("a_1 b_2 c_3")
    text = mathml(Equation(one, (sympy.Add(three / (1 + one), one / two, evaluate=False),)))
    ElementTree.fromstring(text)
    assert (text.count("<mfrac>"), text.count("<mo>/</mo>")) == (1, 1)
