from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conjugate import NormalMean
from scipy.stats import kstest
from synthetic import lab, lab_for

from bayes_cpt.inference.diagnostics import Diagnostics
from bayes_cpt.inference.geometry.whitening import SamplingError
from bayes_cpt.inference.sampling import CHAINS, Sample
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.priors.families import Fixed, Normal
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.validate.calibration import TABLES, quantity_ranks, simulated_ranks, verdict
from bayes_cpt.validate.design import HELD_OUT, design_study, held_out_run, with_runs
from bayes_cpt.validate.parallel import Pool
from bayes_cpt.validate.records import Records
from bayes_cpt.validate.replicates import RANKED, ModelReplicates, Replicate

HERE = Pool(jobs=1)
MANY = 300


def test_an_exact_posterior_is_calibrated() -> None:
    found = verdict(simulated_ranks(NormalMean(), MANY, seed=1, pool=HERE))
    assert found.passed
    assert found.problems == ()
    assert (found.simulations, found.failed, found.untrusted) == (MANY, 0, 0)
    assert found.quantities["quantity"].tolist() == ["mean", "next"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (NormalMean(widen=0.6), "mean"),
        (NormalMean(widen=1.7), "mean"),
        (NormalMean(shift=0.5), "mean"),
    ],
)
def test_a_wrong_posterior_is_found_out(wrong: NormalMean, named: str) -> None:
    found = verdict(simulated_ranks(wrong, MANY, seed=1, pool=HERE))
    assert not found.passed
    assert any(named in problem for problem in found.problems)


def test_ranks_are_counts_of_draws_below_the_truth() -> None:
    replicate = Replicate(
        {"a": 0.5, "b": 9.0, "c": 1.0}, {"a": np.array([0.1, 0.5, 0.7]), "b": np.zeros(3)}
    )
    assert replicate.ranks() == {"a": 1, "b": 3, "c": None}
    table = simulated_ranks(NormalMean(), 400, seed=2, pool=HERE)
    values = (table["mean"] + 0.5) / (RANKED + 1)
    assert kstest(values, "uniform").pvalue > 1e-3


def test_refits_that_miss_their_diagnostics_are_counted_and_their_ranks_kept() -> None:
    found = verdict(simulated_ranks(NormalMean(problems=("R-hat",)), 40, pool=HERE))
    assert (found.simulations, found.failed, found.untrusted) == (40, 0, 40)
    assert found.problems[0] == "40 of 40 refits miss their diagnostics"
    assert len(found.quantities) == 2


def test_refits_without_draws_are_counted() -> None:
    table = simulated_ranks(NormalMean(fails=4), 40, pool=HERE)
    failed = int(table["mean"].isna().sum())
    assert 0 < failed < 40
    assert len(quantity_ranks(table)) == 40 - failed
    found = verdict(table)
    assert found.failed == failed
    assert found.untrusted == 0
    assert f"{failed} of 40 refits miss their diagnostics" in found.problems
    rare = verdict(simulated_ranks(NormalMean(fails=41), 300, seed=5, pool=HERE))
    assert 0 < rare.failed < 15
    assert rare.passed


def test_without_a_single_draw_there_is_no_verdict_but_a_problem() -> None:
    found = verdict(simulated_ranks(NormalMean(fails=1), 10, pool=HERE))
    assert found.failed == 10
    assert "0 refits have ranks, too few to judge" in found.problems
    assert found.quantities.empty


def test_more_simulations_continue_fewer_and_nothing_is_done_twice(tmp_path: Path) -> None:
    def records() -> Records:
        return Records.open(tmp_path / "sbc", {"seed": 1}, TABLES)

    calls: list[int] = []

    def counting(seed: int) -> Replicate:
        calls.append(seed)
        return NormalMean()(seed)

    first = simulated_ranks(counting, 5, seed=1, pool=HERE, records=records())
    told: list[float] = []
    tell = lambda stage, share: told.append(round(share, 3))
    second = simulated_ranks(counting, 8, seed=1, pool=HERE, records=records(), progress=tell)
    assert len(calls) == len(set(calls)) == 8
    assert told == [0.625, 0.75, 0.875, 1.0]
    pd.testing.assert_frame_equal(second[:5], first, check_dtype=False)
    fewer = simulated_ranks(counting, 3, seed=1, pool=HERE, records=records())
    pd.testing.assert_frame_equal(fewer, first[:3], check_dtype=False)
    assert len(calls) == 8
    at_once = simulated_ranks(NormalMean(), 8, seed=1, pool=HERE)
    pd.testing.assert_frame_equal(second, at_once, check_dtype=False)


