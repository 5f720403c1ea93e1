"""Several targets on simulated studies: whether intervals hold the truth, and what pooling is worth."""

from functools import cache

import numpy as np
import pytest
from few_free import is_held, short_fit, with_few_free
from target_family import RUNS, continued, several, simulated

from bayes_cpt.errors import StudyError
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study

STUDIES = 50
FREE = ("reference_loss", "annealing_gain", "shift_share", "target_transfer", "forgetting_factor")
# What a set of one run is asked to tell: a longer run with more replay.
PLANNED = continued("planned", "news", 0.5, steps=2000)
NAMES = ("code_0", "code_0.6", "law_0", "law_0.6", "mixed", "news_0.2", "trunk")


@cache
def spec() -> ModelSpec:
    return with_few_free("cpt-replay", FREE)


def truth(frame: Frame, seed: int) -> dict[str, np.ndarray]:
    return {name: own[:1] for name, own in draw_priors(frame, 1, seed).items()}


def measurable(seed: int) -> tuple[Study, dict[str, np.ndarray]]:
    """Return a simulated study and its truth, drawn again together where a loss lies below 0."""
    blank = several(runs=tuple(run for run in RUNS if run.name in NAMES), measured=7)
    frame = build_setup(spec(), blank).frame
    for again in range(50):
        one = truth(frame, seed + STUDIES * again)
        try:
            return simulated(blank, one, spec(), seed), one
        except StudyError:
            continue
    raise AssertionError("the priors make no study that could be measured")


def crps(draws: np.ndarray, value: float) -> float:
    ordered = np.sort(draws)
    ranks = np.arange(1, ordered.size + 1)
    spread = 2.0 * np.sum((2 * ranks - ordered.size - 1) * ordered) / ordered.size**2
    return float(np.abs(draws - value).mean() - 0.5 * spread)


def ends(frame: Frame, values: dict[str, np.ndarray], study: Study, domain: str) -> np.ndarray:
    """Return the law's last loss of the planned run, from the base's measured loss, shape (draws,)."""
    plan = study.with_runs(
        [PLANNED if len(study.targets) > 1 else continued("planned", None, 0.5, 2000)]
    )
    curves = frame.curves(plan, lambda run, own: [2000], [plan.run("planned")])
    place = [curve.domain for curve in curves.curves].index(domain)
    return expected_loss(frame, values, curves)[:, place]


def alone(study: Study) -> Study:
    """Return what is left of a study for who knows the runs on news and nothing else."""
    kept = tuple(run for run in study.runs if run.name in ("trunk", "news_0.2"))
    losses = study.losses[study.losses["run"].isin([run.name for run in kept])]
    rest = losses[losses["domain"].isin(["web", "news"])]
    return Study("alone", "web", "news", study.bases, kept, rest)


@cache
def outcomes() -> tuple[list[bool], list[float], list[float]]:
    """Return whether intervals hold the truth, and the CRPS of the pooled target and of it alone."""
    inside, pooled, single = [], [], []
    for seed in range(STUDIES):
        study, one = measurable(seed)
        posterior = short_fit(study, spec(), seed)
        values = posterior.parameters()
        for name in (*FREE[1:], "target_spread"):
            for place in range(values[name].shape[1]):
                draws = values[name][:, place]
                if np.ptp(draws) > 0:
                    inside.append(is_held(draws, one[name][0, place]))
        if seed % 2:
            continue
        value = float(ends(posterior.frame, one, study, "news")[0])
        pooled.append(crps(ends(posterior.frame, values, study, "news"), value))
        own = alone(study)
        other = short_fit(own, spec(), seed)
        single.append(crps(ends(other.frame, other.parameters(), own, "news"), value))
    return inside, pooled, single


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside, _, _ = outcomes()
    assert 0.86 < np.mean(inside) < 0.94


@pytest.mark.slow
def test_a_target_of_one_run_is_told_better_beside_others() -> None:
    _, pooled, single = outcomes()
    assert np.mean(pooled) < np.mean(single)
