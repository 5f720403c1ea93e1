"""The methods section of a paper that is true of a fit, and the works that it cites."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bayes_cpt.model.fitted_points import MOST_SKIPPED
from bayes_cpt.report.fit import Convergence
from bayes_cpt.report.words import environment, paragraphs

if TYPE_CHECKING:
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.model.law_table import ResidualTable

CITATION = re.compile(r"\[@(\w+)\]")
ENTRY = re.compile(r"^@\w+\{(\w+),$.*?^\}$", re.MULTILINE | re.DOTALL)


def methods(
    posterior: "Posterior",
    interval: float = 0.9,
    *,
    reached: Convergence | None = None,
    draws: int = 0,
    scores: Sequence[dict[str, Any]] = (),
) -> list[str]:
    """Return how a fit was made, in paragraphs that cite works as ``[@key]``.

    `draws` are those behind a decision, 0 where none is reported; `scores` of `Calibration.scores`.
    """
    from bayes_cpt.inference.sampling import ATTEMPTS, FIRST_LOOK
    from bayes_cpt.model.priors import Fixed
    from bayes_cpt.model.setup import elements

    frame, study = posterior.frame, posterior.study
    reached = Convergence.of(posterior) if reached is None else reached
    efforts = (FIRST_LOOK, *ATTEMPTS)
    continual = frame.spec.law.continual
    runs = study.runs if continual else study.pretraining_runs
    facts = {
        "continual": len(study.continual_runs) if continual else 0,
        "pretraining": len(study.pretraining_runs),
        "study": study.name,
        "points": sum(
            len(frame.fitted_steps(study, run, own)) for run in runs for own in frame.domains
        ),
        "domains": " and ".join(
            f"{domain} ({role} data)"
            for domain, role in zip(frame.domains, frame.roles, strict=True)
        ),
        "model": frame.spec.name,
        "summary": frame.spec.summary,
        "versions": versions(posterior),
        "skipped": _skipped(frame.spec.residuals),
        "parameters": sum(not isinstance(element.prior, Fixed) for element in elements(frame)),
        "correlated": frame.spec.residuals.kind == "curve",
        "reached": reached,
        "tuning": efforts[min(reached.attempts, len(efforts)) - 1].tune,
        "seed": posterior.seed,
        "problems": "; ".join(posterior.problems),
        "mass": f"{100 * interval:g}",
        "draws": draws,
        "scores": scores,
    }
    return paragraphs("methods.txt", "methods", facts)


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


def versions(posterior: "Posterior") -> dict[str, str]:
    """Return the versions of what made a fit, by the name of the package."""
    kept = dict(json.loads(posterior.tree.attrs["versions"]))
    return dict.fromkeys(("bayes-cpt", "pymc", "nutpie"), "unknown") | kept


def cited(text: str) -> list[str]:
    """Return the keys that a text cites, in the order of their first citation.

    Examples
    --------
    >>> cited("By NUTS [@b] for the law [@a], as in [@b].")
    ['b', 'a']
    """
    return list(dict.fromkeys(CITATION.findall(text)))


def bibtex(posterior: "Posterior", keys: Iterable[str]) -> str:
    """Return works as a BibTeX file, with the versions and the year of a fit."""
    text = (
        environment()
        .get_template("references.bib")
        .render(versions=versions(posterior), year=str(posterior.tree.attrs["created"])[:4])
    )
    known = {match[1]: match[0] for match in ENTRY.finditer(text)}
    return "\n\n".join(known[key] for key in keys) + "\n"
