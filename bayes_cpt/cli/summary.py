"""`bayes-cpt summary`: what a fit says about the law."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile, Part, heading
from bayes_cpt.cli.running import law_alarms, of_fit
from bayes_cpt.cli.undetermined import effects_in_detail, resting_on_priors, undetermined

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior

KINDS = ("coefficient", "parameter")
MORE = "Coefficients, parameters, and what would tell more: --verbose."


@command
def summary(
    fit: Path,
    *,
    interval: float = 0.9,
    coefficients: bool = False,
    parameters: bool = False,
    sensitivity: bool = False,
    plan: Path | None = None,
    output: Path | None = None,
    verbose: bool = False,
) -> Answer:
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

    Parameters
    ----------
    coefficients
        Only the coefficients of the printed equation.
    parameters
        Only what was sampled, noise included.
    sensitivity
        Say which conclusions rest on the prior; takes seconds.
    output : OUT
        Write the table as well: .csv, .md, or .tex for a paper (booktabs).
    """
    from bayes_cpt.forecast.quality import fit_quality
    from bayes_cpt.identify.determination import Facts, determination
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.report.fit import fit_verdict
    from bayes_cpt.report.results import effects_table, quantities_table
    from bayes_cpt.report.tables import WRITERS

    file = OutputFile(output, tuple(WRITERS), fit)
    posterior = load(fit)
    sensitive = None
    if sensitivity:
        from bayes_cpt.identify.sensitivity import sensitivity as prior_sensitivity

        sensitive = prior_sensitivity(posterior, plan)
    asked = zip(KINDS, (coefficients, parameters), strict=True)
    chosen = [kind for kind, wanted in asked if wanted]
    table = posterior.summary(interval)
    table = table[table["kind"].isin(chosen or KINDS)]
    determined, quality = determination(posterior, interval), fit_quality(posterior)
    if output is not None:
        # All of it as CSV, for a paper one table per kind.
        whole = [table] if output.suffix == ".csv" else _of_kinds(table, chosen or KINDS[:1])
        write = WRITERS[output.suffix]
        file.write("\n".join(write(quantities_table(posterior, own, interval)) for own in whole))
    facts = Facts.of(determined)
    lines = fit_verdict(posterior, quality, facts)
    shown = chosen or (list(KINDS) if verbose else [])
    parts = [] if posterior.trustworthy else law_alarms(posterior, verbose=verbose)
    if verbose:
        effects = determined[determined["kind"] == "effect"]
        title = f"What moves a typical run, with central {100 * interval:g} % intervals"
        parts += effects_in_detail(posterior.study, effects, title, after=True)
    else:
        source = f"{posterior.frame.spec.name}, fitted to {posterior.study.name}. {MORE}"
        parts += [effects_table(posterior, determined, interval), Text(source, "dim")]
    parts += _quantities(posterior, table, interval, shown)
    if verbose:
        # Coefficients and parameters largely say the same: both only where they are asked for.
        parts += undetermined(determined, (*(chosen or KINDS[:1]), "effect"))
        parts += _resting(posterior, interval)
    if sensitive is not None:
        parts += resting_on_priors(sensitive, tuple(shown or KINDS[:1]))
    content = {
        "seed": posterior.seed,
        "interval": interval,
        "verdict": lines,
        "quality": quality,
        "quantities": table,
        "facts": asdict(facts),
        "determination": determined,
        "law_checks": posterior.law_checks.table(),
        "sensitivity": sensitive,
    }
    verdict = lines if posterior.trustworthy else []
    return of_fit(fit, posterior, content, verdict, [*parts, *file.said], notes=file.notes)


def _resting(posterior: "Posterior", interval: float) -> list[Part]:
    """Return what no two runs differ in, and what follows."""
    from bayes_cpt.report.fit import power_words, resting

    continual = posterior.frame.spec.law.continual
    rests = resting(posterior.study, continual=continual)
    return [f"\n{rests} {power_words(posterior, interval)}".rstrip()] if rests else []


def _of_kinds(table: "pd.DataFrame", kinds: Sequence[str]) -> "list[pd.DataFrame]":
    """Return the rows of each kind that there is."""
    parts = [table[table["kind"] == kind] for kind in kinds]
    return [rows for rows in parts if len(rows)]


def _quantities(
    posterior: "Posterior", table: "pd.DataFrame", interval: float, kinds: list[str]
) -> list[Part]:
    """Return every quantity of some kinds, with the printed equation; of a stack law by law."""
    import pandas as pd

    from bayes_cpt.report.equation import equation, meaning
    from bayes_cpt.report.results import quantities_table
    from bayes_cpt.report.tables import Table

    parts: list[Part] = []
    if posterior.stacked and kinds:
        for law, weight in zip(posterior.laws, posterior.weights, strict=True):
            name = law.frame.spec.name
            parts.append(heading(f"{name}, {100 * weight:.0f} % of the draws"))
            parts += _quantities(law, table[table["law"] == name], interval, kinds)
        return parts
    for rows in _of_kinds(table, kinds):
        if rows["kind"].iloc[0] == "coefficient":
            parts += ["", *(Text(f" {line}", "cyan") for line in equation(posterior.frame))]
        names = list(dict.fromkeys(rows["quantity"]))
        meanings = [meaning(posterior.frame, name) for name in names]
        meant = pd.DataFrame({"quantity": names, "what it is": meanings})
        parts += [quantities_table(posterior, rows, interval), "", Table("", meant)]
    return parts
