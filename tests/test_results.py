"""Numbers of the README and of docs/results are those of the files of results."""

import re
from pathlib import Path

import pandas as pd
from readme_table import BEGIN, END, SETS, readme_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = text.split(BEGIN)[1].split("\n", 1)[1].split(END)[0]
    assert inside.strip() == readme_table().strip(), "run research/readme_table.py"


def test_the_readme_names_the_worst_set() -> None:
    sets = pd.read_csv(RESULTS / "held-out.csv").set_index("set")
    assert sets["in_90"].idxmin() in SETS


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


def test_the_tables_of_one_log_are_those_of_their_files() -> None:
    text = (RESULTS / "one-log.md").read_text(encoding="utf-8")
    for name in ("one-log", "one-log-prefix"):
        table = pd.read_csv(RESULTS / f"{name}.csv", dtype=str)
        # The page leaves out the rivals one by one.
        table = table.drop(columns=["last value", "power law", "least squares", "gaussian process"])
        lines = [" | ".join(table.columns), *(" | ".join(row) for row in table.to_numpy())]
        for line in lines:
            assert f"| {line} |" in text, name
