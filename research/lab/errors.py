"""What the lab raises on purpose, and how its commands end.

The lab's trainer runs on machines that have NumPy and PyTorch alone: of bayes_cpt it imports what needs no
more, schedules and their checks.
"""

import sys
from collections.abc import Callable

from bayes_cpt.errors import Problem, StudyError


class LabError(StudyError):
    """Something that cannot be used: where it is, what is wrong, what to do about it."""

    def __init__(self, place: str, problem: str, fix: str) -> None:
        super().__init__([Problem(place, problem, fix)])


def run_command(command: Callable[[list[str]], int]) -> None:
    """Run a command on the arguments of this process and end with its exit code, 2 for bad input."""
    try:
        code = command(sys.argv[1:])
    except StudyError as error:
        sys.stderr.write(f"{error}\n")
        code = 2
    sys.exit(code)


def report(line: str) -> None:
    """Write a line for the one who waits at the terminal or reads the log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
