from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from malformed import write_files
from synthetic import lab

from bayes_cpt import Base, Run, Study, bundled_study, read_spec
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.derived import last_points
from bayes_cpt.identify.prior_predictive import (
    draw_at_bases,
    expected_ends,
    frame_of,
    read_prior_plan,
)
from bayes_cpt.model.evaluate import Draws, law_losses
from bayes_cpt.model.joint_priors import draw_priors, prior_table
from bayes_cpt.model.priors import Normal, Prior
from bayes_cpt.model.setup import build_setup
from bayes_cpt.study.schedules import constant, cosine, linear

SPEC = read_spec("cpt-replay")
TRUNK = """
[study]
name = "alone"
general = "prose"
target = "code"
[bases.here]
steps = 1000
schedule = [ { shape = "constant", steps = 1000, start = 1e-3, end = 1e-3 } ]
[runs.one]
phase = "cpt"
base = "here"
replay = 0.25
schedule = [ { shape = "cosine", steps = 500, start = 1e-3, end = 0 } ]
"""


def test_the_bundled_study_unless_told_otherwise() -> None:
    frame, plan = read_prior_plan(SPEC)
    assert plan.name == "cpt-lab"
    assert not plan.losses[plan.losses["step"] > 0].empty
    assert frame.reference == build_setup(SPEC, lab()).frame.reference


def test_a_plan_without_bases_takes_them_and_their_losses_from_the_bundled_study() -> None:
    frame, plan = read_prior_plan(SPEC, bundled_study() / "plan-example.toml")
    assert frame.reference == build_setup(SPEC, lab()).frame.reference
    assert [run.name for run in plan.runs] == ["long_r25", "rewarmed_r50"]
    assert plan.base_loss("stable_12k", "general") == lab().base_loss("stable_12k", "general")


def test_a_plan_that_names_its_validation_sets_stands_alone(tmp_path: Path) -> None:
    place = tmp_path / "alone.toml"
    place.write_text(TRUNK)
    frame, plan = read_prior_plan(SPEC, place)
    assert frame.domains == ("prose", "code")
    assert frame.reference.forward_pt == pytest.approx(1.0)
    assert plan.base_loss("here", "prose") is None


def test_a_study_of_ones_own_supplies_what_is_missing(tmp_path: Path) -> None:
    home = write_files(tmp_path / "home")
    place = tmp_path / "plan.toml"
    place.write_text('[runs.more]\nphase = "cpt"\nbase = "half"\nreplay = 0.1\nschedule = [')
    with place.open("a") as file:
        file.write('{ shape = "constant", steps = 70, start = 2e-3, end = 2e-3 } ]\n')
    frame, plan = read_prior_plan(SPEC, place, home)
    assert frame.domains == ("prose", "code")
    assert plan.base_loss("half", "code") == 4.2


def test_ends_are_those_of_the_closed_law() -> None:
    spec = read_spec("pretrain")
    # One in fifty levels lies below 0.
    level = Normal(distribution="normal", mean=3.0, sd=1.5)
    priors = spec.priors | {"reference_loss": Prior(reason="reaches below 0", every=level)}
    frame, plan = read_prior_plan(spec.model_copy(update={"priors": priors}))
    plan = plan.subset(["pt_trunk"])
    ends = expected_ends(frame, plan, interval=0.8, draws=500, seed=2).set_index("run")
    assert (ends["quantity"] == "loss").all()
    law = frame.law.coefficients(draw_priors(frame, 500, seed=2), np)
    rates = plan.run("pt_trunk").schedule.learning_rates()
    area = np.array([[np.sum(rates**power)] for power in law["rho"]])
    # The trunk never anneals: there is no S2.
    losses = (law["L0"] + law["A"] * area ** -law["alpha"])[:, 0]
    assert ends.loc["pt_trunk", "below_zero"] == pytest.approx(np.mean(losses <= 0.0))
    assert np.mean(losses <= 0.0) > 0.01
    # What ends below 0 is left out.
    wanted = np.quantile(losses[losses > 0.0], [0.1, 0.5, 0.9])
    found = ends.loc["pt_trunk", ["lower", "median", "upper"]].to_numpy(dtype=float)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert ends.loc["pt_trunk", "step"] == 16000


