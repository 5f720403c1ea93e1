"""Reading TOML files: what is wrong with one is said in words, whatever it holds."""

import tomllib
from pathlib import Path
from typing import Any

from bayes_cpt.errors import Problem, StudyError


def read_toml(path: Path, raised: type[StudyError] = StudyError) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Parameters
    ----------
    path : Path
    raised : type
        Class of the error.

    Raises
    ------
    StudyError
        Of the class given, if the file is not UTF-8 or not TOML; it names the line.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        said, mend = f"byte {error.start} is not UTF-8", "save the file as UTF-8"
    except RecursionError:
        said, mend = "its tables are nested too deeply", "take out what no table should hold"
    # Beside its own errors: numbers with more digits than Python turns into a number.
    except ValueError as error:
        said, mend = str(error), "mend the line named"
    raise raised([Problem(str(path), f"this is not TOML: {said}", mend)])
