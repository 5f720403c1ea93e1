"""The commands of `bayes-cpt` as Markdown, from the parser that runs them."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from bayes_cpt.cli import PROGRAM, app


def reference() -> str:
    """Return a section for each command: what it does, an example, exit codes, arguments and options."""
    # A bracket that the terminal's markup would take for a style is escaped in help.
    return "\n".join(_sections(get_command(app), PROGRAM, None)).replace("\\[", "[")


def _sections(command: Any, path: str, parent: Any) -> Iterator[str]:
    context = command.make_context(path, [], parent=parent, resilient_parsing=True)
    if parent is not None:
        yield f"## {path}\n"
        yield from _help(command.help)
        yield from _parameters(command, context)
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _sections(inner, f"{path} {name}", context)


def _help(text: str) -> Iterator[str]:
    """Yield paragraphs; what has several lines is an example or a table, as typed."""
    for paragraph in text.split("\n\n"):
        title, _, block = paragraph.partition("\n")
        if not block:
            yield f"{title}\n"
            continue
        kind = "sh" if title.startswith("Example") else "text"
        yield f"{title}\n\n```{kind}\n{block}\n```\n"


def _parameters(command: Any, context: Any) -> Iterator[str]:
    for own in command.params:
        if own.hidden:
            continue
        name, text = own.get_help_record(context)
        yield f"`{name}`\n: {text}\n"
