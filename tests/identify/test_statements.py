from pathlib import Path
from typing import Any

import pytest

from bayes_cpt.errors import SpecError
from bayes_cpt.identify.statements import Statement, read_statements


def stated(**keys: Any) -> Statement:
    return Statement(reason="because", **keys)


def test_a_fall_is_a_negative_change() -> None:
    assert stated(loss="target", falls_by=(0.1, 0.4)).interval == (-0.4, -0.1)
    assert stated(loss="target", rises_by=(0.1, 0.4)).interval == (0.1, 0.4)
    assert stated(loss="target", changes_by=(-0.2, 0.4)).interval == (-0.2, 0.4)
    assert stated(parameter="exponent", between=(0.2, 0.5)).interval == (0.2, 0.5)


def test_words_and_tails() -> None:
    statement = stated(loss="target", replay=0.25, steps=500, falls_by=(0.1, 0.4), mass=0.5)
    assert statement.words == (
        "loss on target over a typical run at replay 0.25 of 500 steps changes by -0.4 to -0.1 (50 %)"
    )
    assert statement.tails == (0.25, 0.75)
    assert stated(parameter="exponent", on="code", between=(0.2, 0.5)).words == (
        "exponent on code between 0.2 and 0.5 (90 %)"
    )
    assert "over run long" in stated(loss="target", run="long", rises_by=(1, 2)).words


GOOD = '[[statements]]\nloss = "target"\nfalls_by = [0.1, 0.4]\nreason = "r"\n'


def test_a_file_has_a_name_and_statements(tmp_path: Path) -> None:
    place = tmp_path / "said.toml"
    place.write_text(
        f'name = "mine"\n{GOOD}\n[[statements]]\nparameter = "memory"\nbetween = [20, 90]\nreason = "s"\n'
    )
    name, statements = read_statements(place)
    assert name == "mine"
    assert [one.interval for one in statements] == [(-0.4, -0.1), (20.0, 90.0)]
    place.write_text(GOOD)
    assert read_statements(place)[0] == "elicited"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ("statements", "add the key")),
        ("statements = 3", ("statements",)),
        ("nonsense", ("not TOML", "fix the line")),
        ("[[statements]]\nreason = 'r'", ("statement 1", "either parameter or loss")),
        (GOOD.replace("reason", "raison"), ("statement 1, raison", "take the key out")),
        (GOOD + "parameter = 'memory'\n", ("either parameter or loss",)),
        (GOOD + "between = [1, 2]\n", ("one of falls_by, rises_by, changes_by",)),
        (GOOD + "rises_by = [1, 2]\n", ("one of falls_by, rises_by, changes_by",)),
        (GOOD.replace("[0.1, 0.4]", "[0.4, 0.1]"), ("the lower end comes first",)),
        (GOOD.replace("[0.1, 0.4]", "[0.4]"), ("statement 1, falls_by",)),
        (GOOD.replace("[0.1, 0.4]", "[0.1, nan]"), ("statement 1, falls_by",)),
        (GOOD + "run = 'long'\nreplay = 0.5\n", ("a run has its own replay",)),
        (GOOD + "on = 'general'\n", ("leave on out",)),
        (GOOD + "mass = 90\n", ("statement 1, mass",)),
        (GOOD + "replay = 25\n", ("statement 1, replay",)),
        (GOOD + "steps = 1000000000000\n", ("statement 1, steps",)),
        ("[[statements]]\nparameter='memory'\nbetween=[1,2]\nreplay=0\nreason='r'", ("no replay",)),
        ("[[statements]]\nparameter='memory'\nfalls_by=[1,2]\nreason='r'", ("give between",)),
    ],
)
def test_a_bad_file_is_refused(text: str, said: tuple[str, ...], tmp_path: Path) -> None:
    place = tmp_path / "said.toml"
    place.write_text(text)
    with pytest.raises(SpecError) as refused:
        read_statements(place)
    for fragment in (str(place), *said):
        assert fragment.lower() in str(refused.value).lower()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such file"):
        read_statements(tmp_path / "none.toml")
