"""The posterior of a study: draws of one law or several, their specification and the study, in one file."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, chance, summary
from bayes_cpt.checks import unknown
from bayes_cpt.errors import ProblemError, StudyError
from bayes_cpt.inference.diagnostics import convergence
from bayes_cpt.inference.fit_files import LAW, WEIGHTS, read_fit, write_fit
from bayes_cpt.inference.groups import RunGroups
from bayes_cpt.inference.law_checks import LawCheck, LawChecks
from bayes_cpt.laws.law import along
from bayes_cpt.model.groups import check_one_target, compared, run_batch, study_of_target
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.ranges import ALIKE_RATIO
from bayes_cpt.study.study import Run, Study

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


PRIOR_DRAWS = 4000
# Below this contraction a quantity rests on its prior.
LOWEST_CONTRACTION = 0.5
# A law with a smaller weight would not have one draw of a forecast's thousand.
LEAST_WEIGHT = 1e-3
FITTED_RUNS = RunGroups()


class StackError(ProblemError):
    """Something that is asked of a stack and can only be answered by a fit of one law."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a model given a study; or a stack, whose draws come from fits of several laws.

    A stack has no parameters, since laws have different ones. It has draws of losses: whatever turns draws
    into losses goes law by law (`shares`) and puts the draws together (Yao, Vehtari, Simpson and Gelman
    2018, doi:10.1214/17-BA1091).

    Parameters
    ----------
    tree : xarray.DataTree
        What its file holds (see `bayes_cpt.inference.trees`): groups ``posterior`` (sampled parameters and
        the coefficients of the printed equation, dims chain, draw, and domain), ``sample_stats`` and those
        that ArviZ looks for; attributes hold the specification, the study's digest, versions, seed and
        diagnostics. Of a stack, one such tree for each law.
    study : Study
        What was fitted.
    fitted : BoundModel
        Specification, validation sets and reference of the fit; of a stack those of the heaviest law.
    groups : RunGroups, optional
        The runs that the draws are for, where they are not those of the fit.
    stacked : tuple of Posterior
        The fits that a stack is made of, each of one law; empty where this is one.

    Examples
    --------
    >>> import bayes_cpt                                     # doctest: +SKIP
    >>> posterior = bayes_cpt.fit(bayes_cpt.read_study("data/cpt-lab"), seed=1)  # doctest: +SKIP
    >>> posterior.summary()                                  # doctest: +SKIP
    """

    tree: "xr.DataTree"
    study: Study
    fitted: BoundModel
    groups: RunGroups = FITTED_RUNS
    stacked: "tuple[Posterior, ...]" = ()
    _origin: "Posterior | None" = None

    def __repr__(self) -> str:
        """Return what was fitted to what: the draws would fill pages."""
        return f"Posterior of {self.tree.attrs['model']} given {self.study.name}"

    @cached_property
    def frame(self) -> BoundModel:
        """Specification, validation sets and reference, for the runs that the draws are for."""
        if not self.stacked:
            return self.groups.frame(self.fitted)
        heaviest = self.laws[int(np.argmax(self.weights))].frame
        spec = heaviest.spec.model_copy(update={"name": str(self.tree.attrs["model"])})
        return replace(heaviest, spec=spec)

    @property
    def laws(self) -> "tuple[Posterior, ...]":
        """The fits of one law that the draws come from: this one, unless it is a stack."""
        return self.stacked or (self,)

    @property
    def weights(self) -> tuple[float, ...]:
        """The share of the draws of each law; they add up to 1."""
        return tuple(json.loads(self.tree.attrs[WEIGHTS])) if self.stacked else (1.0,)

    @property
    def problems(self) -> tuple[str, ...]:
        """What falls short of the diagnostics contract; empty where the posterior can be trusted."""
        return tuple(json.loads(self.tree.attrs["problems"]))

    @property
    def missed_modes(self) -> list[dict[str, Any]]:
        """Modes of the posterior that were found, but around which there is no draw.

        Of each its ``share`` of the posterior, by Laplace approximations, and which ``parameter``, on which
        ``domain``, lies farthest off: where it is ``there``, and at the median of what is ``drawn``.
        """
        found = (json.loads(law.tree.attrs["missed_modes"]) for law in self.laws)
        return [mode for modes in found for mode in modes]

    @cached_property
    def law_checks(self) -> LawChecks:
        """Whether each law fits the runs."""
        records = (json.loads(law.tree.attrs["law_checks"]) for law in self.laws)
        return LawChecks(tuple(LawCheck(**record) for checks in records for record in checks))

    @property
    def law_fits(self) -> bool:
        """Whether no check of a law against the runs alarms."""
        return not self.law_checks.alarms

    @property
    def trustworthy(self) -> bool:
        """Whether the diagnostics contract holds, the law fits and the study does not mislead it."""
        return not self.problems and self.law_fits and not self.study.misleading

    @property
    def seed(self) -> int:
        """The seed of the fit; of a stack that of the comparison that found the weights."""
        return int(self.tree.attrs["seed"])

    @property
    def chains(self) -> int:
        """How many chains its draws come in; one of a stack: chains of different laws do not correspond."""
        return 1 if self.stacked else int(self.tree["posterior"].sizes["chain"])

    def check_one_law(self, asked: str) -> None:
        """Raise `StackError` if this is a stack: some questions are for one law.

        Parameters
        ----------
        asked : str
            What is asked, for the error.
        """
        if self.stacked:
            names = ", ".join(law.frame.spec.name for law in self.laws)
            problem = f"it is a stack of laws, and {asked} can only be had of one law"
            where = "bayes-cpt compare -o FOLDER writes them beside the stack"
            fix = f"give the fit of one of them ({names}): {where}"
            raise StackError.at(f"fit of {self.study.name}", problem, fix)

    def shares(self, draws: int | None = None) -> "tuple[tuple[Posterior, int | None], ...]":
        """Return the posterior of each law behind the draws, and how many of them are its.

        Parameters
        ----------
        draws : int, optional
            In all; of a stack no more than there are, and as many as the weights allow unless given.
        """
        if not self.stacked:
            return ((self, draws),)
        sizes = [law.tree["posterior"].sizes for law in self.laws]
        most = min(size["draw"] / weight for size, weight in zip(sizes, self.weights, strict=True))
        chains = max(size["chain"] for size in sizes)
        wanted = most if draws is None else min(most, max(draws // chains, 1))
        counts = apportioned(np.array(self.weights), int(wanted))
        parts = zip(self.laws, sizes, counts, strict=True)
        return tuple((law, int(count) * size["chain"]) for law, size, count in parts if count)

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters, shape (draws, ...), chains one after the other.

        Parameters
        ----------
        draws : int, optional
            Evenly thinned to about as many, the same number from every chain; all unless given.

        Raises
        ------
        StackError
            If this is a stack.
        """
        self.check_one_law("its parameters")
        # As a plain dataset: of a tree every look at a variable makes one.
        posterior = self.tree["posterior"].to_dataset()
        available = posterior.sizes["draw"]
        wanted = available if draws is None else max(1, draws // posterior.sizes["chain"])
        kept = np.unique(np.linspace(0, available - 1, min(wanted, available)).round().astype(int))
        found = {}
        for name in self.fitted.parameters():
            values = posterior.variables[name].to_numpy()[:, kept]
            found[name] = values.reshape(-1, *values.shape[2:])
        found = self.groups.parameters(found, self.fitted, self.seed)
        return {name: found[name] for name in self.frame.parameters()}

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
            Columns quantity, domain, kind (parameter or coefficient), mean, median, sd, lower, upper,
            ess_bulk, ess_tail, r_hat, contraction (see `contraction`): near 1 the study determines the
            quantity, near 0 the prior does. Of a stack the rows of all laws, with the columns law and
            weight before the others.
        """
        import pandas as pd

        if self.stacked:
            tables = []
            for law, weight in zip(self.laws, self.weights, strict=True):
                table = law.summary(interval, coefficients=coefficients)
                table.insert(0, "weight", weight)
                table.insert(0, "law", law.frame.spec.name)
                tables.append(table)
            return pd.concat(tables, ignore_index=True)
        parameters, rows = self.frame.parameters(), []
        for (name, member), draws in self._quantities.items():
            kind = "parameter" if name in parameters else "coefficient"
            if np.ptp(draws) == 0 or (kind == "coefficient" and not coefficients):
                continue
            rhat, bulk, tail = convergence(draws)
            told = summary(draws.ravel(), interval)
            rows.append(
                {"quantity": name, "domain": member, "kind": kind}
                | {name: float(own) for name, own in told.items()}
                | {"ess_bulk": float(bulk), "ess_tail": float(tail), "r_hat": float(rhat)}
                | {"contraction": contraction(self.prior_draws(name, member), draws)}
            )
        return pd.DataFrame(rows)

    def by_member(self, parameters: dict[str, Floats]) -> dict[tuple[str, str], Floats]:
        """Return parameters and coefficients by name and validation set, shape (draws,) each.

        Parameters
        ----------
        parameters : dict of str to ndarray, shape (draws, ...)
            All of the law.
        """
        # The prior of a coefficient on a ridge overflows in its far tail, which quartiles ignore.
        with np.errstate(over="ignore", invalid="ignore"):
            quantities = parameters | self.frame.law.coefficients(parameters, np)
        found = {}
        for name, values in quantities.items():
            columns = values.reshape(len(values), -1).T
            for member, column in zip(self.members(name), columns, strict=True):
                found[name, member] = column
        return found

    @cached_property
    def _quantities(self) -> dict[tuple[str, str], Floats]:
        found = self.by_member(self.parameters())
        return {key: own.reshape(self.chains, -1) for key, own in found.items()}

    @cached_property
    def _prior_quantities(self) -> dict[tuple[str, str], Floats]:
        return self.by_member(draw_priors(self.frame, PRIOR_DRAWS, seed=0))

    def prior_draws(self, quantity: str, domain: str) -> Floats:
        """Return prior draws of a quantity of `summary`, shape (draws,).

        Parameters
        ----------
        quantity, domain : str
            Of the table's columns of these names.

        Raises
        ------
        StudyError
            If there is none, naming those that there are.
        """
        self.check_one_law(f"the prior of {quantity}")
        return self._of(self._prior_quantities, quantity, domain)

    def draws(self, quantity: str, domain: str) -> Floats:
        """Return posterior draws of a quantity of `summary`, shape (chains, draws).

        Parameters
        ----------
        quantity, domain : str
            Of the table's columns of these names.

        Raises
        ------
        StudyError
            If there is none, naming those that there are.
        """
        self.check_one_law(f"the draws of {quantity}")
        return self._of(self._quantities, quantity, domain)

    def _of(self, found: dict[tuple[str, str], Floats], quantity: str, domain: str) -> Floats:
        if (quantity, domain) in found:
            return found[quantity, domain]
        sets = [own for name, own in found if name == quantity]
        wanted = f"validation set of {quantity}", domain, sets
        missed = (
            wanted if sets else ("quantity", quantity, dict.fromkeys(name for name, _ in found))
        )
        raise StudyError.at(f"fit of {self.study.name}", *unknown(*missed))

    def members(self, quantity: str) -> tuple[str, ...]:
        """Return the validation sets of a quantity of `summary`, ``("all",)`` where they share it.

        Parameters
        ----------
        quantity : str
            Of the table's column of that name.
        """
        self.check_one_law(f"the validation sets of {quantity}")
        infos = self.frame.parameters()
        if quantity not in (known := dict.fromkeys([*infos, *self.tree["posterior"].data_vars])):
            problem, fix = unknown("quantity", quantity, known)
            raise StudyError.at(f"fit of {self.study.name}", problem, fix)
        dims = infos[quantity].dims if quantity in infos else along(quantity)
        return tuple(member.label for member in self.frame.members(dims))

    def predict(self, plan: "Study | str | Path | None" = None, **options: Any) -> "xr.Dataset":
        """Return predictive curves of a plan (see `bayes_cpt.forecast.predict.predict`).

        Parameters
        ----------
        plan : Study, str or Path, optional
            Runs to predict; the fitted ones unless given.
        **options
            As `bayes_cpt.forecast.predict.predict` takes them.
        """
        from bayes_cpt.forecast.predict import predict

        return predict(self, plan, **options)

    def report(self, path: "str | Path | None" = None, **options: Any) -> Any:
        """Return the report of the fit, and write its page (see `bayes_cpt.report.page`).

        Parameters
        ----------
        path : path, optional
            HTML file to write.
        **options
            As of `bayes_cpt.report.page`.
        """
        from bayes_cpt.report.page import report

        return report(self, path, **options)

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
        write_fit(self.tree, path)

    def with_new_groups(self, plan: Study, runs: Iterable[Run]) -> "Posterior":
        """Return a posterior that knows the model sizes and batches of some runs of a plan.

        What a size or batch that no run had has for itself is drawn from the population. It is the same
        posterior if there is nothing new that a law has parameters for.

        Parameters
        ----------
        plan : Study
        runs : iterable of Run
            Of the plan.

        Raises
        ------
        StudyError
            As `with_new_sizes`, or if a run does not say of its batch what the fitted ones differ in.
        """
        chosen = tuple(runs)

        def with_batches(law: Posterior) -> Posterior:
            known = law.frame.batches
            asked = dict.fromkeys(run_batch(plan, run, known) for run in chosen)
            new = tuple(own for own in asked if own is not None and own not in known)
            return law._for_groups(batches=(*law.groups.batches, *new))

        return self.with_new_sizes(plan.model_size(run) for run in chosen)._each(with_batches)

    def with_new_sizes(self, sizes: Iterable[float | None]) -> "Posterior":
        """Return a posterior that knows further model sizes.

        Parameters
        ----------
        sizes : iterable of float or None
            Millions of parameters; known ones and None are passed over.

        Raises
        ------
        StudyError
            If a law has no size, and one is asked for that no fitted run is near.
        """
        asked = sorted({size for size in sizes if size is not None})

        def with_sizes(law: Posterior) -> Posterior:
            if not law.frame.spec.law.model_size:
                _check_alike(law, asked)
                return law
            new = tuple(size for size in asked if size not in law.frame.sizes)
            return law._for_groups(sizes=(*law.groups.sizes, *new))

        return self._each(with_sizes)

    def in_batch(self, batch: Batch | None = None) -> "Posterior":
        """Return the posterior of runs that all have one batch; the same where no law compares batches.

        Parameters
        ----------
        batch : Batch, optional
            What it does not say is as in the batch that most CPT runs of the study have; one that never
            ran is drawn from the population.
        """

        def settled(law: Posterior) -> Posterior:
            known = law.frame.batches
            if not known:
                return law
            chosen = known[0] if batch is None else compared(batch, known)
            further = law.groups.batches if chosen in known else (*law.groups.batches, chosen)
            return law._for_groups(batches=further, batch=chosen)

        return self._each(settled)

    @property
    def batch(self) -> Batch:
        """The batch of `in_batch`; one that says nothing where no law compares batches."""
        settled = (law.groups.batch for law in self.laws)
        return next((batch for batch in settled if batch is not None), Batch())

    def of_target(self, name: str | None, asked: str = "this") -> "Posterior":
        """Return the posterior of runs on one target alone, as a fit of one target has it.

        Of such runs the law of several targets is the law of one (docs/targets.md): the shift of the
        general set is the one that this target makes, and the study is `study_of_target`.

        Parameters
        ----------
        name : str or None
            A target of the fitted study; None is for studies of one.
        asked : str
            What is asked, for the error.

        Raises
        ------
        StudyError
            If there is no such target, or no run on it alone; or if there are several and none is named.
        """
        if name is None:
            check_one_target(self.study, asked)
            return self
        if name not in self.study.targets:
            problem, fix = unknown("target", name, self.study.targets)
            raise StudyError.at(f"study {self.study.name}", problem, fix)
        if len(self.study.targets) == 1:
            return self
        own = study_of_target(self.study, name)

        def of_one(law: Posterior) -> Posterior:
            return replace(law, study=own, groups=replace(law.groups, target=name), _origin=None)

        return replace(self._each(of_one), study=own, _origin=None)

    @property
    def as_fitted(self) -> "Posterior":
        """The posterior that groups were added to, or a batch settled in; this one where none were."""
        return self._origin or self

    def _for_groups(self, **groups: Any) -> "Posterior":
        """Return the draws of one law for other runs; the same where they are for these."""
        asked = replace(self.groups, **groups)
        if asked == self.groups:
            return self
        return replace(self, groups=asked, _origin=self.as_fitted)

    def _each(self, change: "Callable[[Posterior], Posterior]") -> "Posterior":
        """Return the posterior after a change of each of its laws; the same one where none changes."""
        if not self.stacked:
            return change(self)
        laws = tuple(change(law) for law in self.laws)
        if laws == self.laws:
            return self
        return replace(self, stacked=laws, _origin=self.as_fitted)


def _check_alike(posterior: Posterior, asked: list[float]) -> None:
    """Raise if a size is asked for that a law without sizes was not fitted to."""
    study = posterior.study
    fitted = [size for run in study.runs if (size := study.model_size(run)) is not None]
    if not fitted:
        return
    low, high = min(fitted) / ALIKE_RATIO, max(fitted) * ALIKE_RATIO
    for size in asked:
        if not low <= size <= high:
            problem = f"model_size is {size:g}, the fit is of {min(fitted):g} to {max(fitted):g}"
            problem += ", and its law has no term for model size"
            fix = "fit runs of two sizes or more with --model cpt-replay-sizes or pretrain-sizes"
            raise StudyError.at(f"plan, model {posterior.frame.spec.name}", problem, fix)


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
    posteriors = tuple(Posterior(*law) for law in laws)
    return _stack_of(tree, posteriors) if WEIGHTS in tree.attrs else posteriors[0]


def _stack_of(tree: "xr.DataTree", laws: tuple[Posterior, ...]) -> Posterior:
    heaviest = laws[int(np.argmax(json.loads(tree.attrs[WEIGHTS])))]
    return Posterior(tree, heaviest.study, heaviest.fitted, stacked=laws)


def stack(laws: Mapping[str, Posterior], weights: Mapping[str, float], seed: int) -> Posterior:
    """Return the stack of fits of one study, by the weights that a comparison with this seed found.

    Weights are scaled to add up to 1, and laws below a thousandth are left out.
    """
    import xarray as xr

    total = sum(weights[name] for name in laws)
    kept = {name: law for name, law in laws.items() if weights[name] >= LEAST_WEIGHT * total > 0}
    total = sum(weights[name] for name in kept)
    shares = {name: weights[name] / total for name in kept}
    order = sorted(kept, key=lambda name: -shares[name])
    alone = "100 %" if len(kept) == 1 else ""
    parts = [f"{alone or chance(shares[name])} {kept[name].frame.spec.name}" for name in order]
    attributes = {
        WEIGHTS: json.dumps(list(shares.values())),
        "model": f"a stack of {' and '.join(parts)}",
        "study_name": kept[order[0]].study.name,
        "study_digest": kept[order[0]].study.digest(),
        "seed": seed,
        "attempts": max(int(law.tree.attrs["attempts"]) for law in kept.values()),
        "problems": json.dumps(
            [f"{name}: {problem}" for name, law in kept.items() for problem in law.problems]
        ),
        "versions": kept[order[0]].tree.attrs["versions"],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    children = {f"{LAW}{index}": law.tree.copy() for index, law in enumerate(kept.values())}
    tree = xr.DataTree(xr.Dataset(attrs=attributes), children=children)
    return _stack_of(tree, tuple(kept.values()))


def apportioned(weights: Floats, count: int) -> NDArray[np.int64]:
    """Return whole numbers that add up to a count, as near to the weights as can be (largest remainder).

    Examples
    --------
    >>> apportioned(np.array([0.5, 0.26, 0.24]), 10).tolist()
    [5, 3, 2]
    """
    exact = weights * count
    whole = np.floor(exact).astype(np.int64)
    left = count - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole
