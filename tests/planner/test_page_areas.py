"""The areas of the page are those of `bayes_cpt.laws.areas`, in every form that a law may have."""

from typing import Any

import numpy as np
import pytest
from scripts import in_engine

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, transfer_state
from bayes_cpt.laws.series import MomentumRange, PowerRange
from bayes_cpt.planner.page import Planner
from bayes_cpt.study.schedules import constant, cosine, linear

BASE = linear(30, 0.0, 2e-3) + constant(300, 2e-3) + linear(70, 2e-3, 2e-4)
# As the page has them: to the peak, at it, and down to 0.
SEGMENTS = [
    ("linear", 40, 2e-4, 1.5e-3),
    ("constant", 110, 1.5e-3, 1.5e-3),
    ("cosine", 250, 1.5e-3, 0.0),
]
RUN = linear(40, 2e-4, 1.5e-3) + constant(110, 1.5e-3) + cosine(250, 1.5e-3)
STEPS = [1, 2, 39, 40, 41, 149, 200, 399, 400]
FORMS = {
    "printed": AreaForm(MomentumRange(0.9, 0.99)),
    "clock": AreaForm(MomentumRange(0.5, 0.999), reference_rate=2e-3, memory_clock=0.7),
    "powers": AreaForm(
        MomentumRange(0.9, 0.99),
        PowerRange(0.3, 1.2),
        reference_rate=2e-3,
        shift_powers=PowerRange(0.3, 2.0),
    ),
    "carried": AreaForm(
        MomentumRange(0.9, 0.99), reference_rate=2e-3, carry_memory=True, count_warmup=True
    ),
}
EXPRESSION = """(() => {
  const { areas, initial, before } = given;
  const parts = given.segments.map(([shape, steps, start, end]) => ({ shape, steps, start, end }));
  const rates = ratesOf(parts), grid = Float64Array.from(given.steps), paces = pacesOf(rates, areas);
  const { smallest, reference_rate: unit } = areas;
  const relative = rates.map((rate) => rate / unit), nothing = areas.shift.powers.map(() => 0);
  return {
    rates,
    level: levelsAtNodes(rates, paces, areas.level.momenta, initial, grid),
    forward: logAreasAtNodes(rates, areas.forward.powers, before, smallest, grid),
    shift: logAreasAtNodes(relative, areas.shift.powers, nothing, smallest, grid),
    paced: summed(paces, grid),
  };
})()"""


@pytest.mark.parametrize("name", FORMS)
def test_areas_are_those_of_the_laws(name: str, planner: Planner) -> None:
    form = FORMS[name]
    state = transfer_state(BASE, form)
    given: dict[str, Any] = {
        "segments": SEGMENTS,
        "steps": STEPS,
        "initial": state.initial_levels(carried=form.carry_memory).tolist(),
        "before": state.forward.tolist(),
        "areas": {
            "reference_rate": form.reference_rate,
            "memory_clock": form.memory_clock,
            "smallest": 1e-30,
            "level": {"momenta": form.momenta.node_momenta().tolist()},
            "forward": {"powers": form.powers.interval.at_nodes().tolist()},
            "shift": {"powers": form.shift_powers.interval.at_nodes().tolist()},
        },
    }
    found = in_engine(planner.script(), EXPRESSION, given)
    wanted = continual_areas(BASE, RUN, STEPS, form)
    np.testing.assert_allclose(found["rates"], RUN.learning_rates(), rtol=0, atol=1e-18)
    found["shift"] = np.add(found["shift"], np.log(form.reference_rate))
    for key, series, interval in (
        ("level", wanted.level_cpt, form.momenta.interval),
        ("forward", wanted.log_forward, form.powers.interval),
        ("shift", wanted.log_shift, form.shift_powers.interval),
    ):
        at_nodes = np.reshape(found[key], (interval.nodes, len(STEPS)))
        np.testing.assert_allclose(interval.series(at_nodes.T), series, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["paced"], wanted.paced_steps, rtol=1e-12)
