"""What changes are counted from, where nobody measured it."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import lab, lab_posterior

from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.objective import Constraint, read_objective
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant, linear

FRESH = Base("fresh", 10_000, linear(300, 0.0, 2e-3) + constant(9700, 2e-3))
WHOLE = {"decay_share": 1.0, "relative_final": 0.1}
RISE = Constraint(domain="general", rise=0.02, probability=0.5)
GOAL = read_objective("balanced").model_copy(update={"constraints": (RISE,), "reference": "own"})


def valued(base: Base | None) -> tuple[Valuation, Candidates]:
    """Return runs of a few lengths, from a base of the study or from one that was not measured."""
    model = FinalLosses.of(lab_posterior(), 400)
    limits = read_space({"bases": "stable_12k", "replay": [0.0, 0.5], "steps": [2, 3000]} | WHOLE)
    space = SearchSpace.of(limits, lab())
    candidates = space.sample(space.combinations, 0)
    if base is not None:
        candidates = replace(candidates, bases=(base,))
    return Valuation.of(model, GOAL, space), candidates


def test_the_level_of_an_unmeasured_base_is_in_its_start_and_in_its_runs() -> None:
    """After two steps hardly anything has changed: the rise cannot be as unsure as the base."""
    valuation, candidates = valued(FRESH)
    model, rows = valuation.model, np.arange(len(candidates))
    block = model.at(candidates)
    law, discrepancy = block.losses, block.discrepancy
    assert FRESH.schedule is not None
    own = {name: values[..., 0] for name, values in model.laws[0].draws.parameters.items()}
    frame, floor = model.frame, own["fluctuation_floor"]
    grown = np.log1p(FRESH.schedule.steps / (ONSET_SHARE * frame.reference.steps))
    memory = frame.spec.residuals.misfit_memory_pt
    walked = grown if memory == 1.0 else (1.0 - memory ** (2 * grown)) / (1.0 - memory**2)
    rate = FRESH.schedule.final / frame.reference.learning_rate
    last = own["fluctuation_pt"] * (floor + (1.0 - floor) * rate)
    level = np.sqrt(own["offset_pt"] ** 2 + own["misfit_pt"] ** 2 * walked + last**2)
    np.testing.assert_allclose(
        valuation.start_level(candidates)[0], level[None].repeat(len(rows), 0)
    )
    short = np.flatnonzero(candidates.schedules.steps == 2)
    changes = (
        law + discrepancy - valuation.start(candidates) - valuation.start_discrepancy(candidates)
    )
    assert (changes[0, short].std(axis=1) < 0.7 * level.mean()).all()
    drawn = valuation.expected(block)
    wanted = np.tensordot(valuation.combination.weights, changes, axes=1)
    np.testing.assert_allclose(drawn, wanted, atol=1e-10)


@pytest.mark.parametrize("base", [None, FRESH])
def test_rises_are_as_probable_as_draws_of_run_and_base_say(base: Base | None) -> None:
    valuation, candidates = valued(base)
    model, rows = valuation.model, np.arange(len(candidates))
    block = model.at(candidates)
    law, spread = block.losses, block.spread
    found = valuation.breaches(block)[0]
    generator = np.random.default_rng(3)
    start, level = valuation.start(candidates)[0], valuation.start_level(candidates)[0]
    above = np.zeros(len(rows))
    for _ in range(200):
        # One level of the base, in its own loss and, as far as it is kept, in the run's.
        common = generator.standard_normal(model.draws)
        apart = np.sqrt(spread.law[0] ** 2 + spread.own[0] ** 2 + spread.fluctuation[0] ** 2)
        run = law[0] + apart * generator.standard_normal(apart.shape) + spread.level[0] * common
        above += (run - start - level * common > 0.02).mean(axis=1)
    np.testing.assert_allclose(found, above / 200, atol=0.01)
