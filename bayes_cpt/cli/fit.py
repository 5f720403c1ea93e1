"""`bayes-cpt fit`: a study in, a posterior out."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.options import (
    FitDraws,
    Json,
    Model,
    Quiet,
    Seed,
    StudyFolder,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.output import Output, OutputFile
from bayes_cpt.cli.running import about_fit, check_fittable, explained, finish, show_fit_verdict

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study


def fit(
    study: StudyFolder,
    output: Annotated[Path, output_option("FIT", "File to write: NAME.nc.")],
    model: Model = "cpt-replay",
    seed: Seed = 0,
    draws: FitDraws = None,
    cores: Annotated[
        int | None, option(None, "Chains sampled at once.", default="all", min=1)
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
    from bayes_cpt.study.folder import read_study

    written = Output(quiet, json)
    file = OutputFile(output, (".nc",))
    with written.cautions():
        loaded = read_study(study)
    posterior, content = fit_and_save(written, loaded, model, seed, file, draws, cores)
    show_fit(written, posterior, content, verbose=verbose)
    file.say(written)
    written.text(
        f"Next: bayes-cpt summary {output} says what moves a run, bayes-cpt decide {output} what to train.",
        "dim",
    )
    return finish(written, posterior, content)


def fit_and_save(
    written: Output,
    study: "Study",
    model: str,
    seed: int,
    file: OutputFile,
    draws: int | None = None,
    cores: int | None = None,
) -> tuple["Posterior", dict[str, Any]]:
    """Fit and save; return the posterior and what machines are told of it."""
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.fit import Convergence, fit_verdict

    spec = read_spec(model)
    started = time.monotonic()
    with written.cautions():
        # What the study lacks is said before the sampler is imported.
        check_fittable(spec, study)
        from bayes_cpt.forecast.quality import fit_quality
        from bayes_cpt.identify.determination import determination
        from bayes_cpt.inference.fitting import fit as fit_study

        with written.progress() as report, explained():
            posterior = fit_study(study, spec, seed, draws=draws, progress=report, cores=cores)
    seconds = time.monotonic() - started
    file.write(posterior.save)
    quality, table = fit_quality(posterior), posterior.summary(coefficients=False)
    reached = Convergence.of(posterior, table)
    weak = weakly_determined(table)
    return posterior, about_fit(Path(file.path or ""), posterior) | asdict(reached) | {
        "study_digest": posterior.tree.attrs["study_digest"],
        "seed": posterior.seed,
        "seconds": round(seconds, 1),
        "quality": quality,
        "prior_bound": weak[["quantity", "domain", "contraction"]],
        "verdict": fit_verdict(posterior, quality, determination(posterior)),
    }


def show_fit(
    written: Output, posterior: "Posterior", content: dict[str, Any], *, verbose: bool
) -> None:
    """Print whether to use a fit, how close it comes, and how it was sampled."""
    from bayes_cpt.report.equation import meaning

    show_fit_verdict(written, posterior, content["verdict"], verbose=verbose)
    written.heading("How close the fitted curves are to the measured losses")
    quality = content["quality"].assign(phase=content["quality"]["phase"].str.upper())
    cells = (
        "validation set=domain | phase | points:text | R²=r2:.3f | "
        "mean miss,\nnats/token=mean_absolute_error:2"
    )
    written.table(quality, cells)
    weak = content["prior_bound"]
    if verbose and len(weak):
        written.heading("What the runs say little about: the prior decides (contraction below 0.5)")
        places = weak["domain"] + weak["contraction"].map(" {:.2f}".format)
        listed = places.groupby(weak["quantity"], sort=False).agg(", ".join)
        rows = listed.rename("contraction").rename_axis("parameter").reset_index()
        meanings = [meaning(posterior.frame, name) for name in rows["parameter"]]
        written.table(rows.assign(meaning=meanings))
    attempts = content["attempts"]
    named = (
        f" {len(weak)} parameters rest on their priors: --verbose names them." if len(weak) else ""
    )
    written.text(
        f"\n{content['chains']} chains of {content['draws']} draws, "
        f"{attempts} attempt{'s' * (attempts > 1)}, {content['seconds']:.0f} s. "
        f"Lowest ESS {content['min_ess_bulk']:.0f} (bulk) and {content['min_ess_tail']:.0f} (tail), "
        f"largest R-hat {content['max_r_hat']:.3f}, {content['divergences']} divergences."
        f"{'' if verbose else named}",
        "dim",
    )


def weakly_determined(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of a summary whose quantities rest on their priors."""
    from bayes_cpt.inference.posterior import LOWEST_CONTRACTION

    return table[table["contraction"] < LOWEST_CONTRACTION]
