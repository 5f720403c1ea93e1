from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, kstest
from synthetic import lab, lab_for
from testbench.calibration import (
    FAILS,
    HELD_OUT,
    NOTES,
    POINTS,
    RANKED,
    ModelReplicates,
    design_study,
    ecdf,
    ecdf_bands,
    held_out_run,
    judge,
    main,
    quantity_ranks,
    ranked,
    simulate_setup,
    simulated_ranks,
    verdict,
    with_base_losses,
)

from bayes_cpt.errors import ProblemError, StudyError
from bayes_cpt.inference.diagnostics import Diagnostics
from bayes_cpt.inference.sampling import CHAINS, Sample
from bayes_cpt.model.fitted_points import observed_steps
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.priors import Fixed, Normal
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import Pool

SPEC = read_spec("cpt-replay")
HERE = Pool(jobs=1)
MEASURED, NOISE = 5, 2.0


@dataclass(frozen=True)
class NormalMean:
    """Normal data with a standard normal mean, whose posterior is known; called with a seed."""

    widen: float = 1.0  # factor on the posterior's standard deviation; 1 is right
    shift: float = 0.0  # added to its mean, in its standard deviations; 0 is right
    problems: tuple[str, ...] = ()  # what every refit says of itself
    fails: int = 0  # refits of which one has no draws, by seed; 0 is none

    def __call__(self, seed: int) -> dict[str, Any]:
        generator = np.random.default_rng(seed)
        mean, later = generator.standard_normal(), generator.standard_normal()
        data = mean + NOISE * generator.standard_normal(MEASURED)
        truth = {"mean": mean, "next": mean + NOISE * later}
        if self.fails and seed % self.fails == 0:
            return ranked(truth, {}, ("no mode",), 0)
        precision = 1.0 + MEASURED / NOISE**2
        center, spread = data.sum() / NOISE**2 / precision, precision**-0.5
        posterior = center + spread * (generator.standard_normal(RANKED) * self.widen + self.shift)
        later_draws = posterior + NOISE * generator.standard_normal(RANKED)
        return ranked(truth, {"mean": posterior, "next": later_draws}, self.problems)


def test_a_design_keeps_runs_and_thins_measured_points() -> None:
    design = design_study(lab(), SPEC)
    assert [run.name for run in design.runs] == [run.name for run in lab().runs]
    for run in design.runs:
        for domain in ("general", "kernel"):
            own, _ = design.curve(run.name, domain)
            measured = observed_steps(lab(), run, domain, SPEC.residuals)
            assert set(own.tolist()) <= set(measured)
            assert own[0] == measured[0]
            assert own[-1] == measured[-1]
            assert own.size <= POINTS + 2
    assert set(design.domains) == {"general", "kernel"}
    assert len(design_study(lab(), SPEC, points=5).losses) < len(design.losses) / 2


def test_bases_are_known_just_where_the_fit_sees_a_simulated_point() -> None:
    def known(design: Study) -> dict[str, bool]:
        curves = build_setup(SPEC, design).curves.curves
        return {curve.run: curve.base_known for curve in curves if curve.continual}

    design = design_study(lab(), SPEC, points=3)
    assert all(known(design).values())
    for base in design.bases:
        assert base.steps in design.curve(str(base.run), "general")[0]
    without = lab().subset(run.name for run in lab().runs if run.name != "pt_anneal0")
    of_the_rest = known(design_study(without, SPEC))
    assert not of_the_rest["r25_a0_rewarm"]
    assert of_the_rest["r25_cos"]


def test_a_law_without_replay_keeps_the_runs_of_one_ratio() -> None:
    design = design_study(lab(), read_spec("cpt"))
    assert len({run.replay for run in design.continual_runs}) == 1
    assert len(design.continual_runs) == 3
    assert len(design.pretraining_runs) == 4
    build_setup(read_spec("cpt"), design)


def test_the_held_out_run_is_longer_and_its_name_its_own() -> None:
    design = design_study(lab(), SPEC)
    run = held_out_run(design)
    assert run.name == HELD_OUT
    assert run.schedule.steps == 9000
    more = design.with_runs([run])
    assert len(more.losses) == len(design.losses)
    with pytest.raises(StudyError, match=HELD_OUT):
        more.with_runs([run])


