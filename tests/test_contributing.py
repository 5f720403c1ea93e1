"""The example of CONTRIBUTING.md, followed word for word in a copy of the package."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = GUIDE.split("## Adding a term to the law")[1]
FENCE = re.compile(r"^```(python|toml)\n(.*?)^```$", flags=re.M | re.S)
# Run beside the test of the guide, in the same process.
PRINTED = """
import bayes_cpt
from bayes_cpt.model.setup import build_setup
from bayes_cpt.report.equation import equation, meaning


def test_the_term_is_known_and_printed() -> None:
    study = bayes_cpt.read_study(bayes_cpt.bundled_study())
    frame = build_setup(bayes_cpt.read_spec("pretrain-onset"), study).frame
    assert "    + G/S1_pt" in equation(frame)
    assert "forward area" in meaning(frame, "G")
    assert "at the reference" in frame.parameters()["onset_left"].meaning
    assert [name for name in frame.parameters() if "onset" in name] == ["onset_left"]
"""
# The runs of PT alone, few points: what matters is that the whole way is there.
FIT = """
import json
from dataclasses import replace
import numpy as np
import bayes_cpt
from bayes_cpt.model.points import reference_of

study = bayes_cpt.read_study(bayes_cpt.bundled_study())
study = study.subset([run.name for run in study.pretraining_runs])
losses = study.losses[(study.losses["domain"] == study.general) & (study.losses["step"] > 0)][::2]
study = replace(study, target=None, losses=losses)
area = {run.name: run.schedule.learning_rates().cumsum() for run in study.runs}
relative = np.array([area[row.run][row.step - 1] for row in losses.itertuples()])
left = 0.1 * reference_of(study).forward_pt / relative
found = []
for data in (study, replace(study, losses=losses.assign(loss=losses["loss"] + left))):
    posterior = bayes_cpt.fit(data, "pretrain-onset", seed=1, draws=150, attempts=1)
    draws = posterior.parameters()
    found.append([float(draws["onset_left"].mean()), float(draws["onset_left"].std())])
print(json.dumps(found))
"""


def blocks(language: str) -> list[str]:
    """Return the code of the example in one language."""
    return [body for kind, body in FENCE.findall(EXAMPLE) if kind == language]


def followed(folder: Path) -> Path:
    """Return a copy of the repository in which the example was followed, and its test."""
    for name in ("bayes_cpt", "models", "data/cpt-lab"):
        # What Numba made of the files that stay as they are is copied, with their times.
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc", "made"))
    term, test = blocks("python")
    place = re.search(r"here `(bayes_cpt/laws/\w+\.py)`", EXAMPLE)
    assert place is not None
    with (folder / place[1]).open("a", encoding="utf-8") as file:
        file.write(f"\n\nfrom bayes_cpt.laws.term import added_term\n\n\n{term}")
    (model,) = blocks("toml")
    file_name = re.search(r"`(models/[\w-]+\.toml)`", EXAMPLE)
    assert file_name is not None
    (folder / file_name[1]).write_text(model, encoding="utf-8")
    path = folder / "test_onset.py"
    path.write_text(test, encoding="utf-8")
    return path


def run_in(folder: Path, *arguments: str) -> str:
    """Return what Python prints in a folder where the example was followed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "tests"))),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_term_of_the_example_has_its_closed_form_and_is_printed(tmp_path: Path) -> None:
    test, printed = followed(tmp_path), tmp_path / "test_printed.py"
    printed.write_text(PRINTED, encoding="utf-8")
    alone = ("-q", "-p", "no:cacheprovider", "-c", os.devnull)
    assert "2 passed" in run_in(tmp_path, "-m", "pytest", *alone, str(test), str(printed))


@pytest.mark.slow
def test_the_term_of_the_example_is_fitted(tmp_path: Path) -> None:
    """0.1 nats of it that were put into the losses are found."""
    followed(tmp_path)
    (before, spread), (after, its_spread) = json.loads(run_in(tmp_path, "-c", FIT).splitlines()[-1])
    error = math.hypot(spread, its_spread)
    assert after - before > 3.0 * error
    assert after - before == pytest.approx(0.1, abs=3.0 * error)
