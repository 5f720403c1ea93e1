"""Shards of tokens, and the order in which a run sees them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.errors import LabError
from lab.tokens import main, pack, unpack, write_shards
from lab.training.order import Mixture
from lab.training.shards import INDEX, Domain, open_domain, read_index


def write_index(folder: Path, tokens: np.ndarray, shard_tokens: int) -> dict[str, object]:
    """Write tokens as one document of the split general.training, with its index."""
    folder.mkdir()
    shards = write_shards(
        tokens, np.array([len(tokens)]), np.array([0]), folder, "general.training", shard_tokens
    )
    index = {"vocabulary": 512, "splits": {"general.training": shards}}
    (folder / INDEX).write_text(json.dumps(index))
    (folder / "tokenizer.json").write_text("{}")
    return index


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    shard_tokens=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_shards_hold_every_document_whole_in_the_given_order(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shard_tokens: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    tokens = np.arange(sum(lengths), dtype=np.uint16)
    order = np.random.default_rng(seed).permutation(len(lengths))
    shards = write_shards(tokens, np.array(lengths), order, folder, "s", shard_tokens)
    read = np.concatenate([np.fromfile(folder / shard["file"], "<u2") for shard in shards])
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    assert read.tolist() == np.concatenate([parts[number] for number in order]).tolist()
    assert all(shard["tokens"] == shard_tokens for shard in shards[:-1])
    assert 0 < shards[-1]["tokens"] <= shard_tokens


def test_what_is_carried_arrives_and_what_is_not_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = np.random.default_rng(1).integers(0, 512, 1000).astype(np.uint16)
    write_index(tmp_path / "tokens", tokens, 400)
    pack(tmp_path / "tokens", tmp_path / "carried")
    packed = sorted((tmp_path / "carried").glob("*.xz"))
    assert len(packed) == 3
    late = packed[2].read_bytes()
    packed[2].unlink()
    assert main(["unpack", str(tmp_path / "carried"), "-o", str(tmp_path / "there")]) == 0
    assert "2 of 3 shards are here; not yet: general.training-0002.bin" in capsys.readouterr().out
    packed[2].write_bytes(late)
    unpack(tmp_path / "carried", tmp_path / "there")
    domain = open_domain(tmp_path / "there", read_index(tmp_path / "there"), "general", "training")
    assert np.concatenate([domain.window(n, 0, 400) for n in range(3)]).tolist() == tokens.tolist()


def test_a_damaged_shard_is_refused(tmp_path: Path) -> None:
    write_index(tmp_path / "tokens", np.arange(500, dtype=np.uint16), 250)
    pack(tmp_path / "tokens", tmp_path / "carried")
    first, second = sorted((tmp_path / "carried").glob("*.xz"))
    first.write_bytes(second.read_bytes())
    with pytest.raises(LabError, match=r"it is not the shard that index\.json names"):
        unpack(tmp_path / "carried", tmp_path / "there")
    first.write_bytes(b"no archive")
    with pytest.raises(LabError, match="it cannot be unpacked"):
        unpack(tmp_path / "carried", tmp_path / "there")


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
    # Half a sequence, and what a product of floats is off by.
    assert abs(after["general"] - replay * step * sequences) <= 0.5 + 1e-9
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
