"""Every command of the README and of docs/ is one that the program takes, and most are run."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import Call
from fuzzing import MODEL
from synthetic import lab_posterior
from typer.main import get_command

from bayes_cpt.cli import PROGRAM, app
from bayes_cpt.inference.posterior import stack

ROOT = Path(__file__).parents[2]
# Their commands work on folders that the reader has: those of from-logs.md are run, in order, by
# tests/test_from_logs.py, sizes.md is about models of several sizes (tests/model/test_groups.py), and
# batch.md about runs of several batches (tests/decisions/test_decide_groups.py).
ELSEWHERE = ("from-logs.md", "sizes.md", "batch.md")
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ELSEWHERE),
]
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# What a reader of the README's table of questions copies.
IN_TABLE = re.compile(rf"`({PROGRAM} [^`]*)`")

# Of these only the options are checked: each samples posteriors, for minutes or hours.
SAMPLING = ("fit", "demo", "validate", "compare", "forecast")
# What every reader copies; the other pages' options are checked at once, and their answers with -m slow.
FIRST = ("README.md", "third-sets.md")
# Answered in the same words by tests/cli/test_report.py.
AS_WELL = ("report",)
# Fewer configurations and draws than the default: the answer is no worse a command for it.
SMALLER = {
    "decide": ["--candidates", "64"],
    "report": ["--draws", "60"],
    "planner": ["--candidates", "64", "--draws", "8"],
    "next-run": ["--candidates", "64", "--draws", "50"],
    "predict": ["--draws", "100"],
    "watch": ["--once"],
}
# Beside what -o names: what a watch learnt.
STATE = "log.csv.recommended.watch.json"


def commands(page: Path) -> list[str]:
    """Return the commands of a page, without the program's name and comments."""
    text = page.read_text(encoding="utf-8")
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    found = [part for line in lines for part in line.split(" && ")]
    found += [
        own for line in text.splitlines() if line[:1] == "|" for own in IN_TABLE.findall(line)
    ]
    words = [shlex.split(command, comments=True) for command in found]
    return [
        shlex.join(own[1:])
        for own in words
        if own and Path(own[0]).name == PROGRAM and (len(own) > 2 or own[1] == "demo")
    ]


DOCUMENTED = sorted({command for page in PAGES for command in commands(page)})


@pytest.fixture(scope="module")
def stack_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stack of two laws that cost no sampling."""
    path = tmp_path_factory.mktemp("stack") / "stack.nc"
    laws = {name: lab_posterior(name) for name in ("cpt-replay", "cpt-replay-printed")}
    stack(laws, dict.fromkeys(laws, 0.5), seed=0).save(path)
    return path


@pytest.fixture
def folder(
    fit_file: Path, stack_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a folder to work in as a reader of the README does: a checkout, with a fit of its study."""
    for name in ("data", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "fit.nc").symlink_to(fit_file)
    (tmp_path / "my-model.toml").write_text(MODEL)
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "stack.nc").symlink_to(stack_file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_answers_the_questions_of_a_newcomer_in_a_minute() -> None:
    readme = PAGES[0].read_text(encoding="utf-8")
    verbs = {command.split()[0] for command in commands(PAGES[0])}
    assert {"demo", "check", "fit", "summary", "predict", "decide", "next-run"} <= verbs
    assert len(readme.split()) <= 820
    assert readme.count("](docs/images/") == 1


def answered() -> list[object]:
    """Return the commands that are run, those that few readers copy as slow."""
    first = {own for page in PAGES if page.name in FIRST for own in commands(page)}
    quick = {own for own in first if own.split()[0] not in AS_WELL}
    return [
        pytest.param(own, marks=() if own in quick or "--help" in own else pytest.mark.slow)
        for own in DOCUMENTED
        if own.split()[0] not in SAMPLING
    ]


@pytest.mark.parametrize("command", [own for own in DOCUMENTED if "--help" not in own])
def test_options_are_valid(command: str, folder: Path) -> None:
    name, *arguments = shlex.split(command)
    parser = get_command(app).commands[name]  # type: ignore[attr-defined]
    # Raises what the program would refuse with code 2.
    given = parser.make_context(name, arguments).params
    paths = [
        value
        for option, value in given.items()
        if isinstance(value, Path) and value.parts[1:] and option != "plan"
    ]
    assert all(path.exists() for path in paths)


def begin_the_long_run(folder: Path) -> None:
    """Write the plan of a run that was decided on, and the log of its first steps."""
    (folder / "decision").mkdir()
    plan = (ROOT / "data/cpt-lab/plan-example.toml").read_text(encoding="utf-8")
    (folder / "decision" / "plan.toml").write_text(plan.replace("long_r25", "recommended"))
    (folder / "log.csv").write_text("step,general,kernel\n0,2.972,3.518\n10,2.973,3.515\n")


@pytest.mark.usefixtures("few_curves", "few_candidates")
@pytest.mark.parametrize("command", answered())
def test_commands_are_answered(command: str, call: Call, folder: Path) -> None:
    arguments = shlex.split(command)
    if arguments[0] == "watch":
        begin_the_long_run(folder)
    before = set(folder.iterdir())
    answer = call(*arguments, *SMALLER.get(arguments[0], []))
    assert answer.code == 0, answer.err
    assert answer.out
    # What it names after -o or --paper is there.
    targets = {
        folder / arguments[i + 1] for i, own in enumerate(arguments) if own in ("-o", "--paper")
    }
    if arguments[0] == "watch":
        targets.add(folder / STATE)
    assert targets == set(folder.iterdir()) - before
