"""R*, the worth of repeated tokens, on simulated studies: whether its intervals hold the truth."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from few_free import is_held, short_fit, with_few_free
from target_family import BASE, continued, several, simulated

from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.resources import UniqueTokens
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

STUDIES = 50
FREE = ("repeat_constant", "reference_loss", "shift_share", "shift_rate", "annealing_gain")
TOKENS_PER_STEP, UNIQUE_STEPS = 1000, 125
TRUNK = Run("trunk", "pt", BASE.schedule)  # type: ignore[arg-type]
# 4 to 32 epochs of the target data, and one run that goes through half as many at replay 0.5.
RUNS = (
    TRUNK,
    *(continued(f"epochs_{n}", None, 0.0, n * UNIQUE_STEPS) for n in (4, 8, 16, 32)),
    continued("replayed", None, 0.5, 16 * UNIQUE_STEPS),
)


@cache
def spec() -> ModelSpec:
    return with_few_free("cpt-replay-repeats", FREE)


@cache
def blank() -> Study:
    """Return the study before its losses were measured: two validation sets, data that run out."""
    study = several(("code",), RUNS, measured=9)
    unique = UniqueTokens(target=float(TOKENS_PER_STEP * UNIQUE_STEPS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return replace(study, tokens_per_step=TOKENS_PER_STEP, unique_tokens=unique)


def measurable(seed: int) -> tuple[Study, dict[str, np.ndarray]]:
    """Return a simulated study and its truth, drawn again together where a loss lies below 0."""
    frame = build_setup(spec(), blank()).frame
    for again in range(50):
        drawn = draw_priors(frame, 1, seed + STUDIES * again)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StudyWarning)
                return simulated(blank(), drawn, spec(), seed), drawn
        except StudyError:
            continue
    raise AssertionError("the priors make no study that could be measured")


@cache
def outcomes() -> tuple[list[bool], list[float]]:
    """Return whether intervals of R* hold the truth, and how wide they are beside the prior's."""
    held, widths = [], []
    prior = spec().priors["repeat_constant"].of("target").quantiles([0.05, 0.95])
    for seed in range(STUDIES):
        study, truth = measurable(seed)
        values = short_fit(study, spec(), seed).parameters()["repeat_constant"]
        for place in range(values.shape[1]):
            held.append(is_held(values[:, place], truth["repeat_constant"][0, place]))
            low, high = np.quantile(values[:, place], [0.05, 0.95])
            widths.append(float(np.log(high / low) / np.log(prior[1] / prior[0])))
    return held, widths


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # Of 100: 90 are expected, with an sd of 3.
    assert 0.83 <= np.mean(outcomes()[0]) <= 0.97


@pytest.mark.slow
def test_runs_that_repeat_their_data_tell_of_it() -> None:
    assert np.median(outcomes()[1]) < 0.8
