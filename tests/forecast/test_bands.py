"""Bands against draws of whole curves, and against the law at every point."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, practice, prior_as_posterior

from bayes_cpt import Posterior, bands, bundled_study, load, read_spec, table
from bayes_cpt.arrays import SUMMARY, Floats, summary
from bayes_cpt.errors import StudyWarning
from bayes_cpt.forecast import bands as module
from bayes_cpt.forecast.plans import prepare
from bayes_cpt.model.evaluate import Draws, paired_normals, scales_of
from bayes_cpt.model.fitted_points import first_step
from bayes_cpt.model.residuals import predictive_parts
from bayes_cpt.model.simulate import expected_loss

PLAN = bundled_study() / "plan-example.toml"
# Between losses of points that were chosen and those of all points, nats.
CLOSE = 1e-6


def of_draws(dataset: Any) -> dict[str, Floats]:
    """Return `SUMMARY` of the draws themselves, in the order of the table."""
    loss = dataset["loss"].stack(sample=("chain", "draw")).transpose(..., "sample").to_numpy()
    return summary(loss[np.isfinite(loss[..., 0])], 0.9)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=100)


def test_bands_of_new_runs_are_the_table_of_draws_up_to_its_monte_carlo_error() -> None:
    # So many draws that Monte Carlo errors are small.
    many = prior_as_posterior(lab(), draws=2500, spread=0.1)
    steps = [1, 5, 30, 200, 1000, 5000]
    runs = [run.name for run in prepare(many, PLAN).runs]
    at = pd.MultiIndex.from_product(
        [runs, many.frame.domains, steps], names=["run", "domain", "step"]
    ).to_frame(index=False)
    found = bands(many, PLAN, at=at, draws=10_000)
    wanted = of_draws(many.predict(PLAN, at=at, draws=10_000, seed=3))
    sd = wanted["sd"]
    # Of draws: 1/sqrt(n) of a mean, 0.7/sqrt(n) of an sd, 1.25 and 2.1 of median and 5 % quantile.
    for name, share in {"mean": 1.0, "sd": 1.0, "median": 1.3, "lower": 2.5, "upper": 2.5}.items():
        assert np.all(np.abs(found[name] - wanted[name]) < 5.0 * share * sd / 100.0)


def test_known_runs_repeat_what_was_measured(posterior: Posterior) -> None:
    study = lab()
    run, domain = study.continual_runs[0].name, str(study.target)
    steps, losses = study.curve(run, domain)
    at = pd.DataFrame({"run": run, "domain": domain, "step": steps[steps > 0]})
    found = bands(posterior, kind="known_run", at=at, draws=40)
    for name in ("mean", "median", "lower", "upper"):
        np.testing.assert_allclose(found[name], losses[steps > 0], rtol=1e-12)
    np.testing.assert_allclose(found["sd"], 0.0, atol=1e-12)
    changed = [replace(own, replay=0.9) if own.name == run else own for own in study.runs]
    other = replace(study, runs=tuple(changed))
    with pytest.warns(StudyWarning, match=f"run {run}: schedule, base or replay is not"):
        same = bands(posterior, other, kind="known_run", at=at, draws=40)
    np.testing.assert_array_equal(same["mean"], found["mean"])
    unmeasured = study.changed(losses=study.losses[study.losses["run"] != run])
    with pytest.warns(StudyWarning, match=f"run {run}: it has no measured points and is left out"):
        left = bands(replace(posterior, study=unmeasured), kind="known_run", draws=40)
    assert {*left["run"]} == {own.name for own in study.runs} - {run}


@pytest.mark.parametrize("kind", ["new_run", "expected"])
@pytest.mark.parametrize("model", ["cpt-replay", "cpt", "cpt-replay-printed"])
def test_many_draws_are_summarised_as_if_evaluated_at_every_point(kind: Any, model: str) -> None:
    """On draws as wide as half of the prior, whose curves bend more than those of any posterior."""
    study = lab() if model != "cpt" else lab().subset([r.name for r in lab().runs if not r.replay])
    posterior = prior_as_posterior(study, model, draws=75, spread=0.5)
    # Every sort of base and, where the law knows replay, of replay, 0 and 1 too.
    names = iter(range(100))
    runs = [
        replace(run, name=f"{next(names)}", replay=replay)
        for run in practice().continual_runs[:2]
        for replay in ((0.0, 0.3, 1.0) if model != "cpt" else (0.0,))
    ]
    plan = replace(practice(), runs=tuple(runs), losses=practice().losses.iloc[:0], is_plan=True)
    found = bands(posterior, plan, kind, draws=300)
    curves = prepare(posterior, plan).curves(posterior.frame)
    frame, parameters = posterior.frame, posterior.parameters(300)
    loss = expected_loss(frame, parameters, curves)
    mean, variance = loss.mean(axis=0), loss.var(axis=0, ddof=1)
    if kind == "new_run":
        design = frame.residual_design(curves)
        scales = scales_of(curves, Draws.of(frame, parameters, curves.points.form))
        placed = (curves.elapsed, design.floating, curves.points.base_known, design.beyond)
        noise = sum(predictive_parts(scales, *placed, (design.ramps**2).sum(axis=1), np))
        variance = variance + noise.mean(axis=0)
        loss = loss + np.sqrt(noise) * paired_normals(300, 0)[:, None]
    median, *ends = np.quantile(loss, [0.5, 0.05, 0.95], axis=0)
    for name, column in zip(SUMMARY, [mean, median, np.sqrt(variance), *ends], strict=True):
        np.testing.assert_allclose(found[name], column, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("kind", ["new_run", "expected"])
@pytest.mark.parametrize("model", ["cpt-replay", "cpt-replay-printed"])
def test_very_many_losses_are_as_those_of_few_in_single_precision(
    kind: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On draws as wide as half of the prior, with no replay and with nothing else."""
    posterior = prior_as_posterior(lab(), model, draws=400, spread=0.5)
    trained = lab().continual_runs[0]
    runs = tuple(
        replace(trained, name=f"run {k}", schedule=trained.schedule.stretched(steps), replay=replay)
        for k, (steps, replay) in enumerate([(900, 0.0), (3000, 0.4), (11_000, 0.9), (5000, 1.0)])
    )
    plan = replace(lab(), runs=runs, losses=lab().losses.iloc[:0], is_plan=True)
    wanted = bands(posterior, plan, kind, draws=1600)
    monkeypatch.setattr(module, "VERY_MANY", 0)
    found = bands(posterior, plan, kind, draws=1600)
    assert not found["median"].equals(wanted["median"])
    np.testing.assert_allclose(found["mean"], wanted["mean"], rtol=0, atol=CLOSE)
    for name in SUMMARY:
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=3 * CLOSE)


