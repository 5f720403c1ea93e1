import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from synthetic import prior_as_posterior
from target_family import BASE, TARGETS, continued, several

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.next_run.next_run import next_run
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.errors import SpecError, StudyError, StudyWarning
from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.survey import survey
from bayes_cpt.study.study import Study

MIXTURES = ["code", {"code": 0.5, "law": 0.5}, {"law": 0.25, "news": 0.75}]
SPACE = {"replay": 0.2, "peak": 2e-3, "final": 0, "steps": 1000, "targets": MIXTURES}


@cache
def posterior() -> Posterior:
    """Return a posterior of a study with a target that no run trains on; it costs no sampling."""
    study = replace(several(), target=(*TARGETS, "unseen"))
    return prior_as_posterior(study, "cpt-replay")


@pytest.fixture(autouse=True)
def _unseen_is_warned_of() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        yield


def planned(targets: object) -> Study:
    run = continued("asked", targets, 0.2)  # type: ignore[arg-type]
    blank = several().losses[:0]
    return Study("plan", "web", (*TARGETS, "unseen"), (BASE,), (run,), blank, is_plan=True)


def test_candidates_have_the_losses_that_predict_gives_their_mixture() -> None:
    model = FinalLosses.of(posterior(), 100, 0)
    space = read_space(SPACE | {"warmup_steps": 0})
    candidates = SearchSpace.of(space, posterior().study).sample(3, 0)
    assert candidates.column("targets").tolist() == [
        "100 % code",
        "50 % code, 50 % law",
        "25 % law, 75 % news",
    ]
    losses = model.losses(candidates).mean(axis=2)
    for row in range(3):
        run = candidates.run(row, "asked")
        table = bands(posterior(), replace(planned("code"), runs=(run,)), "expected", draws=100)
        last = table[table["step"] == 1000].set_index("domain")["mean"]
        expected = last[["web", *TARGETS, "unseen"]].to_numpy()
        np.testing.assert_allclose(losses[:, row], expected, atol=1e-9)


def test_a_decision_names_its_mixture() -> None:
    weights = {"general": 0.3, "code": 0.5, "law": 0.2}
    choice = decide(posterior(), {"weights": weights}, SPACE, draws=100, seed=0)
    assert "targets" in choice.space.searched
    run = choice.contenders.candidates.run(0, "chosen")
    assert run.mixture in ({"code": 1.0}, {"code": 0.5, "law": 0.5}, {"law": 0.25, "news": 0.75})
    assert "(the rest " in choice.verdict()[0]
    assert set(choice.table()["targets"]) <= set(choice.search.candidates.column("targets"))


def test_the_default_space_has_all_mixtures_in_quarters_of_what_runs_train_on() -> None:
    space = SearchSpace.of(read_space({}), posterior().study)
    assert len(space.mixtures) == 15
    assert all(sum(own.values()) == 1.0 and "unseen" not in own for own in space.mixtures)


def test_a_target_without_runs_is_flagged() -> None:
    tables = [bands(posterior(), planned(name), draws=200) for name in ("code", "unseen")]
    notes = [set(table["outside"]) for table in tables]
    assert notes[0] == {""}
    assert notes[1] == {"target unseen, on which no studied run trains"}


def test_target_in_an_objective_is_the_mean_of_all() -> None:
    objective = Objective(weights={"general": 1, "target": 1})
    assert objective.combination(("web", "code", "law")).tolist() == [0.5, 0.25, 0.25]


def test_an_unknown_target_in_a_space_is_answered_with_the_names() -> None:
    with pytest.raises(
        SpecError, match=r"'cod' is no target .*did you mean 'code'.*Name some of code"
    ):
        SearchSpace.of(read_space({"targets": ["cod"]}), posterior().study)
    with pytest.raises(SpecError, match=r"space, key targets: the shares add up to 0.5, not 1"):
        read_space({"targets": [{"code": 0.5}]})


@pytest.mark.parametrize("ask", [survey, next_run])
def test_what_knows_one_target_says_so(ask: object) -> None:
    with pytest.raises(StudyError, match=r"it has 4 targets, and .* is for one only"):
        ask(posterior(), "balanced") if ask is next_run else ask(posterior(), run="mixed")  # type: ignore[operator]
