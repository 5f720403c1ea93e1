import re
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from command_line import Call
from synthetic import lab_for

from bayes_cpt.forecast.derived import CONTINUAL_EFFECTS, PRETRAINING_EFFECTS
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.report.equation import COEFFICIENTS, equation, meaning
from bayes_cpt.report.words import notation


def drawn(fit_file: Path, quantity: str, domain: str) -> np.ndarray:
    """Return the draws of a quantity as the file has them."""
    with xr.open_dataset(fit_file, group="posterior", engine="netcdf4") as posterior:
        return posterior[quantity].sel(domain=domain).to_numpy().ravel()


def test_the_table_is_that_of_the_draws_in_the_file(call: Call, fit_file: Path) -> None:
    answer = call("summary", fit_file, "--verbose")
    assert (answer.code, answer.err) == (0, "")
    row = next(line.split() for line in answer.out.splitlines() if line.startswith(" L0"))
    assert row[:2] == ["L0", "general"]
    draws = drawn(fit_file, "L0", "general")
    # As many digits are printed as the spread supports.
    assert float(row[2]) == pytest.approx(np.median(draws), abs=0.05 * draws.std())
    assert "L = L0 + A/(S1_cpt + S1_pt)**alpha" in answer.out
    assert "loss that endless pre-training would approach, nats/token" in answer.out


def test_csv_has_moments_and_quantiles_of_draws(call: Call, fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    assert call("summary", fit_file, "-o", target, "--interval", 0.8, "-q") == (0, "", "")
    table = pd.read_csv(target)
    assert (table["interval"] == 0.8).all()
    for place in (("B", "kernel"), ("alpha", "general"), ("misfit_cpt", "kernel")):
        row, draws = table.set_index(["quantity", "domain"]).loc[place], drawn(fit_file, *place)
        expected = {
            "mean": draws.mean(),
            "sd": statistics.stdev(draws),
            "lower": np.percentile(draws, 10),
            "upper": np.percentile(draws, 90),
        }
        assert row[list(expected)].to_dict() == pytest.approx(expected)


def test_a_law_that_misfits_says_so_first_with_code_1(
    call: Call, misfitting_fit_file: Path
) -> None:
    answer = call("summary", misfitting_fit_file)
    assert answer.code == 1
    first, *others = answer.out.splitlines()
    assert first.startswith("Not trustworthy: the law cpt-replay does not fit these runs. ")
    assert "offset_pt on general is 0.16 nats where the prior's median is 0.005" in first
    assert others[:2] == ["", "Where the law misses its runs"]
    told = call("summary", misfitting_fit_file, "--json").json()
    assert not told["trustworthy"]
    assert told["verdict"] == [first]
    assert told["problems"] == []
    assert [alarm["subject"] for alarm in told["law_alarms"]] == ["offset_pt"]


def test_what_rests_on_the_prior_is_marked(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_cpt.inference.posterior.LOWEST_CONTRACTION", 1.1)
    answer = call("summary", fit_file, "--verbose")
    assert next(line for line in answer.out.splitlines() if line.startswith(" L0")).endswith("*")
    assert "the quantity rests on its prior" in answer.out


def test_a_first_reader_gets_three_lines_and_a_small_table(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = call("summary", fit_file, "--json").json()
    monkeypatch.setenv("COLUMNS", "80")
    verdict, table = (part.splitlines() for part in call("summary", fit_file).out.split("\n\n"))
    assert verdict == told["verdict"]
    assert len(verdict) == 3
    assert max(map(len, verdict)) <= 190
    misses = {row["domain"]: row["mean_absolute_error"] for row in told["quality"]}
    trusted = f"by {misses['general']:.2g} on general, {misses['kernel']:.2g} on kernel"
    assert verdict[0].startswith("Use this fit of cpt-replay to cpt-lab. ")
    assert trusted in verdict[0]
    # No two runs of the bundled study differ much in length.
    assert verdict[1].startswith("How sure: the sampler converged")
    assert "Left open: " in verdict[1]
    assert "length" in verdict[1]
    assert verdict[2] == (
        "What would change it: a CPT run 4 times as long; runs of another kind, as all share one PT peak "
        "learning rate (0.002)."
    )
    assert len(table) <= 12
    rows = {line[1:25].strip(): line for line in table if " to " in line and ")" in line}
    assert max(map(len, rows.values())) <= 80
    for effect in told["determination"]:
        if effect["kind"] != "effect":
            continue
        # To the first digit of a normal's sd with this interval, to the second where the first is 1 or 2.
        digits, place = f"{(effect['upper'] - effect['lower']) / 3.29:e}".split("e")
        places = (float(digits) < 3.0) - int(place)
        shown = f"{effect['mean']:+.{places}f} ({effect['lower']:+.{places}f} to ".replace("-", "−")
        cell = (
            rows[notation()["effects"][effect["quantity"]]["comparison"]]
            .split(shown)[1]
            .split(")")[1]
        )
        is_open = not (effect["identified"] and effect["tried"])
        assert cell.lstrip(" ").startswith("*") == is_open


def test_every_effect_has_its_words() -> None:
    effects = {effect.name for effect in CONTINUAL_EFFECTS + PRETRAINING_EFFECTS}
    assert set(notation()["effects"]) == effects


@pytest.mark.parametrize("model", shipped_models())
def test_every_quantity_of_every_model_has_its_line(model: str) -> None:
    frame = build_setup(read_spec(model), lab_for(model).subset(["pt_trunk", "r25_cos"])).frame
    parameters = draw_priors(frame, 3, seed=0)
    assert all(meaning(frame, name) for name in parameters)
    printed = set(re.findall(r"\w+", " ".join(equation(frame))))
    coefficients = set(frame.law.coefficients(parameters, np))
    assert all(meaning(frame, name) for name in coefficients)
    # The momentum is inside S2, unless there are two.
    assert coefficients - {"lambda"} <= printed
    assert printed.isdisjoint(set(COEFFICIENTS) - coefficients)


def test_effects_of_a_typical_run_and_what_is_left_open(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = call("summary", fit_file, "--verbose")
    assert "What moves the last loss, nats/token: mean and central 90 % interval" in answer.out
    monkeypatch.setattr("bayes_cpt.identify.determination.IDENTIFIED", 0.96)
    told = call("summary", fit_file, "--json").json()["determination"]
    weak = {row["quantity"] for row in told if row["kind"] != "parameter" and not row["identified"]}
    named = call("summary", fit_file, "-v").out.split("What the runs leave open")[1]
    rows = [line.split() for line in named.splitlines() if line.strip()]
    assert weak
    assert weak <= {row[0] for row in rows}


def test_sensitivity_names_what_rests_on_the_prior(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hundred draws of what is no posterior of these data tell nothing from noise.
    monkeypatch.setattr("bayes_cpt.identify.sensitivity.NOISE", 0.0)
    monkeypatch.setattr("bayes_cpt.identify.sensitivity.THRESHOLD", 0.0)
    line = ("summary", fit_file, "--sensitivity", "--plan", "data/cpt-lab/plan-example.toml")
    told = call(*line, "--json").json()["sensitivity"]
    answer = call(*line)
    losses = [row for row in told if row["kind"] == "last loss"]
    firm = sum(not row["diagnosis"] for row in losses)
    assert f"{firm} of 4 last losses do not rest on the prior." in answer.out
    printed = answer.out.split("Prior sensitivity (power scaling")[1]
    leaning = [row for row in told if row["diagnosis"] and row["kind"] != "parameter"]
    assert leaning
    for row in leaning:
        assert f" {row['quantity']} " in printed
        assert row["diagnosis"].capitalize() in printed
