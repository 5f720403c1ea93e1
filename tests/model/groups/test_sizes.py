from dataclasses import replace

import numpy as np
import pytest
from open_weights import open_study
from size_family import family, simulated
from synthetic import lab

from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec


def pretrained(model: str = "pretrain-sizes") -> Setup:
    return build_setup(read_spec(model), family(continual=False))


def test_reference_size_is_the_geometric_mean() -> None:
    setup = build_setup(read_spec("cpt-replay-sizes"), family())
    assert setup.frame.sizes == (20.0, 80.0, 320.0)
    assert setup.frame.reference.model_size == pytest.approx(80.0)
    assert setup.frame.typical_size == 80.0
    labels = [member.label for member in setup.frame.members("size_domain")]
    assert labels[:4] == ["general, 20M", "general, 80M", "general, 320M", "target, 20M"]


def test_points_say_their_size_and_its_place() -> None:
    setup = build_setup(read_spec("cpt-replay-sizes"), family())
    points = setup.curves.points
    for curve, named in enumerate(setup.curves.curves):
        rows = points.curve_index == curve
        size = float(named.run.split("_")[1])
        np.testing.assert_allclose(points.log_size[rows], np.log(size / 80.0), atol=1e-12)
        place = 3 * (named.domain == "target") + [20.0, 80.0, 320.0].index(size)
        assert set(points.size_member[rows]) == {place}


def test_without_sizes_the_law_is_the_one_without_the_option() -> None:
    """One size, no deviation: to the last bit the curves of the model without sizes."""
    study = lab()
    plain, sized = (build_setup(read_spec(f"cpt-replay{end}"), study) for end in ("", "-sizes"))
    drawn = draw_priors(sized.frame, 20, seed=3)
    drawn |= {name: 0.0 * drawn[name] for name in ("size_deviation", "annealing_deviation")}
    without = {name: drawn[name] for name in plain.frame.parameters()}
    np.testing.assert_array_equal(
        expected_loss(sized.frame, drawn, sized.curves),
        expected_loss(plain.frame, without, plain.curves),
    )


def test_models_without_the_option_have_no_parameter_of_size() -> None:
    frame = build_setup(read_spec("cpt-replay"), lab()).frame
    assert frame.sizes == ()
    assert "size_domain" not in frame.coords()
    assert frame.reference.model_size == 1.0
    added = set(read_spec("cpt-replay-sizes").priors) - set(read_spec("cpt-replay").priors)
    assert set(frame.parameters()).isdisjoint(added)


def test_runs_without_a_size_are_named_with_the_fix() -> None:
    study = family(continual=False)
    runs = tuple(
        replace(run, model_size=None) if run.name == "trunk_80" else run for run in study.runs
    )
    with pytest.raises(StudyError, match=r"run trunk_80, key model_size: .* Add model_size = "):
        build_setup(read_spec("pretrain-sizes"), replace(study, runs=runs))


def test_a_base_without_a_size_is_named_with_the_fix() -> None:
    study = family()
    bases = tuple(replace(base, model_size=None) for base in study.bases)
    with pytest.raises(StudyError, match="base base_20, key model_size"):
        build_setup(read_spec("cpt-replay-sizes"), replace(study, bases=bases))


def test_mixed_sizes_are_warned_of_where_the_law_has_none() -> None:
    with pytest.warns(StudyWarning, match="20 to 320.*cpt-replay-sizes"):
        pretrained("pretrain")


def test_a_base_of_unknown_pre_training_is_refused() -> None:
    with pytest.raises(StudyError, match="compares it by model size"):
        build_setup(read_spec("cpt-replay-sizes"), open_study())


def test_simulated_losses_fall_with_size() -> None:
    frame = pretrained().frame
    middle = {n: np.median(v, axis=0)[None] for n, v in draw_priors(frame, 999, seed=0).items()}
    losses = simulated(family(continual=False), middle, "pretrain-sizes", 1).losses
    last = losses[losses["run"].str.startswith("annealed")].groupby("run")["loss"].last()
    assert last["annealed_20"] > last["annealed_80"] > last["annealed_320"]
