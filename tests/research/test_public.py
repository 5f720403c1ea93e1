import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from open_weights import open_study
from stand_in import guess
from synthetic import PRACTICE
from testbench import held_out, our_areas, public
from testbench.public import APART, clustered_errors, main
from testbench.simulation import NOISE, RUNS, simulated

from bayes_cpt import Study, bundled_study, read_spec, write_study
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer, Method

ROOT = Path(__file__).parents[2]
PRETRAINING = tuple(run for run in RUNS if run.phase == "pt")
# Of each study that is scored below.
RUN_COUNTS = {"tiny": 2, "pythia-python": 3, "lab-longer": 3}


def pretraining(losses: Study) -> Study:
    """Return the PT runs of a study on its general set, as a study of their own."""
    rows = losses.losses.query("domain == 'general' and run in ['trunk', 'anneal']")
    return Study("pretraining", "general", None, (), PRETRAINING, rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part, seed in (("fit", 1), ("predict", 2)):
        write_study(pretraining(simulated(RUNS, NOISE, seed)), folder / "tiny" / part)
    write_study(open_study(), folder / "pythia-python")
    (folder / "notes").mkdir()
    return folder


def _ours(method: Method):  # type: ignore[no-untyped-def]
    def package_method(question: Question, seed: int, *, specs, cores) -> Answer:  # type: ignore[no-untyped-def]
        (spec,) = specs
        assert spec.law.continual == bool(question.study.continual_runs)
        return method(question, seed)

    return package_method


def test_every_study_is_scored_run_by_run_and_a_stopped_bench_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(public, "METHODS", {"paper": guess(3.0, 4.0), "d-cpt": guess(3.0, 2.0)})
    monkeypatch.setattr(public, "package_method", _ours(guess(3.0, 0.5, asked, attempts=2)))
    monkeypatch.setattr(our_areas, "answer", guess(3.0, 1.0))
    command = [str(data), "-o", str(tmp_path / "out")]
    main([*command, "--studies", "tiny"])
    assert sorted(asked) == ["anneal", "trunk"]
    main([*command, "--studies", ",".join(RUN_COUNTS)])
    text = capsys.readouterr().out
    # What was done before is not done again: only the other studies are asked for.
    assert len(asked) == sum(RUN_COUNTS.values())
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    ours = table[table["method"] == "bayes_cpt"].set_index("study")
    assert ours["runs"].to_dict() == RUN_COUNTS | {"all runs": 8}
    assert (ours["attempts"] == 2).all()
    _check_scores(ours, tmp_path / "out" / "records" / "points.csv")
    ratios = ours["crps"] / table[table["method"] == "paper"].set_index("study")["crps"]
    mean = np.exp(np.log(ratios.drop("all runs")).mean())
    assert f"CRPS bayes_cpt / paper, geometric mean over studies: {mean:.2f}; worst" in text
    assert re.search(r"\| tiny \| bayes_cpt \| 2 \| \d+ ± \d+ % \|", text)
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") in text


def _check_scores(table: pd.DataFrame, file: Path) -> None:
    """Each run counts alike, whatever number of points it has."""
    points = pd.read_csv(file).query("method == 'bayes_cpt'")
    points["study"] = points["fold"].str.split(": ").str[0]
    of_runs = points.groupby(["study", "run"])[["crps", "absolute_error", "covered_90"]].mean()
    for study, rows in of_runs.groupby("study"):
        assert table.loc[study, "crps"] == pytest.approx(rows["crps"].mean())
        assert table.loc[study, "mae"] == pytest.approx(rows["absolute_error"].mean())
        error = np.sqrt(rows["covered_90"].var(ddof=0) * len(rows) + 0.09) / len(rows)
        assert table.loc[study, "coverage_90_error"] == pytest.approx(error)
    assert table.loc["all runs", "coverage_90"] == pytest.approx(of_runs["covered_90"].mean())


def test_errors_of_all_runs_spread_as_much_as_their_share_does() -> None:
    """Over suites drawn anew, of studies with one share each and very different numbers of runs."""
    generator, sizes = np.random.default_rng(5), [40, 3, 3, 20, 5, 8, 15, 2, 30, 4, 10, 25]
    study = np.repeat(np.arange(len(sizes)), sizes)
    # Ten points a run, as many of them in bands as the share of its study says.
    runs = np.repeat([f"{own}{APART}{place}" for place, own in enumerate(study)], 10)
    means, errors = [], []
    for _ in range(150):
        share = np.repeat(generator.uniform(size=len(sizes))[study], 10)
        hits = np.tile(np.arange(10), study.size) < 10 * share
        points = pd.DataFrame({"run": runs, "covered_50": hits, "covered_90": True})
        means.append(points["covered_50"].mean())
        errors.append(clustered_errors(points)["coverage_50_error"])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means), rel=0.25)


