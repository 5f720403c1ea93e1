from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from few_free import all_but_known
from synthetic import prior_as_posterior
from target_family import BASE, MIXED, TARGETS, continued, several

from bayes_cpt import Posterior, Run, Study, bands, decide, next_run
from bayes_cpt.decisions.next_run import Affordable
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.decisions.schedule_choice import choose_schedule
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.errors import SpecError
from bayes_cpt.report.decisions import short_run

# A target that no run trains on alone is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")

WEIGHTS = {"general": 0.3, "code": 0.5, "law": 0.2}
MIXTURES = ["code", {"code": 0.5, "law": 0.5}, {"law": 0.25, "news": 0.75}]
SPACE = {"replay": 0.2, "peak": 2e-3, "final": 0, "steps": 1000, "targets": MIXTURES}


@cache
def posterior() -> Posterior:
    """Return a posterior of a study with a target that no run trains on; it costs no sampling."""
    return prior_as_posterior(replace(several(), target=(*TARGETS, "unseen")), "cpt-replay")


def planned(run: Run) -> Study:
    blank = several().losses[:0]
    return Study("plan", "web", (*TARGETS, "unseen"), (BASE,), (run,), blank, is_plan=True)


def test_a_decision_names_its_mixture() -> None:
    choice = decide(posterior(), {"weights": WEIGHTS}, SPACE, draws=100, candidates=512, seed=0)
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
    runs = [continued("asked", name, 0.2) for name in ("code", "unseen")]
    tables = [bands(posterior(), planned(run), draws=200) for run in runs]
    notes = [set(table["outside"]) for table in tables]
    assert notes[0] == {""}
    assert notes[1] == {"target unseen, on which no studied run trains"}


def test_target_in_an_objective_is_the_mean_of_all() -> None:
    objective = Objective(weights={"general": 1, "target": 1})
    assert objective.combination(("web", "code", "law")).tolist() == [0.5, 0.25, 0.25]


def test_an_unknown_target_in_a_space_is_answered_with_the_names() -> None:
    with pytest.raises(SpecError, match=r"no target 'cod' .*did you mean 'code'.*Name one of code"):
        SearchSpace.of(read_space({"targets": ["cod"]}), posterior().study)
    wrong = r"space, key targets: the shares add up to 0.5, not 1. Write targets = .*, or shares"
    with pytest.raises(SpecError, match=wrong):
        read_space({"targets": [{"code": 0.5}]})


@pytest.mark.usefixtures("few_candidates")
def test_a_schedule_has_the_losses_of_its_mixture() -> None:
    """The objective at the end of a schedule is that of the same run among the candidates of a decision."""
    mixture = {"code": 0.5, "law": 0.5}
    choice = choose_schedule(
        posterior(), "base", 0.2, 1000, {"weights": WEIGHTS}, targets=mixture, draws=40
    )
    run = choice.plan.run("cosine")
    assert run.mixture == mixture
    table = bands(posterior(), planned(run), "expected", draws=40)
    last = table[table["step"] == 1000].set_index("domain")["mean"]
    wanted = sum(
        share * last[{"general": "web"}.get(name, name)] for name, share in WEIGHTS.items()
    )
    assert float(choice.values["cosine"].mean()) == pytest.approx(wanted, abs=1e-9)
    assert "(the rest 50 % code, 50 % law)" in choice.verdict()[0]
    assert choice.taken == ()


@pytest.mark.usefixtures("few_candidates")
def test_a_schedule_takes_the_best_mixture_of_the_runs() -> None:
    options: dict[str, Any] = {"objective": {"weights": WEIGHTS}, "draws": 8}
    choice = choose_schedule(posterior(), "base", 0.2, 400, **options)
    assert choice.taken == ("targets",)
    for tried in ("code", "law", "news", MIXED):
        other = choose_schedule(posterior(), "base", 0.2, 400, targets=tried, **options)
        assert choice.values["wsd"].mean() <= other.values["wsd"].mean() + 2e-4


def only_forgetting_unknown() -> Posterior:
    """Return a posterior in which only how much each target makes a model forget is not known."""
    wide = prior_as_posterior(posterior().study, "cpt-replay", draws=100, spread=1.0)
    return all_but_known(wide, ("forgetting_factor",))


def test_the_next_run_may_be_on_any_target() -> None:
    """A run tells how much its own target makes a model forget, and nothing of another's."""
    affordable = Affordable.default(posterior())
    assert len(affordable.plan.runs) == 4 * 8
    named = {tuple(run.mixture) for run in affordable.plan.runs}
    assert named == {(name,) for name in posterior().study.targets}
    chosen = [run for run in affordable.plan.runs if run.replay == 0.25 and run.schedule.final == 0]
    few = Affordable(replace(affordable.plan, runs=tuple(chosen)))
    goal = {"weights": WEIGHTS}
    found = next_run(only_forgetting_unknown(), goal, SPACE, few, draws=400, candidates=16)
    table = found.information_table()
    forgotten = table[table["quantity"] == "phi"].set_index(["run", "domain"])["variance"]
    for name in posterior().study.targets:
        for run in chosen:
            told = forgotten[run.name, name]
            assert told > 0.5 if run.mixture == {name: 1.0} else told < 0.1
    assert "(the rest 100 % code)" in short_run(affordable.plan.runs[0])
