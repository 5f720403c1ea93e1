from dataclasses import replace

import numpy as np
import pytest
from batch_family import BATCHES, MODEL, NEW, continued, family, plan
from interpreted import generated_likelihoods
from open_weights import open_study
from synthetic import lab
from target_family import several

from bayes_cpt.errors import SpecError, StudyError, StudyWarning
from bayes_cpt.model.elements import elements
from bayes_cpt.model.groups.batches import run_batch
from bayes_cpt.model.log_densities import log_densities, log_priors
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.study import Study

SPEC = read_spec(MODEL)


@pytest.mark.parametrize("study", [lab(), family(BATCHES[:1])], ids=["none said", "one"])
def test_with_one_batch_the_model_is_the_one_without_batches(study: Study) -> None:
    plain, own = (build_setup(read_spec(name), study) for name in ("cpt-replay", MODEL))
    assert own.frame.batches == ()
    assert own.frame.pooled == ()
    assert own.frame.spec.law == plain.frame.spec.law
    assert own.frame.parameters() == plain.frame.parameters()
    drawn = draw_priors(plain.frame, 3, seed=1)
    for density in (log_priors(plain.frame, drawn), log_priors(own.frame, drawn)):
        assert set(density) == set(log_priors(plain.frame, drawn))
    np.testing.assert_array_equal(
        log_densities(plain.frame, drawn, plain.curves),
        log_densities(own.frame, drawn, own.curves),
    )


def test_batches_that_do_not_differ_lie_on_the_law_without_them() -> None:
    study = family()
    own = build_setup(SPEC, study)
    message = "batch sizes 65536 to 131072 and sequence lengths 512 to 1024.*cpt-replay-batch"
    with pytest.warns(StudyWarning, match=message):
        plain = build_setup(read_spec("cpt-replay"), study)
    drawn = draw_priors(own.frame, 10, seed=3)
    without = {name: drawn[name] for name in plain.frame.parameters()}
    for name in own.frame.pooled:
        without[name] = drawn[name][:, :: len(BATCHES)]
        drawn[name] = np.repeat(without[name], len(BATCHES), axis=1)
    np.testing.assert_allclose(
        expected_loss(own.frame, drawn, own.curves),
        expected_loss(plain.frame, without, plain.curves),
        rtol=1e-13,
    )


def test_generated_and_written_laws_agree_on_batches() -> None:
    setup = build_setup(SPEC, family(measured=5))
    assert setup.frame.batches == BATCHES
    drawn = draw_priors(setup.frame, 2, seed=4)
    found, slopes = generated_likelihoods(setup, drawn)
    np.testing.assert_allclose(found, log_densities(setup.frame, drawn, setup.curves), rtol=1e-8)
    # Each curve hangs on the shift of its own batch and validation set alone.
    own = [(each.name, each.member) for each in elements(setup.frame)]
    member = setup.frame.coords()["batch_domain"].index("target, batch 131072 x1024")
    moved = slopes[0, :, own.index(("shift_rate", member))] != 0.0
    assert moved.tolist() == [
        curve.domain == "target" and curve.run.startswith("131072x1024")
        for curve in setup.curves.curves
    ]


def test_runs_that_do_not_say_their_batch_are_named_with_the_fix() -> None:
    study = family()
    runs = tuple(
        replace(run, sequence_length=None) if run.name == "131072x512_0" else run
        for run in study.runs
    )
    message = r"run 131072x512_0, key sequence_length: .* Add sequence_length = "
    with pytest.raises(StudyError, match=message):
        build_setup(SPEC, replace(study, runs=runs))


def test_a_base_of_unknown_pre_training_is_refused() -> None:
    study = open_study()
    runs = tuple(
        replace(run, batch_tokens=1e6 * (1 + place % 2)) for place, run in enumerate(study.runs)
    )
    with pytest.raises(StudyError, match="compares batches"):
        build_setup(SPEC, replace(study, runs=runs))


def test_several_targets_and_several_batches_are_refused() -> None:
    study = several()
    runs = tuple(
        replace(run, batch_tokens=1e6 * (1 + place % 2)) for place, run in enumerate(study.runs)
    )
    with pytest.raises(StudyError, match="compares batches of one"):
        build_setup(SPEC, replace(study, runs=runs))


def test_what_a_plan_does_not_say_is_as_in_the_study_if_its_runs_agree() -> None:
    known = (Batch(1e5, 512), Batch(2e5, 512))
    run = continued("asked", Batch(4e5))
    assert run_batch(plan(run), run, known) == Batch(4e5, 512)
    assert run_batch(plan(run), run, ()) is None
    silent = continued("asked", Batch(None, 512))
    message = "run asked, key batch_tokens: .*fitted runs have 100000 to 200000.*batch_tokens = "
    with pytest.raises(StudyError, match=message):
        run_batch(plan(silent), silent, known)
    # A plan may say what all its runs take.
    whole = replace(plan(silent), tokens_per_step=4e5)
    assert run_batch(whole, silent, known) == Batch(4e5, 512)


def test_a_law_without_a_shift_has_no_batches() -> None:
    table = {"name": "x", "law": {"terms": ["power", "annealing"], "batches": True}, "priors": {}}
    with pytest.raises(SpecError, match="name the term shift"):
        parse_spec(table, "x.toml")


def test_groups_are_called_by_what_sets_them_apart() -> None:
    assert NEW.words == "batch of 524288 tokens in sequences of 1024"
    assert Batch(4e6).words == "batch of 4e+06 tokens"