QUANTILES = ("q5", "q25", "q50", "q75", "q95")


def forecasts(data: Path, out: Path) -> pd.DataFrame:
    """Return forecasts of the points of a study, each quantile a tenth above the last."""
    main([str(data), "-o", str(out), "--studies", "tiny", "--questions"])
    table = pd.read_csv(out / "questions.csv")
    assert set(table["run"]) == {"anneal", "trunk"}
    return table.assign(**{name: 2.8 + 0.1 * place for place, name in enumerate(QUANTILES)})


def test_submitted_forecasts_are_scored_beside_the_methods(data: Path, tmp_path: Path) -> None:
    forecasts(data, tmp_path).to_csv(tmp_path / "mine.csv", index=False)
    given = ["--methods", "", "--forecasts", f"mine={tmp_path / 'mine.csv'}"]
    main([str(data), "-o", str(tmp_path), "--studies", "tiny", *given])
    points = pd.read_csv(tmp_path / "records" / "points.csv")
    assert set(points["method"]) == {"mine"}
    np.testing.assert_allclose(points["error"], 3.0 - points["loss"], atol=1e-3)
    inside = points["loss"].between(2.8, 3.2)
    assert (points["covered_90"] == inside).all()
    assert inside.any()
    assert not inside.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="q25"), "there is no column q25"),
        (lambda table: table.assign(q50=9.0), "quantiles fall"),
        (lambda table: pd.concat([table, table[:1]]), "there are two forecasts for"),
    ],
)
def test_forecasts_that_cannot_be_scored_are_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame],
    message: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(forecasts(data, tmp_path)).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(SystemExit):
        main([str(data), "-o", str(tmp_path), "--forecasts", f"mine={tmp_path / 'mine.csv'}"])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", public.suite(ROOT / "data" / "public"))
def test_every_shipped_study_can_be_scored(name: str) -> None:
    models = public.Models(read_spec("pretrain"), read_spec("cpt-replay"))
    folds = public.suite(ROOT / "data" / "public")[name](models)
    assert folds
    for fold in folds:
        assert not fold.measured.empty
        assert len(fold.question.study.losses) > 3


def test_every_shipped_study_has_a_source_and_a_licence() -> None:
    folder = ROOT / "data" / "public"
    rows = re.findall(r"^\| `([\w-]+)` \|.*\|$", (folder / "README.md").read_text("utf-8"), re.M)
    assert sorted(rows) == sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_command_line_prints_a_table_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "METHODS", {"bayes_cpt": guess(2.8, 0.2), "far": guess(4.0, 0.2)})
    folder = tmp_path / "scores"
    held_out.main(
        [str(bundled_study()), str(PRACTICE), "--methods", "bayes_cpt,far", "--out", str(folder)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert "| r25_cos_12k | general | bayes_cpt | 67 |" in "\n".join(lines)
    assert lines[-1].startswith("Seconds: bayes_cpt")
    # Title, rule, three runs on two sets and twice three pooled rows, each for two methods; ratios.
    assert sum(line.startswith("|") for line in lines) == 2 + 2 * (3 * 2 + 2 * 3) + 2 + 6
    assert "CRPS bayes_cpt / far" in "\n".join(lines)
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "summary.csv", "bands-general.png", "bands-kernel.png")
    }
    assert len(pd.read_csv(folder / "points.csv")) == 2 * 2 * (67 + 47 + 47)
