"""Posterior x plan -> predictive curves and bands.

`kind` says what a band is about: ``expected`` the uncertainty of the law's curve alone, ``new_run``
what a validation curve of a run that was never trained would show, ``known_run`` the curve of a run
in the study, given its measured points.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.points import Curves, observed_steps
from bayes_cpt.posterior import Posterior
from bayes_cpt.ranges import outside_range
from bayes_cpt.simulate import expected_loss, simulate
from bayes_cpt.study import Run, Study

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

type Floats = NDArray[np.float64]
type Kind = Literal["expected", "new_run", "known_run"]

KINDS = ("expected", "new_run", "known_run")
GRID = 200
# The first steps of a run move fastest: the grid is even in the square root of the step.
GRID_POWER = 2.0
DRAWS = 1000


class PlanError(StudyError):
    """A plan, or points to predict at, that the fit cannot serve."""


def default_grid(steps: int) -> list[int]:
    """Return about 200 steps of a run of that length, denser early, the last one always.

    Examples
    --------
    >>> grid = default_grid(3000)
    >>> grid[0], grid[-1], len(grid) <= 200
    (1, 3000, True)
    """
    share = np.linspace(0.0, 1.0, min(GRID, steps) + 1)[1:] ** GRID_POWER
    return [int(step) for step in np.unique(np.ceil(share * steps))]


def predict(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    kind: Kind = "new_run",
    *,
    at: "pd.DataFrame | str | Path | None" = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> "xr.Dataset":
    """Return draws of the loss curves of a plan.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        Runs to predict: a study folder or one TOML file. Of its losses only the base's own, at step 0,
        are used; where it has none they come from the fitted study. None predicts the study's own runs.
    kind : {"new_run", "expected", "known_run"}
        See the module. ``known_run`` takes runs of the fitted study.
    at : DataFrame or path of a CSV, optional
        Columns run, domain, step: where losses are wanted. About 200 steps a run unless given.
    draws : int
        Posterior draws to use, spread evenly over the chains.
    seed : int
        Of what is random beyond the posterior.

    Returns
    -------
    xarray.Dataset
        ``loss`` and ``expected``, dims chain, draw, run, domain, step, nats/token; NaN at steps that a
        run has not. ``outside`` (run) says where a run leaves what was fitted, empty inside;
        ``phase``, ``base`` and ``replay`` (run) and ``learning_rate`` (run, step) say what was predicted.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: give one of {', '.join(KINDS)}")
    target, curves = planned_curves(posterior, plan, at=at, known=kind == "known_run")
    parameters = posterior.parameters(draws)
    generator = np.random.default_rng(seed)
    if kind == "expected":
        expected = expected_loss(posterior.frame, parameters, curves)
        loss = expected
    else:
        observed = _observed(posterior, curves) if kind == "known_run" else None
        found = simulate(posterior.frame, parameters, curves, observed, generator)
        expected, loss = found.expected, found.loss
    chains = posterior.tree["posterior"].sizes["chain"]
    return _dataset(posterior, target, curves, expected, loss, chains, kind)


def planned_curves(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    *,
    at: "pd.DataFrame | str | Path | None" = None,
    known: bool = False,
    runs: Collection[str] | None = None,
) -> tuple[Study, Curves]:
    """Return a plan with its base losses filled in, and its curves where losses are wanted.

    Parameters
    ----------
    posterior : Posterior
    plan, at
        As in `predict`.
    known : bool
        Whether the plan's runs are runs of the fitted study, which then gives schedules and losses.
    runs : collection of str, optional
        Names of the runs wanted; all unless given.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    StudyError
        If a run wanted is not in the plan.
    """
    own = plan is None or known
    target = posterior.study if plan is None else _as_plan(posterior, plan)
    if own:
        target = _own_runs(posterior, target)
    target = with_base_losses(posterior.study, posterior.frame.domains, target)
    if runs is None:
        chosen = [run for run in target.runs if run.phase == "cpt" or own] or list(target.runs)
    else:
        chosen = [target.run(name) for name in runs]
    wanted = _wanted_steps(posterior, chosen, at)
    curves = posterior.frame.curves(target, lambda run, domain: wanted[run.name, domain], chosen)
    return target, curves


