"""Check values of docs/law.md, "Printed coefficients": the paper's coefficients through areas and laws."""

import numpy as np
import pandas as pd
import pytest

from bayes_cpt.laws import Annealing, Law, Power, Reference, Shift
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import MomentumRange
from bayes_cpt.model.points import build_curves
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study

PEAK = 2e-4
TRUNK = constant(32_000, PEAK)
REFERENCE = Reference(PEAK, 8.0, 2.0, 20_000.0)
# Fig. 3 of arXiv 2505.07796, general and target data; the law's own names of the columns.
COEFFICIENTS = {
    "L0": np.array([3.057, 3.024]),
    "A": np.array([0.490, 0.412]),
    "alpha": np.array([0.497, 0.677]),
    "C1": np.array([0.299, 0.278]),
    "C2": np.array([0.298, 0.324]),
    "B": np.array([0.366, -0.666]),
    "E": np.array([28.0, 5662.0]),
    "beta": np.array([0.189, 0.146]),
    "lambda": np.float64(0.999),
}


def final_losses(loss_potential: float, schedule: Schedule) -> tuple[float, float]:
    """Return the last loss on general and target data of a run on a base annealed to there."""
    last = linear(8000, PEAK, loss_potential * PEAK) if loss_potential < 1 else constant(8000, PEAK)
    plan = Study(
        name="plan",
        general="general",
        target="target",
        bases=(Base("base", 40_000, TRUNK + last),),
        runs=(Run("run", "cpt", schedule, base="base", replay=0.0),),
        losses=pd.DataFrame(columns=["run", "step", "domain", "loss"]),
        is_plan=True,
    )
    curves = build_curves(
        plan,
        ("general", "target"),
        lambda run, domain: [schedule.steps],
        REFERENCE,
        AreaForm(MomentumRange(0.99, 0.9995)),
    )
    terms = (Power(), Annealing(replay=False), Shift((1.0, -1.0), ("none", "none")))
    general, target = Law(terms, REFERENCE).curve_loss(
        curves.points, curves.bases, COEFFICIENTS, np
    )
    return float(general), float(target)


@pytest.mark.parametrize(
    ("loss_potential", "target"), [(0.1, 2.6521), (0.3, 2.6091), (0.5, 2.5875), (1.0, 2.5536)]
)
def test_final_target_loss_without_rewarmup(loss_potential: float, target: float) -> None:
    found = final_losses(loss_potential, linear(20_000, loss_potential * PEAK, 0.0))
    assert found[1] == pytest.approx(target, abs=5e-5)


@pytest.mark.parametrize(
    ("peak", "general", "target"),
    [
        (0.25e-4, 3.3043, 2.6461),
        (0.5e-4, 3.3291, 2.6217),
        (1e-4, 3.3496, 2.5975),
        (2e-4, 3.3636, 2.5723),
    ],
)
def test_final_losses_after_a_rewarmup(peak: float, general: float, target: float) -> None:
    found = final_losses(0.0, cosine(20_000, peak, warmup_steps=500))
    assert found == pytest.approx((general, target), abs=5e-5)
