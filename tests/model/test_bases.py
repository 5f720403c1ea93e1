"""Bases on no run, of unknown pre-training, and those that branches of PT runs start from."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from branching import branching_study
from every_option import spec_with
from open_weights import BASE_LOSSES, PEAK, STEPS, open_study, rewarmed
from size_family import BLANK, family_of_cpt_alone
from small_study import ANNEALED, STUDY
from synthetic import lab, lab_posterior, prior_as_posterior
from testbench.delphi import FOUR
from testbench.fourth_scale import part

from bayes_cpt import Base, Run, Study, decide, fit, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.identify.determination import identifiability
from bayes_cpt.laws.pretraining import Annealing
from bayes_cpt.model.bases import for_base, with_lone_bases
from bayes_cpt.model.evaluate import Draws, Tile, at_points
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.setup import build_setup, elements
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec, parse_spec
from bayes_cpt.study.runs import Branch
from bayes_cpt.study.schedules import constant, linear

# --- bases on no run ------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
ROWS = ["run", "step", "domain", "loss"]
START = pd.DataFrame([("half", 0, "g", 3.45), ("half", 0, "t", 4.35)], columns=ROWS)


def added(study: Study) -> list[tuple[str, int, str, float]]:
    """Return the rows of the runs that are added."""
    found = with_lone_bases(study, ("g", "t"))
    names = {run.name for run in found.runs} - {run.name for run in study.runs}
    rows = found.losses[found.losses["run"].isin(names)]
    return sorted(rows[ROWS].itertuples(index=False, name=None))


def test_a_base_on_no_run_is_a_pretraining_run_measured_at_its_end() -> None:
    study = replace(STUDY, losses=pd.concat([START, STUDY.losses], ignore_index=True))
    assert added(study) == [("annealed", 1000, "g", 3.45), ("annealed", 1000, "t", 4.35)]
    run = with_lone_bases(study, ("g", "t")).run("annealed")
    assert (run.phase, run.schedule) == ("pt", ANNEALED)
    # A base of unknown schedule tells nothing, nor does one that was not measured or whose run was.
    bases = (study.base("stable"), Base("annealed", known=False))
    for other in (replace(study, bases=bases), STUDY):
        assert added(other) == []
    assert with_lone_bases(lab(), ("general", "kernel")) is lab()


def test_what_the_run_of_a_base_does_not_tell_is_told_by_the_base() -> None:
    """The run was not measured on a validation set, or was left out of the study."""
    elsewhere = STUDY.losses["run"] != "trunk"
    runs = tuple(run for run in STUDY.runs if run.name != "trunk")
    for study in (
        replace(STUDY, losses=STUDY.losses[elsewhere | (STUDY.losses["domain"] == "g")]),
        replace(STUDY, runs=runs, losses=STUDY.losses[elsewhere]),
    ):
        assert added(study) == [("stable", 1000, "t", 4.45)]


def test_cpt_curves_start_at_their_bases_in_every_prior_draw() -> None:
    frame = build_setup(read_spec("cpt-replay"), lab()).frame
    curves = frame.curves(lab(), lambda *_: [0], runs=lab().continual_runs)
    loss = expected_loss(frame, draw_priors(frame, 20, seed=7), curves)
    assert np.isfinite(curves.points.loss).all()
    np.testing.assert_allclose(loss, np.broadcast_to(curves.points.loss, loss.shape), rtol=1e-10)


def test_what_only_priors_would_tell_of_one_base_alone_is_not_sampled() -> None:
    """Its CPT curves start at its loss: how far that lies off the law, and of what PT gained, none says."""
    alone = build_setup(read_spec("cpt-replay"), of_one_base(None))
    free = {own.name for own in elements(alone.frame) if own.prior.is_free}
    several = build_setup(read_spec("cpt-replay"), lab())
    assert {own.name for own in elements(several.frame) if own.prior.is_free} - free == {
        *("reference_loss", "offset_kept", "offset_pt", "misfit_pt", "fluctuation_pt", "gain_ratio")
    }
    assert not [curve for curve in alone.curves.curves if not curve.continual]
    tau = 0.025 * alone.frame.reference.steps
    steps = [0, round(tau), 3000]
    curves = alone.frame.curves(lab(), lambda *_: steps, [lab().run("r25_cos")])
    drawn = draw_priors(alone.frame, 20, seed=0)
    losses = expected_loss(alone.frame, drawn, curves)
    wanted = [lab().base_loss("stable_12k", domain) for domain in alone.frame.domains]
    starts = np.tile(np.array(wanted, dtype=float), (20, 1))
    np.testing.assert_allclose(losses[:, :: len(steps)], starts, rtol=1e-12)
    # What CPT changes at once comes with time: a share 1 - 1/e after tau_0.
    risen = expected_loss(alone.frame, {**drawn, "jump": drawn["jump"] + 0.1}, curves)
    shares = np.tile(1.0 - np.exp(-np.array(steps) / tau), 2)
    np.testing.assert_allclose(risen - losses, np.tile(0.1 * shares, (20, 1)), atol=1e-12)


def test_sizes_of_which_cpt_alone_was_measured_start_at_their_bases() -> None:
    """A size's own level comes with CPT, all of it: 0 at the transfer, a share 1 - 1/e after tau_0."""
    study = family_of_cpt_alone()
    setup = build_setup(read_spec("cpt-replay-sizes"), study)
    names = {own.name for own in elements(setup.frame) if own.prior.is_free}
    assert {"size_deviation", "size_misfit", "size_slope"} <= names
    assert not names & {"reference_loss", "size_exponent", "offset_kept", "fluctuation_pt"}
    assert all(curve.continual and curve.base_known for curve in setup.curves.curves)
    run = study.continual_runs[0]
    tau = 0.025 * setup.frame.reference.steps
    steps = [0, round(tau), run.schedule.steps]
    curves = setup.frame.curves(study, lambda *_: steps, [run])
    values = draw_priors(setup.frame, 1, seed=0)
    off = {**values, "size_deviation": values["size_deviation"] + 1.0}
    before, after = (expected_loss(setup.frame, own, curves)[0] for own in (values, off))
    starts = [study.base_loss(str(run.base), domain) for domain in setup.frame.domains]
    np.testing.assert_allclose(before[:: len(steps)], np.array(starts, float), rtol=1e-12)
    wanted = np.outer(values["size_misfit"][0], 1.0 - np.exp(-np.array(steps) / tau)).ravel()
    np.testing.assert_allclose(after - before, wanted, atol=1e-12)