def table(dataset: "xr.Dataset", interval: float = 0.9) -> "pd.DataFrame":
    """Return the bands of `predict` as a table.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `predict`.
    interval : float
        Mass of the central interval between lower and upper.

    Returns
    -------
    DataFrame
        Columns run, step, domain, mean, median, sd, lower, upper, kind, outside; the mass of the
        interval is in ``attrs["interval"]``.
    """
    import pandas as pd

    if not 0 < interval < 1:
        raise ValueError(f"interval is {interval}: give a mass between 0 and 1, as in 0.9")
    loss = dataset["loss"].stack(sample=("chain", "draw")).transpose("sample", ...)
    values = loss.to_numpy()
    quantiles = np.array([0.5, 0.5 - interval / 2, 0.5 + interval / 2])
    rows = []
    for i, run in enumerate(dataset["run"].to_numpy()):
        for j, domain in enumerate(dataset["domain"].to_numpy()):
            kept = np.isfinite(values[0, i, j])
            draws = values[:, i, j, kept]
            median, lower, upper = np.quantile(draws, quantiles, axis=0)
            rows.append(
                pd.DataFrame(
                    {
                        "run": run,
                        "step": dataset["step"].to_numpy()[kept],
                        "domain": domain,
                        "mean": draws.mean(axis=0),
                        "median": median,
                        "sd": draws.std(axis=0, ddof=1),
                        "lower": lower,
                        "upper": upper,
                        "kind": dataset.attrs["kind"],
                        "outside": str(dataset["outside"].to_numpy()[i]),
                    }
                )
            )
    found = pd.concat(rows, ignore_index=True)
    found.attrs["interval"] = interval
    return found


def _as_plan(posterior: Posterior, plan: "Study | str | Path") -> Study:
    if isinstance(plan, Study):
        return plan
    from bayes_cpt.readers.folder import read_plan

    return read_plan(plan, posterior.study)


def _own_runs(posterior: Posterior, target: Study) -> Study:
    """Return the fitted study with the runs named, its own schedules and losses."""
    names = {run.name for run in posterior.study.runs}
    unknown = [run.name for run in target.runs if run.name not in names]
    if unknown:
        raise PlanError(
            [
                Problem(
                    f"run {name}",
                    "known_run is asked for, and the fitted study has no such run",
                    "use kind new_run, or name a run of the study",
                )
                for name in unknown
            ]
        )
    continual = posterior.frame.spec.law.continual
    chosen = [run.name for run in target.runs if continual or run.phase == "pt"]
    return posterior.study.subset(chosen)


def with_base_losses(study: Study, domains: Iterable[str], plan: Study) -> Study:
    """Return the plan with losses of its bases at step 0 from the fitted study, where it has none."""
    import pandas as pd

    fitted = {base.name: base for base in study.bases}
    rows = []
    for base in plan.bases:
        users = [run.name for run in plan.continual_runs if run.base == base.name]
        same = base.name in fitted and fitted[base.name].schedule == base.schedule
        for domain in domains:
            if not users or not same or plan.base_loss(base.name, domain) is not None:
                continue
            loss = study.base_loss(base.name, domain)
            if loss is not None:
                rows.append({"run": users[0], "step": 0, "domain": domain, "loss": loss})
    if not rows:
        return plan
    losses = pd.concat([plan.losses, pd.DataFrame(rows)], ignore_index=True)
    return replace(plan, losses=losses)


def _wanted_steps(
    posterior: Posterior, runs: list[Run], at: "pd.DataFrame | str | Path | None"
) -> dict[tuple[str, str], Iterable[int]]:
    domains = posterior.frame.domains
    if at is None:
        grids = {run.name: default_grid(run.schedule.steps) for run in runs}
        return {(run.name, domain): grids[run.name] for run in runs for domain in domains}
    points = _points_table(at)
    lengths = {run.name: run.schedule.steps for run in runs}
    found: dict[tuple[str, str], set[int]] = {(r.name, d): set() for r in runs for d in domains}
    problems = []
    for run, domain, step in points[["run", "domain", "step"]].itertuples(index=False):
        if run not in lengths:
            problems.append(
                Problem(
                    f"run {run}", "the plan has no such run", f"name one of {', '.join(lengths)}"
                )
            )
        elif domain not in domains:
            problems.append(
                Problem(
                    f"run {run}, domain {domain}",
                    "the fit has no such validation set",
                    f"name one of {', '.join(domains)}",
                )
            )
        elif not 1 <= step <= lengths[run]:
            problems.append(
                Problem(
                    f"run {run}, step {step}",
                    f"the run has steps 1 to {lengths[run]}",
                    "ask inside it, or lengthen its schedule",
                )
            )
        else:
            found[run, domain].add(int(step))
    if problems:
        raise PlanError(list(dict.fromkeys(problems)))
    return dict(found)