def test_changes_are_counted_from_the_measured_base() -> None:
    frame, plan = read_prior_plan(SPEC)
    ends = expected_ends(frame, plan)
    assert set(ends["quantity"]) == {"change"}
    assert len(ends) == 20
    assert np.isfinite(ends[["lower", "median", "upper"]].to_numpy()).all()
    # Replay 0 forgets, and learns the target.
    own = ends.set_index(["run", "domain"])["median"]
    assert own["r00_const", "general"] > 0.3
    assert own["r00_const", "kernel"] < -0.3


def test_the_table_has_every_prior_with_its_closed_interval() -> None:
    frame, _ = read_prior_plan(SPEC)
    table = prior_table(frame, 0.5).set_index(["parameter", "domain"])
    assert set(table.index.get_level_values(0)) == set(SPEC.priors)
    assert ("memory", "all") in table.index
    kept = SPEC.priors["offset_kept"]
    for domain, role in (("general", "general"), ("kernel", "target")):
        row = table.loc["offset_kept", domain]
        wanted = kept.of(role).quantiles([0.25, 0.5, 0.75])
        np.testing.assert_allclose(row[["lower", "median", "upper"]].to_numpy(dtype=float), wanted)
        assert row["reason"] == kept.reason


PT = linear(2000, 0.0, 3e-4) + constant(98_000, 3e-4) + linear(100_000, 3e-4, 3e-5)


def base_alone(general: float, target: float) -> Study:
    """Return a run that has yet to be made, from a measured base."""
    run = Run("one", "cpt", cosine(2000, 6e-5), base="end", replay=0.25)
    losses = pd.DataFrame(
        [("one", 0, "web", general), ("one", 0, "code", target)],
        columns=["run", "step", "domain", "loss"],
    )
    return Study("plan", "web", "code", (Base("end", PT.steps, PT),), (run,), losses, is_plan=True)


def test_draws_at_bases_are_those_that_rejection_would_keep() -> None:
    """Of the printed law, which has no level of its own for a base."""
    study = base_alone(3.1, 3.2)
    frame = frame_of(read_spec("cpt-replay-printed"), study)
    brute = draw_priors(frame, 300_000, seed=1)
    bases = last_points(frame, study).bases
    with np.errstate(all="ignore"):
        law = law_losses(bases, Draws.of(frame, brute, bases.form)).T
    kept = (np.abs(np.asarray(law) - bases.loss) < 0.1).all(axis=1)
    assert kept.sum() > 300
    found = draw_at_bases(frame, study, 4000, seed=2)
    for name in ("reference_loss", "reference_slope", "annealing_gain", "exponent"):
        wanted, given = np.log(brute[name][kept]), np.log(found[name])
        spread = wanted.std(axis=0)
        error = spread * np.sqrt(1.0 / kept.sum() + 4.0 / len(given))
        assert (np.abs(given.mean(axis=0) - wanted.mean(axis=0)) < 4.0 * error).all(), name
        np.testing.assert_allclose(given.std(axis=0), spread, rtol=0.2)


def test_a_target_that_is_easy_already_is_not_expected_to_rise() -> None:
    """As of a 7B model: the level is that of the base, not that of all language models."""
    study = base_alone(1.9, 1.3)
    ends = expected_ends(frame_of(SPEC, study), study, draws=1000).set_index("domain")
    assert ends.loc["code", "upper"] < 0.0
    assert -1.0 < ends.loc["code", "median"] < -0.2
    assert ends.loc["code", "lower"] > -1.3
    tiny = replace(lab(), losses=lab().losses.assign(loss=0.004 * lab().losses["loss"]))
    with pytest.raises(StudyError, match="some loss ends below 0: they are too wide"):
        expected_ends(frame_of(SPEC, tiny), tiny, draws=100)


def test_a_prior_of_shares_below_0_is_refused() -> None:
    wide = Prior(reason="Vague.", every=Normal(distribution="normal", mean=0.0, sd=100.0))
    spec = SPEC.model_copy(update={"priors": SPEC.priors | {"replay_onset": wide}})
    study = base_alone(1.9, 1.3)
    with pytest.raises(StudyError, match="% of the draws of the priors a loss is not finite"):
        expected_ends(frame_of(spec, study), study, draws=200)


def test_without_measured_bases_draws_are_the_priors_own() -> None:
    study = base_alone(1.9, 1.3)
    bare = replace(study, losses=study.losses.iloc[:0])
    frame = frame_of(SPEC, bare)
    found, wanted = draw_at_bases(frame, bare, 50, 3), draw_priors(frame, 50, 3)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
