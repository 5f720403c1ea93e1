"""Batches on simulated studies: whether intervals hold the truth, and forecasts of one that never ran."""

from functools import cache

import numpy as np
import pytest
from batch_family import MODEL, NEW, continued, family, simulated
from few_free import is_held, short_fit, with_few_free

from bayes_cpt.errors import StudyError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.groups.grouping import GROUPED
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.study import Study

STUDIES = 40
FREE = ("reference_loss", "shift_share", "shift_rate", "batch_spread")
FOUR = tuple(Batch(2.0**power, 512) for power in (16, 17, 18, 19))
# A longer run in a batch that has no run.
PLANNED = continued("planned", NEW, 0.3, steps=2000)


@cache
def spec(model: str) -> ModelSpec:
    return with_few_free(model, FREE)


def measurable(seed: int) -> tuple[Study, dict[str, np.ndarray], Frame]:
    """Return a simulated study of four batches, and the truth with a fifth that it does not show."""
    blank, own = family(FOUR, measured=7), spec(MODEL)
    hidden = blank.with_runs([PLANNED])
    frame = build_setup(own, hidden).frame
    for again in range(50):
        truth = draw_priors(frame, 1, seed + STUDIES * again)
        shown = {name: _of(frame, name, values, FOUR) for name, values in truth.items()}
        try:
            study = simulated(blank, shown, own, seed)
        except StudyError:
            continue
        return study, truth, frame
    raise AssertionError("the priors make no study that could be measured")


def _of(frame: Frame, name: str, values: np.ndarray, batches: tuple[Batch, ...]) -> np.ndarray:
    """Return of one draw of a parameter that is of batches what these have, else all of it."""
    if frame.parameters()[name].dims not in GROUPED:
        return values
    kept = [frame.batches.index(batch) for batch in batches]
    return values.reshape(1, 2, -1)[:, :, kept].reshape(1, -1)


def ends(posterior: Posterior, study: Study) -> np.ndarray:
    """Return the law's last losses of the planned run, shape (draws, domains)."""
    plan = study.with_runs([PLANNED])
    known = posterior.with_new_groups(plan, [PLANNED])
    return _ends(known.frame, known.parameters(), plan)


def _ends(frame: Frame, values: dict[str, np.ndarray], plan: Study) -> np.ndarray:
    curves = frame.curves(plan, lambda *_: [PLANNED.schedule.steps], [PLANNED])
    return expected_loss(frame, values, curves)


def crps(draws: np.ndarray, value: float) -> float:
    ordered = np.sort(draws)
    ranks = np.arange(1, ordered.size + 1)
    spread = 2.0 * np.sum((2 * ranks - ordered.size - 1) * ordered) / ordered.size**2
    return float(np.abs(draws - value).mean() - 0.5 * spread)


def outcome(seed: int) -> dict[str, list[float]]:
    """Return what is asked of one study: intervals that hold, and the forecasts of a new batch."""
    study, truth, frame = measurable(seed)
    posterior = short_fit(study, spec(MODEL), seed)
    found: dict[str, list[float]] = {}
    for name, values in posterior.parameters().items():
        one = _of(frame, name, truth[name], posterior.frame.batches)
        if name != "reference_loss":
            free = [
                place for place in range(one.size) if np.ptp(np.atleast_2d(values.T)[place]) > 0
            ]
            found[name] = [is_held(values[:, place], one[0, place]) for place in free]
    value = _ends(frame, truth, study.with_runs([PLANNED]))[0]
    models = {"batches": posterior}
    if seed % 2 == 0:
        models["one shift"] = short_fit(study, spec("cpt-replay"), seed)
    for label, each in models.items():
        draws = ends(each, study)
        found[f"new batch held, {label}"] = [is_held(draws[:, k], value[k]) for k in range(2)]
        found[f"new batch CRPS, {label}"] = [crps(draws[:, k], value[k]) for k in range(2)]
    return found


@cache
def outcomes() -> dict[str, list[float]]:
    """Return `outcome` of all studies, put together."""
    together: dict[str, list[float]] = {}
    for seed in range(STUDIES):
        for name, values in outcome(seed).items():
            together.setdefault(name, []).extend(values)
    return together


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside = [
        own for name, values in outcomes().items() if not name.startswith("new") for own in values
    ]
    assert 0.85 < np.mean(inside) < 0.95


@pytest.mark.slow
def test_a_batch_that_never_ran_is_forecast_from_the_population() -> None:
    found = outcomes()
    assert np.mean(found["new batch held, batches"]) > 0.85
    assert np.mean(found["new batch held, one shift"]) < np.mean(found["new batch held, batches"])
