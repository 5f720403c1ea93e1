"""Simulated studies of several sizes, batches or targets, or of repeated data: intervals hold the truth."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import batch_family
import numpy as np
import pytest
import size_family
import target_family
from few_free import is_held, measurable, short_fit, with_few_free

from bayes_cpt import Posterior, Run, Study
from bayes_cpt.arrays import Floats
from bayes_cpt.model.groups import GROUPED
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.resources import UniqueTokens
from bayes_cpt.study.schedules import cosine
from bayes_cpt.validate.scores import crps

type Values = dict[str, Floats]
type Outcomes = dict[str, list[float]]

STUDIES = 50
FREE = {
    "cpt-replay-sizes": (
        *("size_slope", "size_exponent", "power_by_size", "annealing_by_size", "ratio_by_size"),
        *("shift_by_size", "size_misfit", "size_deviation", "annealing_misfit"),
        *("annealing_deviation", "annealing_by_batch", "reference_loss", "annealing_gain"),
        "shift_share",
    ),
    "cpt-replay-batch": ("reference_loss", "shift_share", "shift_rate", "batch_spread"),
    "cpt-replay": (
        *("reference_loss", "annealing_gain", "shift_share", "target_transfer"),
        "forgetting_factor",
    ),
    "cpt-replay-repeats": (
        *("repeat_constant", "reference_loss", "shift_share", "shift_rate", "annealing_gain"),
    ),
}
EXPONENTS = FREE["cpt-replay-sizes"][:6]


@cache
def spec(model: str, free: tuple[str, ...] | None = None) -> ModelSpec:
    return with_few_free(model, free or FREE[model])


def held(posterior: Posterior, truth: Values, names: Iterable[str]) -> Outcomes:
    """Return of each number that is free whether its interval holds the truth, by parameter."""
    values = posterior.parameters()
    found: Outcomes = {}
    for name in names:
        columns = values[name].reshape(len(values[name]), -1).T
        pairs = zip(columns, truth[name].ravel(), strict=True)
        found[name] = [is_held(draws, true) for draws, true in pairs if np.ptp(draws) > 0]
    return found


def ends(frame: BoundModel, values: Values, plan: Study, run: Run) -> Floats:
    """Return the law's last losses of a planned run, shape (draws, domains)."""
    return expected_loss(frame, values, frame.curves(plan, lambda *_: [run.schedule.steps], [run]))


def together(outcomes: Iterable[Outcomes]) -> Outcomes:
    found: Outcomes = {}
    for outcome in outcomes:
        for name, values in outcome.items():
            found.setdefault(name, []).extend(values)
    return found


def pooled(outcomes: Outcomes, names: Iterable[str]) -> float:
    return float(np.mean([own for name in names for own in outcomes.get(name, [])]))


# --- model sizes ----------------------------------------------------------------------------------

# Nine times as large as the largest size of the study.
LARGE, LARGE_SIZE = size_family.LARGE, 3000.0
PEAKS = tuple(size_family.PEAKS)
LARGER_RUN = Run("planned", "cpt", cosine(2000, 1e-3), LARGE.name, 0.3)


def of_sizes(seed: int) -> Outcomes:
    own = spec("cpt-replay-sizes")
    blank = size_family.family()
    plan = replace(blank, bases=(*blank.bases, LARGE)).with_runs([LARGER_RUN])
    # With the reference of the study, which does not know the large base.
    frame = build_setup(own, blank).frame
    frame = replace(frame, sizes=(*frame.sizes, LARGE_SIZE))

    def shown(truth: Values) -> Values:
        return {name: of_groups(frame, name, values, PEAKS) for name, values in truth.items()}

    study, truth = measurable(blank, frame, own, seed, shown)
    posterior = short_fit(study, own, seed)
    known = posterior.with_new_sizes([LARGE_SIZE])
    forecast = ends(known.frame, known.parameters(), plan, LARGER_RUN)
    value = ends(frame, truth, plan, LARGER_RUN)[0]
    width = np.ptp(np.quantile(posterior.parameters()["size_exponent"][:, 0], [0.05, 0.95]))
    prior = own.priors["size_exponent"].of("general").quantiles([0.05, 0.95])
    return held(posterior, shown(truth), FREE["cpt-replay-sizes"]) | {
        "large": [is_held(forecast[:, k], value[k]) for k in range(2)],
        "width": [float(width / np.ptp(prior))],
    }


