"""Batches, model sizes and targets: what they make of a specification, and the laws they reduce to."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import batch_family
import numpy as np
import pytest
import size_family
from open_weights import open_study
from synthetic import lab
from target_family import BASE, RUNS, TARGETS, continued, several

from bayes_cpt import Run, Study, build_model, read_spec
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.groups import run_batch
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.schedules import cosine

REPLAY, BATCH, SIZE = (read_spec(f"cpt-replay{end}") for end in ("", "-batch", "-sizes"))
BATCHES, PEAKS = batch_family.BATCHES, tuple(size_family.PEAKS)


def law_losses(setup: Setup, parameters: dict[str, np.ndarray]) -> np.ndarray:
    return expected_loss(setup.frame, parameters, setup.curves)


def with_run(study: Study, name: str | None, **changes: Any) -> Study:
    """Return the study with something of one run changed, or of every run."""
    runs = (replace(run, **changes) if name in (None, run.name) else run for run in study.runs)
    return replace(study, runs=tuple(runs))


def two_batches(study: Study) -> Study:
    runs = (replace(run, batch_tokens=1e6 * (1 + k % 2)) for k, run in enumerate(study.runs))
    return replace(study, runs=tuple(runs))


# --- the laws that they reduce to -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "model"),
    [
        (lab(), "cpt-replay-batch"),
        (batch_family.family(BATCHES[:1]), "cpt-replay-batch"),
        (replace(lab(), target=lab().targets), "cpt-replay"),
    ],
    ids=["no batch given", "one batch", "a list of one target"],
)
def test_with_one_group_the_model_is_the_one_without_groups(study: Study, model: str) -> None:
    plain = build_setup(REPLAY, replace(study, target=study.targets[0]))
    own = build_setup(read_spec(model), study)
    assert (own.frame.batches, own.frame.pooled) == ((), ())
    assert own.frame.spec.law == plain.frame.spec.law
    assert own.frame.parameters() == plain.frame.parameters()
    assert not build_model(study, read_spec(model)).potentials
    drawn = draw_priors(plain.frame, 3, seed=1)
    wanted, found = (log_densities(each.frame, drawn, each.curves) for each in (plain, own))
    np.testing.assert_array_equal(found, wanted)


def test_batches_that_do_not_differ_lie_on_the_law_without_them() -> None:
    study = batch_family.family()
    own = build_setup(BATCH, study)
    assert own.frame.batches == BATCHES
    message = "batch sizes 65536 to 131072 and sequence lengths 512 to 1024.*cpt-replay-batch"
    with pytest.warns(StudyWarning, match=message):
        plain = build_setup(REPLAY, study)
    drawn = draw_priors(own.frame, 10, seed=3)
    without = {name: drawn[name] for name in plain.frame.parameters()}
    for name in own.frame.pooled:
        without[name] = drawn[name][:, :: len(BATCHES)]
        drawn[name] = np.repeat(without[name], len(BATCHES), axis=1)
    np.testing.assert_allclose(law_losses(own, drawn), law_losses(plain, without), rtol=1e-13)


def test_without_sizes_the_law_is_the_one_without_the_option() -> None:
    """One size, no deviation, no damage: to the last bit the curves of the model without sizes."""
    plain, sized = (build_setup(spec, lab()) for spec in (REPLAY, SIZE))
    drawn = draw_priors(sized.frame, 20, seed=3)
    none = ("size_deviation", "annealing_deviation", "damage", "target_forgetting")
    drawn |= dict.fromkeys(none, np.zeros((20, 2)))
    without = {name: drawn[name] for name in plain.frame.parameters()}
    np.testing.assert_array_equal(law_losses(sized, drawn), law_losses(plain, without))
    assert "size_domain" not in plain.frame.coords()


# --- what they are --------------------------------------------------------------------------------


def test_sizes_have_a_reference_and_each_point_its_own() -> None:
    setup = build_setup(SIZE, size_family.family())
    frame, points = setup.frame, setup.curves.points
    assert frame.sizes == PEAKS
    assert frame.reference.model_size == pytest.approx(80.0)
    assert frame.typical_size == 80.0
    labels = [member.label for member in frame.members("size_domain")]
    assert labels[:4] == ["general, 20M", "general, 80M", "general, 320M", "target, 20M"]
    for curve, named in enumerate(setup.curves.curves):
        rows = points.curve_index == curve
        size = float(named.run.split("_")[1])
        np.testing.assert_allclose(points.log_size[rows], np.log(size / 80.0), atol=1e-12)
        place = 3 * (named.domain == "target") + PEAKS.index(size)
        assert set(points.size_member[rows]) == {place}


def test_a_run_that_does_not_say_its_batch_has_that_of_its_size_or_of_the_line_over_sizes() -> None:
    study = size_family.family()
    known = build_setup(SIZE, study).frame.batch_sizes
    tokens = size_family.TOKENS
    mean = np.mean(np.log(list(tokens.values())))

    def share(base: str, size: float, said: float | None = None) -> float:
        run = Run("asked", "cpt", cosine(100, 1e-3), base, 0.3, model_size=size, batch_tokens=said)
        large = replace(size_family.LARGE, model_size=1280.0)
        return known.log_share(size_family.plan(run, bases=(*study.bases, large)), run)

    assert share("base_20", 20.0, said=1e6) == pytest.approx(np.log(1e6) - mean)
    assert share("base_20", 20.0) == pytest.approx(np.log(tokens[20.0]) - mean)
    # Over the logs of sizes the batches of the family rise by a factor of 8 from 20M to 320M on the whole.
    slope = np.polyfit(np.log(list(tokens)), np.log(list(tokens.values())), 1)[0]
    assert slope * np.log(320 / 20) == pytest.approx(np.log(8.0))
    assert share("large", 1280.0) == pytest.approx(slope * np.log(1280 / 80))


def test_what_batch_sizes_change_is_free_where_they_differ() -> None:
    study = size_family.family()
    silent, alike = (with_run(study, None, batch_tokens=tokens) for tokens in (None, 65536))
    unsaid, one, several = (
        build_setup(SIZE, own).frame.spec.priors for own in (silent, alike, study)
    )
    assert "annealing_by_batch" not in unsaid
    assert one["annealing_by_batch"].of(None) == Fixed(value=-0.3)
    assert several["annealing_by_batch"].of(None).is_free


def test_what_targets_share_in_part_is_named() -> None:
    frame = build_setup(REPLAY, several()).frame
    assert frame.domains == ("web", *TARGETS)
    assert frame.roles == ("general", "target", "target", "target")
    assert {"shift_share", "exponent", "annealing_gain", "misfit_cpt"} <= set(frame.pooled)
    assert {"reference_loss", "replay_onset"}.isdisjoint(frame.pooled)


def test_what_a_plan_does_not_say_of_its_batch_is_as_in_the_study_if_its_runs_agree() -> None:
    known = (Batch(1e5, 512), Batch(2e5, 512))
    said, silent = (batch_family.continued("asked", own) for own in (Batch(4e5), Batch(None, 512)))
    plan = batch_family.plan(said)
    assert run_batch(plan, said, known) == Batch(4e5, 512)
    assert run_batch(plan, said, ()) is None
    message = "run asked, key batch_tokens: .*fitted runs have 100000 to 200000.*batch_tokens = "
    with pytest.raises(StudyError, match=message):
        run_batch(plan, silent, known)
    # A plan may say what all its runs take.
    assert run_batch(replace(plan, tokens_per_step=4e5), silent, known) == Batch(4e5, 512)


# --- what is refused ------------------------------------------------------------------------------


def without_base_size() -> Study:
    study = size_family.family()
    return replace(study, bases=tuple(replace(base, model_size=None) for base in study.bases))


@pytest.mark.parametrize(
    ("study", "model", "message"),
    [
        (
            lambda: with_run(batch_family.family(), "131072x512_0", sequence_length=None),
            "cpt-replay-batch",
            r"run 131072x512_0, key sequence_length: .* Add sequence_length = ",
        ),
        (lambda: two_batches(open_study()), "cpt-replay-batch", "compares batches"),
        (lambda: two_batches(several()), "cpt-replay-batch", "compares batches of one"),
        (
            lambda: with_run(size_family.family(continual=False), "trunk_80", model_size=None),
            "pretrain-sizes",
            r"run trunk_80, key model_size: .* Add model_size = ",
        ),
        (without_base_size, "cpt-replay-sizes", "base base_320, key model_size"),
        (open_study, "cpt-replay-sizes", "compares it by model size"),
        (lambda: several(runs=RUNS[:3]), "cpt", r"it has 3 targets, .* Use --model cpt-replay"),
    ],
)
def test_a_study_that_a_law_cannot_take_is_answered_with_the_fix(
    study: Callable[[], Study], model: str, message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        build_setup(read_spec(model), study())


def test_mixed_sizes_are_warned_of_where_the_law_has_none() -> None:
    with pytest.warns(StudyWarning, match="20M to 320M.*pretrain-sizes"):
        build_setup(read_spec("pretrain"), size_family.family(continual=False))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (None, r"run x, key targets: of 3 targets nothing says which .* Write targets = \"code\""),
        ("cod", r"trains on 'cod', which is not a target of the study \(did you mean 'code'\?\)"),
        (
            {"code": 0.7, "law": 0.7},
            r"key targets: the shares add up to 1.4, not 1\. Write targets",
        ),
        ({"code": 1.7}, r"the share of code is 1.7, outside 0 to 1"),
    ],
)
def test_wrong_mixtures_are_answered_with_the_fix(targets: object, message: str) -> None:
    losses = several().losses
    with pytest.raises(StudyError, match=message):
        Study("x", "web", TARGETS, (BASE,), (continued("x", targets),), losses[:0], is_plan=True)  # type: ignore[arg-type]
