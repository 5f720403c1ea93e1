"""`bayes-cpt summary` and `landmarks`: what a fit has learnt, of the law and beside its curves."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.before_fit import determined
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile, Part, Results, heading
from bayes_cpt.cli.running import advised, law_alarms, of_fit
from bayes_cpt.report.tables import WRITERS, Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.landmarks import Survey

KINDS = ("coefficient", "parameter")


@command
def summary(
    fit: Path,
    *,
    interval: float = 0.9,
    sensitivity: bool = False,
    plan: Path | None = None,
    output: Path | None = None,
    verbose: bool = False,
) -> Answer:
    r"""Say what a fit has learnt: whether to trust it, what affects a run, and what is left open.

    The table holds the effects of what can be chosen about a run on its last loss: median and central
    interval, marked * where the prior decides, or no two runs differ.

    With --verbose also the letters of the printed equation, and what was sampled, noise included: mean, sd,
    central interval, ESS, R-hat and contraction, which is near 1 where the runs determine a quantity and
    near 0 where its prior does; and what each undetermined quantity moves with and which run would tell.
    With --sensitivity which coefficients and effects, and which last losses of the runs, rest on the prior.
    A .csv file and --json hold everything however much is printed; a .tex or .md file holds coefficients.

    Of a stack (bayes-cpt compare) effects are those of the whole; coefficients and parameters, which its
    laws do not share, are shown law by law with their weights.

    \b
    Example:
    bayes-cpt summary fit.nc
    bayes-cpt summary fit.nc -o coefficients.tex

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics, or its law does not fit the runs
    2  bad input: nothing is written

    Parameters
    ----------
    sensitivity
        Say which conclusions rest on the prior; takes seconds.
    output : OUT
        Write the table as well: .csv, .md, or .tex for a paper (booktabs).
    """
    from bayes_cpt.forecast.quality import fit_quality
    from bayes_cpt.identify.determination import Facts, determination, settled
    from bayes_cpt.identify.sensitivity import sensitivity as prior_sensitivity
    from bayes_cpt.report.fit import fit_verdict, power_words, resting
    from bayes_cpt.report.results import effects_table, quantities_table

    file = OutputFile(output, tuple(WRITERS), fit)
    posterior = bayes_cpt.load(fit)
    sensitive = prior_sensitivity(posterior, plan) if sensitivity else None
    table = posterior.summary(interval)
    told, quality = determination(posterior, interval), fit_quality(posterior)
    if output is not None:
        whole = table if output.suffix == ".csv" else table[table["kind"] == KINDS[0]]
        file.write(WRITERS[output.suffix](quantities_table(posterior, whole, interval)))
    facts = Facts.of(told)
    shown = KINDS if verbose else ()
    # Coefficients and parameters largely say the same.
    conclusions = (KINDS[0], "effect")
    parts = [*law_alarms(posterior, verbose=verbose), effects_table(posterior, told, interval)]
    parts += _quantities(posterior, table, interval, shown)
    if verbose:
        parts.append(determined(told[~settled(told)], conclusions, "What the runs leave open"))
        rests = resting(posterior.study, continual=posterior.frame.spec.law.continual)
        parts.append(f"\n{rests} {power_words(posterior, interval)}".rstrip())
    else:
        source = f"{posterior.frame.spec.name}, fitted to {posterior.study.name}."
        more = "Coefficients, parameters, and what would tell more: --verbose."
        parts.append(Text(f"{source} {more}", "dim"))
    if sensitive is not None:
        parts += _resting_on_priors(sensitive, (*conclusions, *shown))
    content = {
        "seed": posterior.seed,
        "quality": quality,
        "quantities": table,
        "facts": facts,
        "determination": told,
        "law_checks": posterior.law_checks.table(),
        "sensitivity": sensitive,
    }
    verdict = fit_verdict(posterior, quality, facts)
    return of_fit(posterior, content, verdict, parts, written=[file])


def _quantities(
    posterior: "Posterior", table: "pd.DataFrame", interval: float, kinds: tuple[str, ...]
) -> list[Part]:
    from bayes_cpt.report.equation import equation, meaning
    from bayes_cpt.report.results import quantities_table

    parts: list[Part] = []
    if posterior.stacked and kinds:
        for law, weight in zip(posterior.laws, posterior.weights, strict=True):
            name = law.frame.spec.name
            parts.append(heading(f"{name}, {100 * weight:.0f} % of the draws"))
            parts += _quantities(law, table[table["law"] == name], interval, kinds)
        return parts
    for kind in kinds:
        rows = table[table["kind"] == kind]
        if kind == KINDS[0]:
            parts += ["", *(Text(f" {line}", "cyan") for line in equation(posterior.frame))]
        meant = rows[["quantity"]].drop_duplicates()
        meant["what it is"] = [meaning(posterior.frame, name) for name in meant["quantity"]]
        parts += [quantities_table(posterior, rows, interval), "", Table("", meant)]
    return parts


def _resting_on_priors(table: "pd.DataFrame", kinds: tuple[str, ...]) -> list[Part]:
    """Return what scaling the prior moves, and the priors that do it."""
    from bayes_cpt.report.words import sentence

    losses = table[table["kind"] == "last loss"]
    firm = int((losses["diagnosis"] == "").sum())
    rows = table[table["kind"].isin(("last loss", *kinds)) & (table["diagnosis"] != "")]
    rows = rows.replace({"rests_on": {"": "several, a little each"}})
    return [
        heading("Prior sensitivity (power scaling, doi 10.1007/s11222-023-10366-5)"),
        f"{firm} of {len(losses)} last losses do not rest on the prior.",
        *(
            Table.of("sensitive", own, diagnosis=str(diagnosis).capitalize())
            for diagnosis, own in rows.groupby("diagnosis")
        ),
        *(["", sentence("fit.txt", "doubled", {})] if len(rows) else []),
    ]


# Runs, and replay ratios, that are printed: all fits on one screen, and the rest is written.
RUNS, REPLAYS = 8, 4
# Shares of draws below which nobody asks after how many steps.
WORTH_A_WORD = 0.05


@command
def landmarks(
    fit: Path,
    *,
    plan: Path | None = None,
    output: Path | None = None,
    run: str | None = None,
    target: str | None = None,
    interval: float = 0.9,
    draws: int = 500,
    verbose: bool = False,
) -> Answer:
    r"""Say which base to start from, how high to re-warm, and whether general loss comes back.

    Everything is computed draw by draw, of the law's curve, without the noise of a measured run:

    \b
    turning length      CPT steps after which a loss that rose is back at its base's and stays so, as the
                        run is drawn out and as it is held at its peak; and how probably it never is
    critical point      PT steps past which general loss does not all come back
    loss potential      last losses from bases annealed to different learning rates
    peak learning rate  last losses at different peaks
    bases               last losses from each base of known history

    With several targets name one: answers are for runs on it alone.

    With a base of unknown history only the first and the fourth are available. A summary is printed; -o and
    --json have everything.

    \b
    Example:
    bayes-cpt landmarks fit.nc --plan plan.toml -o landmarks

    Parameters
    ----------
    run : NAME
        The run whose base and peak are varied [default: the first that anneals].
    """
    from bayes_cpt.landmarks import hidden_curves, survey
    from bayes_cpt.report.landmarks import survey_words

    results = Results(output)
    posterior = bayes_cpt.load(fit).of_target(target, "a survey of landmarks")
    found = survey(posterior, plan, run, draws=draws)
    tables, past = found.tables(interval), found.past()
    plots, of_run, choices = bayes_cpt.plots, (found.plan, [found.run.name]), found.choices
    figures = {
        "landmarks": lambda: plots.landmarks(found.turning, choices.critical if choices else None),
        "peak_learning_rate": lambda: plots.response(found.peaks),
        "hidden_curves": lambda: plots.hidden_curves(hidden_curves(posterior, *of_run, draws)),
        "decomposition": lambda: plots.decomposition(posterior, found.plan, found.run.name),
    }
    if choices:
        figures["loss_potential"] = lambda: plots.response(choices.direct, choices.rewarmed)
        figures["bases"] = lambda: plots.response(choices.bases)
    else:
        names = ("critical_point.csv", "loss_potential.csv", "loss_potential.png")
        results.drop(*names, "bases.csv", "bases.png")
    content = {
        "run": found.run.name,
        "horizon": found.turning.draws.attrs["horizon"],
        "past_critical_point": past
        and {
            "base": found.base.name,
            "replay": found.run.replay or 0.0,
            "probability": past[0],
            "probability_by_prior": past[1],
        },
    }
    return advised(
        posterior,
        survey_words(found, interval),
        results,
        content,
        tables=tables,
        figures=figures,
        parts=_shown(found, tables, interval),
        verbose=verbose,
    )


def _shown(found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float) -> list[Table]:
    """Return what the choice of a base does, else of a peak, and what becomes of general loss."""
    turning = tables["turning_length"]
    general = turning[turning["course"] == "stretched"]
    rows = general.assign(drawn_out=1.0 - general["never_returns"])
    rows["median"] = rows["median"].where(rows["returns"] >= WORTH_A_WORD)
    left = len(rows) - RUNS
    more = f" ({left} more in --json and in what -o writes)" if left > 0 else ""
    several = "bases" in tables and tables["bases"]["value"].nunique() > 1
    choice = tables["bases" if several else "peak_learning_rate"]
    values = choice["value"].map(lambda own: own if isinstance(own, str) else f"{own:.3g}")
    named = {"run": found.run.name, "choice": choice["choice"].iloc[0], "interval": interval}
    shown = [Table.of("response", choice.assign(value=values), **named)]
    shown.append(Table.of("turning", rows.head(RUNS), more=more))
    if (critical := tables.get("critical_point")) is not None:
        shown.append(Table.of("critical", critical.head(REPLAYS)))
    return shown
