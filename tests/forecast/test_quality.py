from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, lab_posterior

from bayes_cpt.forecast.quality import fit_quality, residuals, stages, systematic
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import constant, cosine, warmup_stable_decay


def test_r2_and_error_are_those_of_the_mean_curve_over_all_fitted_cpt_points() -> None:
    posterior = lab_posterior()
    found = fit_quality(posterior, draws=40).set_index("domain")
    dataset = posterior.predict(kind="expected", draws=40, at=None)
    assert list(found.index) == ["general", "kernel"]
    for domain in found.index:
        errors, losses = [], []
        for run in posterior.study.continual_runs:
            steps, measured = posterior.study.curve(run.name, domain)
            mean = dataset["expected"].sel(run=run.name, domain=domain).mean(("chain", "draw"))
            mean = mean.dropna("step")
            # The grid misses most measured steps; between its points the curve is smooth.
            drawn = np.interp(steps, mean["step"], mean)
            # The first half of a re-warm-up does not enter a fit.
            kept = steps > 0.5 * run.schedule.warmup_steps
            errors += list((measured - drawn)[kept])
            losses += list(measured[kept])
        assert found.loc[domain, "points"] == len(losses)
        assert found.loc[domain, "phase"] == "cpt"
        mean_error = np.abs(errors).mean()
        assert found.loc[domain, "mean_absolute_error"] == pytest.approx(mean_error, rel=0.01)
        r2 = 1 - np.var(errors, mean=0.0) / np.var(losses)
        assert found.loc[domain, "r2"] == pytest.approx(r2, rel=0.02)


def test_a_model_without_transfer_is_judged_on_the_pt_points_it_was_fitted_to() -> None:
    found = fit_quality(lab_posterior("pretrain"), draws=20)
    assert found[["domain", "phase"]].to_numpy().tolist() == [["general", "pt"]]
    runs = lab().pretraining_runs
    longest = max(run.schedule.steps for run in runs)
    warmup = max(run.schedule.warmup_steps for run in runs)
    first = min(12 * warmup, 0.2 * longest)
    left = [
        np.sum(
            lab().curve(run.name, "general")[0]
            > max(min(first, 0.75 * run.schedule.steps), 0.05 * run.schedule.steps)
        )
        for run in runs
    ]
    assert found["points"].item() == sum(left)


def test_residuals_are_measured_less_expected_point_by_point() -> None:
    posterior = lab_posterior()
    table = residuals(posterior, draws=40)
    expected = posterior.predict(kind="expected", draws=40, at=table[["run", "domain", "step"]])
    mean = expected["expected"].mean(("chain", "draw"))
    for row in table.iloc[::37].to_dict("records"):
        place = {name: row[name] for name in ("run", "domain", "step")}
        steps, losses = posterior.study.curve(row["run"], row["domain"])
        assert row["loss"] == losses[steps == row["step"]].item()
        assert row["residual"] == pytest.approx(row["loss"] - float(mean.sel(place)), abs=1e-12)
    assert table["share"].max() == 1.0
    assert table["ratio"].max() == 1.0


def test_residuals_of_runs_that_the_fit_never_saw() -> None:
    """The same runs under another name: their losses are only subtracted from."""
    posterior = lab_posterior()
    own = posterior.study.subset(["r25_cos"])
    shifted = replace(
        own, losses=own.losses.assign(loss=own.losses["loss"] + 0.1 * (own.losses["step"] > 0))
    )
    before, after = (residuals(posterior, study, draws=40) for study in (own, shifted))
    np.testing.assert_allclose(after["residual"], before["residual"] + 0.1, atol=1e-9)


def test_stages_follow_the_schedule() -> None:
    stable = warmup_stable_decay(1000, 2e-3, warmup_steps=100, decay_steps=200)
    rewarmed = Run("run", "cpt", stable, base="base", replay=0.0)
    steps = np.array([1, 100, 101, 800, 821, 959, 961, 1000])
    expected = [*["re-warm-up"] * 2, *["plateau"] * 2, *["decay"] * 2, *["end of decay"] * 2]
    assert list(stages(rewarmed, steps)) == expected
    straight = Run("run", "cpt", cosine(1000, 2e-3), base="base", replay=0.0)
    assert list(stages(straight, np.array([50, 51, 500, 1000]))) == [
        "start", "plateau", "decay", "end of decay",
    ]  # fmt: skip
    flat = Run("run", "cpt", constant(1000, 2e-3), base="base", replay=0.0)
    assert set(stages(flat, np.arange(1, 1001))) == {"start", "plateau"}


def test_a_lean_is_told_from_scatter_by_the_runs_not_the_points() -> None:
    rows = [
        (f"run {k}", "general", stage, sign * size)
        for k, size in enumerate((0.9, 1.0, 1.1, 1.0))
        for stage, sign in (("start", 1.0), ("decay", (-1.0) ** k))
        for _ in range(50)
    ]
    table = pd.DataFrame(rows, columns=["run", "domain", "stage", "residual"])
    found = systematic(table).set_index("stage")
    assert found.loc["start", "mean"] == pytest.approx(1.0)
    assert found.loc["start", "error"] == pytest.approx(np.std([0.9, 1.0, 1.1, 1.0], ddof=1) / 2.0)
    assert found.loc["start", "runs"] == 4
    assert found.loc["start", "systematic"]
    assert not found.loc["decay", "systematic"]
    assert found.loc["decay", "size"] == pytest.approx(
        np.sqrt(np.mean(np.square([0.9, 1.0, 1.1, 1.0])))
    )
    alone = systematic(table[table["run"] == "run 0"]).set_index("stage")
    assert np.isnan(alone.loc["start", "error"])
    assert not alone["systematic"].any()