def test_a_base_of_unknown_loss_has_no_level_where_cpt_alone_was_fitted() -> None:
    posterior = prior_as_posterior(family_of_cpt_alone(), "cpt-replay-sizes")
    large = replace(posterior.study.bases[0], name="large")
    run = replace(posterior.study.continual_runs[0], name="long", base="large")
    plan = Study("plan", "general", "target", (large,), (run,), BLANK, is_plan=True)
    with pytest.raises(StudyError, match=r"run long, domain general: .*Give it in a row at step 0"):
        posterior.predict(plan)
    known = replace(
        posterior, study=replace(posterior.study, bases=(*posterior.study.bases, large))
    )
    with pytest.raises(StudyError, match="base large, domain general"):
        decide(known, "balanced", {"bases": "large", "steps": 2000})


# --- bases of unknown pre-training ----------------------------------------------------------------

SPEC = read_spec("cpt-replay")
PRETRAINING = constant(9_000, PEAK) + linear(1_000, PEAK, 0.3 * PEAK)
KNOWN = Base("own", PRETRAINING.steps, PRETRAINING)


def with_base(base: Base, **changes: Any) -> Study:
    """Return the study with another base under all its runs."""
    runs = tuple(replace(run, base=base.name) for run in open_study().runs)
    return replace(open_study(), bases=(base,), runs=runs, **changes)


