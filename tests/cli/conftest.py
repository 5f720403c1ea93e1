import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command_line import Answer, Call
from figures import draw_nothing
from stand_in import Fits, stand_in
from synthetic import lab, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.cli import run
from bayes_cpt.forecast.plans import Plan
from bayes_cpt.identify import determination, sensitivity
from bayes_cpt.identify.determination import FACTS, Facts, FreeParameters
from bayes_cpt.inference.law_checks import SIZE, LawCheck
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study


def _of_information(free: FreeParameters, curves: Curves, place: Floats) -> tuple[object, ...]:
    points, frame = curves.points, free.frame
    arrays = (points.steps, points.learning_rate, points.target_share, curves.bases.loss, place)
    named = (frame.spec.model_dump_json(), frame.reference, tuple(curves.curves))
    return (*named, *(own.tobytes() for own in arrays))


def _of_determination(posterior: Posterior, interval: float = 0.9) -> tuple[object, ...]:
    draws = [own.tobytes() for law in posterior.laws for own in law.parameters().values()]
    specs = [law.frame.spec.model_dump_json() for law in posterior.laws]
    said = (determination.IDENTIFIED, interval, posterior.study.digest(), posterior.groups)
    return (*said, *specs, *draws)


def _of_identifiability(study: Study, spec: ModelSpec) -> tuple[object, ...]:
    return determination.IDENTIFIED, study.digest(), spec.model_dump_json()


def _of_sensitivity(posterior: Posterior, plan: Plan = None) -> tuple[object, ...]:
    return sensitivity.NOISE, sensitivity.THRESHOLD, plan, *_of_determination(posterior)


# Most of a short command's time, and what tells whether it was worked out for another command before. A
# file that was written anew is another one.
SAME: dict[str, Callable[..., Any]] = {
    "inference.posterior.load": lambda at: (at.resolve(), at.exists() and at.stat().st_mtime_ns),
    "identify.determination.information": _of_information,
    "identify.determination.determination": _of_determination,
    "identify.determination.identifiability": _of_identifiability,
    "identify.sensitivity.sensitivity": _of_sensitivity,
}


@cache
def _once(name: str) -> Callable[..., Any]:
    module, _, function = f"bayes_cpt.{name}".rpartition(".")
    work, known = getattr(import_module(module), function), dict[Any, Any]()

    def answered(*given: Any) -> Any:
        key = SAME[name](*given)
        if key not in known:
            known[key] = work(*given)
        return known[key] if isinstance(known[key], Posterior) else known[key].copy()

    return answered


@pytest.fixture(autouse=True)
def _worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SAME:
        monkeypatch.setattr(f"bayes_cpt.{name}", _once(name))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return what runs a command line in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def answer(*arguments: object) -> Answer:
        capsys.readouterr()
        return Answer(run([str(argument) for argument in arguments]), *capsys.readouterr())

    return answer


@pytest.fixture
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write empty figures, where a verb is seen to draw them elsewhere."""
    draw_nothing(monkeypatch)


@pytest.fixture
def few_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch beside few curves, drawn by the hundred: enough to see what is printed of a run."""
    for name in ("expected.HEALTHY_CURVES", "expected.LAW_DRAWS", "watcher.DRAWS"):
        monkeypatch.setattr(f"bayes_cpt.watch.{name}", 100)
    monkeypatch.setattr("bayes_cpt.watch.expected.CURVES", 300)


def _saved(folder: Path, problems: list[str], alarms: tuple[LawCheck, ...] = ()) -> Path:
    posterior = prior_as_posterior(lab())
    found = Facts.of(_once("identify.determination.determination")(posterior))
    kept = {"problems": problems, "law_checks": [*map(asdict, alarms)], FACTS: asdict(found)}
    posterior.tree.attrs.update({name: json.dumps(own) for name, own in kept.items()})
    path = folder / "fit.nc"
    posterior.save(path)
    return path


@pytest.fixture(scope="session")
def fit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fit that cost no sampling."""
    return _saved(tmp_path_factory.mktemp("fit"), [])


@pytest.fixture(scope="session")
def weak_fit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fit whose diagnostics fall short."""
    return _saved(tmp_path_factory.mktemp("weak"), ["R-hat of memory is 1.2, above 1.01"])


@pytest.fixture(scope="session")
def misfitting_fit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fit whose law does not fit the runs."""
    nan = float("nan")
    alarm = LawCheck(SIZE, "offset_pt", "", "general", 0.156, 0.005, nan, 6e-4, alarms=True)
    return _saved(tmp_path_factory.mktemp("misfit"), [], (alarm,))


@pytest.fixture
def quick_fit(monkeypatch: pytest.MonkeyPatch) -> Fits:
    """Fit without sampling."""
    return stand_in(monkeypatch)
