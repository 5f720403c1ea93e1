"""TOML files: what is wrong with one that is read is said in words; values as they are written."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from bayes_cpt.errors import StudyError

# Beside the sign. The lowest number has one more and is of no use either.
INTEGER_BITS = 63


def read_toml(path: Path, raised: type[StudyError] = StudyError) -> dict[str, Any]:
    """Return the tables of a TOML file; raise an error of that class, with line or key, if it is none."""
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        if key := _too_large(tables):
            raise ValueError(f"key {key} is a whole number of more than 64 bits")
        return tables
    except FileNotFoundError:
        problem, fix = "there is no such file", "check the spelling of the path"
    except OSError as error:
        problem = f"this cannot be read: {error.strerror or error}"
        fix = "give the path of a TOML file that you may read"
    except UnicodeDecodeError as error:
        problem = f"this is not TOML: byte {error.start} is not UTF-8"
        fix = "save the file as UTF-8"
    except RecursionError:
        problem = "this is not TOML: its tables are nested too deeply"
        fix = "take out what no table should hold"
    # Beside its own errors: numbers with more digits than Python turns into a number.
    except ValueError as error:
        problem, fix = f"this is not TOML: {error}", "fix the line or key named"
        fix += "; write 0.2 for .2" if re.search(rb"[=[,]\s*\.\d", path.read_bytes()) else ""
    raise raised.at(str(path), problem, fix)


def packaged(room: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file that a room of the package has beside its code."""
    return tomllib.loads((files(f"bayes_cpt.{room}") / name).read_text(encoding="utf-8"))


def _too_large(value: Any, key: str = "") -> str:
    """Return the key of a whole number that TOML does not have: no float may hold it, nor text show it."""
    if isinstance(value, dict):
        inner = [(own, f"{key}.{name}".lstrip(".")) for name, own in value.items()]
    elif isinstance(value, list):
        inner = [(own, key) for own in value]
    else:
        return key if isinstance(value, int) and value.bit_length() > INTEGER_BITS else ""
    return next(filter(None, (_too_large(*own) for own in inner)), "")


def toml_key(name: str) -> str:
    """Return a key as TOML writes it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Return a text, number, truth value, list or table as TOML writes it, in one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        given = {toml_key(key): part for key, part in value.items() if part is not None}
        return f"{{ {', '.join(f'{key} = {toml_value(part)}' for key, part in given.items())} }}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON and TOML strings differ only in that TOML wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
