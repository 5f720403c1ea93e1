"""The data tree of a fit, and what its draws of one quantity come to."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.law import ALONG, SHARED
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import xarray as xr


def _study_group(study: Study) -> "xr.Dataset":
    """Return the files of a study as text variables, to be kept inside a fit."""
    import xarray as xr

    from bayes_cpt.study.folder import write_study

    with tempfile.TemporaryDirectory() as folder:
        write_study(study, Path(folder) / "study")
        files = sorted((Path(folder) / "study").iterdir())
        texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    return xr.Dataset({name: ((), text) for name, text in texts.items()})


def build_tree(
    frame: Frame,
    study: Study,
    values: dict[str, Floats],
    statistics: dict[str, Any],
    attributes: dict[str, Any],
    groups: "dict[str, xr.Dataset] | None" = None,
) -> "xr.DataTree":
    """Return the data tree of a fit.

    Parameters
    ----------
    frame : Frame
    study : Study
        What was fitted; kept inside the tree.
    values : dict of str to ndarray, shape (chains, draws, ...)
        All parameters.
    statistics : dict of str to ndarray, shape (chains, draws)
        Of the sampler.
    attributes : dict
        Of the whole tree.
    groups : dict of str to Dataset, optional
        Further groups (see `bayes_cpt.inference.saved.groups.arviz_groups`).
    """
    import xarray as xr

    chains, draws = next(iter(statistics.values())).shape
    coords: dict[str, Any] = {"chain": np.arange(chains), "draw": np.arange(draws)}
    for name, members in frame.coords().items():
        coords[name] = list(members)
    variables: dict[str, Any] = {}
    for name, info in frame.parameters().items():
        dims = ("chain", "draw", info.dims) if info.dims else ("chain", "draw")
        variables[name] = (dims, values[name], {"units": info.unit, "long_name": info.meaning})
    for name, value in frame.law.coefficients(values, np).items():
        along = () if name in SHARED else (ALONG.get(name, "domain"),)
        dims = ("chain", "draw", *along)
        variables[name] = (dims, value)
    stats = {name: (("chain", "draw"), value) for name, value in statistics.items()}
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs=attributes),
            "posterior": xr.Dataset(variables, coords=coords),
            "sample_stats": xr.Dataset(
                stats, coords={key: coords[key] for key in ("chain", "draw")}
            ),
            **(groups or {}),
            "study": _study_group(study),
        }
    )


def contraction(prior: Floats, posterior: Floats) -> float:
    """Return 1 - (prior mass between the posterior's quartiles / 0.5)^2.

    Near 1 the data determine a quantity, near 0 the prior does. Counted in prior mass it is the same for
    a quantity and any rising function of it.

    Parameters
    ----------
    prior, posterior : ndarray
        Draws of the quantity.

    Examples
    --------
    >>> wide = np.linspace(-1.0, 1.0, 2001)
    >>> round(contraction(wide, wide), 2), round(contraction(wide, 0.1 * wide), 2)
    (0.0, 0.99)
    """
    quartiles = np.quantile(posterior, [0.25, 0.75])
    below = np.searchsorted(np.sort(prior), quartiles) / prior.size
    return float(1.0 - ((below[1] - below[0]) / 0.5) ** 2)


def moments(draws: Floats, interval: float) -> dict[str, float]:
    """Return mean, sd, lower and upper of draws.

    Parameters
    ----------
    draws : ndarray
    interval : float
        Mass of the central interval between lower and upper.
    """
    lower, upper = np.quantile(draws, [0.5 - interval / 2, 0.5 + interval / 2])
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)),
        "lower": float(lower),
        "upper": float(upper),
    }


def mixing(draws: Floats) -> dict[str, float]:
    """Return ess_bulk, ess_tail and r_hat of draws.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws)
    """
    from bayes_cpt.inference.diagnostics import convergence

    rhat, bulk, tail = convergence(draws)
    return {"ess_bulk": float(bulk), "ess_tail": float(tail), "r_hat": float(rhat)}
