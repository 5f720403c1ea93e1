import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

# Modules and tests are there to the end: until all are collected, looking for garbage finds none.
gc.disable()

# Tests start the package in processes of their own: each would compile it anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before NumPy loads: on many small matrices the threads of its linear algebra only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# A record of how the kept logs were made, with libraries that are no dependencies.
collect_ignore = ["data/logs/made.py"]

# The first example pays for imports and compilation, which is no fault of the code under test.
settings.register_profile("bayes_cpt", deadline=None)
settings.load_profile("bayes_cpt")


# What is chosen among, and at how many lengths: the answer is no other for few of them, only less good.
FEW = {
    "decisions.schedule_choice.CANDIDATES": 128,
    "decisions.next_run.REPLAYS": (0.25,),
    "decisions.advice.TELLING": 300,
    "decisions.advice.SHORT_REPLAYS": (0.0, 0.5),
    "decisions.advice.SHORT_PEAKS": (0.1, 1.0),
    "landmarks.turning.NEAR": 20,
    "planner.choices.SHORTEST": 0.5,
    "planner.choices.LONGEST": 1.0,
}


@pytest.fixture(scope="session")
def cpt_fit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fit of a small study: to read a fit takes room as well, for the files of its study."""
    from synthetic import lab, prior_as_posterior

    study = lab().subset(["pt_trunk", "r00_cos", "r25_cos"])
    study = replace(study, losses=study.losses[study.losses["step"] % 1000 == 0])
    path = tmp_path_factory.mktemp("small") / "fit.nc"
    prior_as_posterior(study, draws=10).save(path)
    return path


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose among few schedules and runs, of few lengths: enough to see what is said of a choice."""
    for name, value in FEW.items():
        monkeypatch.setattr(f"bayes_cpt.{name}", value)


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not among what was collected."""
    gc.freeze()
    gc.enable()
