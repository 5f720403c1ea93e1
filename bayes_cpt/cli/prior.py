"""`bayes-cpt prior`: what a model expects before it has seen a loss."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile, Part, figure_file
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

FIGURES = (".png", ".pdf", ".svg")


@command
def prior(
    model: str,
    *,
    plan: Path | None = None,
    study: Path | None = None,
    output: Path | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Answer:
    r"""Show what a model expects of runs before it has seen a loss.

    Prints every prior with its central interval and its reason, and by how much the loss of each run of
    PLAN is expected to change by the end (in PT, where it ends). What is expected takes the losses of the
    bases into account, as a fit does, and no other. The figure shows whole curves: they should look like
    loss curves, and those of PLAN, where it has losses, should lie inside the bands.

    \b
    Example:
    bayes-cpt prior cpt-replay --plan data/cpt-lab -o prior.png

    \b
    Exit codes:
    0  done
    2  bad input: nothing is written

    Parameters
    ----------
    model : MODEL
        Model by name, or a .toml file of your own.
    plan : PLAN
        Runs: a study folder, or one TOML file [default: the bundled study].
    study : STUDY
        Study that sets the units of the priors and supplies what a plan leaves out [default: the plan
        itself, or the bundled study].
    output : OUT
        Figure of the curves to write: .png, .pdf or .svg.
    """
    from bayes_cpt.identify.prior_predictive import expected_ends, read_prior_plan
    from bayes_cpt.model.joint_priors import prior_table
    from bayes_cpt.report.forecasts import prior_verdict
    from bayes_cpt.report.results import priors_table

    file = OutputFile(output, FIGURES, plan, model)
    spec = bayes_cpt.read_spec(model)
    frame, runs = read_prior_plan(spec, plan, study)
    ends = expected_ends(frame, runs, interval, seed=seed)
    if output is not None:
        file.write(figure_file(bayes_cpt.plots.prior_predictive(frame, runs, seed=seed)))
    lines = prior_verdict(spec.name, ends, interval)
    content = {
        "model": spec.name,
        "plan": runs.name,
        "priors": prior_table(frame, interval),
        "correlations": [pair.model_dump(mode="json") for pair in spec.correlations],
        "ends": ends,
    }
    # A terminal has no room for the reasons beside the numbers.
    table = priors_table(frame, interval, reasons=False)
    reasons = Table.of("reasons", table.rows[table.rows["why"] != ""])
    parts = [table, reasons, *_ends(runs.name, ends)]
    return Answer(content, lines, parts, written=[file])


def _ends(plan: str, ends: "pd.DataFrame") -> list[Part]:
    from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO
    from bayes_cpt.report.words import paragraphs

    changes = (ends["quantity"] == "change").all()
    form, what = ("change", "change of the loss") if changes else ("interval", "loss")
    expected = Table.of("prior_ends", ends, plan=plan, what=what, form=form)
    facts = {"worst": ends.loc[ends["below_zero"].idxmax()], "most": MOST_BELOW_ZERO}
    cautions = paragraphs("prior.txt", "below_zero", facts)
    return [expected, *(Text(own, "yellow") for own in cautions)]
