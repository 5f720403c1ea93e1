"""`bayes-cpt summary`: what a fit says about the law."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.fit import weakly_determined
from bayes_cpt.cli.options import (
    FitFile,
    Interval,
    Json,
    Plan,
    Quiet,
    Verbose,
    output_option,
)
from bayes_cpt.cli.output import Output, OutputFile
from bayes_cpt.cli.running import about_fit, finish, show_fit_verdict
from bayes_cpt.cli.undetermined import show_effects, show_sensitivity, show_undetermined

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior

KINDS = ("coefficient", "parameter")
QUANTITIES = (
    "quantity | on=domain | mean:text | sd:2 | lower:text | upper:text | ESS\nbulk=ess_bulk:.0f | "
    "ESS\ntail=ess_tail:.0f | R-hat=r_hat:.3f | con-\ntraction=share:text"
)
MORE = "Coefficients, parameters, and what would tell more: --verbose."


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
            "--sensitivity", help="Say which conclusions rest on the prior; takes seconds."
        ),
    ] = False,
    plan: Plan = None,
    output: Annotated[
        Path | None,
        output_option("OUT", "Write the table as well: .csv, .md, or .tex for a paper (booktabs)."),
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Say what a fit has learnt: whether to trust it, what moves a run, and what is left open.

    The table holds the effects of what can be chosen about a run on its last loss: median and central
    interval, marked * where the prior decides, or no two runs differ.

    With --coefficients, the letters of the printed equation, and with --parameters, what was sampled, noise
    included: mean, sd, central interval, ESS, R-hat and contraction, which is near 1 where the runs
    determine a quantity and near 0 where its prior does. With --verbose both, and what each undetermined
    quantity moves with and which run would tell. With --sensitivity which of all that, and of the last
    losses of the runs, rests on the prior. A .csv file and --json hold everything however much is printed;
    a .tex or .md file holds coefficients, or what is asked for.

    Of a stack (bayes-cpt compare) effects are those of the whole; coefficients and parameters, which its
    laws do not share, are shown law by law with their weights.

    \b
    Example:
    bayes-cpt summary fit.nc
    bayes-cpt summary fit.nc --coefficients -o coefficients.tex

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics, or its law does not fit the runs
    2  bad input: nothing is written
    """
    from bayes_cpt.forecast.quality import fit_quality
    from bayes_cpt.identify.determination import determination
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.report.fit import fit_verdict
    from bayes_cpt.report.tables import WRITERS

    written = Output(quiet, json)
    file = OutputFile(output, tuple(WRITERS), fit)
    posterior = load(fit)
    sensitive = None
    if sensitivity:
        from bayes_cpt.identify.sensitivity import sensitivity as prior_sensitivity

        with written.cautions():
            sensitive = prior_sensitivity(posterior, plan)
    table = posterior.summary(interval)
    chosen = [
        kind for kind, wanted in zip(KINDS, (coefficients, parameters), strict=True) if wanted
    ]
    table = table[table["kind"].isin(chosen or KINDS)]
    determined, quality = determination(posterior, interval), fit_quality(posterior)
    if output is not None:
        file.write(_table_text(posterior, table, chosen, interval, output.suffix))
    lines = fit_verdict(posterior, quality, determined)
    shown = chosen or (list(KINDS) if verbose else [])
    show_fit_verdict(written, posterior, lines, verbose=verbose)
    _show_effects(written, posterior, determined, interval, verbose=verbose)
    _show_tables(written, posterior, table, interval, shown)
    if verbose:
        # Coefficients and parameters largely say the same: both only where they are asked for.
        show_undetermined(written, determined, (*(chosen or KINDS[:1]), "effect"))
        _show_resting(written, posterior, interval)
    if sensitive is not None:
        show_sensitivity(written, sensitive, tuple(shown or KINDS[:1]))
    file.say(written)
    content = {
        "seed": posterior.seed,
        "interval": interval,
        "verdict": lines,
        "quality": quality,
        "quantities": table,
        "determination": determined,
        "law_checks": posterior.law_checks.table(),
        "sensitivity": sensitive,
    }
    return finish(written, posterior, about_fit(fit, posterior) | content)


def _show_resting(written: Output, posterior: "Posterior", interval: float) -> None:
    """Print what no two runs differ in, and what follows."""
    from bayes_cpt.report.fit import power_words, resting

    continual = posterior.frame.spec.law.continual
    if rests := resting(posterior.study, continual=continual):
        written.text(f"\n{rests} {power_words(posterior, interval)}".rstrip())