def test_the_forward_area_is_sampled_and_the_level_is_that_of_the_base() -> None:
    frame = build_setup(SPEC, open_study()).frame
    names = set(frame.parameters())
    assert "base_forward_area" in names
    assert not names & {"fluctuation_pt", "misfit_pt", "offset_pt", "offset_kept", "offset_time"}
    level = frame.spec.priors["reference_loss"]
    for role in ("general", "target"):
        assert level.of(role) == Fixed(distribution="fixed", value=BASE_LOSSES[role])
    for name in ("base_forward_area", "base_potential"):
        assert frame.spec.priors[name] == SPEC.unknown_base[name]


def test_runs_without_a_warm_up_go_on_at_the_rate_of_their_base() -> None:
    runs = tuple(
        replace(run, schedule=constant(STEPS, PEAK) + linear(STEPS, PEAK, 0.0))
        for run in open_study().runs
    )
    study = replace(open_study(), runs=runs)
    prior = for_base(SPEC, study).priors["base_potential"]
    assert prior == SPEC.unknown_base["base_potential_without_warmup"]
    own = {key: SPEC.unknown_base[key] for key in ("base_forward_area", "base_potential")}
    alone = SPEC.model_copy(update={"unknown_base": own})
    assert for_base(alone, study).priors["base_potential"] == own["base_potential"]


def test_curves_of_a_base_that_was_not_measured_start_at_a_level_that_is_sampled() -> None:
    losses = open_study().losses.query("step > 0 or domain != 'target'")
    study = replace(open_study(), losses=losses)
    frame = build_setup(SPEC, study).frame
    level = frame.spec.priors["reference_loss"]
    assert level.of("general") == Fixed(distribution="fixed", value=BASE_LOSSES["general"])
    assert level.of("target") == SPEC.priors["reference_loss"].of("target")
    values = draw_priors(frame, 50, seed=0)
    losses = expected_loss(frame, values, frame.curves(study, lambda *_: [0]))
    runs = len(study.continual_runs)
    np.testing.assert_allclose(losses, np.tile(values["reference_loss"], (1, runs)), rtol=1e-12)
    # The law as printed leaves its level free on both sets.
    printed = read_spec("cpt-replay-printed")
    free = build_setup(printed, study).frame.spec.priors["reference_loss"]
    assert free == printed.priors["reference_loss"]


@pytest.mark.parametrize("spec", [SPEC, spec_with()], ids=["shipped", "options"])
def test_the_law_is_that_of_a_known_base_of_the_same_forward_area(spec: ModelSpec) -> None:
    """And of the same last learning rate, of no memory; its C1·S2_pt is a part of L0."""
    law_table = spec.law.model_copy(update={"carry_memory": False})
    spec = spec.model_copy(update={"law": law_table, "lone_bases": {}})
    frame = build_setup(spec, open_study()).frame
    values = draw_priors(frame, 20, seed=0)
    power, rate = values.get("forward_power", np.ones(20)), frame.reference.learning_rate
    area = np.array([np.sum(PRETRAINING.learning_rates() ** own) for own in power])
    # In steps at the reference rate: what a prior says of it holds for any power.
    steps = area / rate**power
    values["base_forward_area"] = steps * rate / frame.reference.forward_cpt
    values["base_potential"] = np.full(20, PRETRAINING.final / frame.reference.learning_rate)
    curves = frame.curves(open_study(), lambda *_: [1, 30, 500, STEPS])
    coefficients = frame.law.coefficients(values, np)
    np.testing.assert_allclose(coefficients["S1_base"], np.stack([area, area], axis=1), rtol=1e-12)

    known = with_base(KNOWN)
    draws = Draws.of(frame, values, frame.area_form)
    as_known = replace(build_setup(spec, known).frame, reference=frame.reference)
    law = as_known.law
    points = as_known.curves(known, lambda *_: [1, 30, 500, STEPS], form=frame.area_form).points
    annealing = next(term for term in law.terms if isinstance(term, Annealing))

    def of_known(tile: Tile) -> dict[str, Floats]:
        own = tile.gathered
        annealing_pt, _ = annealing.areas(tile, own, np)
        return {"loss": law.loss(tile, own, np) + own["C1"] * annealing_pt}

    wanted = at_points(points, draws, of_known)["loss"].T
    np.testing.assert_allclose(expected_loss(frame, values, curves), wanted, rtol=1e-9)


