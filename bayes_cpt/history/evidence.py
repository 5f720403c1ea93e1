"""What each study says of a model's parameters: fits under broad priors, less what these priors say.

A study's posterior under a broad prior is its likelihood times that prior. On the scale on which the
prior is normal both are taken as normal, so that the likelihood's information is the posterior's less the
prior's: in units of the prior's sds ``1/s - 1`` along every principal direction of the posterior, of
variance s. Directions of which a study takes next to nothing away carry no information, and none is made
up.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.identify.determination import FreeParameters
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.priors import Distribution
from bayes_cpt.model.spec import ROLES, ModelSpec, sampled_labels
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import (
    Pool,
    Progress,
    Records,
    refit_row,
    run_tasks,
    task_seed,
)

if TYPE_CHECKING:
    import pandas as pd

type Label = tuple[str, str]

# A parameter that validation sets share.
SHARED = "all"
# How many times as wide as the model's own the priors are under which studies are fitted.
WIDER = 1.5
# A direction of which a study leaves more of the prior's variance tells nothing.
UNTOLD = 0.9
# The tables of a folder of fits, their log last.
TABLES = ("estimates", "fits")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a study says of the parameters of a model.

    Parameters
    ----------
    study : str
        Its name.
    labels : tuple of (str, str)
        Parameter, and role or `SHARED`.
    mean : ndarray, shape (labels,)
        Of the posterior under the broad prior, in sds of that prior from its centre.
    covariance : ndarray, shape (labels, labels)
        The same.
    problems : tuple of str
        Why the fit is not to be trusted; empty where it is.
    """

    study: str
    labels: tuple[Label, ...]
    mean: Floats
    covariance: Floats
    problems: tuple[str, ...] = ()

    @property
    def contraction(self) -> dict[Label, float]:
        """Share of the broad prior's variance that the study takes from each parameter."""
        return dict(zip(self.labels, 1.0 - np.diag(self.covariance), strict=True))

    def information(self, labels: Sequence[Label]) -> tuple[Floats, Floats]:
        """Return R and y of ``y ~ Normal(R theta, 1)``: what the likelihood says of the parameters theta.

        Parameters
        ----------
        labels : sequence of (str, str)
            Of theta, in sds of the broad prior from its centre; those that the study lacks it says
            nothing of.

        Returns
        -------
        directions : ndarray, shape (labels, labels)
            Rows of 0 where there is nothing to say.
        values : ndarray, shape (labels,)
        """
        variances, vectors = np.linalg.eigh(self.covariance)
        told = variances < UNTOLD
        kept = np.maximum(variances[told], 1e-12)
        root = np.sqrt(1.0 / kept - 1.0)
        size = len(labels)
        directions, values = np.zeros((size, size)), np.zeros(size)
        places = [labels.index(label) for label in self.labels]
        rows = slice(0, kept.size)
        directions[rows, places] = root[:, None] * vectors[:, told].T
        # The likelihood's mean along a direction is the posterior's over 1 - s: the prior pulled it to 0.
        values[rows] = root * (vectors[:, told].T @ self.mean) / (1.0 - kept)
        return directions, values


def widened(spec: ModelSpec, wider: float = WIDER) -> ModelSpec:
    """Return a model with independent priors that many times as wide on their own scales."""
    priors = {}
    for name, prior in spec.priors.items():
        given = {role: getattr(prior, role) for role in ("every", *ROLES) if getattr(prior, role)}
        moved = {role: own.moved(own.center, wider * own.spread) for role, own in given.items()}
        priors[name] = prior.model_copy(update=moved)
    return spec.model_copy(update={"priors": priors, "correlations": ()})


def labels_of(spec: ModelSpec) -> dict[Label, Distribution]:
    """Return the priors of a model by parameter and role, what is fixed left out."""
    return {
        (name, role or SHARED): spec.priors[name].of(role) for name, role in sampled_labels(spec)
    }


def evidence_of(posterior: Posterior, broad: ModelSpec) -> Evidence:
    """Return what a fit says of the parameters of the model that it was fitted under.

    Parameters
    ----------
    posterior : Posterior
        Of a study under `broad`, or what an unknown base makes of it: what is special to it is left out.
    """
    frame = posterior.frame
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    wanted, free = labels_of(broad), FreeParameters(frame)
    named = [(own.name, roles.get(own.domain or "", SHARED)) for own in free.elements.values()]
    kept = [
        place
        for place, own in enumerate(free.elements.values())
        if own.prior == wanted.get(named[place])
    ]
    labels = [named[place] for place in kept]
    drawn = free.places(posterior.parameters())[:, kept]
    return Evidence(
        posterior.study.name,
        tuple(labels),
        drawn.mean(axis=0),
        np.atleast_2d(np.cov(drawn, rowvar=False)),
        posterior.problems,
    )


def fit_studies(
    studies: Sequence[Study],
    broad: ModelSpec,
    seed: int = 0,
    *,
    draws: int | None = None,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> list[Evidence]:
    """Fit each study under broad priors, and return what each says, in order."""
    kept, where = records or Records.open(None, {}, TABLES), pool or Pool()
    tasks = {study.name: study for study in studies}
    left = tasks.keys() - kept.done
    cores = where.cores(len(left)) if left else None
    work = partial(_fitted, broad=broad, seed=seed, draws=draws, cores=cores)
    stage = f"fitting {len(studies)} studies under broad priors"
    run_tasks(work, tasks, where, kept, progress, stage)
    return [_read(kept, study.name) for study in studies]


def _fitted(
    study: Study, *, broad: ModelSpec, seed: int, draws: int | None, cores: int | None
) -> "dict[str, pd.DataFrame]":
    """Return a study's tables: its moments, and how its fit went."""
    import pandas as pd

    from bayes_cpt.inference.fitting import fit
    from bayes_cpt.inference.metric import SamplingError

    began = time.perf_counter()
    attempts = 0
    try:
        posterior = fit(study, broad, task_seed(seed, study.name), draws=draws, cores=cores)
        evidence = evidence_of(posterior, broad)
        attempts = int(posterior.tree.attrs["attempts"])
    except SamplingError as error:
        evidence = Evidence(study.name, (), np.empty(0), np.empty((0, 0)), (str(error),))
    labels = ["/".join(label) for label in evidence.labels]
    moments = pd.DataFrame(evidence.covariance, columns=[f"with {label}" for label in labels])
    moments.insert(0, "mean", evidence.mean)
    moments.insert(0, "label", labels)
    log = refit_row(evidence.problems, attempts, began)
    return {"estimates": moments, "fits": pd.DataFrame([log])}


def _read(records: Records, study: str) -> Evidence:
    """Return the evidence of a study from the tables that hold it."""
    rows = records.tables["estimates"]
    rows = rows[rows["task"] == study]
    log = records.tables["fits"]
    row = log[log["task"] == study].iloc[0]
    pairs = (text.split("/") for text in rows["label"])
    labels = tuple((name, role) for name, role in pairs)
    columns = [f"with {text}" for text in rows["label"]]
    return Evidence(
        study,
        labels,
        rows["mean"].to_numpy(np.float64),
        rows[columns].to_numpy(np.float64),
        () if bool(row["trustworthy"]) else (str(row["problems"]),),
    )
