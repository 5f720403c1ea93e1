"""`bayes-cpt fit`: a study in, a posterior out."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.shared.console import Output, columns, number
from bayes_cpt.cli.shared.frame import OutputFile, about_fit, finish, show_fit_verdict
from bayes_cpt.cli.shared.interruption import explained
from bayes_cpt.cli.shared.options import (
    Json,
    Quiet,
    Seed,
    StudyFolder,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import check_target, writing

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study


def fit(
    study: StudyFolder,
    output: Annotated[Path, output_option("FIT", "File to write: NAME.nc.")],
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="Law to fit, by name or as a .toml file of your own."),
    ] = "cpt-replay",
    seed: Seed = 0,
    draws: Annotated[
        int | None,
        option(
            None,
            "Draws kept in each of the four chains.",
            default="as many as the diagnostics need",
            min=10,
        ),
    ] = None,
    cores: Annotated[
        int | None, option(None, "Chains sampled at once.", default="all", min=1)
    ] = None,
    mlflow: Annotated[
        str | None,
        option("URI", "Log the fit to this MLflow store too: sqlite:///FILE, or a server."),
    ] = None,
    wandb: Annotated[
        str | None,
        option("PROJECT", "Log the fit to this W&B project too; offline with WANDB_MODE=offline."),
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Fit a law to a study, and write the posterior as one file.

    Samples the posterior with NUTS in four chains, again and with more care where the diagnostics fall
    short. FIT holds the draws, the study, the specification, versions and the seed: all that summary
    and predict need. A fit takes a few minutes; the same seed gives the same draws on one machine. One
    that is interrupted leaves no file and cannot be resumed. A law that does not fit the runs says so: by
    run, by what runs differ in, and where it takes its own error for noise.

    Models: pretrain (Eq. 1 of arXiv 2505.07796), cpt (Eq. 4), cpt-replay and cpt-replay-printed
    (Eq. 8); a .toml file of your own can start from one with extends = "cpt-replay".

    \b
    Example:
    bayes-cpt fit data/cpt-lab --model cpt-replay --seed 1 -o fit.nc

    \b
    Exit codes:
    0  the fit meets its diagnostics, and the law fits the runs
    1  it does not, even after all attempts, or the law does not fit: the file is written, and marked
    2  bad input: nothing is written
    130  interrupted: nothing is written
    """
    from bayes_cpt.study.readers.folder import read_study

    written = Output(quiet, json)
    check_target(output, (".nc",))
    if mlflow is not None or wandb is not None:
        from bayes_cpt.cli.shared.tracking import check_installed

        check_installed(mlflow=mlflow is not None, wandb=wandb is not None)
    with written.cautions():
        loaded = read_study(study)
    posterior, content = fit_and_save(
        written, loaded, model, seed, output, draws, cores, verbose=verbose
    )
    content |= _tracked(written, posterior, mlflow, wandb)
    return finish(written, posterior, content)


def _tracked(
    written: Output, posterior: "Posterior", mlflow: str | None, wandb: str | None
) -> dict[str, Any]:
    """Log the fit where that was asked for, and return where it went."""
    if mlflow is None and wandb is None:
        return {}
    from bayes_cpt.cli.shared.tracking import log_to_mlflow, log_to_wandb

    places = {}
    if mlflow is not None:
        places["mlflow_run"] = log_to_mlflow(posterior, mlflow)
    if wandb is not None:
        places["wandb_run"] = str(log_to_wandb(posterior, wandb))
    for name, place in places.items():
        written.text(f"Logged as {name.replace('_', ' ')} {place}")
    return places