def test_simulated_curves_are_the_law_s_where_nothing_is_random_and_start_at_their_bases() -> None:
    design = design_study(lab(), SPEC, points=6)
    blank = build_setup(SPEC, design)
    truth = draw_priors(blank.frame, 1, seed=4)
    # So small that a curve is its law, moved by its base's offset.
    for name in ("fluctuation_pt", "fluctuation_cpt", "misfit_pt", "misfit_cpt", "offset_pt"):
        truth[name] = 1e-9 + 0.0 * truth[name]
    found = simulate_setup(blank, design, truth, np.random.default_rng(1))
    law = expected_loss(blank.frame, truth, found.curves)[0]
    after = found.curves.points.rewarming == 0.0
    np.testing.assert_allclose(found.curves.points.loss[after], law[after], atol=1e-6)
    assert np.isfinite(found.curves.points.loss).all()
    np.testing.assert_array_equal(found.curves.points.steps, blank.curves.points.steps)
    assert (blank.curves.points.loss == 3.0).all()
    # So does a run that is added, at the simulated loss of its base.
    more = design.with_runs([held_out_run(design)])
    curves = found.frame.curves(more, lambda run, _: [1], [more.run(HELD_OUT)])
    based = with_base_losses(curves, found.curves, more)
    source = more.run(HELD_OUT).base
    same = [
        found.curves.bases.loss[i]
        for i, curve in enumerate(found.curves.curves)
        if curve.continual and design.run(curve.run).base == source
    ]
    assert set(based.bases.loss) == set(same)
    # A law whose shift goes evenly over a run has hardly moved in the first step.
    slow = truth | {"shift_rate": np.full_like(truth["shift_rate"], 1e-3)}
    assert np.abs(expected_loss(found.frame, slow, based)[0] - based.bases.loss).max() < 0.02


@pytest.mark.parametrize(
    ("wrong", "mean", "spread"),
    [
        (NormalMean(widen=0.6), (0.45, 0.55), (1.2, 1.6)),
        (NormalMean(widen=1.7), (0.45, 0.55), (0.4, 0.8)),
        (NormalMean(shift=-0.5), (0.6, 0.7), (0.9, 1.4)),
    ],
)
def test_a_wrong_posterior_is_found_out_and_the_table_says_how(
    wrong: NormalMean, mean: tuple[float, float], spread: tuple[float, float]
) -> None:
    found = verdict(simulated_ranks(wrong, 300, seed=1, pool=HERE))
    assert not found.passed
    assert any("mean" in problem for problem in found.problems)
    judged = found.quantities.set_index("quantity").loc["mean"]
    assert mean[0] < judged["mean"] < mean[1]
    assert spread[0] < judged["spread"] < spread[1]


def test_ranks_are_counts_of_draws_below_the_truth() -> None:
    truth = {"a": 0.5, "b": 9.0, "c": 1.0}
    row = ranked(truth, {"a": np.array([0.1, 0.5, 0.7]), "b": np.zeros(3)}, ("no mode",), 2)
    notes = {"trustworthy": False, "problems": "no mode", "attempts": 2, "refused": 0}
    assert row == notes | {"a": 1, "b": 3, "c": None}
    table = simulated_ranks(NormalMean(), 400, seed=2, pool=HERE)
    assert kstest((table["mean"] + 0.5) / (RANKED + 1), "uniform").pvalue > 1e-3


def test_refits_without_draws_are_counted() -> None:
    table = simulated_ranks(NormalMean(fails=4), 40, pool=HERE)
    failed = int(table["mean"].isna().sum())
    assert 0 < failed < 40
    assert len(quantity_ranks(table)) == 40 - failed
    found = verdict(table)
    assert found.failed == failed
    assert found.untrusted == 0
    assert f"{failed} of 40 refits fail their diagnostics" in found.problems
    rare = verdict(simulated_ranks(NormalMean(fails=41), 300, seed=5, pool=HERE))
    assert 0 < rare.failed < 15
    assert rare.passed


def prior_sample(density: object, seed: int, *, frame_of: ModelReplicates, **_: object) -> Sample:
    """Stand in for the sampler: draws of the prior, whatever the data."""
    draws = draw_priors(build_setup(frame_of.spec, frame_of.design).frame, CHAINS * 50, seed)
    values = {name: value.reshape(CHAINS, 50, *value.shape[1:]) for name, value in draws.items()}
    return Sample(values, {"diverging": np.zeros((CHAINS, 50))}, Diagnostics({}, {}, {}, 0, 0, ()))


def replicates(monkeypatch: pytest.MonkeyPatch, model: str) -> ModelReplicates:
    """Return replicates that draw the prior in place of each posterior."""
    spec = read_spec(model)
    design = design_study(lab_for(model), spec, points=4)
    own = ModelReplicates(spec, design.with_runs([held_out_run(design)]), (HELD_OUT,))
    monkeypatch.setattr("bayes_cpt.inference.sampling.sample", partial(prior_sample, frame_of=own))
    monkeypatch.setattr("bayes_cpt.inference.density.Density", lambda setup: setup)
    return own


