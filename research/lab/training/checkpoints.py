"""A run's files: its checkpoint, the bases saved from it, and its JSONL of measurements.

All of a run's state is in one checkpoint, written beside the old one and then put in its place. The
JSONL is cut back to the length that the checkpoint knows, so a run that was killed goes on as if it
never was.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch

from lab.errors import LabError


class RunFiles:
    """The files of one run.

    Parameters
    ----------
    folder : path
        Of all runs.
    name : str
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.losses = folder / "losses" / f"{name}.jsonl"
        self.checkpoint = folder / "checkpoints" / f"{name}.pt"
        self.bases = folder / "bases"
        for path in (self.losses.parent, self.checkpoint.parent, self.bases):
            path.mkdir(parents=True, exist_ok=True)

    @property
    def is_done(self) -> bool:
        """Whether the run's last line says that it is done."""
        if not self.losses.exists():
            return False
        lines = self.losses.read_text().splitlines()
        # A line that was being written when the process ended is no line.
        return bool(lines) and lines[-1].startswith('{"done"') and lines[-1].endswith("}")

    def write_line(self, line: dict[str, Any]) -> None:
        """Add a line to the JSONL, and see it on the disk."""
        with self.losses.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def save(self, state: dict[str, Any]) -> None:
        """Save the state of the run, with the length of its JSONL."""
        length = self.losses.stat().st_size if self.losses.exists() else 0
        save_whole({**state, "losses_length": length}, self.checkpoint)

    def resume(self, device: str) -> dict[str, Any] | None:
        """Return the state to go on from, None for a fresh start; the JSONL is cut back to it."""
        if not self.checkpoint.exists():
            self.losses.unlink(missing_ok=True)
            return None
        state: dict[str, Any] = torch.load(self.checkpoint, map_location=device, weights_only=True)
        if state["losses_length"] or self.losses.exists():
            os.truncate(self.losses, state["losses_length"])
        return state

    def finish(self, line: dict[str, Any]) -> None:
        """Write the last line and drop the checkpoint: what others start from are the bases."""
        self.write_line({"done": True, **line})
        self.checkpoint.unlink(missing_ok=True)

    def base(self, name: str) -> Path:
        """Return the file of a base."""
        return self.bases / f"{name}.pt"

    def load_base(self, name: str, device: str) -> dict[str, Any]:
        """Return a base's state."""
        try:
            state: dict[str, Any] = torch.load(
                self.base(name), map_location=device, weights_only=True
            )
        except FileNotFoundError as error:
            raise LabError(
                str(self.base(name)),
                f"base {name} is not there",
                "train the PT run that it is saved from",
            ) from error
        return state


def save_whole(state: dict[str, Any], path: Path) -> None:
    """Write a state so that the file is the old one or the new one, never half of it."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as out:
        torch.save(state, out)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
