from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch_family import BATCHES, MODEL, NEW, batched, continued, family
from batch_family import plan as batch_plan
from size_family import BIG, family_posterior, plan
from synthetic import lab_posterior, prior_as_posterior

from bayes_cpt import Posterior, Run, Study, bands, load, read_spec
from bayes_cpt.errors import StudyError
from bayes_cpt.study.batches import Batch


def pretraining(*sizes: float) -> Study:
    return plan(*(Run(f"size_{size:g}", "pt", BIG, model_size=size) for size in sizes))


def test_a_new_size_comes_from_the_population_and_leaves_the_known_ones() -> None:
    posterior = family_posterior()
    extended = posterior.with_new_sizes([700.0])
    before, after = posterior.parameters(), extended.parameters()
    places = [0, 1, 2, 3, 5, 6, 7, 8]
    for name in ("size_deviation", "annealing_deviation"):
        np.testing.assert_array_equal(after[name][:, places], before[name])
        assert extended.members(name)[4] == "general, 700M"
    new = np.stack([after[n][:, [4, 9]] for n in ("size_deviation", "annealing_deviation")])
    # Standard normal, and four different series.
    assert abs(new.std() - 1.0) < 4 / np.sqrt(2 * new.size)
    alike = np.corrcoef(new.transpose(0, 2, 1).reshape(4, -1))
    assert np.abs(alike - np.eye(4)).max() < 0.5
    again = posterior.with_new_sizes([20.0, 700.0]).parameters()
    np.testing.assert_array_equal(again["size_deviation"], after["size_deviation"])


def test_forecasts_of_a_new_size_are_flagged_and_wider_the_further_it_lies() -> None:
    table = bands(family_posterior(), pretraining(80.0, 320.0, 1300.0, 20_000.0), "expected")
    ends = table[(table["domain"] == "general") & (table["step"] == BIG.steps)].set_index("run")
    assert ends["sd"].is_monotonic_increasing
    notes = ends["outside"]
    assert "model size" not in notes["size_80"]
    assert "model size 1300M, studied 20M to 320M" in notes["size_1300"]
    between = bands(family_posterior(), pretraining(160.0), "expected")
    assert "model size 160M, which no studied run has" in between["outside"].iloc[-1]


def test_a_law_without_size_refuses_another_size() -> None:
    posterior = lab_posterior()
    assert posterior.with_new_sizes([0.443, None]) is posterior
    run = replace(posterior.study.continual_runs[0], name="other", model_size=None)
    base = replace(posterior.study.base(str(run.base)), run=None, model_size=106.0)
    blank = posterior.study.losses.iloc[:0]
    asked = replace(posterior.study, bases=(base,), runs=(run,), losses=blank, is_plan=True)
    with pytest.raises(StudyError, match=r"model_size is 106.*cpt-replay-sizes"):
        bands(posterior, asked)


def test_a_new_batch_comes_from_the_population_and_leaves_the_known_ones() -> None:
    posterior = prior_as_posterior(family(), MODEL, spread=1.0)
    runs = [continued("old", BATCHES[2]), continued("new", NEW)]
    assert posterior.with_new_groups(batch_plan(runs[0]), runs[:1]) is posterior
    known = posterior.with_new_groups(batch_plan(*runs), runs)
    assert known.frame.batches == (*BATCHES, NEW)
    before, after = posterior.parameters(), known.parameters()
    for name in posterior.frame.pooled:
        np.testing.assert_array_equal(after[name][:, [0, 1, 2, 4, 5, 6]], before[name])
        assert known.members(name)[3] == "general, batch 524288 x1024"
    # As near to the others as these are to each other, and not the same.
    rates = np.log(after["shift_rate"][:, 4:])
    apart = np.abs(rates[:, 3] - rates[:, :3].mean(axis=1)).mean()
    assert 0.5 < apart / rates[:, :3].std(axis=1, ddof=1).mean() < 2.5
    again = posterior.with_new_groups(batch_plan(runs[1]), runs[1:]).parameters()
    np.testing.assert_array_equal(again["shift_share"], after["shift_share"])


def test_forecasts_of_a_new_batch_are_flagged_and_wider() -> None:
    asked = batch_plan(continued("old", BATCHES[0]), continued("new", NEW))
    table = bands(batched(), asked, "expected")
    ends = table[(table["domain"] == "target") & (table["step"] == 1000)].set_index("run")
    assert ends["sd"]["new"] > ends["sd"]["old"]
    assert ends["outside"]["old"] == ""
    assert ends["outside"]["new"] == "batch size 524288, studied 65536 to 131072"


@pytest.mark.parametrize("batch", [BATCHES[1], NEW])
def test_the_law_in_one_batch_is_the_law_of_that_batch(batch: Batch) -> None:
    asked = batch_plan(continued("asked", batch, 0.3))
    settled = batched().in_batch(batch)
    assert settled.frame.spec.law == read_spec("cpt-replay").law
    assert settled.batch == batch
    assert settled.as_fitted is batched()
    np.testing.assert_allclose(
        bands(settled, asked, "expected")["mean"],
        bands(batched(), asked, "expected")["mean"],
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("made", "name", "member"),
    [
        (family_posterior, "size_deviation", "general, 20M"),
        (batched, "q_E", "general, batch 65536 x512"),
    ],
)
def test_a_fit_file_keeps_its_groups(
    made: Callable[[], Posterior], name: str, member: str, tmp_path: Path
) -> None:
    posterior = made()
    posterior.save(tmp_path / "fit.nc")
    read = load(tmp_path / "fit.nc")
    assert (read.frame.sizes, read.frame.batches) == (
        posterior.frame.sizes,
        posterior.frame.batches,
    )
    assert read.frame.reference == posterior.frame.reference
    assert read.members(name)[0] == member
    for parameter, values in posterior.parameters().items():
        np.testing.assert_array_equal(read.parameters()[parameter], values)
