"""What `bayes_cpt` raises and warns about: every problem names its place and the fix."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

SHOWN_PROBLEMS = 20
# Problems that say the same but for their numbers, above which the first stands for all of them.
ALIKE = 3


class BayesCPTError(Exception):
    """Base class of every error that `bayes_cpt` raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where it is, and what to do about it.

    Parameters
    ----------
    place : str
        File, table, run, step or key, from the outermost inwards, joined by commas.
    problem : str
        What is wrong, as a sentence without a full stop.
    fix : str
        What the reader can do, as a sentence without a full stop.

    Examples
    --------
    >>> str(Problem("study.toml, run r25, key replay", "replay is 25", "write 0.25 for 25 %"))
    'study.toml, run r25, key replay: replay is 25. Write 0.25 for 25 %.'
    """

    place: str
    problem: str
    fix: str

    def __str__(self) -> str:
        """Return the problem as one paragraph."""
        fix = self.fix[:1].upper() + self.fix[1:]
        return " ".join(f"{self.place}: {self.problem}. {fix}.".split())

    def within(self, place: str) -> "Problem":
        """Return the same problem, its place named from further out."""
        places = ", ".join(part for part in (place, self.place) if part)
        return Problem(places, self.problem, self.fix)


def _paragraphs(problems: Sequence[Problem]) -> list[str]:
    """Return a paragraph for each problem, and one for all of a kind where there are many of it."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kind = re.sub(r"[\d.]+", "", f"{problem.problem} {problem.fix}")
        kinds.setdefault(kind, []).append(problem)
    paragraphs = []
    for alike in kinds.values():
        shown = alike if len(alike) <= ALIKE else alike[:1]
        paragraphs += [str(problem) for problem in shown]
        if len(shown) < len(alike):
            paragraphs[-1] += f" The same {len(alike) - 1} times more, to {alike[-1].place}."
    return paragraphs


class ProblemError(BayesCPTError):
    """Something that cannot be used, with all its problems at once.

    Parameters
    ----------
    problems : iterable of Problem
        At least one.

    Attributes
    ----------
    problems : tuple of Problem
        All of them, though the message shows only the first twenty.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        # By what it is made from it is pickled: joblib workers send errors back to their caller.
        super().__init__(self.problems)

    def __str__(self) -> str:
        """Return a paragraph for each problem."""
        paragraphs = _paragraphs(self.problems)
        if len(paragraphs) > SHOWN_PROBLEMS:
            paragraphs[SHOWN_PROBLEMS:] = [f"... and {len(paragraphs) - SHOWN_PROBLEMS} more."]
        return "\n\n".join(paragraphs)

    @classmethod
    def at(cls, place: str, problem: str, fix: str) -> Self:
        """Return the error of a single problem."""
        return cls([Problem(place, problem, fix)])

    def within(self, place: str) -> Self:
        """Return the same error, every place named from further out."""
        return type(self)(problem.within(place) for problem in self.problems)


class StudyError(ProblemError, ValueError):
    """A study, plan or schedule that cannot be used, with all its problems at once."""


class StudyWarning(UserWarning):
    """Something in a study that can be used but is probably not meant."""


class BeyondLawWarning(StudyWarning):
    """What is chosen is worthless: the law that it follows from does not hold there."""


class SpecError(StudyError):
    """A model specification that cannot be used, with all its problems at once."""
