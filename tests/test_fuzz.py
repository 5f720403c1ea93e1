"""Whatever a study or a TOML file holds: an answer or an error in words, soon, and no traceback."""

import json
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from fuzzing import (
    COSTS,
    MODEL,
    OBJECTIVE,
    PLAN,
    SPACE,
    WHOLE_MODEL,
    extreme_files,
    study_files,
    toml_files,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from malformed import FILES
from synthetic import lab

from bayes_cpt.cli import run
from bayes_cpt.decisions.next_run import Affordable
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.space import read_space
from bayes_cpt.errors import BayesCPTError, StudyWarning
from bayes_cpt.study.folder import read_plan

LONGEST_SECONDS = 60


class Hung(BaseException):
    """Took too long; no code under test catches it."""


@contextmanager
def soon() -> Iterator[None]:
    """Fail what takes longer than anything here should."""

    def stop(*_: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answer_of(*arguments: object) -> tuple[int, str, str]:
    """Return code, stdout and stderr of a command line."""
    out, err = StringIO(), StringIO()
    with soon(), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        code = run([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def check_answer(code: int, out: str, err: str) -> None:
    """Check that a command line answered as it should, whatever it was given."""
    # A study that should not be fitted as it is has been read: code 1.
    assert code in (0, 1, 2)
    assert "Traceback" not in err
    found = json.loads(out)
    assert ("error" in found) == (code == 2)
    if code == 2:
        assert err.strip()
        assert all(problem["fix"] for problem in found["problems"])


def check_study(files: dict[str, bytes], *options: str) -> None:
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        given = (option.format(folder=folder) for option in options)
        check_answer(*answer_of("check", folder, *given, "--json"))


def check_model(content: bytes) -> None:
    files = {name: text.encode() for name, text in FILES.items()} | {"mine.toml": content}
    check_study(files, "--model", "{folder}/mine.toml")


def check_reader(read: Any, content: bytes) -> None:
    """Check that a file is read, or refused in words."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "file.toml"
        place.write_bytes(content)
        with soon(), warnings.catch_warnings():
            warnings.simplefilter("ignore", StudyWarning)
            with suppress(BayesCPTError):
                read(place)


class Fuzz(NamedTuple):
    """What files are drawn, how they are checked, and how many of them: quickly, and by the slow tests."""

    drawn: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    quick: int = 50
    slow: int = 500


# Whole commands take most of a second each. The slow tests run 6,000 in all.
FUZZES = {
    "studies": Fuzz(study_files(), check_study, slow=3000),
    "extreme studies": Fuzz(extreme_files(), check_study, quick=6),
    "models": Fuzz(st.one_of(toml_files(MODEL), toml_files(WHOLE_MODEL)), check_model, quick=20),
    "plans": Fuzz(toml_files(PLAN), partial(check_reader, lambda place: read_plan(place, lab()))),
    "objectives": Fuzz(toml_files(OBJECTIVE), partial(check_reader, read_objective)),
    "spaces": Fuzz(toml_files(SPACE), partial(check_reader, read_space)),
    "costs": Fuzz(
        toml_files(COSTS), partial(check_reader, lambda place: Affordable.read(place, lab()))
    ),
}


@pytest.mark.parametrize("count", ["quick", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fuzz", FUZZES.values(), ids=list(FUZZES))
def test_whatever_a_file_holds_it_is_read_or_refused_in_words(fuzz: Fuzz, count: str) -> None:
    @settings(max_examples=getattr(fuzz, count), suppress_health_check=list(HealthCheck))
    @given(fuzz.drawn)
    def checked(content: Any) -> None:
        fuzz.check(content)

    checked()
