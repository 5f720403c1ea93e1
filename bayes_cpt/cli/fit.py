"""`bayes-cpt fit`: a study in, a posterior out."""

import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command
from bayes_cpt.cli.output import Answer, Output, OutputFile
from bayes_cpt.cli.running import law_alarms, of_fit
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study


@command
def fit(
    written: Output,
    study: Path,
    *,
    output: Path,
    model: str = "cpt-replay",
    seed: int = 0,
    draws: ChainDraws = None,
    cores: Annotated[int | None, typer.Option(min=1)] = None,
) -> Answer:
    r"""Fit a law to a study, and write the posterior as one file.

    Samples the posterior with NUTS in four chains, again and with more care where the diagnostics fall
    short. FIT holds the draws, the study, the specification, versions and the seed: all that summary
    and predict need. A fit takes half a minute to a few minutes; the same seed gives the same draws on one
    machine. One that is interrupted leaves no file and cannot be resumed. Where the law does not fit the
    runs, the command says so: which run, which difference between runs, or which error taken for noise.

    Models: pretrain (Eq. 1 of arXiv 2505.07796), cpt (Eq. 4), cpt-replay and cpt-replay-printed
    (Eq. 8); for several model sizes pretrain-sizes and cpt-replay-sizes, for several batches
    cpt-replay-batch, for repeated target data cpt-replay-repeats (docs/models.md). A .toml file of
    your own can start from one with extends = "cpt-replay".

    \b
    Example:
    bayes-cpt fit data/cpt-lab --model cpt-replay --seed 1 -o fit.nc

    \b
    Exit codes:
    0  the fit meets its diagnostics, and the law fits the runs
    1  it does not, even after all attempts, or the law does not fit, or the study misleads it (see check):
       the file is written, and marked
    2  bad input: nothing is written
    130  interrupted: nothing is written

    Parameters
    ----------
    output : FIT
        File to write: NAME.nc.
    cores
        Chains sampled at once [default: all].
    """
    from bayes_cpt.report.words import sentence

    file = OutputFile(output, (".nc",))
    loaded = bayes_cpt.read_study(study)
    posterior, answer = fit_and_save(written, loaded, model, seed, file, draws, cores)
    # What is not to be trusted is not built on.
    if not posterior.trustworthy:
        return answer
    facts = {"fit": quote(str(output)), "continual": posterior.frame.spec.law.continual}
    hint = sentence("fit.txt", "next", facts)
    return replace(answer, parts=[*answer.parts, Text(hint, "dim")])


def fit_and_save(
    written: Output,
    study: "Study",
    model: str,
    seed: int,
    file: OutputFile,
    draws: int | None = None,
    cores: int | None = None,
) -> tuple["Posterior", Answer]:
    """Fit and save; return the posterior, and what there is to say of it."""
    from bayes_cpt.report.fit import convergence, fit_verdict
    from bayes_cpt.report.words import sentence
    from bayes_cpt.validate.folds import fittable

    spec = bayes_cpt.read_spec(model)
    started = time.monotonic()
    # What the study lacks is said before the sampler is imported.
    fittable(spec, study)
    from bayes_cpt.forecast.quality import fit_quality
    from bayes_cpt.identify.determination import facts
    from bayes_cpt.inference.posterior import LOWEST_CONTRACTION

    try:
        with written.progress() as report:
            posterior = bayes_cpt.fit(study, spec, seed, draws=draws, progress=report, cores=cores)
    except KeyboardInterrupt:
        passed = {"seconds": time.monotonic() - started}
        raise KeyboardInterrupt(sentence("fit.txt", "interrupted", passed)) from None
    seconds = time.monotonic() - started
    file.write(posterior.save)
    quality, table = fit_quality(posterior), posterior.summary(coefficients=False)
    weak = table[table["contraction"] < LOWEST_CONTRACTION]
    known = facts(posterior)
    # Again, with the facts, which took seconds: what took minutes was written before.
    file.write(posterior.save)
    content = convergence(posterior, table) | {
        "study_digest": posterior.tree.attrs["study_digest"],
        "seconds": round(seconds, 1),
        "quality": quality,
        "prior_bound": weak[["quantity", "domain", "contraction"]],
        "facts": known,
    }
    phases = quality.assign(phase=quality["phase"].str.upper())
    left_out = 0 if spec.law.continual else len(study.continual_runs)
    parts = [
        *law_alarms(posterior, verbose=False),
        Table.of("quality", phases),
        Text(f"\n{sentence('fit.txt', 'sampled', content | {'left_out': left_out})}", "dim"),
    ]
    verdict = fit_verdict(posterior, quality, known)
    return posterior, of_fit(posterior, content, verdict, parts, written=[file])
