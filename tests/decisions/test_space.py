from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from bayes_cpt.decisions.space import DecayShape, Quantity, Space, read_space
from bayes_cpt.errors import SpecError
from bayes_cpt.laws.schedule_ends import DECAYS

TEXT = """
bases = "annealed_0pct"
loss_potential = [0.0, 0.5, 1.0]
replay = { low = 0.0, high = 0.5 }
peak = { low = 1e-4, high = 1e-3 }
warmup_steps = 100
decay_shape = ["cosine", "linear"]
decay_share = 0.2
final = 0
tokens = { low = 1e6, high = 1e7, scale = "linear" }
tokens_per_step = 2048
"""


def test_every_form_of_a_value(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(TEXT)
    space = read_space(path)
    assert space.bases == ("annealed_0pct",)
    assert space.loss_potential == Quantity(values=(0.0, 0.5, 1.0))
    assert space.warmup_steps == Quantity(values=(100.0,))
    assert space.decay_shape == ("cosine", "linear")
    scales = [own.scale for own in (space.replay, space.peak, space.tokens) if own is not None]
    assert scales == ["linear", "log", "linear"]
    same = Space(
        bases=("annealed_0pct",),
        loss_potential=[0, 0.5, 1],  # type: ignore[arg-type]
        replay={"low": 0, "high": 0.5},  # type: ignore[arg-type]
        peak=Quantity(low=1e-4, high=1e-3),
        warmup_steps=100,  # type: ignore[arg-type]
        decay_shape=("cosine", "linear"),
        decay_share=0.2,  # type: ignore[arg-type]
        final=0,  # type: ignore[arg-type]
        tokens=Quantity(low=1e6, high=1e7, scale="linear"),
        tokens_per_step=2048,
    )
    assert same == space
    assert read_space(space) is space
    assert read_space(None) == read_space({}) == Space()


def test_decay_shapes_are_those_of_a_batch_of_schedules() -> None:
    assert get_args(DecayShape.__value__) == DECAYS
    assert Space.model_fields["decay_shape"].annotation == tuple[DecayShape, ...]


def test_places_of_a_range() -> None:
    place = np.array([0.0, 0.25, 1.0])
    assert Quantity(low=2.0, high=4.0).at(place).tolist() == [2.0, 2.5, 4.0]
    logarithmic = Quantity(low=1e-4, high=1.0, scale="log").at(place)
    np.testing.assert_allclose(logarithmic, [1e-4, 1e-3, 1.0])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"replai": 0.5}, "key replai: the key 'replai' is unknown (did you mean 'replay'?)"),
    ({"decay-shape": ["cosine"]}, "'decay-shape' is unknown (did you mean 'decay_shape'?)"),
    (
        {"replay": "half"},
        "key replay: 'half' is not a number, list or range. Write a number, a list",
    ),
    ({"replay": True}, "True is not a number"),
    ({"replay": []}, "the list [] does not hold numbers"),
    ({"replay": [0.1, "x"]}, "does not hold numbers"),
    ({"replay": {"low": 0.1}}, "key replay: a range needs both low and high"),
    ({"replay": {"low": 0.5, "high": 0.1}}, "the range ends at 0.1, not above its start 0.5"),
    ({"replay": {"low": 0, "high": 0.1, "scale": "log"}}, "must start above 0"),
    ({"replay": {"low": 0, "high": 0.1, "values": [1]}}, "keep one of the two"),
    ({"replay": {"low": 0, "hihg": 0.1}}, "key replay.hihg: the key 'hihg' is unknown"),
    ({"replay": 25}, "they must be at least 0 and at most 1: write 0.25 for 25 %"),
    ({"replay": [-0.1, 0.5]}, "the values are -0.1 to 0.5; they must be at least 0"),
    ({"peak": 2.0}, "key peak: the values are 2 to 2; they must be above 0 and at most 0.1"),
    ({"relative_peak": 0}, "they must be above 0"),
    ({"steps": 0}, "they must be at least 1"),
    ({"peak": 1e-3, "relative_peak": 1}, "both peak and relative_peak are given"),
    ({"steps": 10, "tokens": 10}, "both steps and tokens are given"),
    ({"bases": []}, "bases is empty"),
    ({"loss_potential": 0.5}, "loss_potential needs just one base"),
    ({"loss_potential": 0.5, "bases": ["a", "b"]}, "loss_potential needs just one base"),
    ({"decay_shape": "cosin"}, "key decay_shape.0: this is not one of 'linear', 'cosine'"),
    ({"decay_shape": "exponential", "final": 0}, "an exponential decay cannot end at 0"),
    ({"tokens_per_step": 0}, "key tokens_per_step: Input should be greater than 0"),
]


@pytest.mark.parametrize(("table", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_space(table)
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.toml: there is no such file"):
        read_space(tmp_path / "none.toml")
