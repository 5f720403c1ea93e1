"""Model sizes on simulated studies: whether intervals hold the truth, also of a size that never ran."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from few_free import is_held, short_fit, with_few_free
from size_family import LARGE, family, simulated
from synthetic import as_posterior

from bayes_cpt.errors import StudyError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import cosine
from bayes_cpt.study.study import Study

STUDIES = 50
EXPONENTS = (
    "size_slope",
    "size_exponent",
    "power_by_size",
    "annealing_by_size",
    "ratio_by_size",
    "shift_by_size",
)
FREE = (
    *EXPONENTS,
    "size_misfit",
    "size_deviation",
    "annealing_misfit",
    "annealing_deviation",
    "reference_loss",
    "annealing_gain",
    "shift_share",
)
# Nine times as large as the largest size of the study.
PLANNED = Run("planned", "cpt", cosine(2000, 1e-3), LARGE.name, 0.3)


@cache
def spec() -> ModelSpec:
    return with_few_free("cpt-replay-sizes", FREE)


def measurable(seed: int) -> tuple[Study, Posterior]:
    """Return a simulated study and its truth, drawn again together where a loss lies below 0."""
    blank = family()
    frame = build_setup(spec(), blank).frame
    for again in range(50):
        drawn = draw_priors(frame, 1, seed + STUDIES * again)
        try:
            study = simulated(blank, drawn, spec(), seed)
        except StudyError:
            continue
        chain = {name: values[None] for name, values in drawn.items()}
        return study, as_posterior(frame, study, chain)
    raise AssertionError("the priors make no study that could be measured")


def ends(posterior: Posterior, study: Study) -> np.ndarray:
    """Return the law's last losses of the planned run, shape (draws, domains)."""
    plan = replace(study, bases=(*study.bases, LARGE)).with_runs([PLANNED])
    known = posterior.with_new_sizes([LARGE.model_size])
    curves = known.frame.curves(plan, lambda *_: [PLANNED.schedule.steps], [PLANNED])
    return expected_loss(known.frame, known.parameters(), curves)


@cache
def outcomes() -> dict[str, list[float]]:
    """Return of every parameter whether its intervals hold the truth, and a width beside the prior's."""
    found: dict[str, list[float]] = {}
    for seed in range(STUDIES):
        study, truth = measurable(seed)
        posterior = short_fit(study, spec(), seed)
        values, one = posterior.parameters(), truth.parameters()
        for name in FREE:
            for place in range(values[name].shape[1]):
                draws = values[name][:, place]
                if np.ptp(draws) > 0:
                    found.setdefault(name, []).append(is_held(draws, one[name][0, place]))
        value, forecast = ends(truth, study)[0], ends(posterior, study)
        found.setdefault("large", []).extend(
            is_held(forecast[:, place], value[place]) for place in range(value.size)
        )
        width = np.ptp(np.quantile(values["size_exponent"][:, 0], [0.05, 0.95]))
        prior = spec().priors["size_exponent"].of("general").quantiles([0.05, 0.95])
        found.setdefault("width", []).append(float(width / np.ptp(prior)))
    return found


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside = [held for name in FREE for held in outcomes()[name]]
    assert 0.86 < np.mean(inside) < 0.94


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPONENTS)
def test_intervals_of_each_exponent_hold_the_truth(name: str) -> None:
    # Of 100, or 50: 90 % are expected, with an sd of 3 or 4 %.
    assert 0.8 <= np.mean(outcomes()[name]) <= 0.98


@pytest.mark.slow
def test_the_exponent_of_size_is_told_by_three_sizes() -> None:
    assert np.mean(outcomes()["width"]) < 0.8


@pytest.mark.slow
def test_a_size_that_never_ran_is_forecast_with_intervals_that_hold() -> None:
    assert 0.8 <= np.mean(outcomes()["large"]) <= 0.98
