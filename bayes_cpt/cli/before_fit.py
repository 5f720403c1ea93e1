"""`bayes-cpt check` and `prior`: what is known of a study and of a model before a fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import FIGURES, Answer, OutputFile, Part, figure_file
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.study import Study


@command
def check(study: Path, *, model: str | None = None, verbose: bool = False) -> Answer:
    r"""Say what is in a study, every problem with its place and fix, and what its runs can tell.

    Prints which effects these runs will determine, what they leave open and which run would tell most about
    that; then the bases, the runs, the ranges they cover, what no two of them differ in and what looks
    suspicious. With --verbose also how well each parameter of the law and each effect will be known, and
    which run would tell more about each. Nothing is fitted; it takes seconds.

    \b
    Example:
    bayes-cpt check data/cpt-lab

    \b
    Exit codes:
    0  the study can be fitted
    1  it can, but something in it looks like a mistake that would make the fit meaningless
    2  it cannot: all its problems are on stderr, one paragraph each

    Parameters
    ----------
    model : NAME
        Law whose coefficients are asked for, by name or as a .toml file [default: cpt-replay, or pretrain
        where there is no CPT run, pretrain-sizes if model sizes differ].
    """
    from bayes_cpt.identify.determination import Facts, identifiability
    from bayes_cpt.model.fitted_points import usual_model
    from bayes_cpt.report.fit import batch_words, size_words, summarise, undivided
    from bayes_cpt.report.words import paragraphs
    from bayes_cpt.study.ranges import check_evidence, describe

    loaded = bayes_cpt.read_study(study)
    spec = bayes_cpt.read_spec(model or usual_model(loaded))
    law = spec.law
    check_evidence(loaded, continual=law.continual)
    table = identifiability(loaded, spec)
    facts = Facts.of(table)
    lines = paragraphs("check.txt", "counted", {"study": loaded, "model": spec.name})
    problems = lines if loaded.misleading else []
    if not problems:
        lines += summarise(facts, fitted=False)
    if law.model_size:
        lines += size_words(loaded, continual=law.continual)
    if law.batches:
        lines += batch_words(loaded)
    alike = undivided(loaded, continual=bool(loaded.continual_runs))
    told = {"no_two_runs_differ_in": alike, "model": spec.name, "facts": facts}
    content = describe(loaded) | told
    for kind in ("parameter", "effect"):
        content[f"{kind}s"] = table[table["kind"] == kind].drop(columns="kind")
    parts = ["", *_study(loaded, content), *(Text(own, "yellow") for own in alike)]
    if verbose:
        title = f"What these runs can tell of {spec.name}"
        parts.append(determined(table, ("parameter", "effect"), title))
    else:
        parts.append(Text("\nWhat they can tell of each parameter and effect: --verbose.", "dim"))
    return Answer(content, lines, parts, problems)


def _study(study: "Study", content: dict[str, Any]) -> list[Part]:
    """Return what is in a study: validation sets, bases, runs and the ranges that they cover."""
    import pandas as pd

    from bayes_cpt.report.results import bases_table, runs_table
    from bayes_cpt.report.words import paragraphs, sentence

    parts: list[Part] = [Text(f"Study {study.name}", "bold")]
    parts += [study.description] if study.description else []
    parts.append(sentence("check.txt", "sets", {"study": study}))
    parts += [bases_table(study)] if study.bases else []
    parts.append(runs_table(study))
    branches = paragraphs("check.txt", "branches", {"runs": content["runs"]})
    parts += [Text(own, "dim") for own in branches]
    covered = pd.DataFrame(content["ranges"]).T.rename_axis("phase").reset_index()
    return [*parts, Table.of("ranges", covered[covered["steps"].notna()])]


def determined(table: "pd.DataFrame", kinds: tuple[str, ...], title: str) -> Table:
    """Return how well runs tell quantities, what these move with, and the run that would tell more.

    The table is that of `bayes_cpt.identify.determination`: of `identifiability` or of `determination`.
    """
    from bayes_cpt.identify.determination import settled

    rows = table[table["kind"].isin(kinds)]
    firm = settled(rows)
    pairs = [own[0] if own else ("", "", 0.0) for own in rows["moves_with"]]
    advice = rows["advice"] + rows["with_advice"].map(" (makes it {:.2f})".format)
    shown = rows.assign(
        known=rows["contraction"].map("{:.2f} ".format) + firm.map({True: " ", False: "*"}),
        partner=[f"{name} {correlation:+.2f}" if name else "" for name, _, correlation in pairs],
        add=advice.mask(firm, ""),
    )
    return Table.of("determined", shown, title=title)


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
    from bayes_cpt.report.forecasts import prior_words
    from bayes_cpt.report.results import priors_table

    file = OutputFile(output, FIGURES, plan, model)
    spec = bayes_cpt.read_spec(model)
    frame, runs = read_prior_plan(spec, plan, study)
    ends = expected_ends(frame, runs, interval, seed=seed)
    if output is not None:
        file.write(figure_file(bayes_cpt.plots.prior_predictive(frame, runs, seed=seed)))
    words = prior_words(spec.name, ends, interval)
    content = {
        "model": spec.name,
        "plan": runs.name,
        "priors": prior_table(frame, interval),
        "correlations": spec.correlations,
        "ends": ends,
    }
    # A terminal has no room for the reasons beside the numbers.
    table = priors_table(frame, interval, reasons=False)
    reasons = Table.of("reasons", table.rows[table.rows["why"] != ""])
    changes = (ends["quantity"] == "change").all()
    form, what = ("change", "change of the loss") if changes else ("interval", "loss")
    expected = Table.of("prior_ends", ends, plan=runs.name, what=what, form=form)
    cautions = (Text(own, "yellow") for own in words.sentences)
    parts: list[Part] = [table, reasons, expected, *cautions]
    return Answer(content, words.verdict, parts, written=[file])
