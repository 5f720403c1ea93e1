"""`bayes-cpt report` and `planner`: a fit in, one page out, to read or to move settings in."""

from pathlib import Path
from typing import Annotated, Any

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
    and priors in words and equations, diagnostics, calibration, and how to reproduce it. It
    is one file without scripts, for any browser, light or dark, and for print.

    --paper writes tables (LaTeX with booktabs, Markdown, CSV), ready sentences, a methods section that is
    true of this fit, its references as BibTeX, figures as PDF, as wide as one column or two, and
    paper.tex, which shows all of that and compiles.

    \b
    Example:
    bayes-cpt report fit.nc -o report.html
    bayes-cpt report fit.nc --plan plan.toml --paper paper

    Parameters
    ----------
    output : HTML
        The page to write: one file that needs nothing else.
    paper : FOLDER
        Folder to write the pieces of a paper into: LaTeX, Markdown, CSV, BibTeX, PDF.
    plan : PLAN
        Runs: a study folder, or one TOML file [default: the run that is recommended].
    validation : FOLDER
        What bayes-cpt validate -o wrote for this study, to be shown as calibration; exit code 1 if that
        found the bands too narrow.
    """
    from bayes_cpt.report.page import report as make
    from bayes_cpt.report.paper import figures, texts

    if output is None and paper is None:
        raise typer.BadParameter("nothing is asked for: give -o report.html, --paper, or both.")
    file, results = OutputFile(output, (".html",), fit, plan, space), Results(paper, "--paper")
    posterior = bayes_cpt.load(fit)
    full_report = make(
        posterior,
        objective=objective,
        space=space,
        plan=plan,
        validation=validation,
        interval=interval,
        draws=draws,
        seed=seed,
    )
    if output is not None:
        file.write(full_report.html())
    if paper is not None:
        for name, text in texts(full_report).items():
            results.write(name, text)
        results.figures(figures(full_report), suffix=".pdf")
    content = {"facts": full_report.facts, "sentences": full_report.sentences}
    words = in_words(full_report.sentences) if paper else []
    verdict, narrow = full_report.verdict, full_report.narrow
    return of_fit(posterior, content, verdict, words, problems=narrow, written=[results, file])


@command
def planner(
    fit: Path,
    *,
    output: Path,
    objective: str = "balanced",
    target: str | None = None,
    interval: float = 0.9,
    draws: Annotated[int, typer.Option(min=4, max=1000)] = 200,
    candidates: Annotated[int, typer.Option(min=64)] = 3072,
    seed: int = 0,
) -> Answer:
    r"""Write a page on which you move replay, learning rate, length and base, and see where the run ends.

    FILE is one page that needs nothing else: open it in any browser, send it to anybody. While a control
    moves, it computes in every posterior draw the bands of both losses, the distribution of the last ones,
    the probability that a constraint is kept, and the expected regret beside the Pareto front of runs of as
    many steps. The law in it is written from the same terms as that of the other commands, and gives the
    same numbers. The run can be saved as a plan for predict.

    The objective says where the balance of the two losses starts, and which constraints are watched (see
    decide --help).

    With several targets name one: the page is for runs on it alone.

    \b
    Example:
    bayes-cpt planner fit.nc -o planner.html
    bayes-cpt predict fit.nc --plan plan.toml -o forecast.csv

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics, and the page says so
    2  bad input, or a law that the page does not compute: nothing is written

    Parameters
    ----------
    output : FILE
        Page to write: .html.
    draws
        Posterior draws in the page; 200 move smoothly.
    candidates
        Runs of each length that regret is counted from, at first.
    """
    from bayes_cpt.decisions.objective import read_objective
    from bayes_cpt.planner.page import Planner
    from bayes_cpt.report.fit import checks_passed

    file = OutputFile(output, (".html",), fit)
    goal = read_objective(objective)
    posterior = bayes_cpt.load(fit).of_target(target, "the planner's page")
    asked: Any = {"draws": draws, "interval": interval, "candidates": candidates, "seed": seed}
    page = Planner.of(posterior, goal, fit=fit.name, **asked)
    html = page.html()
    file.write(html)
    shortest, *_, longest = page.data["lengths"]
    moves = f"it covers runs of {shortest} to {longest} steps and needs no network"
    verdict = [f"Open {output} in a browser: {moves}."]
    if posterior.trustworthy:
        verdict += [f"How sure: {checks_passed(posterior)}."]
    content = {"bytes": len(html.encode()), "draws": page.data["law"]["draws"]}
    return of_fit(posterior, content, verdict, written=[file])
