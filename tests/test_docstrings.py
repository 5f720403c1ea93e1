"""What users import says what goes in: a Parameters section for every argument, as numpydoc has it."""

import importlib
import inspect
import re
from collections.abc import Iterator
from types import FunctionType

import pytest

import bayes_cpt

SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", flags=re.M | re.S)
NAMES = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", flags=re.M)


def exported() -> Iterator[FunctionType]:
    """Yield the functions that `bayes_cpt` and its two open rooms export, and methods of its classes."""
    modules = [
        bayes_cpt,
        *(importlib.import_module(f"bayes_cpt.{own}") for own in bayes_cpt._ROOMS),
    ]
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield thing
            elif inspect.isclass(thing):
                own = inspect.getmembers(thing, inspect.isroutine)
                methods = (inspect.unwrap(getattr(one, "__func__", one)) for _, one in own)
                yield from (
                    method
                    for method in methods
                    if isinstance(method, FunctionType)
                    and method.__module__.startswith("bayes_cpt")
                    and not method.__name__.startswith("_")
                )


FUNCTIONS = {f"{one.__module__}.{one.__qualname__}": one for one in exported()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_of_what_users_import_is_described(name: str) -> None:
    function = FUNCTIONS[name]
    section = SECTION.search(f"{inspect.getdoc(function) or ''}\n")
    found = NAMES.findall(section[1]) if section else []
    described = {own.lstrip("*") for names in found for own in names.split(", ")}
    assert described == set(inspect.signature(function).parameters) - {"self", "cls"}