def of_groups(
    frame: BoundModel, name: str, values: Floats, kept: tuple[float | Batch, ...]
) -> Floats:
    """Return of one draw of a parameter that is of groups what some of these have, else all of it."""
    dims = frame.parameters()[name].dims
    if dims not in GROUPED:
        return values
    places = [frame.groups[dims].index(group) for group in kept]
    return values.reshape(1, 2, -1)[:, :, places].reshape(1, -1)


@cache
def size_outcomes() -> Outcomes:
    return together(of_sizes(seed) for seed in range(STUDIES))


@pytest.mark.slow
def test_intervals_of_a_family_of_sizes_hold_the_truth_as_often_as_they_say() -> None:
    assert 0.86 < pooled(size_outcomes(), FREE["cpt-replay-sizes"]) < 0.94


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPONENTS)
def test_intervals_of_each_exponent_of_size_hold_the_truth(name: str) -> None:
    # Of 100, or 50: 90 % are expected, with an sd of 3 or 4 %.
    assert 0.8 <= np.mean(size_outcomes()[name]) <= 0.98


@pytest.mark.slow
def test_a_size_that_never_ran_is_forecast_with_intervals_that_hold() -> None:
    assert np.mean(size_outcomes()["width"]) < 0.8, "three sizes determine the exponent"
    assert 0.8 <= np.mean(size_outcomes()["large"]) <= 0.98


# --- batches --------------------------------------------------------------------------------------

FOUR = tuple(Batch(2.0**power, 512) for power in (16, 17, 18, 19))
# A longer run in a batch that has no run.
OTHER_RUN = batch_family.continued("planned", batch_family.NEW, 0.3, steps=2000)


def of_batches(seed: int) -> Outcomes:
    blank, own = batch_family.family(FOUR, measured=7), spec("cpt-replay-batch")
    plan = blank.with_runs([OTHER_RUN])
    frame = build_setup(own, plan).frame

    def shown(truth: Values) -> Values:
        return {name: of_groups(frame, name, values, FOUR) for name, values in truth.items()}

    study, truth = measurable(blank, frame, own, seed, shown)
    posterior = short_fit(study, own, seed)
    names = [name for name in posterior.frame.parameters() if name != "reference_loss"]
    batches = posterior.frame.batches
    seen = {name: of_groups(frame, name, values, batches) for name, values in truth.items()}
    found = {"held": [own for each in held(posterior, seen, names).values() for own in each]}
    value = ends(frame, truth, plan, OTHER_RUN)[0]
    models = {"batches": posterior}
    if seed % 2 == 0:
        models["one shift"] = short_fit(study, spec("cpt-replay", FREE["cpt-replay-batch"]), seed)
    for label, each in models.items():
        known = each.with_new_groups(plan, [OTHER_RUN])
        draws = ends(known.frame, known.parameters(), plan, OTHER_RUN)
        found[label] = [is_held(draws[:, k], value[k]) for k in range(2)]
    return found


@pytest.mark.slow
def test_a_batch_that_never_ran_is_forecast_from_the_population() -> None:
    found = together(of_batches(seed) for seed in range(40))
    assert 0.85 < np.mean(found["held"]) < 0.95
    assert np.mean(found["batches"]) > 0.85
    assert np.mean(found["one shift"]) < np.mean(found["batches"])


# --- targets --------------------------------------------------------------------------------------

