"""The posterior against the same model coded a second time and sampled by NumPyro."""

import importlib.util
import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bayes_cpt.bundled import bundled_study
from bayes_cpt.inference.density import density_of
from bayes_cpt.inference.whitening import Metric
from bayes_cpt.model.build import model_of
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.study.readers.folder import read_study
from bayes_cpt.study.study import Study

type Floats = NDArray[np.float64]

# Piecewise linear schedules: their areas have a closed form.
RUNS = ["pt_trunk", "pt_anneal0", "r00_const", "r25_a0_rewarm", "r75_wsd"]
POINTS = 12
DRAWS = 3000
# 250 comparisons: one of them lies beyond this about once in a hundred repetitions.
FAR = 4.2
PROBABILITIES = (0.05, 0.5, 0.95)


def thinned() -> Study:
    """Return a few runs of the bundled study with a few points each, for dense algebra to be quick."""
    study = read_study(bundled_study()).subset(RUNS)
    losses = study.losses[study.losses["domain"].isin([study.general, study.target])]
    kept = []
    for _, rows in losses.groupby(["run", "domain"], sort=False):
        late = rows[rows["step"] > 0]
        chosen = np.unique(np.linspace(0, len(late) - 1, POINTS).round().astype(int))
        kept += [*rows.index[rows["step"] == 0], *late.index[chosen]]
    return replace(study, losses=losses.loc[kept])


def statistics(draws: Floats) -> dict[str, tuple[float, float]]:
    """Return mean, sd and quantiles of draws of shape (chains, draws), each with its MC error."""
    from arviz_stats.base import array_stats

    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    found = {
        "mean": (draws.mean(), array_stats.mcse(draws, method="mean", **axes)),
        "sd": (draws.std(), array_stats.mcse(draws, method="sd", **axes)),
    }
    for probability in PROBABILITIES:
        error = array_stats.mcse(draws, method="quantile", prob=probability, **axes)
        found[f"quantile {probability}"] = (np.quantile(draws, probability), error)
    return {name: (float(value), float(error)) for name, (value, error) in found.items()}


def differences(ours: dict[str, Floats], theirs: dict[str, Floats]) -> dict[str, float]:
    """Return the differences of all statistics of all parameters in Monte Carlo errors."""
    far = {}
    for name, values in ours.items():
        columns = values.reshape(*values.shape[:2], -1)
        for i in range(columns.shape[2]):
            # Positive quantities are compared as logs, which are nearer to normal.
            logs = columns[..., i].min() > 0.0
            pair = (columns[..., i], theirs[name][..., i])
            one, two = (statistics(np.log(draws) if logs else draws) for draws in pair)
            for label, (value, error) in one.items():
                other, its_error = two[label]
                far[f"{label} of {name}[{i}]"] = (value - other) / np.hypot(error, its_error)
    return far


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None, reason="needs pip install 'bayes-cpt[check]'"
)
def test_posterior_agrees_with_numpyro() -> None:
    ours, theirs = both_posteriors()
    assert set(ours) <= set(theirs)
    assert theirs["diverging"].mean() < 1e-3
    far = differences(ours, theirs)
    worst = max(far, key=lambda key: abs(far[key]))
    whole = np.sqrt(np.mean(np.square(list(far.values()))))
    logging.getLogger(__name__).info(
        "%d statistics: root mean square %.2f, worst %s %.2f", len(far), whole, worst, far[worst]
    )
    assert abs(far[worst]) < FAR, f"{worst} differs by {far[worst]:.2f} Monte Carlo errors"
    # And as a whole the differences are no larger than chance makes them.
    assert whole < 1.3


def both_posteriors() -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return draws of the package and of NumPyro, each (chains, draws, ...)."""
    import independent_model

    from bayes_cpt.inference.sampling import sample

    study = thinned()
    ours = sample(
        density_of(model_of(build_setup(read_spec("cpt-replay"), study))), seed=1, draws=DRAWS
    )
    assert ours.diagnostics.trustworthy
    guess = {
        name: value.reshape(value.shape[0] * value.shape[1], -1)
        for name, value in ours.values.items()
    }
    path = shipped_models()["cpt-replay"]
    return ours.values, independent_model.sample(
        study, path, guess, seed=2, warmup=400, draws=DRAWS
    )


@pytest.mark.skipif(importlib.util.find_spec("numpyro") is None, reason="needs the extra check")
def test_the_second_model_has_the_same_density() -> None:
    """Up to the step from logs to logits of the bounded memories, normalisation included."""
    import independent_model
    from numpyro.infer.util import log_density

    study, path = thinned(), shipped_models()["cpt-replay"]
    arguments, sites = independent_model._sites(study, path)
    density = density_of(model_of(build_setup(read_spec("cpt-replay"), study)))
    size = density.start.size
    for position in density.start + 0.3 * np.random.default_rng(0).standard_normal((4, size)):
        values = density.values(position)
        chosen, step = {}, 0.0
        for site in sites:
            name = site.removesuffix("_")
            value, prior = np.atleast_1d(values[name]), arguments[1][name][0]
            family = prior["distribution"]
            logit = np.log(value / (1.0 - value)) if family == "logitnormal" else value
            chosen[site] = np.log(value) if family == "lognormal" else logit
            if "lower" in prior:
                low, high = prior["lower"], prior["upper"]
                step += float(np.log((value - low) * (high - value) / (high - low) / value)[0])
        theirs = float(log_density(independent_model.model, arguments, {}, chosen)[0])
        ours = density.in_metric(Metric(position, np.eye(size)))(np.zeros(size))[0]
        assert theirs + step == pytest.approx(ours, abs=1e-6)
