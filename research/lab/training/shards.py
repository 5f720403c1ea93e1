"""Token shards: files of uint16 tokens, described by index.json, read through memory maps."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.errors import LabError

INDEX = "index.json"


@dataclass
class Domain:
    """The shards of one split of a domain. A shard is opened when it is first read.

    Parameters
    ----------
    folder : path
    files : tuple of str
        Names of the shards.
    shard_tokens : tuple of int
        Tokens in each.
    """

    folder: Path
    files: tuple[str, ...]
    shard_tokens: tuple[int, ...]
    _open: dict[int, NDArray[np.uint16]] = field(default_factory=dict, repr=False)

    def window(self, shard: int, start: int, length: int) -> NDArray[np.uint16]:
        """Return `length` tokens of a shard."""
        if shard not in self._open:
            path = self.folder / self.files[shard]
            try:
                tokens = np.memmap(path, dtype="<u2", mode="r")
            except (OSError, ValueError) as error:
                raise LabError(
                    str(path),
                    "the shard is not there",
                    "bring it, or unpack what was carried (python -m lab.tokens unpack)",
                ) from error
            if len(tokens) != self.shard_tokens[shard]:
                raise LabError(
                    str(path),
                    f"it holds {len(tokens)} tokens, not {self.shard_tokens[shard]}",
                    "bring it again",
                )
            self._open[shard] = tokens
        return self._open[shard][start : start + length]


def read_index(folder: Path) -> dict[str, Any]:
    """Return what index.json says of a folder of shards."""
    try:
        index: dict[str, Any] = json.loads((folder / INDEX).read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise LabError(
            str(folder / INDEX), "there is no index of shards", "run python -m lab.tokens first"
        ) from error
    return index


def open_domain(folder: Path, index: dict[str, Any], name: str, split: str) -> Domain:
    """Return the shards of one split of a domain, none of them opened yet."""
    shards = index["splits"].get(f"{name}.{split}")
    if not shards:
        known = ", ".join(index["splits"])
        raise LabError(
            str(folder / INDEX),
            f"there is no {name}.{split}",
            f"use one of {known}, or add its packages",
        )
    return Domain(
        folder, tuple(shard["file"] for shard in shards), tuple(shard["tokens"] for shard in shards)
    )


def validation_windows(domain: Domain, sequences: int, context: int) -> NDArray[np.int64]:
    """Return evenly spaced validation sequences, the same every time, shape (sequences, context + 1)."""
    windows = (domain.shard_tokens[0] - 1) // context
    if windows < sequences:
        raise LabError(
            str(domain.folder / domain.files[0]),
            f"it holds {windows} sequences of {context} tokens, {sequences} are asked for",
            "hold out more packages, or ask for fewer",
        )
    places = np.arange(sequences) * windows // sequences * context
    return np.stack([domain.window(0, int(place), context + 1) for place in places]).astype(
        np.int64
    )
