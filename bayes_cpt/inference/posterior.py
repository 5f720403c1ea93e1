"""The posterior of a study: draws, specification and study in one object and one file."""

import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.files import replacing
from bayes_cpt.inference.fit_files import FORMAT, FitFileError, is_stack, read_fit
from bayes_cpt.laws.law import SHARED
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.study import Study
from bayes_cpt.views import view

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "FORMAT",
    "FitFileError",
    "Posterior",
    "build_tree",
    "contraction",
    "load",
    "study_group",
]

type Floats = NDArray[np.float64]

PRIOR_DRAWS = 4000
# Below this contraction a quantity rests on its prior.
LOWEST_CONTRACTION = 0.5


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a model given a study.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups ``posterior`` (sampled parameters and the coefficients of the printed equation, dims
        chain, draw, and domain), ``sample_stats``, ``study``, and those of
        `bayes_cpt.inference.groups.arviz_groups`; attributes hold the specification, the study's digest,
        versions, seed and diagnostics.
    study : Study
        What was fitted.
    frame : Frame
        Specification, validation sets and reference.

    Examples
    --------
    >>> import bayes_cpt                                     # doctest: +SKIP
    >>> posterior = bayes_cpt.fit(bayes_cpt.read_study("data/cpt-lab"), seed=1)  # doctest: +SKIP
    >>> posterior.summary()                                  # doctest: +SKIP
    """

    tree: "xr.DataTree"
    study: Study
    frame: Frame

    @property
    def problems(self) -> tuple[str, ...]:
        """What falls short of the diagnostics contract; empty where the posterior can be trusted."""
        return tuple(json.loads(self.tree.attrs["problems"]))

    @property
    def trustworthy(self) -> bool:
        """Whether the diagnostics contract holds."""
        return not self.problems

    @property
    def seed(self) -> int:
        """The seed of the fit."""
        return int(self.tree.attrs["seed"])

    @property
    def chains(self) -> int:
        """How many chains its draws come in."""
        return int(self.tree["posterior"].sizes["chain"])

    def shares(self, draws: int | None = None) -> "tuple[tuple[Posterior, int | None], ...]":
        """Return the posterior of each law behind the draws, and how many of them are its.

        What turns draws into losses does so law by law and puts the draws together: a fit of one law has
        one share, that of all (see `bayes_cpt.inference.stacked` for others).

        Parameters
        ----------
        draws : int, optional
            As in `parameters`.
        """
        return ((self, draws),)

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters, shape (draws, ...), chains one after the other.

        Parameters
        ----------
        draws : int, optional
            Evenly thinned to about as many, the same number from every chain; all unless given.
        """
        posterior = self.tree["posterior"]
        available = posterior.sizes["draw"]
        wanted = available if draws is None else max(1, draws // posterior.sizes["chain"])
        kept = np.unique(np.linspace(0, available - 1, min(wanted, available)).round().astype(int))
        found = {}
        for name in self.frame.parameters():
            values = posterior[name].to_numpy()[:, kept]
            found[name] = values.reshape(-1, *values.shape[2:])
        return found

    def summary(self, interval: float = 0.9) -> "pd.DataFrame":
        """Return one row per quantity and validation set.

        Parameters
        ----------
        interval : float
            Mass of the central credible interval.

        Returns
        -------
        DataFrame
            Columns quantity, domain, kind (parameter or coefficient), mean, sd, lower, upper, ess_bulk,
            ess_tail, r_hat, contraction (see `contraction`): near 1 the study determines the quantity,
            near 0 the prior does.
        """
        import pandas as pd

        priors = self._prior_quantities
        rows = []
        for name, members, values in self._quantities():
            kind = "parameter" if name in self.frame.parameters() else "coefficient"
            for i, member in enumerate(members):
                draws = values[..., i]
                if np.ptp(draws) == 0:
                    continue
                rows.append(
                    {"quantity": name, "domain": member, "kind": kind}
                    | _moments(draws, interval)
                    | _convergence(draws)
                    | {"contraction": contraction(priors[name][..., i], draws)}
                )
        return pd.DataFrame(rows)

    @cached_property
    def _prior_quantities(self) -> dict[str, Floats]:
        parameters = draw_priors(self.frame, PRIOR_DRAWS, seed=0)
        # The prior of a coefficient on a ridge overflows in its far tail, which quartiles ignore.
        with np.errstate(over="ignore", invalid="ignore"):
            found = parameters | self.frame.law.coefficients(parameters, np)
        return {name: v if v.ndim == 2 else v[:, None] for name, v in found.items()}

    def prior_draws(self, quantity: str, domain: str) -> Floats:
        """Return prior draws of a quantity of `summary`, shape (draws,)."""
        members = self.members(quantity)
        return self._prior_quantities[quantity][:, members.index(domain)]

    def draws(self, quantity: str, domain: str) -> Floats:
        """Return posterior draws of a quantity of `summary`, shape (chains, draws)."""
        values = self.tree["posterior"][quantity].to_numpy()
        members = self.members(quantity)
        return np.asarray(values if values.ndim == 2 else values[..., members.index(domain)])

    def members(self, quantity: str) -> tuple[str, ...]:
        """Return the validation sets of a quantity of `summary`, ``("all",)`` where they share it."""
        posterior = self.tree["posterior"].to_dataset()
        along = [str(name) for name in posterior[quantity].dims[2:]]
        return tuple(str(name) for name in posterior[along[0]].to_numpy()) if along else ("all",)

    def _quantities(self) -> list[tuple[str, tuple[str, ...], Floats]]:
        found = []
        for name, variable in self.tree["posterior"].data_vars.items():
            values = variable.to_numpy()
            members = self.members(str(name))
            found.append((str(name), members, values if values.ndim == 3 else values[..., None]))
        return found

    def predict(self, plan: "Study | str | Path | None" = None, **options: Any) -> "xr.Dataset":
        """Return predictive curves of a plan (see `bayes_cpt.forecast.predict.predict`)."""
        return cast("xr.Dataset", view(self, "predict", plan, **options))

    def save(self, path: str | Path) -> None:
        """Write the fit as one file, whole or not at all.

        Parameters
        ----------
        path : path
            A netCDF file; one that exists is replaced.

        Raises
        ------
        OSError
            If the folder cannot be written to or the disk is full; an old file is then left as it was.
        """
        # By way of memory: HDF5 that runs out of disk may crash where Python raises.
        # A copy: the view that xarray returns may crash Python if it outlives an error.
        content = bytes(self.tree.to_netcdf(engine="h5netcdf"))
        with replacing(path) as partial:
            partial.write_bytes(content)


def load(path: str | Path) -> Posterior:
    """Read a fit that `Posterior.save` wrote, of one law or a stack. Nothing in the file is executed.

    Raises
    ------
    FitFileError
        If there is no such file, or it is not a fit.
    """
    tree, laws = read_fit(path)
    posteriors = [Posterior(*law) for law in laws]
    if not is_stack(tree):
        return posteriors[0]
    from bayes_cpt.inference.stacked import StackedPosterior

    return StackedPosterior.of_tree(tree, posteriors)


def study_group(study: Study) -> "xr.Dataset":
    """Return the files of a study as text variables, to be kept inside a fit."""
    import xarray as xr

    from bayes_cpt.study.writer import write_study

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
        Further groups (see `bayes_cpt.inference.groups.arviz_groups`).
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
        dims = ("chain", "draw") if name in SHARED else ("chain", "draw", "domain")
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
            "study": study_group(study),
        }
    )


def contraction(prior: Floats, posterior: Floats) -> float:
    """Return 1 - (prior mass between the posterior's quartiles / 0.5)^2.

    Near 1 the data determine a quantity, near 0 the prior does. Counted in prior mass it is the same for
    a quantity and any rising function of it.

    Examples
    --------
    >>> wide = np.linspace(-1.0, 1.0, 2001)
    >>> round(contraction(wide, wide), 2), round(contraction(wide, 0.1 * wide), 2)
    (0.0, 0.99)
    """
    quartiles = np.quantile(posterior, [0.25, 0.75])
    below = np.searchsorted(np.sort(prior), quartiles) / prior.size
    return float(1.0 - ((below[1] - below[0]) / 0.5) ** 2)


def _moments(draws: Floats, interval: float) -> dict[str, float]:
    lower, upper = np.quantile(draws, [0.5 - interval / 2, 0.5 + interval / 2])
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)),
        "lower": float(lower),
        "upper": float(upper),
    }


def _convergence(draws: Floats) -> dict[str, float]:
    from bayes_cpt.inference.sampling import convergence

    rhat, bulk, tail = convergence(draws)
    return {"ess_bulk": float(bulk), "ess_tail": float(tail), "r_hat": float(rhat)}
