"""The notebooks run from top to bottom, and their two files say the same."""

import os
import re
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import pytest
from synthetic import lab_posterior

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
SCRIPTS = sorted(NOTEBOOKS.glob("*.py"))
# So few draws fall short of the diagnostics; what is tested is that every cell works.
SETTINGS = {
    "BAYES_CPT_NOTEBOOK_DRAWS": "25",
    "BAYES_CPT_NOTEBOOK_ATTEMPTS": "1",
    "MPLBACKEND": "agg",
    # Of tqdm, which would like a package for progress bars in browsers.
    "PYTHONWARNINGS": "ignore:IProgress not found",
}
LONGEST_CELL = 900
# What CI has time for: nothing is sampled in it.
QUICK = ("06-from-your-logs",)


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


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(own, marks=[] if own.stem in QUICK else pytest.mark.slow, id=own.stem)
        for own in SCRIPTS
    ],
)
def test_the_notebook_runs(script: Path, fit: Path, tmp_path: Path) -> None:
    notebook = jupytext.read(script)
    (tmp_path / "fit.nc").symlink_to(fit)
    kernel = nbclient.NotebookClient(
        notebook, timeout=LONGEST_CELL, resources={"metadata": {"path": str(tmp_path)}}
    )
    kernel.execute(env=os.environ | SETTINGS)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    drawn = sum(
        re.search(r"^(plots\.|\w+\.plot\()", cell.source, flags=re.MULTILINE) is not None
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
    assert len(pictures) == drawn > 0
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"]
    if "posterior.save" in notebook.cells[-1].source:
        last = outputs[-1]["data"]["text/plain"]
        assert last == "True", "a loaded fit should predict just what the saved one did"
