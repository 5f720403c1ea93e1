import numpy as np
import pytest
from hand_points import MOMENTUM, hand_points

from bayes_cpt import bundled_study, read_spec, read_study
from bayes_cpt.laws import Annealing, Law, Power, Reference, Shift
from bayes_cpt.laws.law import gather
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss

REFERENCE = Reference(learning_rate=2e-4, forward_pt=8.0, forward_cpt=4.0, steps=20_000.0)
COEFFICIENTS = {
    "L0": np.array([3.057, 3.024]),
    "A": np.array([0.490, 0.412]),
    "alpha": np.array([0.497, 0.677]),
    "C1": np.array([0.299, 0.278]),
    "C2": np.array([0.298, 0.324]),
    "B": np.array([0.366, -0.666]),
    "E": np.array([28.0, 5662.0]),
    "beta": np.array([0.189, 0.146]),
    "lambda": np.float64(MOMENTUM),
    "kappa": np.array([0.7, 0.2]),
    "tau_0": np.array([600.0, 600.0]),
}
TERMS = (Power(), Annealing(), Shift((1.0, -1.0), ("none", "none")))


@pytest.fixture(scope="module")
def setup() -> Setup:
    return build_setup(read_spec("cpt-replay"), read_study(bundled_study()))


def test_law_is_the_sum_of_its_terms_written_out() -> None:
    points = hand_points(
        domain=[0, 1], forward_cpt=2.0, annealing_pt=0.15, annealing_cpt=0.05, steps=10_000.0
    )
    found = Law(TERMS, REFERENCE).loss(points, gather(points, COEFFICIENTS, np), np)
    general = 3.057 + 0.49 * 10.0**-0.497 - 0.299 * 0.15 - 0.298 * 0.05 + 0.366 * (1 - 57.0**-0.189)
    target = (
        3.024 + 0.412 * 10.0**-0.677 - 0.278 * 0.15 - 0.324 * 0.05 - 0.666 * (1 - 11325.0**-0.146)
    )
    np.testing.assert_allclose(found, [general, target], rtol=1e-12)


def test_cpt_curves_of_the_bundled_study_start_at_their_bases_in_every_prior_draw(
    setup: Setup,
) -> None:
    frame = setup.frame
    study = read_study(bundled_study())
    curves = frame.curves(study, lambda run, domain: [0], runs=study.continual_runs)
    draws = draw_priors(frame, 20, seed=7)
    loss = expected_loss(frame, draws, curves)
    assert np.isfinite(curves.points.loss).all()
    np.testing.assert_allclose(loss, np.broadcast_to(curves.points.loss, loss.shape), rtol=1e-10)
