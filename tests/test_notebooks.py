"""The notebooks run from top to bottom, and their two files say the same."""

import io
import re
import sys
from pathlib import Path
from typing import Any

import jupytext
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot
from matplotlib.figure import Figure
from synthetic import lab_posterior

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
SCRIPTS = sorted(NOTEBOOKS.glob("*.py"))
# So few draws fall short of the diagnostics; what is tested is that every cell works.
SETTINGS = {"BAYES_CPT_NOTEBOOK_DRAWS": "25", "BAYES_CPT_NOTEBOOK_ATTEMPTS": "1"}
# Two laws are fitted until their diagnostics hold.
SLOW = {"05-comparing-laws": pytest.mark.slow}


def cells(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def test_every_script_has_its_notebook_and_the_other_way_round() -> None:
    assert SCRIPTS
    assert [path.stem for path in SCRIPTS] == sorted(
        path.stem for path in NOTEBOOKS.glob("*.ipynb")
    )


def test_the_page_of_notebooks_lists_each() -> None:
    text = (NOTEBOOKS.parent / "docs" / "notebooks.md").read_text(encoding="utf-8")
    listed = re.findall(r"\(\.\./notebooks/([\w-]+)\.ipynb\)", text)
    assert listed == [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_notebook_is_the_script_without_outputs(script: Path) -> None:
    notebook = jupytext.read(script.with_suffix(".ipynb"))
    message = f"write it again: jupytext --to ipynb notebooks/{script.name}"
    assert cells(notebook) == cells(jupytext.read(script)), message
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a fit of the bundled study that cost no sampling."""
    path = tmp_path_factory.mktemp("notebooks") / "fit.nc"
    lab_posterior().save(path)
    return path


@pytest.mark.filterwarnings("ignore:Eq. 6 misses ood_german")
@pytest.mark.parametrize(
    "script", [pytest.param(own, marks=SLOW.get(own.stem, ()), id=own.stem) for own in SCRIPTS]
)
def test_the_notebook_runs(
    script: Path, fit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "fit.nc").symlink_to(fit)
    monkeypatch.chdir(tmp_path)
    # IPython puts its own in its place, and a history into the user's home.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    shell: Any = InteractiveShell()
    # Without a terminal of its own, which forks a process of several threads.
    shell.system = shell.system_raw
    pictures: list[None] = []
    for cell in jupytext.read(script).cells:
        if cell.cell_type == "code":
            done = shell.run_cell(cell.source.replace("%matplotlib inline", ""))
            done.raise_error()
            assert not shell.user_ns.get("_exit_code"), cell.source
            drawn = re.search(r"^(plots\.|\w+\.plot\()", cell.source, flags=re.MULTILINE)
            assert isinstance(done.result, Figure) == bool(drawn), cell.source
            pictures += [done.result.savefig(io.BytesIO(), format="png")] if drawn else []
    assert pictures
    assert not pyplot.get_fignums(), "a notebook would show these figures twice"
    assert capsys.readouterr().err == ""