# What a set of one run is asked to tell: a longer run with more replay.
NEWS = target_family.continued("planned", "news", 0.5, steps=2000)
NEWS_ALONE = target_family.continued("planned", None, 0.5, steps=2000)
NAMES = ("code_0", "code_0.6", "law_0", "law_0.6", "mixed", "news_0.2", "trunk")


def alone(study: Study) -> Study:
    """Return what is left of a study for who knows the runs on news and nothing else."""
    kept = tuple(run for run in study.runs if run.name in ("trunk", "news_0.2"))
    losses = study.losses[study.losses["run"].isin([run.name for run in kept])]
    rest = losses[losses["domain"].isin(["web", "news"])]
    return Study("alone", "web", "news", study.bases, kept, rest)


def of_targets(seed: int) -> Outcomes:
    runs = tuple(run for run in target_family.RUNS if run.name in NAMES)
    blank, own = target_family.several(runs=runs, measured=7), spec("cpt-replay")
    study, truth = measurable(blank, build_setup(own, blank).frame, own, seed)
    posterior = short_fit(study, own, seed)
    frame, values = posterior.frame, posterior.parameters()
    names = (*FREE["cpt-replay"][1:], "target_spread")
    found = {"held": [own for each in held(posterior, truth, names).values() for own in each]}
    if seed % 2 == 0:
        place, plan = [frame.domains.index("news")], study.with_runs([NEWS])
        value = ends(frame, truth, plan, NEWS)[0, place]
        found["beside others"] = list(crps(ends(frame, values, plan, NEWS)[:, place], value))
        one = alone(study)
        other = short_fit(one, own, seed)
        draws = ends(other.frame, other.parameters(), one.with_runs([NEWS_ALONE]), NEWS_ALONE)
        found["alone"] = list(crps(draws[:, [1]], value))
    return found


@pytest.mark.slow
def test_a_target_of_one_run_is_forecast_better_beside_others() -> None:
    found = together(of_targets(seed) for seed in range(STUDIES))
    assert 0.86 < np.mean(found["held"]) < 0.94
    assert np.mean(found["beside others"]) < np.mean(found["alone"])


# --- repeated tokens ------------------------------------------------------------------------------

TOKENS_PER_STEP, UNIQUE_STEPS = 1000, 125
# 4 to 32 epochs of the target data, and one run that goes through half as many at replay 0.5.
REPEATING = (
    Run("trunk", "pt", target_family.TRUNK),
    *(target_family.continued(f"epochs_{n}", None, 0.0, n * UNIQUE_STEPS) for n in (4, 8, 16, 32)),
    target_family.continued("replayed", None, 0.5, 16 * UNIQUE_STEPS),
)


def of_repeats(seed: int) -> Outcomes:
    own, name = spec("cpt-replay-repeats"), "repeat_constant"
    unique = UniqueTokens(target=float(TOKENS_PER_STEP * UNIQUE_STEPS))
    blank = target_family.several(("code",), REPEATING, measured=9)
    blank = replace(blank, tokens_per_step=TOKENS_PER_STEP, unique_tokens=unique)
    study, truth = measurable(blank, build_setup(own, blank).frame, own, seed)
    posterior = short_fit(study, own, seed)
    ends_of = [np.quantile(draws, [0.05, 0.95]) for draws in posterior.parameters()[name].T]
    low, high = own.priors[name].of("target").quantiles([0.05, 0.95])
    widths = [float(np.log(top / bottom) / np.log(high / low)) for bottom, top in ends_of]
    return held(posterior, truth, [name]) | {"width": widths}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
def test_intervals_of_the_worth_of_repeats_hold_the_truth_as_often_as_they_say() -> None:
    found = together(of_repeats(seed) for seed in range(STUDIES))
    # Of 100: 90 are expected, with an sd of 3.
    assert 0.83 <= np.mean(found["repeat_constant"]) <= 0.97
    assert np.median(found["width"]) < 0.8, "runs that repeat their data say how much that is worth"
