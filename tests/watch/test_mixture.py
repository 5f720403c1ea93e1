import numpy as np
import pytest
from scipy import stats

from bayes_cpt.watch.mixture import Mixture


@pytest.fixture
def mixture() -> Mixture:
    steps = np.arange(5.0)
    shared = 0.04 * np.exp(-abs(steps[:, None] - steps) / 3.0)
    return Mixture(np.linspace(3.0, 2.0, 5), np.stack([shared, 9.0 * shared, 0.1 * np.eye(5)]))


def test_scores_of_its_own_curves_are_independent_standard_normal(mixture: Mixture) -> None:
    generator = np.random.default_rng(2)
    member = generator.integers(3, size=6000)
    normals = generator.standard_normal((6000, 5))
    roots = np.linalg.cholesky(mixture.covariances)
    white = mixture.white(mixture.mean + np.einsum("nij,nj->ni", roots[member], normals))
    for row in white.T:
        assert stats.kstest(row, "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(white.T), np.eye(5), atol=0.06)
    # Sizes of one curve are no longer alike once its own size is known.
    np.testing.assert_allclose(np.corrcoef((white**2).T), np.eye(5), atol=0.08)


def test_the_first_score_is_the_quantile_of_the_mixture(mixture: Mixture) -> None:
    widths = np.sqrt(mixture.covariances[:, 0, 0])
    losses = mixture.mean[:1] + np.array([[-0.9], [0.2], [0.9], [60.0]])
    probability = stats.norm(mixture.mean[0], widths).cdf(losses[:3]).mean(axis=1)
    white = mixture.white(losses)[:, 0]
    np.testing.assert_allclose(white[:3], stats.norm.ppf(probability), rtol=1e-9)
    assert 50.0 < white[3] < 101.0


def test_given_rows_agree_with_the_densities_of_all(mixture: Mixture) -> None:
    """Bayes' rule by a grid over the last loss, with the joint density of three rows."""
    seen, losses = [0, 2], np.array([3.5, 2.9])
    grid = np.linspace(-3.0, 7.0, 4001)
    rows = [0, 2, 4]
    points = np.column_stack([np.tile(losses, (grid.size, 1)), grid])
    density = sum(
        stats.multivariate_normal(mixture.mean[rows], own[np.ix_(rows, rows)]).pdf(points)
        for own in mixture.covariances
    )
    density /= density.sum()
    mean, spread = mixture.given(seen, losses)
    assert mean[4] == pytest.approx(density @ grid, abs=1e-6)
    assert spread[4] == pytest.approx(np.sqrt(density @ (grid - mean[4]) ** 2), rel=1e-6)
    np.testing.assert_allclose(spread[seen], 0.0, atol=1e-6)
