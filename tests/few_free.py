"""Models of which all but a few parameters are known, so that a fit takes seconds."""

import warnings
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray
from size_family import simulated
from synthetic import as_posterior

from bayes_cpt import Posterior, Study, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.sampling import ATTEMPTS, sample
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.priors import Fixed, Prior
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.spec import ModelSpec

NOISE = ("fluctuation_cpt", "fluctuation_pt", "misfit_cpt", "misfit_pt", "offset_pt")
# Of all of these, nats.
NOISE_SIZE = 0.004


def with_few_free(model: str, free: Collection[str]) -> ModelSpec:
    """Return a shipped model with all other parameters at the medians of their priors, and little noise."""
    whole = read_spec(model)
    priors = {}
    for name, prior in whole.priors.items():
        held = NOISE_SIZE if name in NOISE else None
        sides = {
            side: own
            if name in free
            else Fixed(distribution="fixed", value=held or float(own.quantiles(0.5)))
            for side in ("every", "general", "target")
            if (own := getattr(prior, side)) is not None
        }
        priors[name] = Prior(reason=prior.reason, **sides)
    return whole.model_copy(update={"priors": priors})


def short_fit(study: Study, spec: ModelSpec, seed: int, draws: int = 150) -> Posterior:
    """Return a posterior of one short attempt, without what a kept fit is given beside its draws."""
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        setup = build_setup(spec, study)
        found = sample(Density(setup), seed, draws=draws, attempts=ATTEMPTS[:1])
    return as_posterior(setup.frame, study, found.values)


def measurable(
    blank: Study,
    frame: BoundModel,
    spec: ModelSpec,
    seed: int,
    shown: Callable[[dict[str, Floats]], dict[str, Floats]] = dict,
) -> tuple[Study, dict[str, Floats]]:
    """Return a simulated study and its truth, drawn again together where a loss lies below 0.

    The truth is of `frame`, which may know of groups that the study does not show.
    """
    for again in range(50):
        truth = draw_priors(frame, 1, seed + 50 * again)
        try:
            return simulated(blank, shown(truth), spec, seed), truth
        except StudyError:
            continue
    raise AssertionError("the priors make no study that could be measured")


def all_but_known(wide: Posterior, unknown: Collection[str]) -> Posterior:
    """Return a posterior in which some parameters alone are unknown, the others at their medians."""
    draws = {name: wide.tree["posterior"][name].to_numpy() for name in wide.frame.parameters()}
    values = {
        name: own if name in unknown else np.broadcast_to(np.median(own, axis=(0, 1)), own.shape)
        for name, own in draws.items()
    }
    return as_posterior(wide.frame, wide.study, values)


def is_held(draws: NDArray[np.float64], value: float) -> bool:
    """Return whether the central interval of 90 % of some draws holds a value."""
    low, high = np.quantile(draws, [0.05, 0.95])
    return bool(low <= value <= high)
