"""From logs of two libraries to a watch, by the commands that a user gives."""

from importlib.util import find_spec
from pathlib import Path

from bayes_cpt.cli import run

RUNS = ("pt", "r00", "r25", "r50")
# Its library is in the extra ``logs``.
TRACKERS = ("tensorboard",) if find_spec("tensorboard") else ()


def study_of(logs: Path, where: Path) -> None:
    """Make a study of a Trainer's PT run and three CPT runs, and of a run of each tracker; check it."""
    shares = [word for name in ("r00=0", "r25=0.25", "r50=0.5") for word in ("--replay", name)]
    paths = [str(logs / "hf" / name) for name in RUNS]
    assert run(["init", str(where), *paths, "--pt", "pt", *shares]) == 0
    for kind in TRACKERS:
        source = ["import", kind, str(logs / kind), "--study", str(where)]
        assert run([*source, "--run", kind, "--replay", "0"]) == 0, kind
    assert run(["check", str(where)]) == 0


def forecast(fit: Path, folder: Path) -> int:
    """Predict the runs of the fitted study into a folder, and return the exit code."""
    code = run(["predict", str(fit), "-o", str(folder / "forecast.csv")])
    assert (folder / "forecast.csv").is_file()
    return code


def watched(fit: Path, logs: Path, folder: Path) -> dict[str, int]:
    """Watch a run of each library by its log, and return the exit codes."""
    sources = {"r25": logs / "hf" / "r25" / "trainer_state.json"}
    sources |= {kind: logs / kind for kind in TRACKERS}
    codes = {}
    for name, log in sources.items():
        state = folder / f"{name}.json"
        words = ["watch", str(fit), str(log), "--run", name, "--once", "--state", str(state)]
        codes[name] = run(words)
        assert state.is_file(), name
    return codes
