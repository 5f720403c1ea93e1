from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.training.order import Mixture
from lab.training.shards import Domain

CONTEXT = 4


def domain(folder: Path, name: str, first: int, shards: tuple[int, ...]) -> Domain:
    """Return shards of consecutive numbers from `first` on."""
    files = []
    for number, tokens in enumerate(shards):
        content = np.arange(first, first + tokens, dtype="<u2")
        files.append(f"{name}{number}.bin")
        (folder / files[-1]).write_bytes(content.tobytes())
        first += tokens
    return Domain(folder, tuple(files), shards)


@pytest.fixture
def domains(tmp_path: Path) -> dict[str, Domain]:
    return {
        "general": domain(tmp_path, "general", 0, (41, 21, 9)),
        "target": domain(tmp_path, "target", 10_000, (33, 17)),
    }


def mixture(replay: float, seed: int = 3, in_order: bool = False) -> Mixture:
    return Mixture("general", "target", replay, (seed,), in_order)


@given(replay=st.floats(0, 1), step=st.integers(1, 200), sequences=st.integers(1, 20))
def test_the_replay_ratio_is_kept_exactly(replay: float, step: int, sequences: int) -> None:
    one = mixture(replay)
    before, after = one.counts((step - 1) * sequences), one.counts(step * sequences)
    assert abs(after["general"] - replay * step * sequences) <= 0.5
    assert sum(after.values()) == step * sequences
    assert all(after[name] >= before[name] for name in after)


def test_an_epoch_shows_every_sequence_once(domains: dict[str, Domain]) -> None:
    # 10, 5 and 2 sequences of general text.
    batches = [mixture(1.0).batch(domains, step, 1, CONTEXT) for step in range(1, 18)]
    starts = sorted(int(batch[0, 0]) for batch in batches)
    assert starts == [*range(0, 40, 4), *range(41, 61, 4), 62, 66]
    again = [mixture(1.0).batch(domains, step, 1, CONTEXT) for step in range(18, 35)]
    assert sorted(int(batch[0, 0]) for batch in again) == starts
    assert [int(b[0, 0]) for b in again] != [int(b[0, 0]) for b in batches]


def test_a_step_depends_on_seed_and_step_alone(domains: dict[str, Domain]) -> None:
    forwards = [mixture(0.3).batch(domains, step, 2, CONTEXT) for step in range(1, 9)]
    backwards = [mixture(0.3).batch(domains, step, 2, CONTEXT) for step in range(8, 0, -1)]
    np.testing.assert_array_equal(forwards, backwards[::-1])
    other = [mixture(0.3, seed=4).batch(domains, step, 2, CONTEXT) for step in range(1, 9)]
    assert not np.array_equal(forwards, other)
