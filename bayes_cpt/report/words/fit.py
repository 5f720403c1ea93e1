"""Whether to use a fit, how sure that is, and what would change it, in three short lines."""

from typing import TYPE_CHECKING

from bayes_cpt.report.words.law import law_words, rests_on
from bayes_cpt.report.words.summary import listed_effects, most_telling, open_effects, trust

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior

# Shortcomings of a posterior that are named one by one.
NAMED = 2
# Fewer runs than this leave a law with ridges that no sampler likes.
FEW_RUNS = 3


def fit_verdict(
    posterior: "Posterior", quality: "pd.DataFrame", determined: "pd.DataFrame"
) -> list[str]:
    """Return whether to use a fit, how sure that is, and what would change it: one line each.

    Parameters
    ----------
    posterior : Posterior
    quality : DataFrame
        Of `bayes_cpt.forecast.quality.fit_quality`.
    determined : DataFrame
        Of `bayes_cpt.identify.determination.determination`.
    """
    if not posterior.trustworthy:
        return warning(posterior)
    effects, left = determined[determined["kind"] == "effect"], open_effects(determined)
    told = (
        f"Left open: {listed_effects(left, effects)}"
        if len(left)
        else "Nothing that can be chosen is open"
    )
    shared = rests_on(posterior.study, continual=posterior.frame.spec.law.continual)
    wanted = [
        *([most_telling(left)] if len(left) else []),
        *([f"runs that do not all share {shared}"] if shared else []),
    ]
    return [
        f"Use this fit of {posterior.frame.spec.name} to {posterior.study.name}. {trust(quality)}",
        f"How sure: {checks_passed(posterior)}. {told}.",
        f"What would change it: {', and '.join(wanted) or 'more runs of any kind'}.",
    ]


def checks_passed(posterior: "Posterior") -> str:
    """Return what a fit that can be trusted has passed, a clause.

    Parameters
    ----------
    posterior : Posterior
    """
    checks = len(posterior.law_checks.checks)
    law = f" and the law passes all {checks} checks against its runs" if checks else ""
    return f"the sampler converged{law}"


def warning(posterior: "Posterior") -> list[str]:
    """Return why a fit cannot be trusted and what would change that; nothing where it can.

    Parameters
    ----------
    posterior : Posterior
    """
    if not posterior.problems:
        return list(law_words(posterior).verdict)
    shown, left = posterior.problems[:NAMED], len(posterior.problems) - NAMED
    rest = f"; and {left} more, all in --json" if left > 0 else ""
    lines = [
        "Not trustworthy: the posterior falls short of its diagnostics, also after all attempts: "
        f"{'; '.join(shown)}{rest}."
    ]
    if not posterior.law_fits:
        lines += law_words(posterior).verdict[:1]
    return [*lines, f"What would change it: {what_is_lacking(posterior)}"]


def what_is_lacking(posterior: "Posterior") -> str:
    """Return what would help a study whose fit falls short of its diagnostics.

    Parameters
    ----------
    posterior : Posterior
    """
    study, law = posterior.study, posterior.frame.spec.law
    runs = study.continual_runs if law.continual else study.pretraining_runs
    phase = "CPT" if law.continual else "PT"
    if len(runs) < FEW_RUNS:
        counted = f"{len(runs)} {phase} run{'s' if len(runs) > 1 else ''}"
        differ = "replay ratio and peak learning rate" if law.uses_replay else "peak learning rate"
        return (
            f"runs that differ in {differ}: the study has {counted}, too few for the model "
            f"{posterior.frame.spec.name} (bayes-cpt check names the run that tells most)."
        )
    return "the run that bayes-cpt check names as telling most, or a simpler --model, which asks for less."
