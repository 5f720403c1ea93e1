"""Options of the law: without them it is the printed one. `independent_model` has them all."""

import numpy as np
import pandas as pd
import pytest
from printed import COEFFICIENTS, PEAK, pretraining, stepwise_losses

from bayes_cpt.laws import Annealing, Law, Power, Reference, Shift
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import MomentumRange, PowerRange
from bayes_cpt.model.points import build_curves
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import cosine, linear
from bayes_cpt.study.study import Study

DOMAINS = ("general", "target")
NAMES = ("L0", "A", "alpha", "C1", "C2", "B", "E", "beta")
NO_LOSSES = pd.DataFrame(columns=["run", "step", "domain", "loss"])
REFERENCE = Reference(PEAK, 8.0, 2.0, 20_000.0)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("shift", COEFFICIENTS)
def test_with_powers_of_1_and_no_clock_it_is_the_printed_law(shift: str, free: bool) -> None:
    """Both where the powers are not there and where they are free and 1; against single steps."""
    base = pretraining(loss_potential=0.3)
    run = linear(500, 0.3 * PEAK, PEAK) + cosine(5000, PEAK)
    runs, bases = (Run("run", "cpt", run, "base", 0.0),), (Base("base", base.steps, base),)
    plan = Study("plan", *DOMAINS, bases, runs, NO_LOSSES, is_plan=True)
    form = AreaForm(
        MomentumRange(0.99, 0.9999), PowerRange(0.1, 1.6) if free else PowerRange(), PEAK
    )
    steps = [1, 30, 500, 700, 2000, 5499, 5500]
    points = build_curves(plan, DOMAINS, lambda *_: steps, REFERENCE, form).points
    law = Law(
        (
            Power(forward_power=free),
            Annealing(replay=False, level_power=free),
            Shift((1.0, -1.0), ("none", "none")),
        ),
        REFERENCE,
    )
    printed = COEFFICIENTS[shift]
    columns = np.array(printed)[points.domain_index].T
    coefficients = dict(zip(NAMES, columns, strict=True)) | {"lambda": np.float64(0.999)}
    if free:
        coefficients |= {"rho": np.float64(1.0), "zeta": np.float64(1.0)}
    wanted = np.concatenate([stepwise_losses(own, base, run)[steps] for own in printed])
    np.testing.assert_allclose(law.loss(points, coefficients, np), wanted, rtol=1e-9)
