"""One simulated study: what each method chooses for the long run, what it says, and what that was worth."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.decision import TOLERANCE, decide
from bayes_cpt.decisions.final_losses import FinalLosses, OneLaw
from bayes_cpt.decisions.objective import PRESETS, Constraint, Mixture, Objective, read_objective
from bayes_cpt.decisions.search import CANDIDATES, SearchCriterion, search
from bayes_cpt.decisions.search_space import Candidates
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.forecast.third_sets import ThirdSet
from bayes_cpt.inference.diagnostics import Diagnostics
from bayes_cpt.inference.fitting import likeliest
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.sampling import sample
from bayes_cpt.inference.trees import build_posterior
from bayes_cpt.model.discrepancy import SharedMisfit
from bayes_cpt.model.evaluate import Draws
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from testbench.choosers import PREDICTORS, UNLIKE, rule_row
from testbench.shared_misfit import noise_of, shared_misfit
from testbench.short_studies import (
    DOMAINS,
    LONG,
    MODEL,
    RUNS,
    design,
    measured_end,
    plan_of,
    simulated_study,
)
from testbench.truths import Parameters, at_the_size_of_the_lab, draw_truth

type Row = dict[str, Any]

OURS, RULE, PLUG_IN = "bayes_cpt", "rule", "plug-in"
OBJECTIVES: dict[str, Objective] = {name: read_objective(name) for name in PRESETS}
# The objective that wants the least replay: the constraint on general loss binds it.
CONSTRAINED = OBJECTIVES["domain-focus"]
# On a single loss, and on a mixed one: four parts general text to one of the target.
CONSTRAINTS = tuple(
    Constraint(domain=domain, rise=rise, probability=highest)
    for domain, rise in (("general", 0.05), ("mixed", 0.0))
    for highest in (0.1, 0.25)
)
SHARES = {"general": np.array([1.0, 0.0]), "mixed": np.array([0.8, 0.2])}
INTERVAL = (0.05, 0.95)
SHIFTS = ("moderate", "strong")
# Where the schedule is free: all that `decide` searches unless told otherwise, from the base of the others.
FREE = {"bases": "annealed", "steps": LONG}
SETTINGS = ("replay", "relative_peak", "decay_share", "relative_final")


@dataclass(frozen=True)
class Task:
    """A study to simulate.

    Parameters
    ----------
    label : str
    shift : str
        Whose printed coefficients the truth is drawn about, a key of `printed.COEFFICIENTS`.
    seed : int
    form : str
        Of the true law, a key of `testbench.short_studies.FORMS`.
    shared : bool
        Whether the law misses of like runs the same.
    """

    label: str
    shift: str
    seed: int
    form: str = "law"
    shared: bool = True


@dataclass(frozen=True, eq=False)
class World:
    """A true law, the study that it made, and what may be chosen.

    `misfit` is what the law misses as a function of the configuration; None where it misses nothing that
    would come again.
    """

    frame: BoundModel
    choices: Candidates
    truth: Parameters
    study: Study
    seed_of_ends: int
    misfit: SharedMisfit | None

    @classmethod
    def of(cls, task: Task, runs: tuple[Run, ...] = RUNS) -> Self:
        """Return the world of a task, and the study that so many runs make in it."""
        for_truth, for_noise, for_ends = np.random.SeedSequence(task.seed).generate_state(3)
        frame, choices = design(task.form)
        truth = draw_truth(frame, task.shift, np.random.default_rng(for_truth))
        misfit = None
        if task.shared:
            misfit = shared_misfit(int(for_truth))
            truth = at_the_size_of_the_lab(truth)
        generator = np.random.default_rng(for_noise)
        noise = noise_of(misfit, runs)
        study = simulated_study(frame, truth, noise, generator, runs)
        return cls(frame, choices, truth, study, int(for_ends), misfit)

    @cached_property
    def law(self) -> FinalLosses:
        """The true law, as a fit of a single draw."""
        nothing = SharedMisfit(1, 0.0, len(DOMAINS))
        law = OneLaw(Draws.of(self.frame, self.truth), self.misfit or nothing, UNLIKE)
        return FinalLosses(self.study, (law,), self._measured, self._third)

    @cached_property
    def losses(self) -> Floats:
        """The true law's expected last losses of all choices, shape (domains, candidates)."""
        block = self.law.at(self.choices)
        whole = block.losses + block.discrepancy if self.misfit else block.losses
        return np.asarray(whole[..., 0])

    def _third(self, name: str) -> ThirdSet:
        raise ValueError(f"the bench has general and target alone, not {name!r}")

    def _measured(self, base: Base) -> tuple[float | None, ...]:
        return tuple(self.study.base_loss(base.name, domain) for domain in DOMAINS)

    def measured_end(self, candidates: Candidates, row: int) -> Floats:
        """Return what a candidate shows at its end, shape (domains,)."""
        generator = np.random.default_rng(self.seed_of_ends)
        run = candidates.run(row, "long")
        noise = noise_of(self.misfit, (run,))
        return measured_end(self.frame, self.truth, noise, self.study, run, generator)

    def threshold(self, constraint: Constraint) -> float:
        """Return the loss that a constraint allows."""
        base = [self.study.base_loss("annealed", domain) for domain in DOMAINS]
        assert constraint.rise is not None
        return float(SHARES[constraint.domain] @ np.array(base, float)) + constraint.rise

    def chosen(self, row: int) -> Row:
        """Return a choice in numbers."""
        return {name: float(self.choices.column(name)[row]) for name in ("replay", "relative_peak")}


