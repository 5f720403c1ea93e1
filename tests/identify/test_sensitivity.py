from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import Posterior, bundled_study, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.identify import sensitivity as module
from bayes_cpt.identify.sensitivity import CONFLICT, STRONG, power_scaling, sensitivity
from bayes_cpt.model.log_densities import log_likelihoods, log_priors
from bayes_cpt.model.priors import LogNormal
from bayes_cpt.model.setup import build_setup, elements, fitted_setup

DRAWS = 8000


def normal(mean: float, sd: float, seed: int = 0) -> Floats:
    return mean + sd * np.random.default_rng(seed).standard_normal(DRAWS)


def distance(before: Any, after: Any) -> float:
    """Return the cumulative Jensen-Shannon distance of two normal distributions, by quadrature."""
    from scipy.stats import norm

    grid = np.linspace(-4.0, 4.0, 40_001) * before[1] + before[0]
    both = []
    for sign in (1.0, -1.0):
        p, q = (norm(sign * m, s).cdf(np.sort(sign * grid)) for m, s in (before, after))
        middle = 0.5 * (p + q)
        terms = p * np.log2(p / middle) + q * np.log2(q / middle)
        both.append(np.sqrt(terms.sum() / (p + q).sum()))
    return float(max(both))


def test_sensitivity_of_a_normal_posterior_is_that_of_the_scaled_one() -> None:
    """A normal prior raised to a power is normal, so the scaled posterior is known."""
    prior, data = (0.0, 1.0), (2.0, 0.8)

    def posterior(power: float) -> tuple[float, float]:
        precisions = np.array([power / prior[1] ** 2, 1.0 / data[1] ** 2])
        mean = (precisions * [prior[0], data[0]]).sum() / precisions.sum()
        return float(mean), float(precisions.sum() ** -0.5)

    draws = normal(*posterior(1.0))
    log_density = -0.5 * ((draws - prior[0]) / prior[1]) ** 2
    # Of the same number of effective draws as is used of a fit.
    wanted = np.mean(
        [distance(posterior(1.0), posterior(p)) / abs(np.log2(p)) for p in module.POWERS]
    )
    assert power_scaling(draws[None], log_density)[0] == pytest.approx(wanted, rel=0.1)


def test_log_priors_and_likelihoods_are_the_density_that_was_sampled() -> None:
    from bayes_cpt.inference.density import Density
    from bayes_cpt.inference.metric import Metric

    posterior = prior_as_posterior(lab(), draws=2)
    density = Density(build_setup(read_spec("cpt-replay"), lab()))
    positions = density.starts[0] + 0.2 * np.random.default_rng(2).standard_normal(
        (5, density.size)
    )
    values = density.values(positions)
    setup = fitted_setup(posterior.frame, lab())
    priors = log_priors(posterior.frame, values)
    total = np.sum([v.reshape(len(v), -1).sum(axis=1) for v in priors.values()], axis=0)
    total = total + log_likelihoods(setup, values).sum(axis=1)
    # The sampler moves what is bounded on the logit of its place between the bounds, not on its log.
    bounded = [
        own
        for own in elements(posterior.frame)
        if isinstance(own.prior, LogNormal) and own.prior.lower
    ]
    assert len(bounded) == 5
    for own in bounded:
        value, prior = values[own.name].reshape(5, -1)[:, own.member], own.prior
        assert isinstance(prior, LogNormal)
        assert prior.lower
        assert prior.upper
        slope = (value - prior.lower) * (prior.upper - value) / (prior.upper - prior.lower)
        total = total + np.log(slope / value)
    wanted = [
        density.in_metric(Metric(position, np.eye(position.size)))(np.zeros(position.size))[0]
        for position in positions
    ]
    # The mass between the bounds is a constant of the prior.
    found = total - np.array(wanted)
    np.testing.assert_allclose(found, found.mean(), atol=1e-6)


def pulled(prior: float, data: float, monkeypatch: pytest.MonkeyPatch) -> Posterior:
    """Return draws of a fit of which prior and likelihood pull at its exponent."""
    posterior = prior_as_posterior(lab(), draws=500)

    def standard(parameters: dict[str, Floats]) -> Floats:
        own = np.log(parameters["exponent"][:, 0])
        return np.asarray((own - own.mean()) / own.std())

    def priors(_: Posterior, parameters: dict[str, Floats]) -> dict[str, Floats]:
        flat = np.zeros((len(parameters["memory"]), 1))
        return {"memory": flat, "exponent": prior * standard(parameters)[:, None]}

    def likelihoods(_: Posterior, parameters: dict[str, Floats]) -> Floats:
        return data * standard(parameters)[:, None]

    monkeypatch.setattr(module, "log_priors", priors)
    monkeypatch.setattr(module, "log_likelihoods", likelihoods)
    return posterior


@pytest.mark.parametrize(
    ("prior", "data", "diagnosis"),
    [(1.0, -1.0, CONFLICT), (1.0, 0.0, STRONG), (0.0, 1.0, ""), (0.02, 1.0, "")],
)
def test_diagnoses(
    prior: float, data: float, diagnosis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = pulled(prior, data, monkeypatch)
    table = sensitivity(posterior).set_index(["kind", "quantity", "domain"])
    own = table.loc[("parameter", "exponent", "general")]
    assert own["diagnosis"] == diagnosis
    assert own["rests_on"] == ("exponent" if diagnosis else "")
    # Nothing pulls at the memory, nor at the other validation set's exponent.
    assert table.loc[("parameter", "memory", "all"), "diagnosis"] == ""
    assert table.loc[("parameter", "exponent", "kernel"), "diagnosis"] == ""
    # The coefficient that follows from it is pulled along.
    assert table.loc[("coefficient", "alpha", "general"), "diagnosis"] == diagnosis
    if diagnosis:
        # To first order the mean moves by its covariance with the log density.
        assert own["if_doubled"] == pytest.approx(np.log(2) * prior * own["sd"], rel=0.05)


def test_unrelated_quantities_are_noise_for_any_density(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scattered(_: Posterior, parameters: dict[str, Floats]) -> dict[str, Floats]:
        size = len(parameters["memory"])
        return {"memory": 10.0 * np.random.default_rng(3).standard_normal((size, 1))}

    monkeypatch.setattr(module, "log_priors", scattered)
    monkeypatch.setattr(
        module, "log_likelihoods", lambda p, parameters: np.zeros((len(parameters["memory"]), 1))
    )
    table = sensitivity(prior_as_posterior(lab(), draws=100))
    # Without regard to noise most would be called sensitive.
    assert (table["prior"] > module.THRESHOLD).mean() > 0.5
    assert (table["diagnosis"] == "").mean() > 0.85


def test_every_quantity_is_asked_and_a_plan_gives_the_conclusions() -> None:
    table = sensitivity(lab_posterior(), bundled_study() / "plan-example.toml")
    assert set(table["kind"]) == {"parameter", "coefficient", "effect", "last loss"}
    losses = table[table["kind"] == "last loss"]
    assert set(losses["quantity"]) == {"long_r25", "rewarmed_r50"}
    assert not table.duplicated(["kind", "quantity", "domain"]).any()
    expected = lab_posterior().predict(bundled_study() / "plan-example.toml", kind="expected")
    last = expected["expected"].sel(run="long_r25", domain="kernel", step=12000)
    mean = losses.set_index(["quantity", "domain"]).loc[("long_r25", "kernel"), "mean"]
    assert mean == pytest.approx(float(last.mean()), rel=1e-9)
    assert isinstance(table, pd.DataFrame)
