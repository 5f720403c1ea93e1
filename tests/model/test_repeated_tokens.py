"""A law that discounts repeated tokens: reduction, points, and what it asks of a study."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import lab, lab_for, lab_posterior

from bayes_cpt import bands, decide, read_spec
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.identify.determination import identifiability
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.resources import UniqueTokens

MODEL = "cpt-replay-repeats"


def test_with_data_that_last_the_law_is_the_one_without_the_option() -> None:
    """To the last bit the curves of cpt-replay where no run goes through its data twice."""
    lasting = replace(lab(), unique_tokens=UniqueTokens(target=1e9))
    drawn = draw_priors(build_setup(read_spec(MODEL), lab_for(MODEL)).frame, 20, seed=3)
    setups = build_setup(read_spec(MODEL), lasting), build_setup(read_spec("cpt-replay"), lab())
    found, wanted = (
        expected_loss(own.frame, {name: drawn[name] for name in own.frame.parameters()}, own.curves)
        for own in setups
    )
    np.testing.assert_array_equal(found, wanted)


def test_a_study_that_says_nothing_of_its_data_is_refused() -> None:
    with pytest.raises(StudyError, match=r"unique_tokens: .*Add unique_tokens = \{ target"):
        build_setup(read_spec(MODEL), lab())
    first, *others = lab_for(MODEL).runs
    runs = (first, *(replace(run, batch_tokens=1024.0 + place) for place, run in enumerate(others)))
    with pytest.raises(StudyError, match=r"take 10.* tokens.*one batch"):
        build_setup(read_spec(MODEL), replace(lab_for(MODEL), runs=runs))


def test_other_data_than_those_of_the_fit_are_refused() -> None:
    posterior = lab_posterior(MODEL)
    other = replace(lab(), unique_tokens=UniqueTokens(target=1e9), is_plan=True)
    with pytest.raises(StudyError, match="knows the data that it was fitted to"):
        bands(posterior, other)
    space = {"unique_tokens": {"target": 1e9}, "replay": 0.5}
    with pytest.raises(SpecError, match="its target data last 488281 steps, and those of the fit"):
        decide(posterior, "balanced", space, draws=40, candidates=16)


@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@pytest.mark.parametrize(("unique", "told"), [(1e9, False), (2e5, True)])
def test_only_runs_that_repeat_tell_what_a_repeat_is_worth(unique: float, *, told: bool) -> None:
    study = lab_for(MODEL)
    study = replace(study, unique_tokens=UniqueTokens(target=unique))
    table = identifiability(study, read_spec(MODEL))
    rows = table[table["quantity"] == "repeat_constant"].set_index("domain")
    if told:
        assert (rows["contraction"] > 0.5).any()
    else:
        np.testing.assert_allclose(rows["contraction"], 0.0, atol=1e-6)