def _table_text(
    posterior: "Posterior", table: "pd.DataFrame", chosen: list[str], interval: float, suffix: str
) -> str:
    """Return the table as a file holds it: all of it as CSV, one table per kind for a paper."""
    from bayes_cpt.report.tables import WRITERS, quantities_table

    if suffix == ".csv":
        return str(table.assign(interval=interval).to_csv(index=False))
    shown = [table[table["kind"] == kind] for kind in chosen or KINDS[:1]]
    return "\n".join(
        WRITERS[suffix](quantities_table(posterior, rows, interval)) for rows in shown if len(rows)
    )


def _show_effects(
    written: Output,
    posterior: "Posterior",
    determined: "pd.DataFrame",
    interval: float,
    *,
    verbose: bool,
) -> None:
    """Print the effects of what can be chosen, in words; the detail of them where it is asked for."""
    from bayes_cpt.forecast.derived import Typical
    from bayes_cpt.report.fit import COMPARISONS, open_effects

    effects = determined[determined["kind"] == "effect"]
    percent = f"{100 * interval:g} %"
    if verbose:
        heading = f"What moves a typical run, with central {percent} intervals"
        show_effects(written, posterior.study, effects, heading, after=True)
        return
    written.heading(f"What moves the last loss, nats/token: mean and central {percent} interval")
    if posterior.study.continual_runs:
        written.text(f"Of a run of {Typical.of(posterior.study).words}.")
    weak = open_effects(determined)
    marks = effects.index.isin(weak.index)
    cells = [
        f"{_estimate(row)} {'*' if mark else ' '}"
        for row, mark in zip(effects.to_dict("records"), marks, strict=True)
    ]
    domains = list(effects["domain"].unique())
    wide = effects.assign(cell=cells).pivot_table("cell", "quantity", "domain", "first", sort=False)
    rows = wide.rename(index=COMPARISONS).rename_axis("effect").reset_index()
    written.table(rows, {"effect": "effect"} | {on: (on, "text") for on in domains}, close=True)
    if len(weak):
        written.text("* left open: the prior decides, or no two runs differ in it.", "yellow")
    written.text(f"{posterior.frame.spec.name}, fitted to {posterior.study.name}. {MORE}", "dim")


def _estimate(row: dict[Any, Any]) -> str:
    from bayes_cpt.report.numbers import supported

    mean, lower, upper = (
        supported(row[name], row["sd"], sign=True) for name in ("mean", "lower", "upper")
    )
    return f"{mean} [{lower}, {upper}]"


def _show_tables(
    written: Output,
    posterior: "Posterior",
    table: "pd.DataFrame",
    interval: float,
    kinds: list[str],
) -> None:
    """Print every quantity of some kinds, with the printed equation; of a stack law by law."""
    import pandas as pd

    from bayes_cpt.report.equation import equation, meaning

    if posterior.stacked:
        for law, weight in zip(posterior.laws, posterior.weights, strict=True) if kinds else ():
            name = law.frame.spec.name
            written.heading(f"{name}, {100 * weight:.0f} % of the draws")
            _show_tables(written, law, table[table["law"] == name], interval, kinds)
        return
    for kind in kinds:
        rows = table[table["kind"] == kind]
        written.heading(f"{kind.capitalize()}s, with central {100 * interval:g} % intervals")
        if kind == "coefficient":
            for line in equation(posterior.frame):
                written.text(f" {line}", "cyan")
            written.text()
        written.table(_quantities(rows), QUANTITIES, group="quantity")
        written.text()
        names = list(dict.fromkeys(rows["quantity"]))
        meanings = [meaning(posterior.frame, name) for name in names]
        written.table(pd.DataFrame({"quantity": names, "what it is": meanings}))
    if kinds and not weakly_determined(table).empty:
        written.text("\n* contraction below 0.5: the quantity rests on its prior.", "yellow")


def _quantities(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return quantities as a table shows them, marked where they rest on their priors."""
    import numpy as np

    from bayes_cpt.report.numbers import supported

    weak = rows.index.isin(weakly_determined(rows).index)
    shown = rows.assign(share=rows["contraction"].map("{:.2f} ".format) + np.where(weak, "*", " "))
    for name in ("mean", "lower", "upper"):
        shown[name] = [supported(*pair) for pair in zip(rows[name], rows["sd"], strict=True)]
    return shown
