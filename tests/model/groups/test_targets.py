from dataclasses import replace

import numpy as np
import pytest
from interpreted import generated_likelihoods
from synthetic import lab
from target_family import BASE, RUNS, TARGETS, continued, several

from bayes_cpt.errors import StudyError
from bayes_cpt.model.build import build_model
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study

SPEC = read_spec("cpt-replay")


def test_one_target_named_as_a_list_is_the_model_of_one_target() -> None:
    study = lab()
    listed = replace(study, target=study.targets)
    assert listed.digest() == study.digest()
    plain, other = (build_setup(SPEC, own) for own in (study, listed))
    assert other.frame.spec == SPEC
    drawn = draw_priors(plain.frame, 3, seed=1)
    np.testing.assert_array_equal(
        log_densities(plain.frame, drawn, plain.curves),
        log_densities(other.frame, drawn, other.curves),
    )
    assert not build_model(listed, SPEC).potentials


def test_runs_on_their_own_target_lie_on_the_law_of_one_target() -> None:
    """With no data of others and no factor of forgetting the law of several is that of each alone."""
    both = build_setup(SPEC, several(runs=RUNS[:2] + RUNS[2:5]))
    alone = build_setup(SPEC, several(("code",), runs=RUNS[:5]))
    drawn = draw_priors(both.frame, 5, seed=2)
    drawn["forgetting_factor"] = np.ones_like(drawn["forgetting_factor"])
    infos, along = alone.frame.parameters(), both.frame.coords()
    single = {}
    for name, info in infos.items():
        kept = (
            [along[info.dims].index(own) for own in alone.frame.coords()[info.dims]]
            if info.dims
            else None
        )
        single[name] = drawn[name] if kept is None else drawn[name][:, kept]
    curves = both.curves.curves
    rows = [curves[k].domain in ("web", "code") for k in both.curves.points.curve_index]
    np.testing.assert_allclose(
        expected_loss(both.frame, drawn, both.curves)[:, rows],
        expected_loss(alone.frame, single, alone.curves),
        rtol=1e-9,
    )


def test_generated_and_written_laws_agree_on_mixtures() -> None:
    setup = build_setup(SPEC, several())
    drawn = draw_priors(setup.frame, 3, seed=4)
    np.testing.assert_allclose(
        generated_likelihoods(setup, drawn)[0],
        log_densities(setup.frame, drawn, setup.curves),
        rtol=1e-8,
    )


def test_what_targets_share_in_part_is_named() -> None:
    frame = build_setup(SPEC, several()).frame
    assert frame.domains == ("web", *TARGETS)
    assert frame.roles == ("general", "target", "target", "target")
    assert {"shift_share", "exponent", "annealing_gain", "misfit_cpt"} <= set(frame.pooled)
    assert "reference_loss" not in frame.pooled
    assert "replay_onset" not in frame.pooled


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (None, r"run x, key targets: the study has 3 targets, .* Write targets = \"code\""),
        ("cod", r"trains on 'cod', which is no target of the study \(did you mean 'code'\?\)"),
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


def test_general_among_the_targets_is_refused() -> None:
    with pytest.raises(StudyError, match="general and target are both 'web'"):
        replace(several(), target=("web", "code", "law", "news"))


def test_a_law_without_a_factor_of_shares_says_what_to_use() -> None:
    with pytest.raises(StudyError, match=r"it has 3 targets, .* Use --model cpt-replay"):
        build_setup(read_spec("cpt"), replace(several(runs=RUNS[:3])))
