"""What each study says of a model's parameters: fits under broad priors, less what these priors say.

A study's posterior under a broad prior is its likelihood times that prior. On the scale on which the
prior is normal both are taken as normal, so that the likelihood's information is the posterior's less the
prior's: in units of the prior's sds ``1/s - 1`` along every principal direction of the posterior, of
variance s. Directions of which a study takes next to nothing away carry no information, and none is made
up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.identify.determination import FreeParameters
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.priors import Distribution
from bayes_cpt.model.spec import ModelSpec, sampled_labels
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import fit_each

type Label = tuple[str, str]

# A parameter that validation sets share.
SHARED = "all"
# How many times as wide as the model's own the priors are under which studies are fitted.
WIDER = 1.5
# A direction of which a study leaves more of the prior's variance tells nothing.
UNTOLD = 0.9


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a study says of the parameters of a model."""

    study: str  # its name
    labels: tuple[Label, ...]  # parameter, and role or `SHARED`
    # Of the posterior under the broad prior, in sds of that prior from its centre, of shape (labels,)
    mean: Floats
    covariance: Floats  # the same, (labels, labels)
    problems: tuple[str, ...] = ()  # why the fit is not to be trusted; empty where it is

    @property
    def contraction(self) -> dict[Label, float]:
        """Share of the broad prior's variance that the study takes from each parameter."""
        return dict(zip(self.labels, 1.0 - np.diag(self.covariance), strict=True))

    def information(self, labels: Sequence[Label]) -> tuple[Floats, Floats]:
        """Return R and y of ``y ~ Normal(R theta, 1)``: what the likelihood says of the parameters theta.

        Theta is in sds of the broad prior from its centre; of labels that the study lacks it says nothing.
        R has the shape (labels, labels), with rows of 0 where there is nothing to say.
        """
        variances, vectors = np.linalg.eigh(self.covariance)
        told = variances < UNTOLD
        kept, axes = np.maximum(variances[told], 1e-12), vectors[:, told].T
        root = np.sqrt(1.0 / kept - 1.0)
        directions, values = np.zeros((len(labels), len(labels))), np.zeros(len(labels))
        places = [labels.index(label) for label in self.labels]
        directions[: kept.size, places] = root[:, None] * axes
        # The likelihood's mean along a direction is the posterior's over 1 - s: the prior pulled it to 0.
        values[: kept.size] = root * (axes @ self.mean) / (1.0 - kept)
        return directions, values


def widened(spec: ModelSpec, wider: float = WIDER) -> ModelSpec:
    """Return a model with independent priors that many times as wide on their own scales."""
    priors = {
        name: prior.changed(lambda own: own.moved(own.center, wider * own.spread), prior.reason)
        for name, prior in spec.priors.items()
    }
    return spec.model_copy(update={"priors": priors, "correlations": ()})


def labels_of(spec: ModelSpec) -> dict[Label, Distribution]:
    """Return the priors of a model by parameter and role, what is fixed left out."""
    sampled = sampled_labels(spec)
    return {(name, role or SHARED): spec.priors[name].of(role) for name, role in sampled}


def evidence_of(posterior: Posterior, broad: ModelSpec) -> Evidence:
    """Return what a fit says of the parameters of the model that it was fitted under.

    That is `broad`, or what an unknown base makes of it: what is special to it is left out.
    """
    wanted, free = labels_of(broad), FreeParameters(posterior.frame)
    elements = list(free.elements.values())
    named = [(own.name, own.role or SHARED) for own in elements]
    kept = [i for i, label in enumerate(named) if elements[i].prior == wanted.get(label)]
    drawn = free.places(posterior.parameters())[:, kept]
    return Evidence(
        posterior.study.name,
        tuple(named[place] for place in kept),
        drawn.mean(axis=0),
        np.atleast_2d(np.cov(drawn, rowvar=False)),
        posterior.problems,
    )


def fit_studies(
    studies: Sequence[Study], broad: ModelSpec, seed: int = 0, **options: Any
) -> list[Evidence]:
    """Fit each study under broad priors, and return what each says, in order.

    The options are those of `bayes_cpt.validate.tasks.fit_each`.
    """
    asked = {study.name: (study, broad) for study in studies}
    stage = f"fitting {len(studies)} studies under broad priors"
    fits = fit_each(asked, seed, stage=stage, **options)
    return [
        evidence_of(own, broad)
        if isinstance(own, Posterior)
        else Evidence(name, (), np.empty(0), np.empty((0, 0)), (str(own),))
        for name, own in fits.items()
    ]
