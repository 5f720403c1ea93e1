import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bayes_cpt
from bayes_cpt.bundled import bundled_study, models_folder
from bayes_cpt.study.folder import read_study

CHECKOUT = Path(__file__).parents[1]


def test_found_in_a_checkout() -> None:
    assert bundled_study() == CHECKOUT / "data" / "cpt-lab"
    assert read_study(bundled_study()).name == "cpt-lab"
    assert "cpt" in {path.stem for path in models_folder().glob("*.toml")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder)]
    subprocess.run([*command, str(CHECKOUT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_models_and_study_and_no_scripts(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    models = {path.name for path in (CHECKOUT / "models").glob("*.toml")}
    assert models
    assert {f"bayes_cpt/_bundled/models/{name}" for name in models} <= names
    study = {name for name in names if "/cpt-lab/" in name}
    assert study == {
        f"bayes_cpt/_bundled/data/cpt-lab/{name}"
        for name in ("README.md", "losses.csv", "plan-example.toml", "study.toml")
    }
    held_out = {name.rsplit("/", 1)[-1] for name in names if "/cpt-lab-practice/" in name}
    assert held_out == {"losses.csv", "study.toml"}
    assert "bayes_cpt/py.typed" in names
    templates = {path.name for path in (CHECKOUT / "bayes_cpt/report/templates").iterdir()}
    assert templates
    assert {f"bayes_cpt/report/templates/{name}" for name in templates} <= names
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.slow
def test_the_demo_runs_from_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\nfrom bayes_cpt.cli import main\nmain()\n"
    )
    command = [sys.executable, "-I", "-c", code, str(site), "demo", "-o", "out", "--draws", "100"]
    # So few draws fall short of the diagnostics.
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 1
    assert (tmp_path / "out" / "forecast.csv").stat().st_size > 1000


def test_the_version_is_the_same_everywhere() -> None:
    cited = (CHECKOUT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {bayes_cpt.__version__}\n" in cited
    assert re.findall(r"^## ([\d.]+)", changes, re.M)[0] == bayes_cpt.__version__
