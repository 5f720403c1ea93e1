"""The posterior of a study: draws, specification and study in one object and one file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.files import replacing
from bayes_cpt.inference.law_checks import LawChecks
from bayes_cpt.inference.mixing import apportioned, stack_error, stack_name
from bayes_cpt.inference.saved.fit_files import WEIGHTS, is_stack, read_fit
from bayes_cpt.inference.saved.netcdf import as_bytes
from bayes_cpt.inference.saved.trees import contraction, mixing, moments
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.study import Study
from bayes_cpt.views import view

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


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
        `bayes_cpt.inference.saved.groups.arviz_groups`; attributes hold the specification, the study's
        digest, versions, seed and diagnostics.
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

    @cached_property
    def law_checks(self) -> LawChecks | None:
        """Whether the law fits the runs; None in files of versions that did not ask."""
        records = self.tree.attrs.get("law_checks")
        return None if records is None else LawChecks.of_records(json.loads(records))

    @property
    def law_fits(self) -> bool:
        """Whether no check of the law against the runs alarms."""
        return self.law_checks is None or not self.law_checks.alarms

    @property
    def trustworthy(self) -> bool:
        """Whether the diagnostics contract holds and the law fits."""
        return not self.problems and self.law_fits

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
        one share, that of all (`StackedPosterior` has others).

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
        parameters = {}
        for name in self.frame.parameters():
            values = posterior[name].to_numpy()[:, kept]
            parameters[name] = values.reshape(-1, *values.shape[2:])
        return parameters

    def summary(self, interval: float = 0.9, *, coefficients: bool = True) -> "pd.DataFrame":
        """Return one row per quantity and validation set.

        Parameters
        ----------
        interval : float
            Mass of the central credible interval.
        coefficients : bool
            Whether the law's coefficients, which follow from its parameters, have rows.

        Returns
        -------
        DataFrame
            Columns quantity, domain, kind (parameter or coefficient), mean, sd, lower, upper, ess_bulk,
            ess_tail, r_hat, contraction (see `contraction`): near 1 the study determines the quantity,
            near 0 the prior does.
        """
        import pandas as pd

        priors, rows = self._prior_quantities, []
        for name, members, values in self._quantities():
            kind = "parameter" if name in self.frame.parameters() else "coefficient"
            for i, member in enumerate(members if coefficients or kind == "parameter" else ()):
                draws = values[..., i]
                if np.ptp(draws) == 0:
                    continue
                rows.append(
                    {"quantity": name, "domain": member, "kind": kind}
                    | moments(draws, interval)
                    | mixing(draws)
                    | {"contraction": contraction(priors[name][..., i], draws)}
                )
        return pd.DataFrame(rows)

    @cached_property
    def _prior_quantities(self) -> dict[str, Floats]:
        parameters = draw_priors(self.frame, PRIOR_DRAWS, seed=0)
        # The prior of a coefficient on a ridge overflows in its far tail, which quartiles ignore.
        with np.errstate(over="ignore", invalid="ignore"):
            quantities = parameters | self.frame.law.coefficients(parameters, np)
        return {name: v if v.ndim == 2 else v[:, None] for name, v in quantities.items()}

    def prior_draws(self, quantity: str, domain: str) -> Floats:
        """Return prior draws of a quantity of `summary`, shape (draws,).

        Parameters
        ----------
        quantity : str
            Of the table's column of that name.
        domain : str
            A validation set, or ``"all"`` where they share the quantity.
        """
        return self._prior_quantities[quantity][:, self.members(quantity).index(domain)]

    def draws(self, quantity: str, domain: str) -> Floats:
        """Return posterior draws of a quantity of `summary`, shape (chains, draws).

        Parameters
        ----------
        quantity : str
            Of the table's column of that name.
        domain : str
            A validation set, or ``"all"`` where they share the quantity.
        """
        values, members = self.tree["posterior"][quantity].to_numpy(), self.members(quantity)
        return np.asarray(values if values.ndim == 2 else values[..., members.index(domain)])

    def members(self, quantity: str) -> tuple[str, ...]:
        """Return the validation sets of a quantity of `summary`, ``("all",)`` where they share it.

        Parameters
        ----------
        quantity : str
            Of the table's column of that name.
        """
        posterior = self.tree["posterior"].to_dataset()
        along = [str(name) for name in posterior[quantity].dims[2:]]
        return tuple(str(name) for name in posterior[along[0]].to_numpy()) if along else ("all",)

    def _quantities(self) -> list[tuple[str, tuple[str, ...], Floats]]:
        posterior = self.tree["posterior"]
        every = {str(name): own.to_numpy() for name, own in posterior.data_vars.items()}
        return [
            (name, self.members(name), own if own.ndim == 3 else own[..., None])
            for name, own in every.items()
        ]

    def predict(self, plan: "Study | str | Path | None" = None, **options: Any) -> "xr.Dataset":
        """Return predictive curves of a plan (see `bayes_cpt.forecast.predict.predict`).

        Parameters
        ----------
        plan : Study, str or Path, optional
            Runs to predict; the fitted ones unless given.
        **options
            As `bayes_cpt.forecast.predict.predict` takes them.
        """
        return cast("xr.Dataset", view(self, "predict", plan, **options))

    def of_target(self, name: str) -> "Posterior":
        """Return the posterior of runs on one of several targets alone.

        Parameters
        ----------
        name : str
            A target of the study.
        """
        return cast("Posterior", view(self, "of_target", name))

    def report(self, path: "str | Path | None" = None, **options: Any) -> Any:
        """Return the report of the fit, and write its page (see `bayes_cpt.report.page.report.report`).

        Parameters
        ----------
        path : path, optional
            HTML file to write.
        **options
            As of `bayes_cpt.report.page.report.report`.
        """
        return view(self, "report", path, **options)

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
        content = as_bytes(self.tree)
        with replacing(path) as partial:
            partial.write_bytes(content)


@dataclass(frozen=True, eq=False)
class StackedPosterior(Posterior):
    """Draws of losses from several laws; `tree`, `study` and `frame` are as in `Posterior`.

    Parameters
    ----------
    laws : tuple of Posterior
        Fits of the same study, each of one law.
    weights : tuple of float
        The share of the draws of each, above 0; they add up to 1.

    Notes
    -----
    `frame` is that of the heaviest law, under the stack's name: sets, reference and phase are those of all.
    """

    laws: tuple[Posterior, ...]
    weights: tuple[float, ...]

    @classmethod
    def of_tree(cls, tree: "xr.DataTree", laws: Sequence[Posterior]) -> Self:
        """Return the stack of a tree whose laws have been read.

        Parameters
        ----------
        tree : xarray.DataTree
            Attributes hold weights, seed and problems; the children are the trees of the laws.
        laws : sequence of Posterior
        """
        weights = tuple(json.loads(tree.attrs[WEIGHTS]))
        heaviest = laws[int(np.argmax(weights))]
        named = heaviest.frame.spec.model_copy(
            update={"name": stack_name([law.frame.spec.name for law in laws], weights)}
        )
        frame = replace(heaviest.frame, spec=named)
        return cls(tree, heaviest.study, frame, tuple(laws), weights)

    @property
    def law_fits(self) -> bool:
        """Whether no check of any of the laws alarms."""
        return all(law.law_fits for law in self.laws)

    @property
    def chains(self) -> int:
        """One: the chains of different laws have nothing to do with each other."""
        return 1

    def shares(self, draws: int | None = None) -> tuple[tuple[Posterior, int | None], ...]:
        """Return the posterior of each law, and how many of the draws are its, by weight.

        Parameters
        ----------
        draws : int, optional
            In all, and no more than there are; as many as the weights allow unless given.
        """
        sizes = [law.tree["posterior"].sizes for law in self.laws]
        most = min(size["draw"] / weight for size, weight in zip(sizes, self.weights, strict=True))
        chains = max(size["chain"] for size in sizes)
        wanted = most if draws is None else min(most, max(draws // chains, 1))
        counts = apportioned(np.array(self.weights), int(wanted))
        parts = zip(self.laws, sizes, counts, strict=True)
        return tuple((law, int(count) * size["chain"]) for law, size, count in parts if count)

    def summary(self, interval: float = 0.9, *, coefficients: bool = True) -> "pd.DataFrame":
        """Return `Posterior.summary` of each law, with the columns law and weight before the others.

        Parameters
        ----------
        interval : float
        coefficients : bool
        """
        import pandas as pd

        tables = []
        for law, weight in zip(self.laws, self.weights, strict=True):
            table = law.summary(interval, coefficients=coefficients)
            table.insert(0, "weight", weight)
            table.insert(0, "law", law.frame.spec.name)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Raise `StackError`: laws have different parameters.

        Parameters
        ----------
        draws : int, optional
        """
        raise stack_error(self.study.name, self._names, "its parameters")

    def draws(self, quantity: str, domain: str) -> Floats:
        """Raise `StackError`: laws have different parameters.

        Parameters
        ----------
        quantity, domain : str
        """
        raise stack_error(self.study.name, self._names, f"the draws of {quantity}")

    def prior_draws(self, quantity: str, domain: str) -> Floats:
        """Raise `StackError`: laws have different parameters.

        Parameters
        ----------
        quantity, domain : str
        """
        raise stack_error(self.study.name, self._names, f"the prior of {quantity}")

    def members(self, quantity: str) -> tuple[str, ...]:
        """Raise `StackError`: laws have different parameters.

        Parameters
        ----------
        quantity : str
        """
        raise stack_error(self.study.name, self._names, f"the validation sets of {quantity}")

    @property
    def _names(self) -> list[str]:
        return [law.frame.spec.name for law in self.laws]


def load(path: str | Path) -> Posterior:
    """Read a fit that `Posterior.save` wrote, of one law or a stack. Nothing in the file is executed.

    Parameters
    ----------
    path : str or Path
        A netCDF file.

    Raises
    ------
    FitFileError
        If there is no such file, or it is not a fit.
    """
    tree, laws = read_fit(path)
    posteriors = [Posterior(*law) for law in laws]
    return StackedPosterior.of_tree(tree, posteriors) if is_stack(tree) else posteriors[0]