def _points_table(at: "pd.DataFrame | str | Path") -> "pd.DataFrame":
    import pandas as pd

    place = "points" if isinstance(at, pd.DataFrame) else str(at)
    try:
        points = at if isinstance(at, pd.DataFrame) else pd.read_csv(at)
    except (OSError, ValueError) as error:
        raise PlanError(
            [Problem(place, f"the points cannot be read: {error}", "give a CSV: run,domain,step")]
        ) from None
    missing = [name for name in ("run", "domain", "step") if name not in points.columns]
    if missing or points.empty:
        what = f"there is no column {missing[0]}" if missing else "there is no point"
        raise PlanError([Problem(place, what, "give columns run, domain and step")])
    steps = pd.to_numeric(points["step"], errors="coerce")
    if steps.isna().any() or (steps % 1 != 0).any():
        raise PlanError([Problem(place, "a step is not a whole number", "count steps from 1")])
    return points.assign(step=steps.astype(int), run=points["run"].astype(str))


def _observed(posterior: Posterior, curves: Curves) -> Curves:
    """Return the fitted points of the same curves, in their order."""
    study, skip = posterior.study, posterior.frame.spec.residuals.skip_pretraining
    names = list(dict.fromkeys(curve.run for curve in curves.curves))
    wanted = {(curve.run, curve.domain) for curve in curves.curves}
    found = posterior.frame.curves(
        study,
        lambda run, domain: (
            observed_steps(study, run, domain, skip) if (run.name, domain) in wanted else []
        ),
        [study.run(name) for name in names],
    )
    if [(c.run, c.domain) for c in found.curves] != [(c.run, c.domain) for c in curves.curves]:
        lost = wanted - {(curve.run, curve.domain) for curve in found.curves}
        raise PlanError(
            [
                Problem(f"run {run}, domain {domain}", "it has no measured points", "use new_run")
                for run, domain in sorted(lost)
            ]
        )
    return found


def _dataset(
    posterior: Posterior,
    target: Study,
    curves: Curves,
    expected: Floats,
    loss: Floats,
    chains: int,
    kind: str,
) -> "xr.Dataset":
    import xarray as xr

    runs = list(dict.fromkeys(curve.run for curve in curves.curves))
    domains = list(posterior.frame.domains)
    steps = np.unique(curves.points.steps).astype(np.int64)
    shape = (loss.shape[0], len(runs), len(domains), steps.size)
    arrays = {"loss": np.full(shape, np.nan), "expected": np.full(shape, np.nan)}
    for index, curve in enumerate(curves.curves):
        rows = np.flatnonzero(curves.points.curve_index == index)
        place = np.searchsorted(steps, curves.points.steps[rows])
        for name, values in (("loss", loss), ("expected", expected)):
            arrays[name][:, runs.index(curve.run), domains.index(curve.domain), place] = values[
                :, rows
            ]
    planned = [target.run(name) for name in runs]
    rates = np.full((len(runs), steps.size), np.nan)
    for rate, run in zip(rates, planned, strict=True):
        inside = steps <= run.schedule.steps
        rate[inside] = run.schedule.learning_rates()[steps[inside] - 1]
    dims = ("chain", "draw", "run", "domain", "step")
    split = (chains, loss.shape[0] // chains, *shape[1:])
    notes = [outside_range(posterior.study, target, run) for run in planned]
    return xr.Dataset(
        {
            name: (dims, array.reshape(split), {"units": "nats/token"})
            for name, array in arrays.items()
        }
        | {
            "outside": ("run", np.array(["; ".join(note) for note in notes], dtype=object)),
            "phase": ("run", np.array([run.phase for run in planned], dtype=object)),
            "base": ("run", np.array([run.base or "" for run in planned], dtype=object)),
            "replay": (
                "run",
                np.array([np.nan if run.replay is None else run.replay for run in planned]),
            ),
            "learning_rate": (("run", "step"), rates),
        },
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(split[1]),
            "run": runs,
            "domain": domains,
            "step": steps,
        },
        attrs={"kind": kind, "study": posterior.study.name, "model": posterior.frame.spec.name},
    )
