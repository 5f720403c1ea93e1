"""The priors of a specification, without PyMC: draws of them, and a table."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.priors.correlations import correlated
from bayes_cpt.model.priors.pooling import draw_alike
from bayes_cpt.model.setup import Frame

if TYPE_CHECKING:
    import pandas as pd


def draw_priors(frame: Frame, draws: int, seed: int) -> dict[str, Floats]:
    """Return draws of every parameter, shape (draws, members of its dims) or (draws,).

    Parameters
    ----------
    frame : Frame
    draws : int
    seed : int

    Examples
    --------
    >>> from bayes_cpt.laws import Reference
    >>> from bayes_cpt.model.spec import read_spec
    >>> reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    >>> frame = Frame(read_spec("pretrain"), ("general",), ("general",), reference)
    >>> draw_priors(frame, 100, seed=0)["memory"].shape
    (100,)
    """
    generator = np.random.default_rng(seed)
    drawn = {}
    for name, info in frame.parameters().items():
        prior = frame.spec.priors[name]
        if info.dims is None:
            drawn[name] = prior.of(None).draw(draws, generator)
        else:
            roles = [frame.role(member) for member in frame.members(info.dims)]
            columns = [prior.of(role).draw(draws, generator) for role in roles]
            drawn[name] = np.stack(columns, axis=1)
    draw_alike(frame, drawn, generator)
    if tied := correlated(frame):
        tied.draw(drawn, generator)
    return drawn


def prior_table(frame: Frame, interval: float = 0.9) -> "pd.DataFrame":
    """Return one row per parameter and validation set.

    Parameters
    ----------
    frame : Frame
    interval : float
        Mass of the central interval.

    Returns
    -------
    DataFrame
        Columns parameter, domain (``all`` where it is shared), distribution (in words), lower, median,
        upper, unit, meaning, reason.
    """
    import pandas as pd

    probabilities = [0.5 - interval / 2, 0.5, 0.5 + interval / 2]
    rows = []
    for name, info in frame.parameters().items():
        prior = frame.spec.priors[name]
        for member in frame.members(info.dims):
            distribution = prior.of(frame.role(member))
            ends = zip(
                ("lower", "median", "upper"), distribution.quantiles(probabilities), strict=True
            )
            rows.append(
                {"parameter": name, "domain": member.label, "distribution": distribution.words}
                | {end: float(value) for end, value in ends}
                | {"unit": info.unit, "meaning": info.meaning, "reason": prior.reason}
            )
    return pd.DataFrame(rows)
