"""`bayes-cpt summary`: what a fit says about the law."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.console import Output, columns, number
from bayes_cpt.cli.determined import show_effects, show_undetermined
from bayes_cpt.cli.fit import about_fit, show_verdict, weakly_determined
from bayes_cpt.cli.leaning import show_sensitivity
from bayes_cpt.cli.options import FitFile, Interval, Json, Quiet
from bayes_cpt.cli.targets import check_target, writing
from bayes_cpt.files import replacing

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior

KINDS = ("coefficient", "parameter")


def summary(
    fit: FitFile,
    interval: Interval = 0.9,
    coefficients: Annotated[
        bool, typer.Option("--coefficients", help="Only the coefficients of the printed equation.")
    ] = False,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Only what was sampled, noise included.")
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Say which conclusions lean on the prior; takes seconds."
        ),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN",
            help="Runs whose last losses --sensitivity is about "
            r"\[default: the fitted runs].",
            show_default=False,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the table as CSV as well.", show_default=False),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Print the coefficients of a fitted law with their uncertainty.

    One row per quantity and validation set: mean, sd, central interval, ESS, R-hat and contraction,
    which is near 1 where the runs determine a quantity and near 0 where its prior does. Below 0.5 it
    is marked *. Coefficients are the letters of the printed equation, which heads the table; parameters
    are what was sampled, values of the law at a typical run, noise included. Then come the effects of
    what can be chosen about a run, what these runs do not determine, and which run would tell. With
    --sensitivity it is said which of all that, and of the last losses of the runs, leans on the prior.

    \b
    Example:
    bayes-cpt summary fit.nc --coefficients --csv coefficients.csv

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.identify.determination import determination
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    if csv is not None:
        check_target(csv, (".csv",), inputs=(fit,))
    posterior = load(fit)
    table = posterior.summary(interval)
    chosen = [
        kind for kind, wanted in zip(KINDS, (coefficients, parameters), strict=True) if wanted
    ]
    table = table[table["kind"].isin(chosen or KINDS)]
    if csv is not None:
        with writing(csv), replacing(csv) as partial:
            table.assign(interval=interval).to_csv(partial, index=False)
    determined = determination(posterior, interval)
    leaning = _sensitivity(written, posterior, plan) if sensitivity else None
    if not quiet and not json:
        _show(written, posterior, table, interval, chosen or list(KINDS))
        _show_determination(written, posterior, determined, interval, chosen)
        if leaning is not None:
            show_sensitivity(written, leaning, tuple(chosen or KINDS[:1]))
    else:
        show_verdict(written, posterior)
    if csv is not None:
        written.text(f"\nWritten to {csv}")
    written.result(
        {
            **about_fit(fit, posterior),
            "seed": posterior.seed,
            "interval": interval,
            "quantities": table.to_dict("records"),
            "determination": determined.to_dict("records"),
            "sensitivity": None if leaning is None else leaning.to_dict("records"),
        }
    )
    return 0 if posterior.trustworthy else 1


def _sensitivity(written: Output, posterior: "Posterior", plan: Path | None) -> "pd.DataFrame":
    from bayes_cpt.identify.sensitivity import sensitivity

    with written.cautions():
        return sensitivity(posterior, plan)


def _show(
    written: Output,
    posterior: "Posterior",
    table: "pd.DataFrame",
    interval: float,
    kinds: list[str],
) -> None:
    from bayes_cpt.report.equation import equation

    written.text(f"Study {posterior.study.name}, model {posterior.frame.spec.name}", "bold")
    show_verdict(written, posterior)
    for kind in kinds:
        rows = table[table["kind"] == kind]
        written.heading(f"{kind.capitalize()}s, with central {100 * interval:g} % intervals")
        if kind == "coefficient":
            for line in equation(posterior.frame):
                written.text(f" {line}", "cyan")
            written.text()
        written.table(_quantities(rows))
        written.text()
        written.table(_meanings(posterior, rows))
    if not weakly_determined(table).empty:
        written.text("\n* contraction below 0.5: the quantity rests on its prior.", "yellow")


def _show_determination(
    written: Output,
    posterior: "Posterior",
    determined: "pd.DataFrame",
    interval: float,
    chosen: list[str],
) -> None:
    effects = determined[determined["kind"] == "effect"]
    heading = f"What moves a typical run, with central {100 * interval:g} % intervals"
    show_effects(written, posterior.study, effects, heading, after=True)
    # Coefficients and parameters largely say the same: both only where they are asked for.
    show_undetermined(written, determined, (*(chosen or KINDS[:1]), "effect"))


def _quantities(rows: "pd.DataFrame") -> Any:
    headers = ("quantity", "on", "mean", "sd", "lower", "upper", "ESS\nbulk", "ESS\ntail")
    table = columns(*headers, "R-hat", "con-\ntraction", numbers=8)
    weak = set(weakly_determined(rows).index)
    last = None
    for index, row in rows.iterrows():
        marked = index in weak
        table.add_row(
            "" if row["quantity"] == last else row["quantity"],
            row["domain"],
            number(row["mean"]),
            number(row["sd"], 2),
            number(row["lower"]),
            number(row["upper"]),
            f"{row['ess_bulk']:.0f}",
            f"{row['ess_tail']:.0f}",
            f"{row['r_hat']:.3f}",
            f"{row['contraction']:.2f} {'*' if marked else ' '}",
            style="yellow" if marked else "",
        )
        last = row["quantity"]
    return table


def _meanings(posterior: "Posterior", rows: "pd.DataFrame") -> Any:
    from bayes_cpt.report.equation import meaning

    table = columns("quantity", "what it is")
    for quantity in rows["quantity"].unique():
        table.add_row(quantity, meaning(posterior.frame, quantity))
    return table
