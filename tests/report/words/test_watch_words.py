from dataclasses import replace

import pytest

from bayes_cpt.report.words.watch import advice, ends_below
from bayes_cpt.watch import Status
from bayes_cpt.watch.continuation import Continuation, Continuations

END = {
    "mean": 2.51234,
    "lower": 2.4801,
    "upper": 2.5441,
    "planned_lower": 2.4,
    "planned_upper": 2.6,
}
STATUS = Status(
    step=1000,
    steps=3000,
    on_track=True,
    probability=0.972,
    off_since=None,
    looks_like=None,
    losses={"code": 2.65},
    forecast={"code": END},
    gain_left={},
    notes=[],
)


def test_three_lines_with_the_digits_that_the_band_supports() -> None:
    assert STATUS.verdict() == [
        "On track at step 1000 of 3000: let it run.",
        "How sure: of healthy runs, 97 % stray this far from their forecast at some time.",
        "What would change it: its later losses. Until then it is forecast to end at 2.512 on code "
        "(2.480 to 2.544).",
    ]
    assert STATUS.words() == " ".join(STATUS.verdict())


@pytest.mark.parametrize(
    ("changes", "place", "told"),
    [
        (
            {"on_track": False, "off_since": 500, "probability": 0.0312, "looks_like": "too hot"},
            0,
            "OFF TRACK since step 500, now at step 1000 of 3000: stop it and look. It looks like too hot.",
        ),
        ({"probability": 0.0312}, 1, "How sure: of healthy runs, 3.1 % stray"),
        (
            {"on_track": False, "off_since": 9, "probability": 0.0},
            1,
            "its loss is not finite",
        ),
        ({"step": 0}, 0, "Nothing was measured yet of 3000 steps: wait."),
        ({"step": 3000}, 2, "nothing; the run is over"),
    ],
)
def test_each_state_says_what_to_do(changes: dict[str, object], place: int, told: str) -> None:
    assert told in replace(STATUS, **changes).verdict()[place]  # type: ignore[arg-type]


def test_advice_is_given_where_it_is_nearly_sure() -> None:
    rest = Continuation("decay to 0 until step 1300", 1300, 0.01234, 0.0051, 0.0196, 0.87)
    told = advice(Continuations("balanced", (rest,)), 1000, 3000)
    assert "decay to 0 until step 1300, by 0.012 nats (0.005 to 0.020; 87 %)" in told
    assert advice(Continuations("balanced", (replace(rest, probability=0.6),)), 1000, 3000) == ""


def test_how_probably_it_ends_below_a_loss() -> None:
    # The end is forecast as normal: its interval's ends have the tails that its mass leaves.
    assert ends_below(STATUS, {"code": 2.5441}, 0.9) == [
        "It ends below 2.5441 on code with probability 95 %."
    ]
    assert ends_below(STATUS, {"code": 2.0}, 0.9)[0].endswith("probability under 1 %.")
    assert ends_below(STATUS, {}, 0.9) == []
