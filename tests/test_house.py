"""The plan of the house: imports point one way."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bayes_cpt"
# A room imports itself and the rooms before it.
ROOMS = (
    "study", "laws", "model", "inference", "forecast", "identify", "landmarks", "decisions", "validate",
    "history", "watch", "plots", "report", "planner", "cli",
)  # fmt: skip
# Ways into the package: `import bayes_cpt` finds names as they are used, `python -m` starts the program.
DOORS = ("bayes_cpt", "bayes_cpt.__main__")
# Methods of results that hand the result to what comes after it, with an import in their bodies.
FORWARD = ("predict", "of_target", "table", "plot", "verdict", "sentences", "report")


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def nodes(tree: ast.AST, *, inside_class: bool = False) -> Iterator[ast.AST]:
    """Yield what a tree holds, without the bodies of the methods that may look forward."""
    for node in ast.iter_child_nodes(tree):
        if inside_class and isinstance(node, ast.FunctionDef) and node.name in FORWARD:
            continue
        yield node
        yield from nodes(node, inside_class=isinstance(node, ast.ClassDef))


def imported(source: str, known: frozenset[str]) -> set[str]:
    """Return which of the known modules a source imports: anywhere else in it, for types alone too."""
    names: set[str] = set()
    for node in nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner & known
            # Of a package whose modules alone are wanted, nothing else is.
            if not inner <= known:
                names.add(node.module)
    return names & known


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports of the package."""
    known = frozenset(modules())
    return {
        name: imported(path.read_text(encoding="utf-8"), known) for name, path in modules().items()
    }


def room(module: str) -> str | None:
    """Return the room of a module, None for the helpers at the root."""
    path = modules()[module]
    return None if path.parent == PACKAGE else path.relative_to(PACKAGE).parts[0]


def room_imports() -> set[tuple[str, str]]:
    """Return which room imports which other."""
    pairs = {
        (room(module), room(target)) for module, targets in graph().items() for target in targets
    }
    return {(here, there) for here, there in pairs if here and there and here != there}


def against_the_order(graph: dict[str, set[str]]) -> Iterator[str]:
    """Say which imports point the wrong way."""
    for module, targets in graph.items():
        here = room(module)
        for target in sorted(targets):
            there = room(target)
            if module in DOORS or there is None:
                continue
            if here is None or ROOMS.index(there) > ROOMS.index(here):
                yield f"{module} imports {target}"


def test_an_import_against_the_order_is_found() -> None:
    wrong = {
        "bayes_cpt.decisions.decision": {"bayes_cpt.plots.decisions", "bayes_cpt.study.study"},
        "bayes_cpt.files": {"bayes_cpt.study.study"},
    }
    assert list(against_the_order(wrong)) == [
        "bayes_cpt.decisions.decision imports bayes_cpt.plots.decisions",
        "bayes_cpt.files imports bayes_cpt.study.study",
    ]


def test_every_folder_is_a_room() -> None:
    assert {room(name) for name in modules()} - {None} <= set(ROOMS)


def test_imports_point_one_way() -> None:
    assert list(against_the_order(graph())) == []


def test_the_picture_of_the_rooms_shows_their_imports() -> None:
    """Drawn anew by ``python docs/make_rooms.py``."""
    page = (PACKAGE.parent / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert tuple(re.findall(r"<text[^>]*>(\w+)</text>", page)) == ROOMS
    shown = re.findall(r"<title>(\w+) imports (\w+)</title>", page)
    assert set(shown) == room_imports(), "the picture is out of date: run docs/make_rooms.py"


def test_no_modules_import_one_another() -> None:
    # What stands in `bayes_cpt/__init__.py` for types alone names what users reach through it.
    inside = {name: targets - set(DOORS) for name, targets in graph().items() if name not in DOORS}
    try:
        list(TopologicalSorter(inside).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_modules_are_named_as_text_at_the_door_alone() -> None:
    named = {
        name
        for name, path in modules().items()
        if "import_module" in path.read_text(encoding="utf-8")
    }
    assert named == {"bayes_cpt"}