def test_a_base_without_a_measured_loss_widens_the_bands(posterior: Posterior) -> None:
    base = replace(lab().bases[0], name="elsewhere", run=None)
    run = replace(lab().continual_runs[0], name="new", base="elsewhere")
    plan = replace(lab(), bases=(base,), runs=(run,), losses=lab().losses.iloc[:0], is_plan=True)
    found = bands(posterior, plan, draws=400)
    same = bands(posterior, replace(plan, runs=(replace(run, base=lab().bases[0].name),),
                                    bases=lab().bases), draws=400)  # fmt: skip
    assert found["sd"].iloc[0] > 1.5 * same["sd"].iloc[0]


@pytest.mark.parametrize("kind", ["new_run", "expected", "known_run"])
def test_bands_of_a_dataset_are_those_of_the_same_forecast(posterior: Posterior, kind: Any) -> None:
    """Not up to Monte Carlo error: there is one way to bands."""
    plan, at = None if kind == "known_run" else PLAN, None
    if plan is None:
        run = lab().continual_runs[0].name
        at = pd.DataFrame({"run": run, "domain": lab().general, "step": [1, 77, 1500]})
    options: dict[str, Any] = {"at": at, "draws": 60, "seed": 4, "interval": 0.8}
    dataset = posterior.predict(plan, kind=kind, **options)
    pd.testing.assert_frame_equal(table(dataset), bands(posterior, plan, kind, **options))


def test_memory_is_bounded_by_chunks_that_change_nothing(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bands(posterior, practice().without_losses(), draws=100, seed=5)
    monkeypatch.setattr(module, "RUNS_AT_ONCE", 1)
    parts = bands(posterior, practice().without_losses(), draws=100, seed=5, cores=1)
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-12)


