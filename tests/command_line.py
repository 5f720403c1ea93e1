"""What a command line answers in the tests."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

# What the sampler tells of a fit that needs no second attempt (tests/inference/test_sampling.py).
STAGES = ("finding the mode", "sampling")


class Answer(NamedTuple):
    """What a command line answered."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Return the one JSON object on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


type Call = Callable[..., Answer]


def check_refusal(answer: Answer, fragments: tuple[str, ...]) -> None:
    """Check that bad input was refused as it should be, every paragraph in one line."""
    code, out, err = answer
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    for paragraph in err.strip().split("\n\n"):
        assert "\n" not in paragraph
    for fragment in fragments:
        assert fragment.lower() in err.lower()
