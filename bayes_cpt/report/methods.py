"""The methods section of a paper that is true of a fit, and the works that it cites."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import MOST_SKIPPED
from bayes_cpt.report.decisions import goal_words
from bayes_cpt.report.fit import convergence
from bayes_cpt.report.words import environment, paragraphs

CITATION = re.compile(r"\[@(\w+)\]")
ENTRY = re.compile(r"^@\w+\{(\w+),$.*?^\}$", re.MULTILINE | re.DOTALL)


def methods(
    posterior: Posterior,
    interval: float = 0.9,
    *,
    reached: dict[str, Any] | None = None,
    choice: Valuation | None = None,
    scores: Sequence[dict[str, Any]] = (),
) -> list[str]:
    """Return how a fit was made, in paragraphs that cite works as ``[@key]``.

    `choice` is what a reported decision was judged by; `scores` rows of `Calibration.pooled`.
    """
    from bayes_cpt.inference.sampling import ATTEMPTS
    from bayes_cpt.model.priors import Fixed
    from bayes_cpt.model.setup import elements

    frame, study = posterior.frame, posterior.study
    reached = reached or convergence(posterior, posterior.summary(coefficients=False))
    runs = frame.spec.law.fitted_runs(study)
    facts = {
        "continual": sum(run.phase == "cpt" for run in runs),
        "pretraining": sum(run.phase == "pt" for run in runs),
        "posterior": posterior,
        "points": sum(
            step > (run.branch.step if run.branch else 0)
            for run in runs
            for own in frame.domains
            for step in frame.fitted_steps(study, run, own)
        ),
        "model": frame.spec,
        "versions": versions(posterior),
        "most_skipped": MOST_SKIPPED,
        "parameters": sum(not isinstance(element.prior, Fixed) for element in elements(frame)),
        "reached": reached,
        "tuning": ATTEMPTS[min(reached["attempts"], len(ATTEMPTS)) - 1].tune,
        "mass": f"{100 * interval:g}",
        "choice": choice,
        "goal": _goal(choice) if choice else "",
        "scores": scores,
    }
    return paragraphs("methods.txt", "methods", facts)


def _goal(choice: Valuation) -> str:
    """Return what choices minimise, and what they keep."""
    price = " plus the price of training" if choice.objective.cost(1.0, choice.resources) else ""
    kept = "; ".join(map(str, choice.chances))
    return f"{goal_words(choice)}{price}{f' subject to {kept}' if kept else ''}"


def versions(posterior: Posterior) -> dict[str, str]:
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


def bibtex(posterior: Posterior, keys: Iterable[str]) -> str:
    """Return works as a BibTeX file, with the versions and the year of a fit."""
    template = environment().get_template("references.bib")
    year = str(posterior.tree.attrs["created"])[:4]
    text = template.render(versions=versions(posterior), year=year)
    known = {match[1]: match[0] for match in ENTRY.finditer(text)}
    return "\n\n".join(known[key] for key in keys) + "\n"