@dataclass(frozen=True, eq=False)
class Forecast:
    """What the package makes of a study.

    Parameters
    ----------
    losses : ndarray, shape (domains, draws, candidates)
        Expected last losses in posterior draws: the law's, and what it misses.
    law : ndarray, shape (domains, draws, candidates)
        The law's alone.
    noise : dict of str to ndarray, shape (draws, candidates)
        Sd of each loss of `SHARES` of a new run about the law's.
    """

    losses: Floats
    law: Floats
    noise: dict[str, Floats]

    @classmethod
    def of(cls, posterior: Posterior, choices: Candidates) -> Self:
        """Return what a posterior says of all choices."""
        block = FinalLosses.of(posterior).at(choices)
        law, spread = block.losses, block.spread
        noise = {
            name: np.asarray(spread.of_sum(share).T, np.float64) for name, share in SHARES.items()
        }
        losses, expected = (
            np.swapaxes(np.asarray(own, np.float64), 1, 2) for own in (law + block.discrepancy, law)
        )
        return cls(losses, expected, noise)


def fitted(study: Study, spec: ModelSpec, seed: int) -> tuple[Posterior, Diagnostics]:
    """Return a posterior that meets the contract, or what the last attempt made."""
    density, known = likeliest(build_setup(spec, study), study, seed, cores=1)
    found = sample(density, seed, cores=1, known=known)
    return build_posterior(density.setup, study, found, seed), found.diagnostics


def quality(diagnostics: Diagnostics) -> Row:
    """Return what the log of a fit says of its chains."""
    return {
        "rhat": max(float(np.max(own)) for own in diagnostics.rhat.values()),
        "ess": min(float(np.min(own)) for own in diagnostics.ess_bulk.values()),
        "divergences": diagnostics.divergences,
        "trustworthy": diagnostics.trustworthy,
    }


@dataclass(frozen=True, eq=False)
class Outcome:
    """Rows of each table for one task."""

    task: str
    tables: dict[str, pd.DataFrame]


def one_study(task: Task) -> Outcome:
    """Simulate a study, let every method choose, and compare with the oracle.

    Regret is the objective at what was chosen less its lowest over all choices, both by the expected
    curves of the true law.
    """
    world = World.of(task)
    seed = int(np.random.SeedSequence([task.seed, 1]).generate_state(1)[0])
    clock = [time.perf_counter()]
    posterior, diagnostics = fitted(world.study, read_spec(MODEL), seed)
    forecast = Forecast.of(posterior, world.choices)
    clock.append(time.perf_counter())
    predictions = {OURS: forecast.losses.mean(axis=1)}
    runs = tuple(world.choices.run(row, f"choice {row}") for row in range(len(world.choices)))
    plan = plan_of(world.study, runs)
    for name, predict in PREDICTORS.items():
        predictions[name] = predict(world.study, plan, runs, seed)
        clock.append(time.perf_counter())
    free = free_rows(world, posterior)
    log = {
        "seconds free schedule": time.perf_counter() - clock[-1],
        **{f"seconds {name}": own for name, own in zip(predictions, np.diff(clock), strict=True)},
        **quality(diagnostics),
    }
    rows = {
        "choices": choice_rows(world, predictions),
        "statements": statement_rows(world, forecast),
        "constraints": constraint_rows(world, forecast, predictions[PLUG_IN]),
        "free": free,
        "studies": [log],
    }
    place = {"form": task.form, "shift": task.shift}
    tables = {name: pd.DataFrame(own).assign(**place) for name, own in rows.items()}
    return Outcome(task.label, tables)


