"""A report: the page, whole and by itself, and the pieces of a paper, true of the fit."""

import base64
import io
import json
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from functools import cache, partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from figures import draw_nothing
from open_weights import open_study
from stand_in import held_out_points
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.errors import ProblemError
from bayes_cpt.inference.law_checks import RUN, LawCheck
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.report.decisions import optimum_sentences
from bayes_cpt.report.equation import law_equations
from bayes_cpt.report.forecasts import forecast_words
from bayes_cpt.report.methods import bibtex, cited, methods
from bayes_cpt.report.page import Calibration, Report, report
from bayes_cpt.report.paper import texts
from bayes_cpt.report.results import scores_table
from bayes_cpt.report.tables import Table, csv, escape, latex, markdown

VOID = {"meta", "img", "br", "link"}


class Outline(HTMLParser):
    """What a page holds: its tags, in order, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID and not tag.startswith("mspace"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    assert parser.open == []
    return parser


def held_out_folder(folder: Path, study: str, spread: float = 1.0) -> Path:
    """Return a folder as `bayes-cpt validate` writes it, calibrated at a spread of 1."""
    points = held_out_points(("a", "b", "c"), ("general", "kernel"), spread)
    folder.mkdir()
    points = points.assign(seen=0.0, method="bayes_cpt", fold=points["run"])
    points.to_csv(folder / "points.csv", index=False)
    settings = {"model": "cpt-replay", "study": study, "seed": 0}
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


@cache
def made() -> tuple[Report, str]:
    # Fewer configurations than the default: the page is no other for it.
    with patch("bayes_cpt.report.page.decide", partial(decide, candidates=256)):
        found = report(lab_posterior(), draws=60)
    return found, found.html()


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    _, html = made()
    page = outline(html)
    assert len(html.encode()) < 5_000_000
    for _, attributes in page.attributes:
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/svg+xml", "#"))
    assert "<script" not in html
    assert not re.search(r"url\(|@import", html)


def test_choices_and_forecast_say_the_same_of_the_recommended_run() -> None:
    found, _ = made()
    assert found.bands is not None
    choice = found.tables["choices"].values.iloc[0]
    last = found.bands.groupby("domain").tail(1).set_index("domain")
    for domain in ("general", "kernel"):
        chosen = choice[[domain, f"{domain}_lower", f"{domain}_upper"]].to_numpy(float)
        forecast = last.loc[domain, ["median", "lower", "upper"]].to_numpy(float)
        np.testing.assert_allclose(chosen, forecast, rtol=0, atol=2e-5)


def test_the_verdict_comes_first() -> None:
    found, html = made()
    texts = [text.strip() for text in outline(html).text if text.strip()]
    assert found.decision is not None
    places = [texts.index(line.replace(" %", "\u00a0%")) for line in found.decision.verdict()]
    assert places == sorted(places)
    title = next(own for own in texts if own.startswith("Choices by the objective balanced"))
    assert places[-1] < texts.index(title)


def test_the_page_states_the_fit_and_how_to_do_it_again() -> None:
    found, html = made()
    html = html.replace("\u00a0%", " %")
    attributes = found.posterior.tree.attrs
    for text in (
        "Shown are 4 of 10 runs.",
        attributes["study_digest"],
        "bayes-cpt fit STUDY --model cpt-replay --seed 1 -o FIT",
        "bayes-cpt report FIT --objective balanced --interval 0.9 --draws 60 --seed 0 -o report.html",
        "@inproceedings{wang2025learning",
        "Not measured on this study",
    ):
        assert text in html
    assert html.count("<math display=") == len(law_equations(found.posterior.frame))
    # Notes of formulas have the letters of formulas.
    shown = [html, *(texts(found)[name] for name in ("equation.tex", "paper.md"))]
    assert not any(raw in text for text in shown for raw in ("eta_ref", "Delta_base"))
    for name, prior in found.posterior.frame.spec.priors.items():
        if name in found.posterior.frame.parameters():
            assert prior.reason.split(":")[0].split("'")[0][:40] in html.replace("&#39;", "'")


def test_every_figure_has_words_and_every_region_a_name() -> None:
    _, html = made()
    page = outline(html)
    images = [attributes for tag, attributes in page.attributes if tag == "img"]
    assert len(images) == 4
    for attributes in images:
        assert attributes["alt"]
        assert base64.b64decode(str(attributes["src"]).split(",", 1)[1]).startswith(b"<?xml")
    scrolled = [own for _, own in page.attributes if "scroll" in str(own.get("class"))]
    assert scrolled
    assert all(own.get("tabindex") == "0" and own.get("aria-label") for own in scrolled)
    levels = [int(tag[1]) for tag, _ in page.attributes if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    names = [own["id"] for _, own in page.attributes if "id" in own]
    assert len(names) == len(set(names))
    targets = {own["href"] for tag, own in page.attributes if tag == "a"}
    assert targets <= {f"#{name}" for name in names}


def test_calibration_is_that_of_the_folder_and_names_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = lab_posterior()
    folder = held_out_folder(tmp_path / "validation", posterior.tree.attrs["study_digest"])
    calibration = Calibration.read(folder, posterior)
    points = pd.read_csv(folder / "points.csv")
    assert calibration.pooled["points"].tolist() == [240]
    assert calibration.caution == ""
    cells = scores_table(calibration.pooled).cells.iloc[0]
    assert cells["in 90 %"].startswith(f"{100 * points['covered_90'].mean():.0f} ± ")
    monkeypatch.setitem(posterior.study.__dict__, "description", "<script>alert(1)</script>")
    monkeypatch.setitem(posterior.tree.attrs, "problems", json.dumps(["R-hat of memory is 1.2"]))
    draw_nothing(monkeypatch, "fitted")
    html = Report(posterior, None, None, calibration, 0.9, 0, "").html()
    assert "Forecasts of held-out points" in html
    assert "Not measured on this study" not in html
    assert "<li>3 runs cannot tell whether to trust the bands: " in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    # A fit that falls short says so first.
    assert '<div class="verdict">\n<p class="state bad">Not trustworthy: ' in html
    assert "The posterior falls short: R-hat of memory is 1.2." in html
    # For a paper without what to do about it.
    said = html.split("<h3>Sentences</h3>\n<ul>\n<li>Not trustworthy: ")[1].split("</li>")[0]
    assert "Fit with another --seed" in html
    assert "--" not in said


def test_narrow_bands_are_not_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = lab_posterior()
    digest = posterior.tree.attrs["study_digest"]
    calibration = Calibration.read(held_out_folder(tmp_path / "narrow", digest, 0.1), posterior)
    draw_nothing(monkeypatch, "fitted")
    html = Report(posterior, None, None, calibration, 0.9, 0, "").html()
    assert '<div class="verdict">\n<p class="state bad">The bands are too narrow: ' in html
    assert "<li>The bands are too narrow: " in html.split("<h3>Keep in mind</h3>")[1]
    assert "To be trusted: " not in html


def test_a_validation_of_another_study_is_said_to_be_one(tmp_path: Path) -> None:
    folder = held_out_folder(tmp_path / "validation", "another")
    caution = Calibration.read(folder, lab_posterior()).caution
    assert caution == "The validation is of another study."


def test_a_folder_without_a_validation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="this is not what bayes-cpt validate"):
        Calibration.read(tmp_path, lab_posterior())


def test_a_law_that_does_not_fit_is_not_called_badly_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarm = LawCheck(RUN, "r25_cos", "cpt", "kernel", 0.02, 0.005, 4.0, 1e-4, True)
    records = json.dumps([asdict(alarm)])
    fit = lab_posterior()
    # What a fit has made of its checks is kept.
    posterior = Posterior(fit.tree.copy(), fit.study, fit.frame)
    monkeypatch.setitem(posterior.tree.attrs, "law_checks", records)
    draw_nothing(monkeypatch)
    html = Report(posterior, None, None, None, 0.9, 0, "").html()
    head, body = html.split("<main>")
    assert "the law cpt-replay does not fit these runs" in head
    assert "falls short" not in html
    assert "Run r25_cos on kernel lies 0.02 nats above the law" in body


COMPILER = shutil.which("pdflatex")
TABLE = Table(
    "Losses at 90 %",
    pd.DataFrame({"run": ["r25_cos", "a|b"], "loss": [-0.1, 2.5]}),
    {"run_a": "run", "loss": lambda row: "−0.10 ± 0.02" if row["loss"] < 0 else "2.5"},
    label="losses",
)


def decision() -> Decision:
    found = made()[0].decision
    assert found is not None
    return found


def test_latex_has_the_rules_of_booktabs_and_escapes_what_it_must() -> None:
    text = latex(TABLE)
    assert all(f"\\{rule}" in text for rule in ("toprule", "midrule", "bottomrule"))
    assert r"r25\_cos & $-$0.10 $\pm$ 0.02 \\" in text
    assert r"\begin{tabular}{@{}lr@{}}" in text
    assert r"\caption{Losses at 90 \%.}" in text
    # A star is beside its column: digits stay below digits.
    starred = replace(TABLE, columns={"run": "run", "C4_web & 50%": lambda row: f"{row['loss']} *"})
    assert r" & -0.1\rlap{$^*$} \\" in latex(starred)
    # A heading that is wider than its cells wraps.
    assert r"C4\_\\web \&\\50\%\end{tabular}" in latex(starred)


def test_columns_of_a_table_may_be_empty_and_texts_have_breaks_brackets_and_letters() -> None:
    assert r"a &  \\" in latex(Table("T", pd.DataFrame({"run": ["a"], "outside": [False]})))
    assert "\\midrule\n\\bottomrule" in latex(Table("T", pd.DataFrame({"run": [], "loss": []})))
    said, values = "how far (of B)\nit is", ["1 (0 to 2)", "1 (0 to 2)"]
    rows = pd.DataFrame(
        {"run": ["[a]", "r_%&#" * 20], "meaning": [said] * 2, "x": values, "y": values}
    )
    table = Table("T", rows, "run | meaning | x:text | y:text")
    text = latex(table)
    # Intervals are below their values, and texts as they were; no row begins with an option of the last.
    interval = r"\begin{tabular}[t]{@{}r@{}}1\\(0 to 2)\end{tabular}"
    assert rf"{{[}}a] & how far (of $B$) it is & {interval} & {interval} \\" in text
    assert r"r\_\allowbreak{}\%\&\#" in text
    assert "| how far (of $B$) it is |" in markdown(table)


def test_letters_are_formulas_wherever_they_are_explained() -> None:
    found, html = texts(made()[0]), made()[0].html()
    for name in ("table-letters.tex", "table-letters.md", "equation.tex"):
        assert r"\textasciicircum" not in found[name]
        assert "LR^" not in found[name]
    assert r"$\mathrm{LR}^{\rho}$$\cdot$steps" in found["table-letters.tex"]
    assert r"$\mathrm{LR}^{\rho}$·steps" in found["table-letters.md"]
    assert "<math><msup><mi>LR</mi><mi>&#961;</mi></msup></math>·steps" in html
    assert r"($m$: mean of" in found["equation.tex"]
    # Within a display, a note cannot be on another page than its equation.
    assert r"\end{gathered} \]" in found["equation.tex"]


def test_headings_of_cells_are_in_one_line() -> None:
    assert "decay steps" in made()[0].tables["choices"].cells


def test_markdown_has_a_row_for_each_row() -> None:
    assert [line for line in markdown(TABLE).splitlines() if line.startswith("|")] == [
        "| run_a | loss |",
        "| --- | ---: |",
        "| r25_cos | −0.10 ± 0.02 |",
        "| a\\|b | 2.5 |",
    ]


def test_csv_holds_the_numbers_whole() -> None:
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(csv(TABLE))), TABLE.values)


def test_the_optimum_is_given_with_its_interval_and_no_more_digits_than_two() -> None:
    found = optimum_sentences(decision(), 0.8)
    median, lower, upper = np.quantile(decision().optimum.column("replay"), [0.5, 0.1, 0.9])
    sentence = next(text for text in found if "replay" in text)
    form = r"Optimal replay ratio: (0\.\d+) \(80 % credible interval (0\.\d+) to (0\.\d+)"
    match = re.match(form, sentence)
    assert match is not None
    shown = [float(own) for own in match.groups()]
    np.testing.assert_allclose(shown, [median, lower, upper], rtol=0.05)
    assert len({len(own) for own in match.groups()}) == 1
    best = pd.Series(decision().optimum.column("base")).value_counts(normalize=True)
    assert any(text.startswith(f"Best base {best.index[0]}") for text in found)
    assert len(found) == len(decision().space.searched)


def test_a_forecast_is_given_with_its_interval() -> None:
    bands = made()[0].bands
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
    text = " ".join(methods(posterior, 0.5, choice=decision().valuation))
    table = posterior.summary()
    sampled = table[table["kind"] == "parameter"]
    assert f"R-hat is {sampled['r_hat'].max():.3f}" in text
    assert f"{sampled['ess_bulk'].min():.0f} (bulk)" in text
    assert "10 continual pre-training runs and 4 pre-training runs of the study cpt-lab" in text
    assert "4 chains of 25 draws each" in text
    assert "central 50 % intervals" in text
    assert f"of 0.5 general + 0.5 kernel over {decision().valuation.model.draws} draws" in text
    assert "model cpt-replay" in text or "model is cpt-replay" in text
    assert "Of each pre-training run the start was left out" in text
    (alone, *_) = methods(prior_as_posterior(open_study()))
    assert alone.count("pre-training run") == alone.count("continual pre-training run") == 1


def test_a_fit_of_pretraining_has_a_page_without_a_choice() -> None:
    study = lab().subset([run.name for run in lab().runs if run.phase == "pt"])
    found = report(prior_as_posterior(replace(study, bases=()), "pretrain"))
    assert "continual" not in " ".join(found.methods)
    said = ("cpt-lab: what its runs tell", "is the general data.", "What the letters mean")
    assert all(words in found.html() for words in said)
    assert "Of a run of 13000 PT steps at learning rate 0.002" in found.tables["effects"].note
    assert "## Results\n\nDetermined by these runs: " in texts(found)["paper.md"]


def test_everything_that_is_cited_has_its_entry() -> None:
    keys = cited(" ".join(made()[0].methods))
    assert {"wang2025learning", "hoffman2014nuts", "abrilpla2023pymc", "vehtari2021rank"} <= {*keys}
    listed = bibtex(lab_posterior(), keys)
    assert listed.count("\n@") + listed.startswith("@") == len(keys)
    assert "{{" not in listed


def test_signs_of_latex_are_escaped() -> None:
    assert escape(r"50 % of a_b & {c} \ ~") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}"
    )


def test_every_piece_of_a_paper_is_there() -> None:
    found = texts(made()[0])
    assert {"paper.tex", "paper.md", "methods.tex", "sentences.tex", "references.bib"} <= set(found)
    for name in ("effects", "letters", "coefficients", "choices", "forecast"):
        assert {f"table-{name}{suffix}" for suffix in (".tex", ".md", ".csv")} <= set(found)
    whole = found["paper.tex"]
    taken = set(re.findall(r"\\input\{([^}]*)\}", whole))
    assert {f"{name}.tex" for name in taken} <= set(found)
    shown = [f"figure-{name}" for name in ("forecast", "sampling")]
    assert shown == re.findall(r"graphics\{([^}]*)\}", whole)
    for text in found.values():
        assert "nan" not in re.findall(r"\b\w+\b", text)


@pytest.mark.skipif(COMPILER is None, reason="no pdflatex on this machine")
def test_the_paper_compiles_and_its_tables_fit_an_article(tmp_path: Path) -> None:
    # What is longer than a page, or wider, goes on in another table.
    targets = {f"target {place}": "loss" for place in range(20)}
    long = replace(TABLE, rows=pd.concat([TABLE.rows] * 40), columns={"run": "run"} | targets)
    found = texts(made()[0]) | {"long.tex": latex(long)}
    found["paper.tex"] = found["paper.tex"].replace(r"\end{doc", r"\input{long}\end{doc")
    for name, text in found.items():
        # Figures have tests of their own; here a rule stands for each.
        drawn = re.sub(r"\\includegraphics\{[^}]*\}", r"\\rule{3.25in}{1in}", text)
        drawn = drawn.replace(r"\usepackage[margin=1.8cm]{geometry}", r"\sloppy")
        (tmp_path / name).write_text(drawn, encoding="utf-8")
    command = [str(COMPILER), "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
    wide = [float(own) for own in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(wide, default=0.0) < 1.0, done.stdout[-3000:]
    assert "Float too large" not in done.stdout
