"""The pieces of a paper: tables that compile, sentences and methods that are true of the fit."""

import io
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import lab_posterior

from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.report.decisions import optimum_sentences
from bayes_cpt.report.forecasts import forecast_words
from bayes_cpt.report.methods import bibtex, cited, methods
from bayes_cpt.report.page import Report
from bayes_cpt.report.paper import texts
from bayes_cpt.report.tables import Table, csv, escape, latex, markdown

COMPILER = shutil.which("pdflatex")
TABLE = Table(
    "Losses at 90 %",
    pd.DataFrame({"run": ["r25_cos", "a|b"], "loss": [-0.1, 2.5]}),
    {"run_a": "run", "loss": lambda row: "−0.10 ± 0.02" if row["loss"] < 0 else "2.5"},
    label="losses",
)


@cache
def decision() -> Decision:
    return decide(lab_posterior(), draws=60, candidates=256)


@cache
def report() -> Report:
    contenders = decision().plan()
    plan = contenders.subset([contenders.runs[0].name])
    return Report(lab_posterior(), decision(), plan, None, 0.9, 0, "")


def test_latex_has_the_rules_of_booktabs_and_escapes_what_it_must() -> None:
    text = latex(TABLE)
    assert all(f"\\{rule}" in text for rule in ("toprule", "midrule", "bottomrule"))
    assert r"r25\_cos & $-$0.10 $\pm$ 0.02 \\" in text
    assert r"\begin{tabular}{lr}" in text
    assert r"\caption{Losses at 90 \%.}" in text


def test_markdown_has_a_row_for_each_row() -> None:
    lines = [line for line in markdown(TABLE).splitlines() if line.startswith("|")]
    assert lines == [
        "| Run_a | Loss |",
        "| --- | ---: |",
        "| r25_cos | −0.10 ± 0.02 |",
        "| a\\|b | 2.5 |",
    ]


def test_csv_holds_the_numbers_whole() -> None:
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(csv(TABLE))), TABLE.values)


def test_the_optimum_is_given_with_its_interval_and_no_more_digits_than_two() -> None:
    found = optimum_sentences(decision(), 0.8)
    draws = decision().optimum.column("replay")
    median, lower, upper = np.quantile(draws, [0.5, 0.1, 0.9])
    sentence = next(text for text in found if "replay" in text)
    form = r"Optimal replay ratio (0\.\d+) \(80 % credible interval (0\.\d+) to (0\.\d+)"
    match = re.match(form, sentence)
    assert match is not None
    shown = [float(own) for own in match.groups()]
    np.testing.assert_allclose(shown, [median, lower, upper], rtol=0.05)
    assert len({len(own) for own in match.groups()}) == 1
    best = pd.Series(decision().optimum.column("base")).value_counts(normalize=True)
    assert any(text.startswith(f"Best base {best.index[0]}") for text in found)
    assert len(found) == len(decision().space.searched)


def test_a_forecast_is_given_with_its_interval() -> None:
    bands = report().bands
    assert bands is not None
    found = forecast_words(bands).sentences
    last = bands[bands["domain"] == "kernel"].iloc[-1]
    assert len(found) == 2
    numbers = [float(own) for own in re.findall(r"\d\.\d+", found[1])]
    np.testing.assert_allclose(
        numbers[:3], last[["median", "lower", "upper"]].astype(float), atol=0.5 * last["sd"]
    )
    assert "90 % predictive interval" in found[1]


def test_the_methods_are_those_of_the_fit() -> None:
    posterior = lab_posterior()
    text = " ".join(methods(posterior, 0.5, draws=60))
    table = posterior.summary()
    sampled = table[table["kind"] == "parameter"]
    assert f"R-hat is {sampled['r_hat'].max():.3f}" in text
    assert f"{sampled['ess_bulk'].min():.0f} (bulk)" in text
    assert "10 continual pre-training runs and 4 pre-training runs of the study cpt-lab" in text
    assert "4 chains of 25 draws each" in text
    assert "central 50 % intervals" in text
    assert "over 60 draws" in text
    assert "model cpt-replay" in text or "model is cpt-replay" in text


def test_everything_that_is_cited_has_its_entry() -> None:
    text = " ".join(report().methods)
    keys = cited(text)
    assert {"wang2025learning", "hoffman2014nuts", "abrilpla2023pymc", "vehtari2021rank"} <= set(
        keys
    )
    listed = bibtex(lab_posterior(), keys)
    assert listed.count("\n@") + listed.startswith("@") == len(keys)
    assert "{{" not in listed


def test_signs_of_latex_are_escaped() -> None:
    assert escape(r"50 % of a_b & {c} \ ~") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}"
    )


def test_every_piece_of_a_paper_is_there() -> None:
    found = texts(report())
    assert {"paper.tex", "paper.md", "methods.tex", "sentences.tex", "references.bib"} <= set(found)
    for name in ("effects", "coefficients", "choices", "forecast"):
        assert {f"table-{name}{suffix}" for suffix in (".tex", ".md", ".csv")} <= set(found)
    whole = found["paper.tex"]
    taken = set(re.findall(r"\\input\{([^}]*)\}", whole))
    assert {f"{name}.tex" for name in taken} <= set(found)
    shown = [f"figure-{name}" for name in ("forecast", "sampling")]
    assert shown == re.findall(r"graphics\{([^}]*)\}", whole)
    for text in found.values():
        assert "nan" not in re.findall(r"\b\w+\b", text)


@pytest.mark.skipif(COMPILER is None, reason="no pdflatex on this machine")
def test_the_paper_compiles(tmp_path: Path) -> None:
    for name, text in texts(report()).items():
        # Figures have tests of their own; here a rule stands for each.
        drawn = re.sub(r"\\includegraphics\{[^}]*\}", r"\\rule{3.25in}{1in}", text)
        (tmp_path / name).write_text(drawn, encoding="utf-8")
    command = [str(COMPILER), "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
    wide = [float(own) for own in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(wide, default=0.0) < 20.0, done.stdout[-3000:]