def fit_and_save(
    written: Output,
    study: "Study",
    model: str,
    seed: int,
    target: Path,
    draws: int | None = None,
    cores: int | None = None,
    *,
    verbose: bool = False,
) -> tuple["Posterior", dict[str, Any]]:
    """Fit, save and show; return the posterior and what machines are told of it."""
    from bayes_cpt.model.setup import build_setup
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.words.fit import fit_verdict
    from bayes_cpt.study.evidence import check_evidence

    spec = read_spec(model)
    started = time.monotonic()
    with written.cautions():
        # What the study lacks is said before the sampler is imported.
        build_setup(spec, study)
        check_evidence(study, continual=spec.law.continual)
        from bayes_cpt.forecast.quality import fit_quality
        from bayes_cpt.identify.determination import determination
        from bayes_cpt.inference.fitting import fit as fit_study

        with written.progress() as tell, explained(tell) as clock:
            posterior = fit_study(study, spec, seed, draws=draws, progress=clock, cores=cores)
    seconds = time.monotonic() - started
    file = OutputFile(target)
    with writing(target):
        posterior.save(target)
    quality, determined = fit_quality(posterior), determination(posterior)
    content = _content(posterior, quality, target, seconds)
    lines = fit_verdict(posterior, quality, determined)
    show_fit_verdict(written, posterior, lines, verbose=verbose)
    _show(written, posterior, content, verbose=verbose)
    file.say(written)
    written.text(
        f"Next: bayes-cpt summary {target} says what moves a run, bayes-cpt decide {target} what to train.",
        "dim",
    )
    return posterior, content | {"verdict": lines}


def _content(
    posterior: "Posterior", quality: "pd.DataFrame", target: Path, seconds: float
) -> dict[str, Any]:
    from bayes_cpt.report.paper.convergence import Convergence

    table = posterior.summary(coefficients=False)
    reached = Convergence.of(posterior, table)
    weak = weakly_determined(table)
    return about_fit(target, posterior) | {
        "study_digest": posterior.tree.attrs["study_digest"],
        "seed": posterior.seed,
        "attempts": reached.attempts,
        "seconds": round(seconds, 1),
        "chains": reached.chains,
        "draws": reached.draws,
        "min_ess_bulk": reached.smallest_bulk,
        "min_ess_tail": reached.smallest_tail,
        "max_r_hat": reached.largest_rhat,
        "divergences": reached.divergences,
        "quality": quality.to_dict("records"),
        "prior_bound": weak[["quantity", "domain", "contraction"]].to_dict("records"),
    }


def _show(
    written: Output, posterior: "Posterior", content: dict[str, Any], *, verbose: bool
) -> None:
    written.heading("How close the fitted curves are to the measured losses")
    table = columns("validation set", "phase", "points", "R²", "mean miss,\nnats/token", numbers=3)
    for row in content["quality"]:
        error = number(row["mean_absolute_error"], 2)
        phase = str(row["phase"]).upper()
        table.add_row(row["domain"], phase, str(row["points"]), f"{row['r2']:.3f}", error)
    written.table(table)
    if verbose and content["prior_bound"]:
        written.heading("What the runs say little about: the prior decides (contraction below 0.5)")
        written.table(_prior_bound(posterior, content["prior_bound"]))
    attempts, weak = content["attempts"], len(content["prior_bound"])
    named = f" {weak} parameters rest on their priors: --verbose names them." if weak else ""
    written.text(
        f"\n{content['chains']} chains of {content['draws']} draws, "
        f"{attempts} attempt{'s' * (attempts > 1)}, {content['seconds']:.0f} s. "
        f"Lowest ESS {content['min_ess_bulk']:.0f} (bulk) and {content['min_ess_tail']:.0f} (tail), "
        f"largest R-hat {content['max_r_hat']:.3f}, {content['divergences']} divergences."
        f"{'' if verbose else named}",
        "dim",
    )


def _prior_bound(posterior: "Posterior", rows: list[dict[str, Any]]) -> Any:
    from bayes_cpt.report.equation import meaning

    weak: dict[str, list[str]] = {}
    for row in rows:
        place = f"{row['domain']} {row['contraction']:.2f}"
        weak.setdefault(row["quantity"], []).append(place)
    table = columns("parameter", "contraction", "meaning")
    for quantity, places in weak.items():
        table.add_row(quantity, ", ".join(places), meaning(posterior.frame, quantity))
    return table


def weakly_determined(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of a summary whose quantities rest on their priors."""
    from bayes_cpt.inference.posterior import LOWEST_CONTRACTION

    return table[table["contraction"] < LOWEST_CONTRACTION]
