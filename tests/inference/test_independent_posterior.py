"""The posterior against the same model coded a second time and sampled by NumPyro."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import independent_model
import jax
import numpy as np
import pytest
from every_option import file_with
from numpyro.infer.util import log_density

from bayes_cpt import Run, Study, bundled_study, read_spec, read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.metric import Metric
from bayes_cpt.inference.sampling import sample
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import shipped_models
from bayes_cpt.study.schedules import constant, warmup_stable_decay

RUNS = ["pt_trunk", "pt_anneal0", "r00_const", "r25_a0_rewarm", "r75_wsd"]
POINTS = 12
# The base lies on the PT run: what else counts as PT is not written a second time.
SMALL = ("pt_anneal0", "r25_a0_rewarm")
DRAWS = 3000
# 250 comparisons: one of them lies beyond this about once in a hundred repetitions.
FAR = 4.2
PROBABILITIES = (0.05, 0.5, 0.95)


def thinned(runs: Sequence[str] = tuple(RUNS), points: int = POINTS) -> Study:
    """Return a few runs of the bundled study with a few points each, for dense algebra to be quick."""
    study = read_study(bundled_study()).subset(runs)
    losses = study.losses[study.losses["domain"].isin([study.general, study.target])]
    kept = []
    for _, rows in losses.groupby(["run", "domain"], sort=False):
        late = rows[rows["step"] > 0]
        chosen = np.unique(np.linspace(0, len(late) - 1, points).round().astype(int))
        kept += [*rows.index[rows["step"] == 0], *late.index[chosen]]
    return replace(study, losses=losses.loc[kept])


def with_another_peak(study: Study) -> Study:
    """Return the study with a PT run at twice the peak, rising in two stages, so that peaks differ."""
    run = study.pretraining_runs[0]
    hot = warmup_stable_decay(300, run.schedule.peak, decay_steps=50, warmup_steps=30)
    schedule = hot + constant(200, 2.0 * run.schedule.peak)
    domains = (str(study.general), str(study.target))
    rows = [("hot", step, domain, 4.0) for step in (290, 400) for domain in domains]
    return study.with_runs([Run("hot", "pt", schedule)], rows)


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
        # What is fixed has no Monte Carlo error.
        for i in np.flatnonzero(np.ptp(columns, axis=(0, 1)) > 0):
            pair = (columns[..., i], theirs[name][..., i])
            # Positive quantities are compared as logs, which are nearer to normal.
            logs = min(draws.min() for draws in pair) > 0.0
            one, two = (statistics(np.log(draws) if logs else draws) for draws in pair)
            for label, (value, error) in one.items():
                other, its_error = two[label]
                far[f"{label} of {name}[{i}]"] = (value - other) / np.hypot(error, its_error)
    return far


def assert_alike(ours: dict[str, Floats], theirs: dict[str, Floats], far: float) -> None:
    """Check that no statistic differs by more Monte Carlo errors, nor all of them by more than chance."""
    assert set(ours) <= set(theirs)
    assert theirs["diverging"].mean() < 1e-3
    apart = differences(ours, theirs)
    worst = max(apart, key=lambda key: abs(apart[key]))
    whole = np.sqrt(np.mean(np.square(list(apart.values()))))
    assert abs(apart[worst]) < far, f"{worst} differs by {apart[worst]:.2f} Monte Carlo errors"
    assert whole < 1.3


def flat(values: dict[str, Floats]) -> dict[str, Floats]:
    """Return draws of shape (chains, draws, ...) as (chains and draws, values)."""
    return {name: own.reshape(own.shape[0] * own.shape[1], -1) for name, own in values.items()}


@pytest.mark.slow
def test_posterior_agrees_with_numpyro() -> None:
    study, path = thinned(), shipped_models()["cpt-replay"]
    ours = sample(Density(build_setup(read_spec(path), study)), seed=1)
    assert ours.diagnostics.trustworthy
    theirs = independent_model.sample(
        study, path, flat(ours.values), seed=2, warmup=400, draws=DRAWS
    )
    assert_alike(ours.values, theirs, FAR)


def sites_at(
    density: Density, priors: dict[str, list[dict[str, Any]]], sites: Sequence[str], place: Floats
) -> tuple[dict[str, Floats], float]:
    """Return what the second model samples at a sampler's position, and the log of a volume.

    The volume is that of the step from logs to the logits of the bounded time constants.
    """
    values = {name: own[0] for name, own in density.values(place[None]).items()}
    chosen, step = {}, 0.0
    for site in sites:
        name = site.removesuffix("_")
        free = independent_model.free_places(priors[name])
        value, prior = np.atleast_1d(values[name])[free], priors[name][free[0]]
        family = prior["distribution"]
        logit = np.log(value / (1.0 - value)) if family == "logitnormal" else value
        chosen[site] = np.log(value) if family == "lognormal" else logit
        if "lower" in prior:
            low, high = prior["lower"], prior["upper"]
            step += float(np.log((value - low) * (high - value) / (high - low) / value).sum())
    return chosen, step


WITHOUT: list[dict[str, Any]] = [
    {},
    {"count_warmup": False} | dict.fromkeys(("peak_power", "slow_share"), "printed"),
    {"memory_clock": 0.0} | dict.fromkeys(("shift_power", "level_power"), "printed"),
    {"carry_memory": False},
    {"carry_memory": False, "peak_power": "printed"},
    {"carry_memory": False, "count_warmup": False}
    | dict.fromkeys(("peak_power", "forward_power"), "printed"),
]


# Where no memory is carried nothing is there to reset.
@pytest.mark.parametrize(
    ("options", "state"),
    [*product(WITHOUT, ["carried"]), *product(WITHOUT[:3], ["reset"])],
    ids=lambda own: own if isinstance(own, str) else ", ".join(own) or "every option",
)
def test_both_models_have_equal_curves(options: dict[str, Any], state: str, tmp_path: Path) -> None:
    """With the options of the law on, but for some; at draws from the priors."""
    study, path = with_another_peak(thinned(SMALL, 5)), file_with(tmp_path, **options)
    runs = (replace(own, optimizer_state=state) if own.base else own for own in study.runs)
    study = replace(study, runs=tuple(runs))
    setup = build_setup(read_spec(path), study)
    curves = setup.curves
    settings = independent_model.settings_of(study, path)
    for seed in range(3):
        drawn = draw_priors(setup.frame, 1, seed=seed)
        (ours,) = expected_loss(setup.frame, drawn, curves)
        p = {name: np.atleast_1d(own[0]) for name, own in drawn.items()}
        for i, curve in enumerate(curves.curves):
            domain = (study.general, study.target).index(curve.domain)
            data = independent_model.curve_data(study, study.run(curve.run), domain, settings)
            rows = curves.points.curve_index == i
            np.testing.assert_array_equal(curves.points.steps[rows], data.steps)
            theirs = np.asarray(independent_model.law_curve(data, p, settings))
            np.testing.assert_allclose(ours[rows], theirs, rtol=1e-8)


@pytest.mark.parametrize("every_option", [pytest.param(False, marks=pytest.mark.slow), True])
def test_both_models_have_the_same_density_and_gradient(every_option: bool, tmp_path: Path) -> None:
    """Normalisation included, at places all over the prior."""
    study = thinned(SMALL, 5)
    path = file_with(tmp_path) if every_option else shipped_models()["cpt-replay"]
    arguments, sites = independent_model.stated(study, path)
    compiled = jax.jit(
        lambda chosen: log_density(independent_model.model, arguments, {}, chosen)[0]
    )
    density = Density(build_setup(read_spec(path), study))
    size = density.size

    def theirs(place: Floats) -> float:
        chosen, step = sites_at(density, arguments[1], list(sites), place)
        return float(compiled(chosen)) + step

    for place in density.starts[0] + 0.3 * np.random.default_rng(0).standard_normal((4, size)):
        small = 1e-5 * np.eye(size)
        gradient = [(theirs(place + own) - theirs(place - own)) / 2e-5 for own in small]
        ours, our_gradient = density.in_metric(Metric(place, np.eye(size)))(np.zeros(size))
        assert theirs(place) == pytest.approx(ours, abs=1e-6)
        np.testing.assert_allclose(our_gradient, gradient, rtol=1e-5, atol=1e-4)
