import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Call
from typer.main import get_command

import bayes_cpt
from bayes_cpt.caches import settle_caches
from bayes_cpt.cli import LINEAR_ALGEBRA, PROGRAM, app, main

HEAVY = {
    "pymc", "pytensor", "nutpie", "arviz", "arviz_base", "arviz_stats", "arviz_plots", "scipy.stats",
    "xarray", "matplotlib", "numba",
}  # fmt: skip
VERBS = tuple(get_command(app).commands)  # type: ignore[attr-defined]
DRAWING = ("fit", "predict", "decide", "planner", "next-run", "prior", "demo", "validate")


def imported(*arguments: str) -> set[str]:
    """Return the modules and packages that a command line has imported when it ends."""
    code = (
        "import sys\nfrom bayes_cpt.cli import run\ncode = run(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    assert imported("--help").isdisjoint(HEAVY | {"pandas", "scipy", "numpy"})


@pytest.fixture
def _own_collector() -> Iterator[None]:
    """Let a test that calls `main` do as it likes with Python's garbage collector."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("_own_collector")
@pytest.mark.parametrize(("asked", "threads"), [(None, "1"), ("3", "3")])
def test_linear_algebra_has_one_thread_unless_the_user_says_otherwise(
    asked: str | None, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in LINEAR_ALGEBRA}
    given = dict.fromkeys(LINEAR_ALGEBRA, asked) if asked else {}
    monkeypatch.setattr(os, "environ", kept | given)
    monkeypatch.setattr(sys, "argv", [PROGRAM, "--version"])
    with pytest.raises(SystemExit):
        main()
    assert {os.environ[variable] for variable in LINEAR_ALGEBRA} == {threads}


def test_surroundings_that_lack_something_stop_no_answer(fit_file: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    lacking = {"PYTHONIOENCODING": "ascii", "MPLBACKEND": "nonsense", "HOME": nowhere}
    asked = ["-m", "bayes_cpt", "landmarks", str(fit_file), "--draws", "8", "-o", str(tmp_path)]

    def answer(*options: str, **given: str) -> subprocess.CompletedProcess[str]:
        command, environ = [sys.executable, *options, *asked], os.environ | given
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    done = answer(**lacking)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert re.search(r" -\d", done.stdout)
    assert (tmp_path / "landmarks.png").exists()
    stripped = answer("-OO")
    assert stripped.returncode == 2
    assert stripped.stderr.startswith("bayes-cpt: Python drops docstrings")


def test_without_rights_what_is_compiled_has_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "environ", {"PYTENSOR_FLAGS": "floatX=float64"})
    settle_caches()
    assert Path(folder := os.environ["NUMBA_CACHE_DIR"]).is_dir()
    assert os.environ["PYTENSOR_FLAGS"] == f"floatX=float64,base_compiledir={folder}"


def test_check_imports_no_sampler_and_no_figures() -> None:
    # Numba runs the recursion of the annealing area.
    assert imported("check", "data/cpt-lab").isdisjoint(HEAVY - {"numba"})


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_an_example_and_the_exit_codes(verb: str, call: Call) -> None:
    answer = call(verb, "--help")
    assert answer.code == 0
    text = " ".join(answer.out.split())
    for part in (f"Example: bayes-cpt {verb}", "Exit codes: 0", "--quiet", "--json"):
        assert part in text
    assert "--seed" in text or verb not in DRAWING
    assert answer.err == ""


def test_help_names_every_verb_and_no_arguments_ask_for_it(call: Call) -> None:
    answer = call()
    assert answer == call("--help")
    assert answer.code == 0
    for verb in VERBS:
        assert f"bayes-cpt {verb}" in answer.out


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"{bayes_cpt.__version__}\n", "")
