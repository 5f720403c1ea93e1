"""What is said of a command line that cannot be parsed: what is wrong, and a line that would do."""

from typing import Any

import typer

# Typer keeps click to itself, but not the class of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
MISSING, GUESS = "Missing ", "Did you mean"
EXAMPLE = "Example:"


def usage_words(error: Exception, program: str) -> str:
    """Return what is wrong with a command line, where, and the fix.

    Parameters
    ----------
    error : UsageError
    program : str
        Name of the program, where the error does not tell of which command it is.
    """
    context = getattr(error, "ctx", None)
    place = context.command_path if context else program
    text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    text = text if text.endswith((".", "?")) else f"{text}."
    lines = _lines(context.command, text) if context else []
    fix = f" As in: {', or '.join(lines)}" if lines else ""
    return f"{place}: {text} See {place} --help.{fix}"


def _lines(command: Any, text: str) -> list[str]:
    """Return lines that would do: of a command that lacks something, of a group without its command."""
    group = hasattr(command, "commands")
    wanted = GUESS not in text if group else text.startswith(MISSING)
    lines = _examples(command.help or "") if wanted else []
    return lines if group else lines[:1]


def _examples(text: str) -> list[str]:
    """Return the command lines that a help text gives as examples."""
    lines = [line.strip() for line in text.splitlines()]
    if EXAMPLE not in lines:
        return []
    rest = lines[lines.index(EXAMPLE) + 1 :]
    return rest[: rest.index("")] if "" in rest else rest
