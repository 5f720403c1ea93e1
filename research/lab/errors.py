"""What the lab raises on purpose, and how its commands end.

The lab's trainer runs on machines where nothing of bayes_cpt is installed, so it imports nothing of it.
"""

import sys
from collections.abc import Callable


class LabError(Exception):
    """Something that cannot be used: where it is, what is wrong, what to do about it."""

    def __init__(self, place: str, problem: str, fix: str) -> None:
        super().__init__(f"{place}: {problem}. {fix[:1].upper()}{fix[1:]}.")


def run_command(command: Callable[[list[str]], int]) -> None:
    """Run a command on the arguments of this process and end with its exit code, 2 for bad input."""
    try:
        code = command(sys.argv[1:])
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        code = 2
    sys.exit(code)


def report(line: str) -> None:
    """Write a line for the one who waits at the terminal or reads the log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
