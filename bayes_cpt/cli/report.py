"""`bayes-cpt report`: a fit in, one page that says all of it out, and the pieces of a paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.options import (
    PLAN,
    Draws,
    FitFile,
    Interval,
    Json,
    Objective,
    Quiet,
    Seed,
    SpaceFile,
    option,
    output_option,
)
from bayes_cpt.cli.output import Output, OutputFile, Results, check_folder
from bayes_cpt.cli.running import about_fit, finish, warn

if TYPE_CHECKING:
    from bayes_cpt.report.page import Report


def report(
    fit: FitFile,
    output: Annotated[
        Path | None, output_option("HTML", "The page to write: one file that needs nothing else.")
    ] = None,
    paper: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Folder to write the pieces of a paper into: LaTeX, Markdown, CSV, BibTeX, PDF.",
        ),
    ] = None,
    objective: Objective = "balanced",
    space: SpaceFile = None,
    plan: Annotated[
        Path | None, option("PLAN", PLAN, default="the run that is recommended")
    ] = None,
    validation: Annotated[
        Path | None,
        option(
            "FOLDER",
            "What bayes-cpt validate forecast -o wrote for this study, to be shown as calibration.",
        ),
    ] = None,
    interval: Interval = 0.9,
    draws: Draws = 1000,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
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
    """
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.report.page import report as make

    written = Output(quiet, json)
    if output is None and paper is None:
        raise typer.BadParameter(
            "nothing is asked for: give -o report.html, --paper FOLDER, or both."
        )
    file = OutputFile(output, (".html",), fit, plan, space)
    check_folder(paper, new=True)
    posterior = load(fit)
    options = {"--plan": plan, "--space": space, "--validation": validation}
    given = "".join(f" {name} {path}" for name, path in options.items() if path)
    with written.cautions():
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
        page = full_report.html() if output is not None else None
    if page is not None:
        file.write(page)
    results = _write(full_report, paper) if paper is not None else None
    warn(written, posterior)
    written.verdict(full_report.verdict)
    files: dict[str, str] = {}
    if results is not None:
        written.words(full_report.sentences)
        files = results.shown(written)
    file.say(written)
    content = {
        "verdict": full_report.verdict,
        "sentences": full_report.sentences,
        "interval": interval,
        "seed": seed,
        "output": output and str(output),
        "files": files,
    }
    return finish(written, posterior, about_fit(fit, posterior) | content)


def _write(full_report: "Report", folder: Path) -> Results:
    """Write the pieces of a paper."""
    from bayes_cpt.report.paper import figures, texts

    results = Results(folder)
    for name, text in texts(full_report).items():
        results.text(name, text, name)
    for name, figure in figures(full_report).items():
        results.figure(name, figure, f"{name}.pdf")
    return results
