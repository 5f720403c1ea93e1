"""Numbers of the README and of docs/results are those of the files of results."""

import re
from pathlib import Path

import pandas as pd
import pytest
from readme_table import BEGIN, END, SETS, readme_table
from testbench.decision_report import SCALE, mean_and_error

from bayes_cpt import bundled_study, read_study
from bayes_cpt.bundled import held_out_runs
from bayes_cpt.inference.diagnostics import HIGHEST_RHAT, LOWEST_ESS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = text.split(BEGIN)[1].split("\n", 1)[1].split(END)[0]
    assert inside.strip() == readme_table().strip(), "run research/readme_table.py"


def test_the_readme_names_the_worst_set_and_counts_its_runs() -> None:
    sets = pd.read_csv(RESULTS / "held-out.csv").set_index("set")
    assert sets["in_90"].idxmin() in SETS
    counts = {"three": 3, "five": 5, "ten": 10}
    for name, words in SETS.items():
        said = [counts[word] for word in words.split() if word in counts]
        assert said[:1] in ([], [sets.loc[name, "runs"]])


def test_the_other_numbers_of_the_readme_are_those_of_the_package() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    fitted, longer = (read_study(own) for own in (bundled_study(), held_out_runs()))
    (steps,) = {run.schedule.steps for run in fitted.continual_runs}
    ends = [run.schedule.steps for run in longer.continual_runs]
    assert len(fitted.continual_runs) == 10
    facts = (
        f"Fitted on ten CPT runs of {steps:,} steps",
        f"forecast of runs of {(reach := f'{min(ends):,} to {max(ends):,} steps')}",
        f"R-hat at most {HIGHEST_RHAT}, effective sample sizes of at least {LOWEST_ESS:g}",
        "Bands: 50 % and 90 %",
        "exit codes: 0 done, 1 not to be trusted, 2 bad input",
        "says so and exits with 1",
        *("ICML 2025", "Python 3.12", "Apache-2.0", "end below 2.5"),
    )
    assert f"{reach}, from runs of {steps:,}" in SETS["longer runs general"]
    assert text.count("three held-out runs") == 2 == len(ends) - 1
    # The marked table is held to its files, and what is code or a link is no fact.
    prose = re.sub(r"<!-- results:begin.*results:end -->|```.*?```", "", text, flags=re.S)
    prose = re.sub(r"`[^`]*`|\[arXiv [\d.]+|\]\(.*?\)", "", prose)
    for fact in facts:
        assert fact in prose
        prose = prose.replace(fact, "")
    assert NUMBER.findall(prose) == []
    front = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert NUMBER.findall(re.sub(r"```.*?```", "", front, flags=re.S)) == ["3.12"]


def test_the_table_of_held_out_runs_is_that_of_its_file() -> None:
    text = (RESULTS / "held-out.md").read_text(encoding="utf-8")
    table = text.split("<!-- results:begin held-out -->")[1].split("<!-- results:end")[0]
    rows = {line.split("|")[1].strip(): line for line in table.strip().splitlines()[2:]}
    file = pd.read_csv(RESULTS / "held-out.csv").set_index("set")
    for name, line in rows.items():
        values = file.loc[name.replace(",", "")].drop("weight").dropna()
        assert sorted(map(float, NUMBER.findall(line.split("|", 2)[2]))) == sorted(values), name


def test_the_table_of_decisions_is_that_of_its_file() -> None:
    text = (RESULTS / "decisions.md").read_text(encoding="utf-8")
    for row in pd.read_csv(RESULTS / "decisions.csv").to_dict("records"):
        own = text.split(f"| {row['objective']} | bayes_cpt |")[1].splitlines()
        ours, paper = own[0].split("|"), own[1].split("|")
        assert ours[-3].strip() == f"{row['bayes_cpt']} ± {row['bayes_cpt_error']}"
        assert float(ours[-2]) == row["stated"]
        assert paper[-3].strip() == f"{row['paper']} ± {row['paper_error']}"


KEPT = ROOT / "research" / "testbench" / "decided"
METHODS = {"plug-in": "paper's point estimate", "plug-in, our law": "point estimate our law"}


def test_the_files_of_decisions_are_those_of_the_choices_that_are_kept() -> None:
    """To the rounding of a tenth of a millinat."""
    choices = pd.read_csv(KEPT / "choices.csv")
    assert f"On {choices['task'].nunique()} simulated studies" in readme_table()
    for row in pd.read_csv(RESULTS / "decisions.csv").to_dict("records"):
        own = choices[choices["objective"] == row["objective"]]
        for method, name in (("bayes_cpt", "bayes_cpt"), ("plug-in", "paper")):
            found = mean_and_error(SCALE * own.loc[own["method"] == method, "regret"])
            assert found == pytest.approx((row[name], row[f"{name}_error"]), abs=0.051)
    table = pd.read_csv(RESULTS / "decisions-by-truth.csv").set_index(["objective", "method"])
    for key, own in choices.replace({"method": METHODS}).groupby(["objective", "method", "form"]):
        if key[:2] in table.index:
            stated = table.loc[key[:2], [key[2], f"{key[2]}_error"]]
            found = mean_and_error(SCALE * own["regret"])
            assert found == pytest.approx(tuple(stated), abs=0.051), key


def test_the_tables_of_one_log_are_those_of_their_files() -> None:
    text = (RESULTS / "one-log.md").read_text(encoding="utf-8")
    for name in ("one-log", "one-log-prefix"):
        table = pd.read_csv(RESULTS / f"{name}.csv", dtype=str)
        # The page leaves out the rivals one by one.
        table = table.drop(columns=["last value", "power law", "least squares", "gaussian process"])
        lines = [" | ".join(table.columns), *(" | ".join(row) for row in table.to_numpy())]
        for line in lines:
            assert f"| {line} |" in text, name