def test_the_change_of_a_reference_run_at_replay_0_is_what_is_sampled() -> None:
    frame = build_setup(SPEC, open_study()).frame
    values = draw_priors(frame, 30, seed=2)
    # The law is right for any parameters; without annealing and damage what is left is this change.
    values |= dict.fromkeys(("annealing_gain", "damage", "target_forgetting"), np.zeros((30, 2)))
    # A forward area is the same for any rho only as a number of steps at the reference rate.
    rate = frame.reference.learning_rate
    steady = constant(round(frame.reference.forward_cpt / rate), rate)
    run = Run("steady", "cpt", steady, base="open", replay=0.0)
    plan = replace(open_study(), runs=(run,), losses=open_study().losses[:0], is_plan=True)
    curves = frame.curves(plan, lambda *_: [steady.steps])
    change = expected_loss(frame, values, curves) - np.array(list(BASE_LOSSES.values()))
    np.testing.assert_allclose(
        change, values["shift_share"] * values["reference_loss"] * [1.0, -1.0], rtol=1e-9
    )


OTHER = Run("other", "cpt", rewarmed().schedule, base="own", replay=0.0)


@pytest.mark.parametrize(
    ("spec", "study", "message"),
    [
        (SPEC, replace(open_study(), bases=(*open_study().bases, KNOWN)).with_runs([OTHER]),
         "base open: its pre-training is not known, and the study also has base own"),
        (SPEC, open_study().with_runs([Run("trunk", "pt", PRETRAINING)]),
         "and the study also has PT run trunk.*give the base's PT schedule"),
        (SPEC.model_copy(update={"unknown_base": {}}), open_study(),
         r"the model cpt-replay has no prior for it\..*\[unknown_base\]"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted(spec: ModelSpec, study: Study, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        build_setup(spec, study)


def test_a_file_that_extends_another_may_state_one_of_the_priors(tmp_path: Path) -> None:
    text = """
extends = "cpt-replay"
name = "annealed"
[unknown_base.base_potential]
reason = "The model card says that it was annealed to 0, as the paper takes all such bases."
every = { distribution = "fixed", value = 0.0 }
"""
    (tmp_path / "annealed.toml").write_text(text)
    spec = read_spec(tmp_path / "annealed.toml")
    assert spec.unknown_base["base_forward_area"] == SPEC.unknown_base["base_forward_area"]
    assert "base_potential_without_warmup" not in spec.unknown_base
    frame = build_setup(spec, open_study()).frame
    values = draw_priors(frame, 3, seed=0)
    np.testing.assert_array_equal(frame.law.coefficients(values, np)["eta_0"], 0.0)
    half = SPEC.model_dump()
    half["unknown_base"].pop("base_potential")
    with pytest.raises(SpecError, match="give the priors of base_forward_area and base_potential"):
        parse_spec(half, "half.toml")


def test_fits_and_plans_of_other_bases_do_not_go_together() -> None:
    known = with_base(KNOWN, is_plan=True)
    elsewhere = with_base(Base("elsewhere", known=False), is_plan=True)
    posterior = prior_as_posterior(open_study())
    for plan in (known, elsewhere):
        with pytest.raises(StudyError, match=r"the fit is of the base open, .* and of no other"):
            posterior.predict(plan)
    with pytest.raises(StudyError, match="not known, and that of what was fitted is known"):
        lab_posterior().predict(replace(open_study(), is_plan=True))


def test_a_decision_gives_raw_learning_rates() -> None:
    posterior = prior_as_posterior(open_study())
    found = decide(posterior, candidates=256, draws=40)
    # By default as the runs did, in three digits.
    assert set(found.search.candidates.column("peak")) == {float(f"{PEAK:.3g}")}
    assert np.all(found.search.candidates.schedules.initial == 0.0)
    words = " ".join(found.sentences())
    assert "The pre-training of open is not known" in words
    assert "of the PT peak" not in words
    with pytest.raises(SpecError, match="it is a share of the PT peak, and that is not known"):
        decide(posterior, space={"relative_peak": [0.5]})


def test_runs_of_pre_training_are_no_advice() -> None:
    found = identifiability(open_study(), SPEC)
    assert not found["advice"].str.contains("a PT run").any()
    assert "base_effect" not in set(found["quantity"])
    area = found[found["quantity"] == "base_forward_area"]
    assert area[["domain", "identified"]].to_numpy().tolist() == [["all", False]]


# --- branches of PT runs --------------------------------------------------------------------------

PRETRAIN = read_spec("pretrain")


def test_without_its_trunk_a_run_stands_alone() -> None:
    (curve,) = build_setup(PRETRAIN, branching_study().subset(["cooled"])).curves.curves
    assert (curve.start, curve.base_known) == (0, False)


def test_a_branch_of_a_cpt_run_starts_at_its_base_and_counts_once() -> None:
    study = lab()
    branch = replace(study.run("r25_cos"), name="branch", branch=Branch("r25_cos", 1000))
    again = [
        ("branch", int(step), domain, float(loss))
        for domain in study.trained_domains
        for step, loss in zip(*study.curve("r25_cos", domain), strict=True)
    ]
    setup = build_setup(read_spec("cpt-replay"), study.with_runs([branch], losses=again))
    points = setup.curves.points
    for place, curve in enumerate(setup.curves.curves):
        if curve.run == "branch":
            assert curve.start == 0
            assert points.steps[points.curve_index == place].min() > 1000


def test_the_spread_of_levels_is_free_where_two_curves_of_pretraining_tell_it() -> None:
    study = lab()
    stable = {run.name for run in study.continual_runs if str(run.base).startswith("stable")}
    for runs, free in ((study, True), (study.subset(stable | {"pt_trunk"}), False)):
        spread = build_setup(read_spec("cpt-replay"), runs).frame.spec.priors["offset_pt"]
        assert spread.of("general").is_free == spread.of("target").is_free == free
    assert spread.of("general").center == pytest.approx(0.005)


# --- fits -----------------------------------------------------------------------------------------


def of_one_base(count: int | None = 4) -> Study:
    """Four runs of one base are what most teams have; untied, the level of the law never mixed."""
    runs = [run.name for run in lab().continual_runs if run.base == "stable_12k"]
    return lab().subset(runs[:count])


def of_three_sizes() -> Study:
    """Tied to the levels of their bases, three scales of Delphi took half an hour and never mixed."""
    scales = [ROOT / "data" / "public" / "delphi" / name for name in ("3e18", "9e19", "2e20")]
    bases, runs, losses = zip(*(part(scale, FOUR) for scale in scales), strict=True)
    every = pd.concat(losses, ignore_index=True)
    return Study("scales", None, "math", bases, tuple(chain.from_iterable(runs)), every)


WARNED = pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "model", "seed"),
    [
        (of_one_base, "cpt-replay", 1),
        pytest.param(of_three_sizes, "cpt-replay-sizes", 0, marks=WARNED),
        (open_study, "cpt-replay", 1),
    ],
)
def test_studies_without_pretraining_runs_meet_their_diagnostics(
    study: Callable[[], Study], model: str, seed: int
) -> None:
    posterior = fit(study(), model, seed=seed)
    assert posterior.trustworthy, posterior.problems