@pytest.mark.parametrize("model", sorted(shipped_models()))
def test_every_sampled_parameter_and_the_held_out_run_are_ranked(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replicates(monkeypatch, model)
    found = own(3)
    frame = build_setup(own.spec, own.design).frame
    expected = set()
    for name, info in frame.parameters().items():
        # Of the study: what runs of one batch do not tell is fixed.
        prior, places = frame.spec.priors[name], dict[str, str | None]({name: None})
        if info.dims is not None:
            members = frame.members(info.dims)
            places = {f"{name}[{member.label}]": frame.role(member) for member in members}
        expected |= {own for own, role in places.items() if not isinstance(prior.of(role), Fixed)}
    ends = {
        f"final {what}[{HELD_OUT}, {domain}]"
        for what in ("law", "loss")
        for domain in frame.domains
    }
    ranks = pd.Series(found).drop(list(NOTES[1:]))
    assert set(ranks.index) == expected | ends
    assert ranks.between(0, RANKED).all()
    assert own(3) == found
    assert own(4) != found


def test_a_prior_in_place_of_a_posterior_has_uniform_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # SBC is blind to it by design; it shows that truths are draws of the prior that is ranked against.
    own = replicates(monkeypatch, "pretrain")
    assert verdict(simulated_ranks(own, 30, seed=1, pool=HERE)).passed


def test_studies_with_losses_below_0_are_drawn_again_and_counted() -> None:
    spec = read_spec("pretrain")
    level = spec.priors["reference_loss"]
    # Half of all studies would lie below 0.
    low = level.model_copy(update={"every": Normal(distribution="normal", mean=0.0, sd=1.0)})
    spec = spec.model_copy(update={"priors": spec.priors | {"reference_loss": low}})
    design = design_study(lab().subset(["pt_trunk"]), spec, points=4)
    found = [
        ModelReplicates(spec, design)._simulated(build_setup(spec, design), seed, seed + 1)
        for seed in range(12)
    ]
    assert all((setup.curves.points.loss > 0).all() for _, setup, _ in found)
    assert all(truth["reference_loss"].size == 1 for truth, _, _ in found)
    refused = [again for _, _, again in found]
    assert min(refused) == 0
    assert max(refused) > 0
    table = simulated_ranks(NormalMean(), 30, pool=HERE).assign(refused=[1] * 10 + [0] * 20)
    assert verdict(table).refused == 0.25


def test_bands_hold_the_ecdf_of_uniform_values_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    for count, mass in ((40, 0.8), (200, 0.95)):
        lower, upper = ecdf_bands(count, mass)
        curves = np.array([ecdf(generator.uniform(size=count)) for _ in range(2000)])
        inside = int(np.all((lower <= curves) & (curves <= upper), axis=1).sum())
        # The band is simulated too: a tolerance of a few hundredths.
        assert inside >= binom.ppf(1e-4, 2000, mass - 0.02)
        assert inside <= binom.ppf(1 - 1e-4, 2000, mass + 0.02)


def test_all_quantities_together_seldom_raise_a_false_alarm() -> None:
    ranks = np.random.default_rng(4).integers(0, 101, size=(200, 100, 20))
    tables = [pd.DataFrame(own).add_prefix("q") for own in ranks]
    alarms = [(judge(table, 100)["verdict"] == FAILS).any() for table in tables]
    assert np.sum(alarms) <= binom.ppf(0.999, 200, 0.05)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> list[ModelReplicates]:
    """Calibrate a toy in place of the model; what was asked for is returned."""
    asked: list[ModelReplicates] = []

    def replicate(own: ModelReplicates, seed: int) -> dict[str, Any]:
        asked.append(own)
        return NormalMean(widen=0.5 if own.spec.name == "pretrain" else 1.0)(seed)

    monkeypatch.setattr(ModelReplicates, "__call__", replicate)
    return asked


def test_a_command_goes_on_and_writes_a_verdict(toy: list[ModelReplicates], tmp_path: Path) -> None:
    out = tmp_path / "sbc"
    main(["-n", "30", "-o", str(out)])
    first = pd.read_csv(out / "ranks.csv", index_col="task")
    main(["-n", "40", "-o", str(out)])
    assert len(toy) == 40
    again = pd.read_csv(out / "ranks.csv", index_col="task")
    pd.testing.assert_frame_equal(again.loc[first.index], first)
    assert {path.name for path in out.iterdir()} == {
        *("ranks.csv", "verdict.csv", "ranks.png", "settings.json", "tasks")
    }
    assert pd.read_csv(out / "verdict.csv")["verdict"].tolist() == ["holds", "holds"]
    with pytest.raises(ProblemError, match="results of another run"):
        main(["-n", "40", "--points", "5", "-o", str(out)])


def test_what_is_not_calibrated_is_told_and_a_design_taken(
    toy: list[ModelReplicates],
) -> None:
    main(["-n", "20", "--design", "tests/data/cpt-lab-practice", "--points", "4"])
    assert {run.name for run in toy[-1].design.continual_runs} >= {"r25_cos_12k", HELD_OUT}
    assert toy[-1].design.curve("r25_cos_12k", "general")[0].size == 4
    with pytest.raises(SystemExit, match="Not calibrated: ranks are not uniform: mean"):
        main(["-n", "200", "--model", "pretrain"])
