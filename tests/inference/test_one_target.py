"""One of several targets: its law, its study, and what is told of it, against the law of all of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from synthetic import prior_as_posterior
from target_family import BASE, RUNS, TARGETS, continued, several

from bayes_cpt import Posterior, Study, bands
from bayes_cpt.errors import StudyError
from bayes_cpt.inference.posterior import stack
from bayes_cpt.model.groups import study_of_target

# A target that no run trains on alone is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")

RUN = continued("planned", "law", 0.3, steps=1500)


@cache
def posterior() -> Posterior:
    """Return a posterior of three targets and one that only a mixture trains on; it costs no sampling."""
    mixed = continued("rare", {"code": 0.5, "unseen": 0.5}, 0.1)
    study = several((*TARGETS, "unseen"), (*RUNS, mixed))
    return prior_as_posterior(study, "cpt-replay", spread=0.6)


def plan_for(study: Study) -> Study:
    blank = study.losses[:0]
    base = replace(BASE, run=None)
    return Study("plan", "web", study.target, (base,), (RUN,), blank, is_plan=True)


@pytest.mark.parametrize("kind", ["expected", "new_run"])
def test_runs_on_one_target_are_forecast_as_by_the_law_of_all(kind: str) -> None:
    one = posterior().of_target("law")
    assert not np.allclose(posterior().parameters()["forgetting_factor"][:, 2], 1.0, atol=0.05)
    every = bands(posterior(), plan_for(posterior().study), kind, draws=60)  # type: ignore[arg-type]
    alone = bands(one, plan_for(one.study), kind, draws=60)  # type: ignore[arg-type]
    assert set(alone["domain"]) == {"web", "law"}
    both = alone.merge(every, on=["run", "step", "domain"], suffixes=("", "_every"))
    assert len(both) == len(alone)
    for column in ("mean", "lower", "upper", "sd"):
        np.testing.assert_allclose(both[column], both[f"{column}_every"], rtol=1e-6, atol=1e-9)


def test_its_study_has_the_runs_on_it_and_what_was_measured_of_their_bases() -> None:
    study = posterior().study
    rows = study.losses
    # Measured in a run on another target alone.
    elsewhere = (rows["run"] == "code_0") & (rows["step"] == 0) & (rows["domain"] == "law")
    moved = rows.assign(loss=rows["loss"].where(~elsewhere, 7.0))
    others = (rows["run"] != "code_0") & (rows["step"] == 0) & (rows["domain"] == "law")
    study = replace(study, losses=moved[~others])
    own = study_of_target(study, "law")
    assert own.targets == ("law",)
    assert [run.name for run in own.runs] == ["trunk", "annealed", "law_0", "law_0.3", "law_0.6"]
    assert own.base_loss("base", "law") == study.base_loss("base", "law") == 7.0
    steps, losses = own.curve("law_0.3", "law")
    np.testing.assert_array_equal(losses[1:], study.curve("law_0.3", "law")[1])
    assert steps[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"4 targets, and landmarks is for one only.*--target code.*of_target\('code'\)"),
        ("cod", r"there is no target 'cod' .*did you mean 'code'.*Name one of code, law"),
        ("unseen", r"no run trains on unseen alone.*[Nn]ame another target, or add a run"),
    ],
)
def test_what_is_not_there_is_answered_with_the_fix(name: str | None, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        posterior().of_target(name, "landmarks")


def test_a_stack_has_each_law_of_that_target() -> None:
    study = posterior().study
    laws = {"one": posterior(), "two": prior_as_posterior(study, "cpt-replay-printed")}
    both = stack(laws, {"one": 0.5, "two": 0.5}, 0).of_target("law")
    assert both.frame.domains == ("web", "law")
    found = bands(both, plan_for(both.study), "expected", draws=60)
    every = bands(stack(laws, {"one": 0.5, "two": 0.5}, 0), plan_for(study), "expected", draws=60)
    every = every[every["domain"].isin(["web", "law"])].reset_index(drop=True)
    np.testing.assert_allclose(found["mean"], every["mean"], rtol=1e-6)
