"""Misfits as functions of the configuration: the kernel they have, and the runs they belong to."""

import numpy as np
import pytest
from scipy.special import gamma, kv
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.model.discrepancy import LENGTHS, Configuration, SharedMisfit, correlated, unit_ramps
from bayes_cpt.model.points import reference_of

LENGTH = 0.85
PLACES = np.random.default_rng(1).normal(size=(30, 6)) * 0.4


def likeness(first: Floats, second: Floats, length: float) -> Floats:
    """Return the Matérn correlation of order 5/2, by its Bessel function."""
    apart = np.sqrt(5.0) * np.linalg.norm(first[:, None] - second, axis=2) / length
    near = apart < 1e-4
    apart = np.where(near, 1.0, apart)
    return np.where(near, 1.0, 2.0**-1.5 / gamma(2.5) * apart**2.5 * kv(2.5, apart))


def test_draws_have_the_kernel_and_the_correlation_of_the_losses() -> None:
    shared = SharedMisfit(draws=4000, correlation=0.7, domains=2, lengths=(LENGTH,))
    waves = next(shared.waves(PLACES))[1]
    # As far as 128 waves tell: what is far apart is alike by chance a little.
    assert np.abs(waves @ waves.T - likeness(PLACES, PLACES, LENGTH)).mean() < 0.05
    np.testing.assert_allclose((waves**2).sum(axis=1), 1.0, rtol=1e-5)
    drawn = shared.innovations(PLACES, 2)
    assert drawn.shape == (2, 30, 4000, 2)
    np.testing.assert_allclose(drawn.var(axis=2), 1.0, atol=0.15)
    assert np.abs(np.corrcoef(drawn[0, :, :, 0]) - waves @ waves.T).max() < 0.08
    alike = [np.corrcoef(*drawn[:, row, :, 0])[0, 1] for row in range(30)]
    np.testing.assert_allclose(alike, 0.7, atol=0.05)
    knots = [np.corrcoef(drawn[0, row].T)[0, 1] for row in range(30)]
    np.testing.assert_allclose(knots, 0.0, atol=0.08)


def correlation_of(pair: np.ndarray) -> float:
    return float(np.asarray(np.corrcoef(pair))[0, 1])


def test_draws_have_the_lengths_in_turn() -> None:
    shared = SharedMisfit(draws=5 * 3000, correlation=0.7, domains=1)
    drawn = shared.innovations(PLACES[:2], 1)[0, :, :, 0]
    waves = dict(zip(LENGTHS, (own for _, own in shared.waves(PLACES[:2])), strict=True))
    for place, length in enumerate(LENGTHS):
        found = correlation_of(drawn[:, place :: len(LENGTHS)])
        wanted = float(likeness(PLACES[:1], PLACES[1:2], length)[0, 0])
        # The first is Monte Carlo alone, the second what 128 waves leave.
        assert found == pytest.approx(float(waves[length][0] @ waves[length][1]), abs=0.05)
        assert found == pytest.approx(wanted, abs=0.2)
    near = [correlation_of(drawn[:, place::5]) for place in range(5)]
    assert near == sorted(near)


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.7, 1.0])
def test_any_two_of_several_sets_are_as_alike(correlation: float) -> None:
    plain = np.random.default_rng(2).standard_normal((4, 20_000))
    wanted = np.full((4, 4), correlation) + (1.0 - correlation) * np.eye(4)
    np.testing.assert_allclose(np.corrcoef(correlated(plain, correlation)), wanted, atol=0.03)


def test_what_adds_up_at_some_steps_is_what_innovations_add_up_to() -> None:
    shared = SharedMisfit(draws=50, correlation=0.7, domains=2)
    place = np.arange(30) % 4
    for steps in ([50.0, 100.0, 900.0, 20_000.0], [500.0, 3000.0, 3100.0, 12_000.0]):
        ramps = unit_ramps(np.array(steps), 6.0, 0.6)
        wanted = np.einsum("rk,drnk->drn", ramps[place], shared.innovations(PLACES, ramps.shape[1]))
        for _ in range(2):
            np.testing.assert_allclose(shared.along(ramps).at(PLACES, place), wanted, atol=1e-4)
    # Memory along a run, 0.6 for an e-fold of steps, as the residual model has it.
    many = SharedMisfit(draws=4000, correlation=0.7, domains=2).along(ramps)
    values = many.at(np.repeat(PLACES[:1], 4, axis=0), np.arange(4))[0]
    np.testing.assert_allclose(values.var(axis=1), (ramps**2).sum(axis=1), rtol=0.1)
    assert np.corrcoef(values)[1, 3] == pytest.approx(
        (ramps[1] @ ramps[3]) / np.linalg.norm(ramps[1]) / np.linalg.norm(ramps[3]), abs=0.05
    )


def test_near_runs_are_more_alike_than_far_ones() -> None:
    study = lab()

    def features(name: str) -> np.ndarray:
        run = study.run(name)
        base = study.base(str(run.base)).schedule
        return Configuration.of(base, run.schedule, run.replay or 0.0).features(reference_of(study))

    cosine = features("r25_cos")
    np.testing.assert_allclose(likeness(cosine, cosine, LENGTH), 1.0)
    alike = [
        float(likeness(cosine, features(n), LENGTH)[0, 0])
        for n in ("r50_cos", "r25_lin05", "r00_cos")
    ]
    assert 0.97 > alike[0] > max(alike[1:])
    assert likeness(features("r00_const"), features("r75_wsd"), LENGTH)[0, 0] < 0.3
