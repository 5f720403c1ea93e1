import numpy as np
import pytest
from synthetic import lab

from bayes_cpt.identify.determination import FreeParameters, information
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss, simulate
from bayes_cpt.model.spec import read_spec

RUNS = ["pt_trunk", "r00_cos", "r25_cos", "r50_cos"]


def setup_of(model: str = "cpt-replay") -> Setup:
    return build_setup(read_spec(model), lab().subset(RUNS[:1] if model == "pretrain" else RUNS))


def test_places_count_prior_standard_deviations() -> None:
    free = FreeParameters(setup_of().frame)
    spec = free.frame.spec
    values = free.values(np.array([np.zeros(len(free.elements)), np.ones(len(free.elements))]))
    slope = spec.priors["reference_slope"].of("general")
    assert values["reference_slope"][0, 0] == pytest.approx(slope.quantiles(0.5))
    assert values["reference_slope"][1, 0] == pytest.approx(slope.quantiles(0.8413447), rel=1e-6)
    kept = spec.priors["offset_kept"]
    wanted = [kept.of(role).quantiles(0.8413447) for role in ("general", "target")]
    np.testing.assert_allclose(values["offset_kept"][1], wanted, rtol=1e-6)


def test_values_and_places_undo_each_other() -> None:
    free = FreeParameters(setup_of().frame)
    draws = draw_priors(free.frame, 50, seed=4)
    back = free.values(free.places(draws))
    for name, value in draws.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-9)


def test_information_is_the_variance_of_the_score() -> None:
    """At the place itself, ``S' C^-1 S`` is what simulated curves scatter by: their score's variance."""
    frame = setup_of("pretrain").frame
    steps = [2000, 4000, 8000, 12000, 16000]
    curves = frame.curves(lab().subset(RUNS[:1]), lambda run, domain: steps)
    free = FreeParameters(frame)
    place = np.full(len(free.elements), 0.1)
    told = sum(information(free, curves, place).values())
    here = {name: np.repeat(v, 20_000, axis=0) for name, v in free.values(place[None]).items()}
    drawn = simulate(frame, here, curves, None, np.random.default_rng(0))
    covariance = np.cov((drawn.loss - drawn.expected).T)
    step = 1e-4 * np.eye(place.size)
    ahead, behind = (expected_loss(frame, free.values(place + s), curves) for s in (step, -step))
    slopes = (ahead - behind) / 2e-4
    wanted = slopes @ np.linalg.solve(covariance, slopes.T)
    # Residual sizes move no expected curve, so they have no information here.
    np.testing.assert_allclose(told, wanted, rtol=0.1, atol=0.02 * np.abs(wanted).max())
