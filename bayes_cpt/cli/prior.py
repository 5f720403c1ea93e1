"""`bayes-cpt prior`: what a model expects before it has seen a loss."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.options import PLAN, Interval, Json, Quiet, Seed, option, output_option
from bayes_cpt.cli.output import Output, OutputFile, save_figure

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study

FIGURES = (".png", ".pdf", ".svg")


def prior(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Model by name, or a .toml file of your own.", show_default=False
        ),
    ],
    plan: Annotated[Path | None, option("PLAN", PLAN, default="the bundled study")] = None,
    study: Annotated[
        Path | None,
        option(
            "STUDY",
            "Study that sets the units of the priors and supplies what a plan leaves out.",
            default="the plan itself, or the bundled study",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        output_option("OUT", "Figure of the curves to write: .png, .pdf or .svg."),
    ] = None,
    interval: Interval = 0.9,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
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
    """
    from bayes_cpt.identify.prior_predictive import expected_ends, read_prior_plan
    from bayes_cpt.model.joint_priors import prior_table
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.forecasts import prior_verdict

    written = Output(quiet, json)
    file = OutputFile(output, FIGURES, plan, model)
    spec = read_spec(model)
    with written.cautions():
        frame, runs = read_prior_plan(spec, plan, study)
    priors = prior_table(frame, interval)
    ends = expected_ends(frame, runs, interval, seed=seed)
    lines = prior_verdict(spec.name, ends, interval)
    written.verdict(lines)
    _show_priors(written, spec, priors, interval)
    _show_ends(written, runs, ends)
    if output is not None:
        from bayes_cpt import plots

        save_figure(plots.prior_predictive(frame, runs, seed=seed), output)
        file.say(written)
    written.result(
        {
            "verdict": lines,
            "model": spec.name,
            "plan": runs.name,
            "interval": interval,
            "seed": seed,
            "priors": priors,
            "correlations": [pair.model_dump(mode="json") for pair in spec.correlations],
            "ends": ends,
            "figure": output and str(output),
        }
    )
    return 0


def _show_priors(
    written: Output, spec: "ModelSpec", priors: "pd.DataFrame", interval: float
) -> None:
    import pandas as pd

    written.heading(f"Priors of {spec.name}, with central {100 * interval:g} % intervals")
    by_parameter = priors.groupby("parameter", sort=False)
    # One line where all validation sets have the same prior.
    alike = by_parameter["distribution"].transform("nunique").eq(1)
    several = by_parameter["distribution"].transform("size").gt(1)
    shown = priors.assign(domain=priors["domain"].where(~(alike & several), "all"))
    cells = "parameter | on=domain | distribution | lower:2 | upper:2"
    written.table(shown.drop_duplicates(["parameter", "domain"]), cells, group="parameter")
    if spec.correlations:
        written.heading("Priors that depend on each other")
        pairs = [(*p.between, f"{p.value:+.2f}", p.reason) for p in spec.correlations]
        written.table(pd.DataFrame(pairs, columns=["parameter", "and", "correlation", "why"]))
    written.heading("What they are of, and why")
    reasons = priors.drop_duplicates("parameter")
    unit = reasons["unit"].map(lambda unit: "" if unit == "1" else f", {unit}")
    reasons = reasons.assign(why=reasons["meaning"] + unit + ". " + reasons["reason"])
    written.table(reasons, "parameter | meaning and reason=why")


def _show_ends(written: Output, plan: "Study", ends: "pd.DataFrame") -> None:
    from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO

    changes = (ends["quantity"] == "change").all()
    what = "change of the loss" if changes else "loss"
    written.heading(f"What they expect of {plan.name}: the {what} at the last step, nats/token")
    form = "+.2f" if changes else ".2f"
    cells = f"run | on=domain | step:text | lower:{form} | median:{form} | upper:{form}"
    written.table(ends, cells, group="run")
    worst = ends.loc[ends["below_zero"].idxmax()]
    if worst["below_zero"] > MOST_BELOW_ZERO:
        written.text(
            f"In {worst['below_zero']:.1%} of the draws {worst['domain']} of {worst['run']} ends below a "
            "loss of 0, and these draws are left out: the priors are too wide for such losses. State "
            "narrower ones in a model file.",
            "yellow",
        )
