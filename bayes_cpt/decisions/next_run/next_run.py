"""Which short run to train next: what each would be worth to a decision, and what it would tell.

For every draw of the posterior the curve that a candidate run would show is simulated, fluctuation and
misfit included, at about 24 checkpoints on both validation sets. What the law misses of the run it misses
of like configurations too (`bayes_cpt.model.misfit.discrepancy`). From the curves and the losses of the
configurations that may be chosen, `bayes_cpt.decisions.next_run.sample_information` estimates by regression

- the expected value of sample information (EVSI): by how much the expected regret of the decision falls;
- the information about coefficients of the law and about effects of a typical run.

The EVSI is about expected loss: no other risk measure has a value of information that cannot be negative. A
chance constraint counts as it stands now: what breaks it under the present posterior is not chosen after
the run either, so that the value of finding it harmless is left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import suggestion
from bayes_cpt.decisions.measures import RiskMeasure
from bayes_cpt.decisions.next_run.affordable import Affordable
from bayes_cpt.decisions.next_run.run_values import Label, RunValues
from bayes_cpt.decisions.next_run.sample_information import Stakes, information
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.search.block import Block
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.decisions.search.from_study import with_batch
from bayes_cpt.decisions.search.search import Search, Trait, search
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.space import Space, read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.forecast.derived import derived_quantities
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.new_groups import check_one_batch, settled_batch
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.stacked import one_law
from bayes_cpt.laws.law import ALONG
from bayes_cpt.model.misfit.discrepancy import OWN_SHARE, correlated
from bayes_cpt.model.points import Curve
from bayes_cpt.model.simulate import Innovations, simulate
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

DRAWS = 2000
CANDIDATES = 4096
CHECKPOINTS = 24
# Configurations that a draw likes best, and that are best in expectation, at most as many.
FAVOURITES, LEADERS = 1000, 64


def next_run(
    posterior: Posterior,
    objective: "str | Path | dict[str, Any] | Objective" = "balanced",
    space: "str | Path | dict[str, Any] | Space | None" = None,
    runs: "str | Path | Affordable | None" = None,
    *,
    about: Sequence[str] = (),
    steps: int | None = None,
    draws: int = DRAWS,
    candidates: int = CANDIDATES,
    seed: int = 0,
) -> RunValues:
    r"""Return what each of some affordable runs would be worth to a decision, and would tell.

    Parameters
    ----------
    posterior : Posterior
    objective, space
        What is to be decided, as in `bayes_cpt.decisions.decision.decide`.
    runs : path or Affordable, optional
        A study folder or TOML file of runs, each with an optional ``cost`` in steps; unless given, those of
        `Affordable.default`.
    about : sequence of str
        Coefficients and effects to tell of; all unless given.
    steps : int, optional
        Length of the default runs.
    draws : int
        Posterior draws, spread evenly over the chains: the more, the smaller the Monte Carlo error.
    candidates : int
        Configurations of the first look at the space.
    seed : int
        Of the places that are looked at and of the simulated curves.

    Raises
    ------
    SpecError, StudyError
        Naming what is wrong with objective, space, runs or quantities.

    Examples
    --------
    >>> import bayes_cpt                                       # doctest: +SKIP
    >>> values = next_run(bayes_cpt.load("fit.nc"), "balanced")  # doctest: +SKIP
    >>> print(*values.verdict(), sep="\n")                      # doctest: +SKIP
    """
    one_law(posterior, "the worth of a next run")
    fitted, goal = posterior, read_objective(objective)
    posterior, limits = with_batch(posterior, read_space(space))
    model = FinalLosses.of(posterior, draws, seed)
    batch = settled_batch(posterior)
    affordable = _affordable(posterior, runs, steps, batch)
    check_one_batch(fitted, affordable.plan, batch, "the worth of a next run")
    whole = SearchSpace.of(limits, posterior.study)
    valuation = Valuation.of(model, goal, whole)
    quantities = _quantities(posterior, model, about)
    trait = Trait(RiskMeasure.parse("expected"), new_run=False, tolerance=0.0, seed=seed)
    chosen = _contending(search(valuation, whole, trait, candidates), seed)
    stakes = Stakes(_values(valuation, chosen))
    now = int(stakes.losses.mean(axis=0).argmin())
    asked = np.stack(list(quantities.values()), axis=1)
    values, told = {}, {}
    for name, curves in _simulated(posterior, model, affordable.plan, seed):
        values[name], told[name] = stakes.value(curves), information(asked, curves)
    plan, study = affordable.plan, posterior.study
    return RunValues(
        valuation=valuation,
        space=whole,
        candidates=chosen,
        now=now,
        affordable=affordable,
        values=values,
        told=told,
        quantities=list(quantities),
        lengthening={
            run.name: _lengthening(
                valuation, chosen.take(slice(now, now + 1)), affordable.cost(run)
            )
            for run in plan.runs
        },
        outside={run.name: _outside(study, plan, run) for run in plan.runs},
    )


def checkpoints(steps: int) -> list[int]:
    """Return the steps at which a run is taken to be measured, denser early, the last one always.

    Parameters
    ----------
    steps : int
        Of the run.

    Examples
    --------
    >>> checkpoints(1000)[:3], checkpoints(1000)[-1], len(checkpoints(1000))
    ([2, 7, 16], 1000, 24)
    """
    share = np.linspace(0.0, 1.0, min(CHECKPOINTS, steps) + 1)[1:] ** 2
    return [int(step) for step in np.unique(np.ceil(share * steps))]


def _affordable(
    posterior: Posterior, runs: "str | Path | Affordable | None", steps: int | None, batch: Batch
) -> Affordable:
    if isinstance(runs, Affordable):
        return runs
    if runs is not None:
        return Affordable.read(runs, posterior.study)
    return Affordable.default(posterior.frame, posterior.study, steps, batch)


def _quantities(
    posterior: Posterior, model: FinalLosses, about: Sequence[str]
) -> dict[Label, Floats]:
    """Return draws of coefficients and effects, by name and validation set; none of them constant."""
    effects = derived_quantities(posterior.frame, posterior.study, model.parameters)
    every = model.sample.coefficients | effects
    unknown = [name for name in about if name not in every]
    if unknown:
        raise SpecError(
            Problem(
                "about",
                f"there is no quantity {name!r}{suggestion(name, every)}",
                f"name some of {', '.join(every)}",
            )
            for name in unknown
        )
    quantities = {}
    for name in about or every:
        values = every[name]
        along = model.sample.frame.members(ALONG.get(name, "domain"))
        members = tuple(own.label for own in along) if values.ndim == 2 else ("all",)
        for index, member in enumerate(members):
            draws = values[:, index] if values.ndim == 2 else values
            if np.ptp(draws) > 0:
                quantities[name, member] = draws
    if not quantities:
        problem = "none of the quantities varies over the posterior"
        raise SpecError.at("about", problem, "name others, or leave them out")
    return quantities


def _contending(searched: Search, seed: int) -> Candidates:
    """Return the candidates that some draw likes best, and the best in expectation."""
    leaders, favourites = searched.order()[:LEADERS], np.unique(searched.optimum)
    if searched.feasible.any():
        leaders = leaders[searched.feasible[leaders]]
    if favourites.size > FAVOURITES:
        generator = np.random.default_rng(seed)
        favourites = generator.choice(favourites, FAVOURITES, replace=False)
    return searched.candidates.take(np.union1d(leaders, favourites))


def _values(valuation: Valuation, candidates: Candidates) -> Floats:
    """Return the objective of every candidate in every draw, shape (draws, candidates)."""
    values = np.empty((valuation.model.draws, len(candidates)))

    def keep(block: Block) -> None:
        chosen = candidates.take(block.rows)
        law = valuation.changes(chosen, block.losses)
        values[:, block.rows] = valuation.moved(chosen, law, block.missed()).T

    valuation.model.map(candidates, keep)
    return values


def _simulated(
    posterior: Posterior, model: FinalLosses, plan: Study, seed: int
) -> Iterable[tuple[str, Floats]]:
    """Yield each run with a curve that it may show in each draw, all its points in a row."""
    frame = posterior.frame
    target = with_base_losses(posterior.study, frame.domains, plan)
    for index, run in enumerate(plan.runs):
        curves = frame.curves(target, lambda planned, _: checkpoints(planned.schedule.steps), [run])
        generator = np.random.default_rng([seed, index])
        shared = _innovations(model, target, run, generator) if run.phase == "cpt" else None
        drawn = simulate(
            frame, model.parameters, curves, None, generator, model.correlation, shared
        )
        yield run.name, drawn.loss


def _innovations(
    model: FinalLosses, plan: Study, run: Run, generator: np.random.Generator
) -> Innovations:
    """Return what gives the misfit of a run's curves, a part of which configurations like it share."""
    base = plan.base(str(run.base))
    drawn: list[Floats] = []

    def of(curve: Curve, knots: int) -> Floats:
        if not drawn:
            shape = (len(model.domains), model.draws, knots)
            normals = generator.standard_normal(shape)
            drawn.append(np.asarray(correlated(normals, model.correlation.misfit), np.float64))
        shared = model.innovations(base, run, knots)
        whole = np.sqrt(1.0 - OWN_SHARE) * shared + np.sqrt(OWN_SHARE) * drawn[0]
        return np.asarray(whole[model.domains.index(curve.domain)], dtype=np.float64)

    return of


def _outside(study: Study, plan: Study, run: Run) -> str:
    if run.phase not in {other.phase for other in study.runs}:
        return "a PT run, and none was fitted"
    return "; ".join(outside_range(study, plan, run))


def _lengthening(valuation: Valuation, one: Candidates, cost: float) -> float:
    """Return by how much the expected loss falls if a configuration gets more steps, nats."""
    batch = one.schedules
    factor = (batch.steps + cost) / batch.steps
    longer = replace(
        batch,
        steps=np.round(batch.steps * factor).astype(np.int64),
        warmup_steps=np.floor(batch.warmup_steps * factor).astype(np.int64),
        decay_steps=np.floor(batch.decay_steps * factor).astype(np.int64),
    )
    before, after = (
        valuation.combination.of_candidates(chosen, valuation.model.losses(chosen))
        for chosen in (one, replace(one, schedules=longer))
    )
    return float((before - after).mean())
