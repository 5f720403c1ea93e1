"""The methods paragraph of a fit: its model, priors, sampler, diagnostics and versions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bayes_cpt.model.fitted_points import MOST_SKIPPED
from bayes_cpt.report.paper.convergence import Convergence
from bayes_cpt.report.paper.references import versions
from bayes_cpt.report.rendering import paragraphs

if TYPE_CHECKING:
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.model.law_table import ResidualTable


def methods(
    posterior: "Posterior",
    interval: float = 0.9,
    *,
    reached: Convergence | None = None,
    draws: int = 0,
    scores: Sequence[dict[str, Any]] = (),
) -> tuple[str, ...]:
    """Return how a fit was made, in paragraphs that cite works as ``[@key]``.

    Parameters
    ----------
    posterior : Posterior
    interval : float
        Mass of the intervals that are reported.
    reached : Convergence, optional
        Diagnostics of the fit, where they are at hand.
    draws : int
        Posterior draws behind a decision; 0 where none is reported.
    scores : sequence of dict
        Of `bayes_cpt.report.page.calibration.Calibration.scores`; none where nothing was held out.
    """
    from bayes_cpt.inference.fitting import attempts_for
    from bayes_cpt.model.elements import elements
    from bayes_cpt.model.priors import Fixed

    frame, study = posterior.frame, posterior.study
    reached = Convergence.of(posterior) if reached is None else reached
    residuals = frame.spec.residuals
    efforts = attempts_for(frame.spec.law)
    effort = efforts[min(reached.attempts, len(efforts)) - 1]
    return paragraphs(
        "methods.txt",
        "methods",
        {
            "runs": _runs(posterior),
            "study": study.name,
            "points": _points(posterior),
            "domains": " and ".join(
                f"{domain} ({role} data)"
                for domain, role in zip(frame.domains, frame.roles, strict=True)
            ),
            "model": frame.spec.name,
            "summary": frame.spec.summary,
            "versions": versions(posterior),
            "skipped": _skipped(residuals),
            "parameters": sum(not isinstance(element.prior, Fixed) for element in elements(frame)),
            "correlated": residuals.kind == "curve",
            "reached": reached,
            "tuning": effort.tune,
            "seed": posterior.seed,
            "problems": "; ".join(posterior.problems),
            "mass": f"{100 * interval:g}",
            "decided": draws > 0,
            "draws": draws,
            "scores": scores,
        },
    )


def _skipped(residuals: "ResidualTable") -> str:
    """Return what of each pre-training run does not enter the fit."""
    parts = ["its warm-up"]
    if residuals.skip_pretraining:
        parts.append(f"the first {100 * residuals.skip_pretraining:g} % of its steps")
    if residuals.skip_warmups:
        parts.append(
            f"{residuals.skip_warmups:g} times the longest warm-up, but no more than "
            f"{100 * residuals.skip_longest:g} % of the longest run or {100 * MOST_SKIPPED:g} % of it"
        )
    return " or ".join(parts) + (", whichever is longest" if len(parts) > 1 else "")


def _runs(posterior: "Posterior") -> str:
    study = posterior.study
    counted = [(len(study.pretraining_runs), "")]
    if posterior.frame.spec.law.continual:
        counted.insert(0, (len(study.continual_runs), "continual"))
    return " and ".join(
        f"{count} {' '.join((kind, 'pre-training')).strip()} run{'s' * (count > 1)}"
        for count, kind in counted
        if count
    )


def _points(posterior: "Posterior") -> int:
    """Return how many losses entered the fit."""
    frame, study = posterior.frame, posterior.study
    runs = study.runs if frame.spec.law.continual else study.pretraining_runs
    return sum(
        len(frame.fitted_steps(study, run, domain)) for run in runs for domain in frame.domains
    )
