import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import STAGES, Answer, Call
from synthetic import lab, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.cli import run
from bayes_cpt.identify.determination import FACTS, FreeParameters, facts, information
from bayes_cpt.inference.law_checks import SIZE, LawCheck
from bayes_cpt.inference.posterior import Posterior, load
from bayes_cpt.model.points import Curves


@pytest.fixture(scope="session")
def loaded() -> Callable[[Path], Posterior]:
    """Return what loads a fit once for all commands: most of a short command's time."""
    known: dict[tuple[str, int], Posterior] = {}

    def once(source: Path) -> Posterior:
        if not source.is_file():
            return load(source)
        # A file that was written anew is another one.
        key = (str(source.resolve()), source.stat().st_mtime_ns)
        if key not in known:
            known[key] = load(source)
        return known[key]

    return once


@pytest.fixture(scope="session")
def worked_out() -> Callable[..., dict[str, Floats]]:
    """Return what works out once for all commands what the runs of a study tell."""
    known: dict[tuple[object, ...], dict[str, Floats]] = {}

    def told(free: FreeParameters, curves: Curves, place: Floats) -> dict[str, Floats]:
        points, frame = curves.points, free.frame
        arrays = (points.steps, points.learning_rate, points.target_share, curves.bases.loss, place)
        named = (frame.spec.model_dump_json(), frame.reference, tuple(curves.curves))
        key: tuple[object, ...] = (*named, *(own.tobytes() for own in arrays))
        if key not in known:
            known[key] = information(free, curves, place)
        return known[key]

    return told


@pytest.fixture(autouse=True)
def _once(
    monkeypatch: pytest.MonkeyPatch,
    loaded: Callable[[Path], Posterior],
    worked_out: Callable[..., dict[str, Floats]],
) -> None:
    monkeypatch.setattr("bayes_cpt.inference.posterior.load", loaded)
    monkeypatch.setattr("bayes_cpt.identify.determination.information", worked_out)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return what runs a command line in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def answer(*arguments: object) -> Answer:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return answer


@pytest.fixture
def few_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch beside few curves: they are enough to see what is printed of a run."""
    monkeypatch.setattr("bayes_cpt.watch.expected.CURVES", 500)
    monkeypatch.setattr("bayes_cpt.watch.expected.HEALTHY_CURVES", 300)
    monkeypatch.setattr("bayes_cpt.watch.watcher.DRAWS", 200)


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose schedules among few: they are enough to see what is printed of a choice."""
    monkeypatch.setattr("bayes_cpt.decisions.schedule_choice.CANDIDATES", 256)


@cache
def _facts() -> str:
    """Return the facts of all these fits, which are worked out in seconds."""
    posterior = prior_as_posterior(lab())
    facts(posterior)
    return str(posterior.tree.attrs[FACTS])


def _saved(folder: Path, problems: list[str], alarms: tuple[LawCheck, ...] = ()) -> Path:
    posterior = prior_as_posterior(lab())
    posterior.tree.attrs[FACTS] = _facts()
    posterior.tree.attrs["problems"] = json.dumps(problems)
    posterior.tree.attrs["law_checks"] = json.dumps([asdict(alarm) for alarm in alarms])
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
def quick_fit(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fit without sampling; what is returned becomes the problems of the posterior."""
    problems: list[str] = []

    def fit(study: Any, spec: Any, seed: int, *, draws: Any, progress: Any, cores: Any) -> Any:
        for stage in (*STAGES, STAGES[-1]):
            progress(stage, 0.5)
        posterior = prior_as_posterior(study, spec, draws=draws or 25)
        posterior.tree.attrs["problems"] = json.dumps(problems)
        posterior.tree.attrs["seed"] = seed
        return posterior

    monkeypatch.setattr("bayes_cpt.inference.fitting.fit", fit)
    return problems
