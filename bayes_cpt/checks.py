"""Checks of single values, shared by schedules, runs and readers; problems are collected."""

import difflib
import math
import numbers
from collections.abc import Callable, Collection, Iterable
from typing import Any

from bayes_cpt.errors import Problem, StudyError


def is_integer(value: object) -> bool:
    """Whether `value` is a whole number and not a boolean (NumPy integers count)."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a real number, not a boolean, that a finite float can hold."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def suggestion(word: object, allowed: Iterable[str]) -> str:
    """Return ' (did you mean ...?)' for a near miss, else nothing."""
    close = difflib.get_close_matches(str(word), list(allowed), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def quoting(value: object) -> str:
    """Return what to do where a table stands in place of a key, nothing where the value is no table."""
    hint = '; a name with a dot stands in quotes, as in [runs."lr2.5"]'
    return hint if isinstance(value, dict) else ""


def counted(count: int, what: str) -> str:
    """Return a count with its noun, as in 1 run, 2 runs."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def unknown(kind: str, name: object, known: Iterable[str]) -> tuple[str, str]:
    """Return what is wrong with a name that is none of the known ones, and what to do about it."""
    names = list(known)
    problem = f"there is no {kind} {name!r}{suggestion(name, names)}"
    return problem, f"name one of {', '.join(names) or 'none, as there is none'}"


def check_whole(seed: object, **counts: object) -> None:
    """Raise ValueError unless a seed is a whole number from 0 on, and what is given of counts from 1 on."""
    given = {name: count for name, count in counts.items() if count is not None}
    for name, value in {"seed": seed, **given}.items():
        least = int(name != "seed")
        if not is_integer(value) or value < least:  # type: ignore[operator]
            raise ValueError(f"{name} is {value!r}: give a whole number of at least {least}")


def check_interval(interval: object) -> None:
    """Raise ValueError unless the mass of an interval lies between 0 and 1."""
    if not is_number(interval) or not 0 < interval < 1:  # type: ignore[operator]
        raise ValueError(f"interval is {interval}: give a mass between 0 and 1, as in 0.9")


class Check:
    """A list of problems that grows until it is raised as one `StudyError`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, place: str, problem: str, fix: str) -> None:
        """Note one problem."""
        self.problems.append(Problem(place, problem, fix))

    def run[**P, T](
        self, place: str, build: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return what `build` makes, or None with its problems noted under `place`."""
        try:
            return build(*args, **kwargs)
        except StudyError as error:
            self.problems += error.within(place).problems
            return None

    def raise_problems(self, place: str = "") -> None:
        """Raise all problems noted so far, if any, named from further out."""
        if self.problems:
            raise StudyError(self.problems).within(place)

    def _fine(self, fine: bool, key: str, value: object, fix: str) -> bool:
        """Note a problem unless a value is fine."""
        if not fine:
            self.add(f"key {key}", f"{key} is {value!r}", fix)
        return fine

    def count(self, key: str, value: Any) -> bool:
        """Note a problem unless `value` is a whole number of at least 1."""
        fine = is_integer(value) and int(value) >= 1
        return self._fine(fine, key, value, "give a whole number of at least 1")

    def rate(self, key: str, value: Any) -> bool:
        """Note a problem unless `value` is a finite learning rate of at least 0."""
        fix = "give a raw learning rate, a number not below 0, such as 2e-4"
        return self._fine(is_number(value) and float(value) >= 0, key, value, fix)

    def positive(self, key: str, value: Any, unit: str) -> bool:
        """Note a problem unless `value` is a finite positive number."""
        fine = is_number(value) and float(value) > 0
        return self._fine(fine, key, value, f"give a positive number of {unit}")

    def text(self, key: str, value: object) -> bool:
        """Note a problem unless `value` is a text with something in it."""
        if isinstance(value, str) and value.strip():
            return True
        problem = f"the key {key!r} is missing" if value is None else f"{key} is {value!r}"
        self.add(f"key {key}", problem, f'give a string in quotes, {key} = "..."')
        return False

    def keys(
        self, table: object, *, allowed: Collection[str], required: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the allowed keys; note that it is not a table, unknown keys and missing keys."""
        if not isinstance(table, dict):
            self.add("", f"this is {table!r}", f"write a table with the keys {', '.join(allowed)}")
            return {}
        for key in table:
            if key not in allowed:
                hint = suggestion(key, allowed) or quoting(table[key])
                fix = f"use only {', '.join(allowed)}{hint}"
                self.add(f"key {key}", f"the key {key!r} is unknown", fix)
        for key in required:
            if key not in table:
                self.add(f"key {key}", f"the key {key!r} is missing", f"add {key} = ...")
        return {key: value for key, value in table.items() if key in allowed}

    def name(self, key: str, value: object) -> bool:
        """Note a problem unless `value` can name a run, base or validation set in every table."""
        if not self.text(key, value):
            return False
        fine = str(value) == str(value).strip() and str(value).isprintable()
        fix = "leave out blanks at the ends, line breaks and control characters"
        return self._fine(fine, key, value, fix)
