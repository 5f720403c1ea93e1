"""The package as a user meets it: what `import bayes_cpt` offers, and what it costs."""

import ast
import inspect
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import bayes_cpt

SOURCE = Path(bayes_cpt.__file__)
HEAVY = ("arviz", "matplotlib", "numba", "numpy", "pandas", "pymc", "pytensor", "scipy", "xarray")


def typed_names() -> dict[str, str]:
    """Return what the imports for type checkers say: name to module."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayes_cpt"):
            found |= {alias.name: str(node.module) for alias in node.names}
    return found


@pytest.mark.parametrize("name", bayes_cpt.__all__)
def test_a_public_name_is_found_where_type_checkers_find_it(name: str) -> None:
    value, home = getattr(bayes_cpt, name), typed_names()[name]
    if isinstance(value, ModuleType):
        assert (value.__name__, home) == (f"bayes_cpt.{name}", "bayes_cpt")
    else:
        assert value.__name__ == name
        assert value.__module__ == home
    assert inspect.getdoc(value)


def test_help_is_a_map_of_all_public_names() -> None:
    assert bayes_cpt.__doc__ is not None
    described = bayes_cpt.__doc__.split("In use:")[0]
    listed = {
        name.strip(" ,")
        for line in described.splitlines()
        if line.startswith("    ")
        for name in line[:42].split(",")
    }
    assert listed == set(bayes_cpt.__all__)
    shown = [line.strip() for line in pydoc.plain(pydoc.render_doc(bayes_cpt)).splitlines()]
    assert {line.strip() for line in described.splitlines()[1:]} <= set(shown)


def test_no_function_takes_the_name_of_a_room() -> None:
    """Importing the room would put it in the function's place."""
    rooms = {module.name for module in pkgutil.iter_modules(bayes_cpt.__path__)}
    for name in rooms & set(bayes_cpt.__all__):
        assert isinstance(getattr(bayes_cpt, name), ModuleType), name


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"""
import sys, bayes_cpt
print([name for name in {HEAVY!r} if name in sys.modules])
bayes_cpt.read_study
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare, reading = done.stdout.splitlines()
    assert bare == "[]"
    assert reading == "['numpy', 'pandas']"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        bayes_cpt.fits  # noqa: B018
    assert set(bayes_cpt.__all__) <= set(dir(bayes_cpt))