def test_a_seed_repeats_bands(posterior: Posterior) -> None:
    one, same, other = (bands(posterior, PLAN, draws=100, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one["median"].equals(other["median"])
    # The exact ones need no seed.
    np.testing.assert_array_equal(one[["mean", "sd"]], other[["mean", "sd"]])


def test_bands_of_pretraining_begin_where_the_law_holds_and_mark_earlier_steps() -> None:
    """At the first steps the power of the forward area is hundreds of nats."""
    study = lab().subset([run.name for run in lab().pretraining_runs])
    posterior = prior_as_posterior(study, read_spec("pretrain"), draws=100)
    found = bands(posterior, draws=200)
    for run in study.runs:
        first = first_step(study, run, posterior.frame.spec.residuals)
        steps = found.loc[found["run"] == run.name, "step"]
        assert first < steps.min() <= 1.05 * first
        assert steps.max() == run.schedule.steps
        assert 100 <= len(steps) <= 200
        wanted = [1, int(first), int(first) + 1, run.schedule.steps]
        at = pd.DataFrame({"run": run.name, "domain": "general", "step": wanted})
        marks = bands(posterior, study, "expected", at=at)["outside"]
        assert list(marks.str.contains("does not hold yet")) == [True, True, False, False]
        shown = table(posterior.predict(study, kind="expected", at=at))["outside"]
        assert list(shown) == list(marks)
        for end in (1.0, -1.0):
            rows = at.assign(lower=[-1.0, -1.0, 1.0, end])
            marks = module.marked(rows, {run.name: ""}, {run.name: first})
            assert list(marks.str.contains("at or below 0")) == [end < 0] * 4
    assert found["mean"].max() < 12.0


@pytest.mark.parametrize("phase", ["pt", "cpt"])
def test_bands_widen_beyond_what_was_measured(phase: str, tmp_path: Path) -> None:
    """By the share of the slope, or the multiple of the misfit, of each draw, in bands and draws alike."""
    study, spec, name, size = lab(), read_spec("cpt-replay"), "r00_const", "misfit_cpt"
    if phase == "pt":
        study = study.subset([run.name for run in lab().pretraining_runs])
        spec, name, size = read_spec("pretrain"), "pt_trunk", "reference_slope"
    run = study.run(name)
    last = max(own.schedule.steps for own in study.runs if own.phase == phase)
    longer = replace(run, name="longer", schedule=run.schedule.stretched(3 * last))
    bases = study.bases if phase == "cpt" else ()
    plan = replace(study, runs=(longer,), bases=bases, losses=study.losses.iloc[:0], is_plan=True)
    steps = [last // 2, last, 2 * last, 3 * last]
    at = pd.DataFrame({"run": "longer", "domain": study.general, "step": steps})
    posterior = prior_as_posterior(study, spec, draws=2500, spread=0.1)
    narrow = prior_as_posterior(study, spec, draws=2500, spread=0.1)
    narrow.tree["posterior"][f"extrapolation_{phase}"] *= 0.0
    sds = (bands(own, plan, at=at, draws=10_000)["sd"] for own in (narrow, posterior))
    variances = [sd.to_numpy() ** 2 for sd in sds]
    drawn = posterior.parameters(10_000)
    share, scale = (drawn[name][:, 0] for name in (f"extrapolation_{phase}", size))
    folds = np.log(np.maximum(np.array(steps) / last, 1.0))
    wanted = np.mean((share * scale) ** 2) * folds**2
    np.testing.assert_allclose(variances[1] - variances[0], wanted, rtol=1e-9, atol=1e-15)
    posterior.save(tmp_path / "fit.nc")
    loaded = bands(load(tmp_path / "fit.nc"), plan, at=at, draws=10_000)["sd"].to_numpy() ** 2
    np.testing.assert_allclose(loaded, variances[1], rtol=1e-9)
    drawn_sd = of_draws(posterior.predict(plan, at=at, draws=10_000, seed=3))["sd"]
    np.testing.assert_allclose(drawn_sd**2, variances[1], rtol=5.0 * np.sqrt(2.0 / 10_000))
