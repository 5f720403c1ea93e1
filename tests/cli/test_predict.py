import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from command_line import Call, check_refusal
from independent_model import curve_data, law_curve, settings_of
from malformed import TABLE, Malformed
from synthetic import lab, lab_posterior

import bayes_cpt
from bayes_cpt import bundled_study, table
from bayes_cpt.model.spec import shipped_models
from bayes_cpt.study.resources import Compute

PLAN = bundled_study() / "plan-example.toml"
COLUMNS = ["run", "step", "domain", "mean", "median", "sd", "lower", "upper", "kind", "outside"]


def test_csv_holds_the_bands_of_the_plan(call: Call, fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "forecast.csv"
    answer = call("predict", fit_file, "--plan", PLAN, "-o", target, "--seed", 3)
    assert answer.code == 0
    found = pd.read_csv(target)
    assert list(found.columns) == [*COLUMNS, "interval"]
    assert set(found["interval"]) == {0.9}
    assert set(found["kind"]) == {"new_run"}
    ends = found.groupby(["run", "domain"])["step"].agg(["min", "max"])
    assert ends["max"].to_dict() == {
        (run, domain): steps
        for run, steps in (("long_r25", 12_000), ("rewarmed_r50", 6000))
        for domain in ("general", "kernel")
    }
    assert (found["lower"] <= found["median"]).all()
    assert (found["median"] <= found["upper"]).all()
    assert " long_r25 *      general  12000 " in answer.out
    assert (
        "* lies outside the fitted range: 12000 steps, 4.0x the longest run (long_r25)"
        in answer.out
    )


def test_other_sets_are_forecast_by_name(call: Call, fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "forecast.csv"
    options = ("--plan", PLAN, "--draws", 40, "-o", target)
    answer = call("predict", fit_file, *options, "--sets", "ccode, pycode", "--json")
    assert answer.code == 0
    assert set(pd.read_csv(target)["domain"]) == {"general", "kernel", "ccode", "pycode"}
    weights = {row["domain"]: row for row in json.loads(answer.out)["weights"]}
    # The fit is a stand-in about the right curves: of its weights the order is that of the measured ones.
    assert weights["ccode"]["target"] > 0.5 > 0.2 > weights["ccode"]["general"]
    assert weights["pycode"]["caution"].startswith("Eq. 6 misses pycode")
    check_refusal(
        call("predict", fit_file, *options, "--sets", "code"),
        ("there is no third validation set 'code'", "did you mean 'ccode'?"),
    )


def test_expected_bands_are_those_of_the_law_coded_a_second_time(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    """Mean, sd and quantiles of the curve of `independent_model` over the draws in the file."""
    study, path = lab(), shipped_models()["cpt-replay"]
    settings = settings_of(study, path)
    run = study.run("r75_wsd")
    target, at = tmp_path / "expected.csv", tmp_path / "at.csv"
    arrays = [curve_data(study, run, domain, settings) for domain in (0, 1)]
    rows = [
        (run.name, int(step), name)
        for name, own in zip(("general", "kernel"), arrays, strict=True)
        for step in own.steps
    ]
    pd.DataFrame(rows, columns=["run", "step", "domain"]).to_csv(at, index=False)
    given = ("--plan", bundled_study(), "--at", at, "--kind", "expected", "--interval", 0.8)
    assert call("predict", fit_file, *given, "-o", target, "-q").code == 0
    with xr.open_dataset(fit_file, group="posterior", engine="netcdf4") as posterior:
        draws = {
            str(name): own.to_numpy().reshape(
                posterior.sizes["chain"] * posterior.sizes["draw"], -1
            )
            for name, own in posterior.data_vars.items()
        }
    count = len(draws["memory"])
    found = pd.read_csv(target)
    for name, own in zip(("general", "kernel"), arrays, strict=True):
        each = ({key: value[k] for key, value in draws.items()} for k in range(count))
        curves = np.stack([np.asarray(law_curve(own, p, settings)) for p in each])
        bands = found[found["domain"] == name].sort_values("step")
        assert bands["step"].tolist() == own.steps.tolist()
        expected = {
            "mean": curves.mean(axis=0),
            "sd": curves.std(axis=0, ddof=1),
            "median": np.median(curves, axis=0),
            "lower": np.percentile(curves, 10, axis=0),
            "upper": np.percentile(curves, 90, axis=0),
        }
        for column, values in expected.items():
            np.testing.assert_allclose(bands[column], values, rtol=1e-6)


def test_parquet_json_and_netcdf(call: Call, fit_file: Path, tmp_path: Path) -> None:
    rows, draws = tmp_path / "forecast.parquet", tmp_path / "forecast.nc"
    listed = tmp_path / "forecast.json"
    for target in (rows, listed, draws):
        arguments = ("predict", fit_file, "--plan", PLAN, "--interval", 0.8, "-o", target, "-q")
        assert call(*arguments).code == 0
    read = pd.read_parquet(rows)
    assert set(read["interval"]) == {0.8}
    with xr.open_dataset(draws, engine="netcdf4") as stored:
        assert stored.attrs["interval"] == 0.8
        drawn = table(stored.load())
    found = read[COLUMNS]
    pd.testing.assert_frame_equal(found, drawn, check_dtype=False)
    # Fifteen digits.
    told = pd.DataFrame(json.loads(listed.read_text()))[COLUMNS]
    pd.testing.assert_frame_equal(told, found, check_dtype=False, rtol=1e-13)


def test_without_a_plan_the_fitted_runs_are_predicted_given_their_points(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "own.csv"
    found = call("predict", fit_file, "-o", target, "--json").json()
    assert found["kind"] == "known_run"
    assert found["outside"] == {}
    study = bayes_cpt.load(fit_file).study
    last = {(row["run"], row["domain"]): row["median"] for row in found["final"]}
    assert last["r25_cos", "kernel"] == pytest.approx(study.curve("r25_cos", "kernel")[1][-1])
    assert found["verdict"][1:] == [
        "How sure: these losses were measured.",
        "What would change it: nothing; all runs are over.",
    ]
    assert "Loss of each run at the last step" in call("predict", fit_file, "-o", target).out


def test_a_plan_of_known_runs_names_them_and_they_take_what_they_took(
    call: Call, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand steps an hour, on one GPU.
    costly = replace(lab_posterior(), study=replace(lab(), compute=Compute(seconds_per_step=3.6)))
    monkeypatch.setattr("bayes_cpt.inference.posterior.load", lambda path: costly)
    plan, options = tmp_path / "plan.toml", ("--draws", 20, "-o", tmp_path / "out.csv", "--json")
    # The plan gives it 12,000 steps; in the study it has 3000.
    plan.write_text(PLAN.read_text().replace("long_r25", "r25_cos").split("# Half")[0])
    for kind, steps in (("new_run", 12_000), ("known_run", 3000)):
        found = call("predict", fit_file, "--plan", plan, "--kind", kind, *options).json()
        assert [row["step"] for row in found["final"]] == [steps, steps]
        assert found["takes"]["r25_cos"] == {"gpu_hours": pytest.approx(steps / 1000)}


# What a plan may lack or leave out, being no study.
FINE_IN_A_PLAN = {"a-file", "no-losses", "header-only", "sets-absent", "bare-study"}


@pytest.mark.parametrize(
    "case", [case for case in TABLE if case.id not in FINE_IN_A_PLAN], ids=lambda case: case.id
)
def test_malformed_plans(
    case: Malformed, call: Call, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Any fit will do, and reading one every time takes longer than all the rest.
    monkeypatch.setattr("bayes_cpt.inference.posterior.load", lambda path: lab_posterior())
    path = case.write(tmp_path / "study")
    answer = call("predict", fit_file, "--plan", path, "-o", tmp_path / "out.csv")
    check_refusal(answer, ())
    assert str(path) in answer.err
    assert not list(tmp_path.glob("*out*"))