def test_processes_give_the_same_ranks() -> None:
    here = simulated_ranks(NormalMean(), 12, seed=1, pool=HERE)
    there = simulated_ranks(NormalMean(), 12, seed=1, pool=Pool(jobs=2))
    pd.testing.assert_frame_equal(here, there)
    other = simulated_ranks(NormalMean(), 12, seed=2, pool=HERE)
    assert (other["mean"] != here["mean"]).any()


def replicates(model: str = "cpt-replay") -> ModelReplicates:
    spec = read_spec(model)
    design = design_study(lab_for(model), spec, points=4)
    return ModelReplicates(spec, with_runs(design, [held_out_run(design)]), (HELD_OUT,))


def prior_sample(density: object, seed: int, *, frame_of: ModelReplicates, **_: object) -> Sample:
    """Stand in for the sampler: draws of the prior, whatever the data."""
    frame = build_setup(frame_of.spec, frame_of.design).frame
    draws = draw_priors(frame, CHAINS * 50, seed)
    values = {name: value.reshape(CHAINS, 50, *value.shape[1:]) for name, value in draws.items()}
    good = Diagnostics({}, {}, {}, 0, 0, ())
    return Sample(values, {"diverging": np.zeros((CHAINS, 50))}, good)


@pytest.mark.parametrize("model", sorted(shipped_models()))
def test_every_sampled_parameter_and_the_held_out_run_are_ranked(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replicates(model)
    monkeypatch.setattr("bayes_cpt.inference.sampling.sample", partial(prior_sample, frame_of=own))
    monkeypatch.setattr("bayes_cpt.inference.density.density_of", lambda setup: setup)
    monkeypatch.setattr("bayes_cpt.model.build.model_of", lambda setup: setup)
    found = own(3)
    frame = build_setup(own.spec, own.design).frame
    expected = set()
    for name, info in frame.parameters().items():
        prior = own.spec.priors[name]
        if info.dims is None:
            if not isinstance(prior.of(None), Fixed):
                expected.add(name)
        else:
            expected |= {f"{name}[{domain}]" for domain in frame.coords()[info.dims]}
    ends = {
        f"{what}[{HELD_OUT}, {domain}]"
        for what in ("final law", "final loss")
        for domain in frame.domains
    }
    assert set(found.truth) == set(found.draws) == expected | ends
    assert all(draws.shape == (RANKED,) for draws in found.draws.values())
    assert all(0 <= (rank or 0) <= RANKED for rank in found.ranks().values())
    assert own(3).ranks() == found.ranks()
    assert own(4).ranks() != found.ranks()


def test_the_prior_in_place_of_the_posterior_has_uniform_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # SBC is blind to it by design; it shows that truths are draws of the prior that is ranked against.
    own = replicates("pretrain")
    monkeypatch.setattr("bayes_cpt.inference.sampling.sample", partial(prior_sample, frame_of=own))
    monkeypatch.setattr("bayes_cpt.inference.density.density_of", lambda setup: setup)
    monkeypatch.setattr("bayes_cpt.model.build.model_of", lambda setup: setup)
    found = verdict(simulated_ranks(own, 30, seed=1, pool=HERE))
    assert found.passed


def test_a_fit_that_cannot_be_sampled_is_a_failed_replicate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SamplingError("The density is not finite.")

    own = replicates("pretrain")
    monkeypatch.setattr("bayes_cpt.inference.sampling.sample", fails)
    monkeypatch.setattr("bayes_cpt.inference.density.density_of", lambda setup: setup)
    monkeypatch.setattr("bayes_cpt.model.build.model_of", lambda setup: setup)
    found = own(1)
    assert found.draws == {}
    assert found.problems == ("The density is not finite.",)
    assert set(found.ranks().values()) == {None}


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


def test_ranks_stay_uniform_where_studies_are_refused_by_their_data() -> None:
    generator = np.random.default_rng(7)
    ranks: list[float] = []
    while len(ranks) < 500:
        mean = generator.standard_normal()
        data = mean + 2.0 * generator.standard_normal(5)
        if data.min() < -2.0:
            continue
        precision = 1.0 + 5 / 4.0
        draws = data.sum() / 4.0 / precision + generator.standard_normal(RANKED) / precision**0.5
        ranks.append((np.sum(draws < mean) + 0.5) / (RANKED + 1))
    assert kstest(ranks, "uniform").pvalue > 1e-3