def choice_rows(world: World, predictions: dict[str, Floats]) -> list[Row]:
    """Return what each method chooses for each objective, and its regret."""
    rows = []
    for name, objective in OBJECTIVES.items():
        weights = objective.combination(DOMAINS)
        value = weights @ world.losses
        places = {method: int(np.argmin(weights @ own)) for method, own in predictions.items()}
        places[RULE] = rule_row(world.choices)
        for method, place in {**places, "oracle": int(value.argmin())}.items():
            regret = {"regret": float(value[place] - value.min())}
            rows.append({"objective": name, "method": method} | world.chosen(place) | regret)
    return rows


def statement_rows(world: World, forecast: Forecast) -> list[Row]:
    """Return what the package says of its recommendation, and what came true."""
    rows = []
    for name, objective in OBJECTIVES.items():
        weights = objective.combination(DOMAINS)
        value, draws = weights @ world.losses, np.tensordot(weights, forecast.losses, 1)
        place = int(draws.mean(axis=0).argmin())
        regret = value[place] - value.min()
        low, high = np.quantile(draws.min(axis=1), INTERVAL)
        rows.append(
            {
                "objective": name,
                "stated": float((draws[:, place] - draws.min(axis=1)).mean()),
                "realised": float(regret),
                "stated_best": float(risk.probability_best(draws)[place]),
                "best": bool(regret <= 0),
                "stated_near": float(risk.probability_best(draws, tolerance=TOLERANCE)[place]),
                "near": bool(regret <= TOLERANCE),
                "optimum": float(value.min()),
                "lower": float(low),
                "upper": float(high),
            }
        )
    return rows


def constraint_rows(world: World, forecast: Forecast, plug_in: Floats) -> list[Row]:
    """Return the best choice that keeps each constraint, and whether it did when it was trained."""
    weights = CONSTRAINED.combination(DOMAINS)
    rows = []
    for constraint in CONSTRAINTS:
        highest, share = world.threshold(constraint), SHARES[constraint.domain]
        law = np.tensordot(share, forecast.law, 1)
        kept = risk.probability_below(law, highest, forecast.noise[constraint.domain])
        # Of the point estimate the constraint can only be asked for itself.
        allowed = {OURS: 1.0 - kept <= constraint.probability, PLUG_IN: share @ plug_in <= highest}
        predicted = {OURS: forecast.losses.mean(axis=1), PLUG_IN: plug_in}
        for method, feasible in allowed.items():
            row: Row = {
                "loss": constraint.domain,
                "allowed": constraint.probability,
                "method": method,
            }
            if feasible.any():
                place = int(np.where(feasible, weights @ predicted[method], np.inf).argmin())
                row |= world.chosen(place) | {
                    "stated": float(1.0 - kept[place]) if method == OURS else np.nan,
                    "violated": float(share @ world.measured_end(world.choices, place) > highest),
                    "binding": float(place != int((weights @ predicted[method]).argmin())),
                }
            rows.append(row)
    return rows


def free_rows(world: World, posterior: Posterior) -> list[Row]:
    """Return what `decide` recommends where the whole schedule is free, a row per objective and constraint.

    Of an objective: regret, stated and realised (against the best of the space by the true law). Of a
    constraint: how probably the recommendation breaks it, stated, and whether it did when it was trained.
    """
    return [_free_regret(world, posterior, objective) for objective in OBJECTIVES.values()] + [
        _free_constraint(world, posterior, constraint) for constraint in CONSTRAINTS
    ]


def _free_regret(world: World, posterior: Posterior, objective: Objective) -> Row:
    found = decide(posterior, objective, FREE)
    truth = Valuation.of(world.law, objective, found.space)
    best = search(truth, found.space, SearchCriterion(), CANDIDATES).best.item()
    value = truth.expected(world.law.at(found.chosen)).item()
    own = found.contenders
    return {
        "objective": objective.name,
        **{name: float(found.chosen.column(name)[0]) for name in SETTINGS},
        "stated": float(own.regrets[0].mean()),
        "realised": max(value - best, 0.0),
        "stated_near": float(np.mean(own.regrets[0] <= TOLERANCE)),
        "near": value - best <= TOLERANCE,
    }


def _free_constraint(world: World, posterior: Posterior, constraint: Constraint) -> Row:
    general, target = SHARES["mixed"]
    mixtures = {"mixed": Mixture(general=general, target=target)}
    bound = {"constraints": (constraint,), "mixtures": mixtures}
    found = decide(posterior, CONSTRAINED.model_copy(update=bound), FREE)
    ends = world.measured_end(found.chosen, 0)
    return {
        "objective": CONSTRAINED.name,
        "loss": constraint.domain,
        "allowed": constraint.probability,
        **{name: float(found.chosen.column(name)[0]) for name in SETTINGS},
        "feasible": found.feasible,
        "binding": bool(found.binding),
        "stated": float(found.contenders.breaches[0, 0]),
        "violated": bool(SHARES[constraint.domain] @ ends > world.threshold(constraint)),
    }
