"""A posterior that costs no sampling: draws of the prior, drawn together around its medians."""

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayes_cpt import bundled_study, read_study
from bayes_cpt.errors import StudyWarning
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.trees import build_tree
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.resources import UniqueTokens
from bayes_cpt.study.study import Study

CHAINS = 4
# Six epochs of the longest run.
UNIQUE = 1e6
PRACTICE = Path(__file__).parents[1] / "tests" / "data" / "cpt-lab-practice"


@cache
def lab() -> Study:
    """Return the bundled study."""
    return read_study(bundled_study())


@cache
def lab_for(model: str) -> Study:
    """Return the bundled study; for a law with repeated tokens, with data that run out."""
    if "repeat_constant" not in read_spec(model).priors:
        return lab()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return replace(lab(), unique_tokens=UniqueTokens(target=UNIQUE))


@cache
def practice() -> Study:
    """Return the longer runs from its bases, with their losses."""
    return read_study(PRACTICE)


@cache
def lab_posterior(model: str = "cpt-replay") -> Posterior:
    """Return `prior_as_posterior` of the bundled study."""
    return prior_as_posterior(lab_for(model), model)


def prior_as_posterior(
    study: Study, spec: str | ModelSpec = "cpt-replay", draws: int = 25, spread: float = 0.2
) -> Posterior:
    """Return a posterior of four chains of draws each, `spread` times as wide as the prior."""
    chosen = read_spec(spec) if isinstance(spec, str) else spec
    frame = build_setup(chosen, study).frame
    values = {}
    for name, prior in draw_priors(frame, CHAINS * draws, seed=1).items():
        middle = np.median(prior, axis=0)
        close = middle + spread * (prior - middle)
        values[name] = close.reshape(CHAINS, draws, *prior.shape[1:])
    return as_posterior(frame, study, values)


def posterior_near_the_mode(study: Study, draws: int = 25) -> Posterior:
    """Return a posterior of four chains by the Laplace approximation: it fits, and costs no sampling."""
    from bayes_cpt.inference.density import Density
    from bayes_cpt.inference.metric import modes

    density = Density(build_setup(read_spec("cpt-replay"), study))
    _, metric = modes(density, seed=1)[0]
    white = np.random.default_rng(1).standard_normal((CHAINS, draws, density.size))
    values = density.values(metric.center + white @ metric.factor.T)
    return as_posterior(density.setup.frame, study, values)


def as_posterior(
    frame: BoundModel, study: Study, values: dict[str, NDArray[np.float64]]
) -> Posterior:
    """Return a posterior of draws of the parameters, shape (chains, draws, ...)."""
    none = np.zeros(values["memory"].shape, dtype=bool)
    statistics = dict.fromkeys(("diverging", "reached_max_treedepth"), none)
    return Posterior(build_tree(frame, study, values, statistics, seed=1), study, frame)
