"""`bayes-cpt report`: a fit in, one page that says all of it out, and the pieces of a paper."""

from dataclasses import asdict
from pathlib import Path

import typer

import bayes_cpt
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile, Results, in_words
from bayes_cpt.cli.running import of_fit


@command
def report(
    fit: Path,
    *,
    output: Path | None = None,
    paper: Path | None = None,
    objective: str = "balanced",
    space: Path | None = None,
    plan: Path | None = None,
    validation: Path | None = None,
    interval: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Answer:
    r"""Write what a fit says as one page, and as the pieces of a paper.

    The page begins with the verdict, and holds decision, forecast, what to trust and what not, data, model
    and priors in words and equations, diagnostics, calibration, and what it takes to do all of it again. It
    is one file without scripts, for any browser, light or dark, and for print.

    --paper writes tables (LaTeX with booktabs, Markdown, CSV), ready sentences, a methods section that is
    true of this fit, its references as BibTeX, figures as PDF at the width of a column, and paper.tex,
    which shows all of that and compiles.

    \b
    Example:
    bayes-cpt report fit.nc -o report.html
    bayes-cpt report fit.nc --plan plan.toml --paper paper

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written

    Parameters
    ----------
    output : HTML
        The page to write: one file that needs nothing else.
    paper : FOLDER
        Folder to write the pieces of a paper into: LaTeX, Markdown, CSV, BibTeX, PDF.
    plan : PLAN
        Runs: a study folder, or one TOML file [default: the run that is recommended].
    validation : FOLDER
        What bayes-cpt validate forecast -o wrote for this study, to be shown as calibration.
    """
    from bayes_cpt.report.page import report as make
    from bayes_cpt.report.paper import figures, texts

    if output is None and paper is None:
        raise typer.BadParameter(
            "nothing is asked for: give -o report.html, --paper FOLDER, or both."
        )
    file, results = OutputFile(output, (".html",), fit, plan, space), Results(paper)
    posterior = bayes_cpt.load(fit)
    options = {"--plan": plan, "--space": space, "--validation": validation}
    given = "".join(f" {name} {path}" for name, path in options.items() if path)
    full_report = make(
        posterior,
        objective=objective,
        space=space,
        plan=plan,
        validation=validation,
        interval=interval,
        draws=draws,
        seed=seed,
        command=f"bayes-cpt report FIT --objective {objective}{given} --interval {interval:g} "
        f"--draws {draws} --seed {seed} -o report.html",
    )
    if output is not None:
        file.write(full_report.html())
    if paper is not None:
        for name, text in texts(full_report).items():
            results.write(name, name, text)
        results.figures(figures(full_report), suffix=".pdf")
    content = {
        "facts": asdict(full_report.facts),
        "sentences": full_report.sentences,
    }
    words = in_words(full_report.sentences) if paper else []
    verdict = full_report.verdict
    return of_fit(posterior, content, verdict, words, written=[results, file])
