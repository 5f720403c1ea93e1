"""What a choice has to keep besides losses: epochs, GPU time and money at most, scores of benchmarks."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import bundled_study, decide, predict
from bayes_cpt.decisions.decision import Decision
from bayes_cpt.decisions.final_losses import Block
from bayes_cpt.errors import BeyondLawWarning, SpecError, StudyError
from bayes_cpt.forecast.scores import ScoreFit, ScoreLink, ScorePairs, score_table
from bayes_cpt.study.resources import Compute, UniqueTokens

PLAIN: dict[str, Any] = {
    "bases": ["annealed_0pct"],
    "replay": {"low": 0.0, "high": 0.8},
    "steps": 3000,
}
SPACE = PLAIN | {
    "steps": {"low": 1000, "high": 3000},
    "unique_tokens": {"target": 2e6, "general": 2e7},
    "compute": {"seconds_per_step": 0.9, "gpus": 4, "price": 3.0},
}
GOAL: dict[str, Any] = {"preset": "domain-focus"}
OPTIONS: dict[str, Any] = {"draws": 60, "candidates": 512, "seed": 2}


@cache
def chosen(**limits: float) -> Decision:
    return decide(lab_posterior(), GOAL | {"limits": limits}, SPACE, **OPTIONS)


def test_the_table_counts_epochs_and_costs() -> None:
    table = chosen().table()
    tokens = table["steps"] * 2048
    np.testing.assert_allclose(table["target_epochs"], tokens * (1 - table["replay"]) / 2e6)
    np.testing.assert_allclose(table["general_epochs"], tokens * table["replay"] / 2e7)
    np.testing.assert_allclose(table["gpu_hours"], table["steps"] * 0.9 * 4 / 3600)
    np.testing.assert_allclose(table["money"], 3.0 * table["gpu_hours"])
    assert "GPU-hours" in " ".join(chosen().sentences())


def test_without_knowledge_of_the_data_nothing_changes() -> None:
    plain = {name: own for name, own in SPACE.items() if name not in ("unique_tokens", "compute")}
    before = decide(lab_posterior(), GOAL, plain, **OPTIONS).table()
    columns = ["general_epochs", "target_epochs", "gpu_hours", "money"]
    assert not set(columns) & set(before)
    assert chosen().table().drop(columns=columns).equals(before)


@pytest.mark.parametrize(
    ("name", "most"), [("target_epochs", 1.0), ("gpu_hours", 1.5), ("money", 4.5)]
)
def test_what_is_chosen_keeps_a_limit(name: str, most: float) -> None:
    free, limited = chosen().table(), chosen(**{name: most}).table()
    assert free[name][0] > most
    assert (limited[name] <= most).all()
    assert limited["score"][0] > free["score"][0]
    assert 0 < chosen(**{name: most}).search.feasible.mean() < 1


def test_limits_that_nothing_keeps_are_told() -> None:
    impossible = chosen(target_epochs=0.01)
    assert not impossible.feasible
    assert "epochs over target data <= 0.01 is exceeded, with" in " ".join(impossible.verdict())
    assert ": money <= 0.01 is exceeded, with" in " ".join(chosen(money=0.01).verdict())


@pytest.mark.parametrize(
    ("off", "said"), [(0.0, "Train from"), (9.0, "The law holds for no configuration.")]
)
def test_what_ends_at_or_below_0_by_the_law_is_not_chosen(
    off: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, lowest = vars(Block)["losses"].func, chosen().contenders.sets["kernel"].law[0].min()
    monkeypatch.setattr(Block, "losses", property(lambda own: whole(own) - lowest - off))
    with pytest.warns(BeyondLawWarning, match="predicts a loss at or below 0"):
        found = decide(lab_posterior(), GOAL, SPACE, **OPTIONS)
    assert found.verdict()[0].startswith(said)
    assert "How sure: not at all" in found.verdict()[1]


def test_a_choice_that_repeats_its_data_is_warned_of() -> None:
    unique = UniqueTokens(target=5e5)
    with pytest.warns(match="epochs over the target data"):
        study = replace(lab(), unique_tokens=unique, compute=Compute(seconds_per_step=1.0))
    space = {"bases": ["annealed_0pct"], "replay": [0.0, 0.1], "steps": 3000}
    decision = decide(prior_as_posterior(study, draws=15), "domain-focus", space, **OPTIONS)
    assert "It makes 1" in " ".join(decision.sentences())
    assert "epochs over the target data" in " ".join(decision.sentences())
    assert decision.plan().unique_tokens == unique


@pytest.mark.parametrize(
    ("goal", "space", "said"),
    [
        ({"limits": {"money": 5}}, {}, "of money.*add compute = "),
        ({"limits": {"target_epochs": 4}}, {}, r"add unique_tokens = \{ target"),
        ({"limits": {"epochs": 4}}, {}, "the key 'epochs' is unknown"),
        ({"limits": {"gpu_hours": 0}}, {}, "key limits.gpu_hours.*greater than 0"),
        ({}, {"compute": {"gpus": 8}}, "key compute.*seconds_per_step"),
        ({}, {"unique_tokens": 3e9}, "key unique_tokens.*write a table with the keys"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    goal: dict[str, Any], space: dict[str, Any], said: str
) -> None:
    plain = {"bases": ["annealed_0pct"], "replay": 0.5} | space
    with pytest.raises(SpecError, match=f"(?i){said}"):
        decide(lab_posterior(), GOAL | goal, plain, **OPTIONS)


# --- scores --------------------------------------------------------------------------------------

PLAN = bundled_study() / "plan-example.toml"


@cache
def scores() -> ScoreFit:
    """Return a link that is known up to a little."""
    generator = np.random.default_rng(0)
    losses = np.linspace(2.4, 3.4, 9)
    pairs = ScorePairs("quiz", "general", losses, 0.6 - 0.1 * losses, 0.25)
    level, slope, top, scatter = (
        middle + 0.02 * generator.standard_normal(200) for middle in (0.0, 3.0, 0.8, 0.1)
    )
    return ScoreFit({"quiz": ScoreLink(pairs, level, slope, top, 0.1 * scatter)}, ())


@cache
def scored(fall: float | None = None, kind: str = "new_run", probability: float = 0.1) -> Decision:
    goal: dict[str, Any] = {"preset": "domain-focus"}
    if fall is not None:
        own = {"benchmark": "quiz", "fall": fall, "probability": probability, "kind": kind}
        goal["score_constraints"] = [own]
    return decide(lab_posterior(), goal, PLAIN, scores=scores(), **OPTIONS)


def test_the_table_tells_scores_of_new_runs() -> None:
    table = scored().table()
    losses = scored().contenders.sets["general"].new_runs(scored().valuation.model.normals(2))
    middle = scores().links["quiz"]
    wanted = 0.25 + 0.75 * 0.8 / (1 + np.exp(3.0 * (np.median(losses, axis=1) - middle.middle)))
    np.testing.assert_allclose(table["quiz"], wanted, atol=0.02)
    assert (table["quiz_lower"] < table["quiz"]).all()
    assert ((table["quiz_change"] < 0) == (table["general_change"] > 0)).all()


@pytest.mark.parametrize("kind", ["new_run", "expected"])
def test_a_breach_is_as_probable_as_among_draws_of_runs(kind: str) -> None:
    """Against brute force: losses, links and evaluations drawn one by one."""
    decision = scored(0.03, kind, 0.5)
    found, generator = decision.contenders.breaches[0], np.random.default_rng(5)
    own, link = decision.contenders, decision.valuation.links["quiz"]
    block = decision.valuation.model.at(own.candidates)
    law, spread = block.losses[0], block.spread
    sd = np.hypot(spread.law, spread.level)[0]
    if kind == "new_run":
        sd = spread.of_sum(np.array([1.0, 0.0]))
    limit = link.scores(decision.valuation.start(own.candidates)[0]) - 0.03
    broken = np.zeros(len(own.candidates))
    for _ in range(400):
        ends = link.scores(law + sd * generator.standard_normal(law.shape))
        if kind == "new_run":
            ends = ends + link.scatter * generator.standard_normal(law.shape)
        broken += (ends < limit).mean(axis=1)
    np.testing.assert_allclose(found, broken / 400, atol=0.03)


def test_what_is_chosen_keeps_the_score() -> None:
    free, kept = scored().table(), scored(0.02, probability=0.4)
    assert kept.feasible
    assert (kept.contenders.breaches[0] <= 0.4).all()
    table = kept.table()
    assert table["quiz_change"][0] > free["quiz_change"][0]
    assert table["score"][0] >= free["score"][0]
    assert "P(quiz score falls by more than 0.02) <= 0.4 is kept" in " ".join(kept.sentences())


def test_without_scores_nothing_changes() -> None:
    plain = decide(lab_posterior(), "domain-focus", PLAIN, **OPTIONS).table()
    columns = [name for name in scored().table() if name.startswith("quiz")]
    assert scored().table().drop(columns=columns).equals(plain)


def test_a_forecast_tells_scores_by_step() -> None:
    curves = predict(lab_posterior(), kind="expected", draws=40)
    table = score_table(curves, scores(), 0.8)
    assert set(table["benchmark"]) == {"quiz"}
    one = table[table["run"] == "r00_const"].set_index("step")
    loss = curves["expected"].sel(run="r00_const", domain="general", step=3000).to_numpy().ravel()
    link = scores().links["quiz"].resampled(loss.size, 0)
    np.testing.assert_allclose(one.loc[3000, "median"], np.median(link.scores(loss)))
    assert table["outside"].eq("").all()
    beyond = score_table(predict(lab_posterior(), PLAN, kind="expected", draws=40), scores(), 0.8)
    assert beyond.set_index("run").loc["long_r25", "outside"].str.contains("the longest run").all()
    noisy = score_table(predict(lab_posterior(), kind="new_run", draws=40), scores(), 0.8)
    assert noisy["sd"].mean() > table["sd"].mean()


@pytest.mark.parametrize(
    ("own", "known", "error", "said"),
    [
        ({"benchmark": "quiz"}, scores, SpecError, "give either fall"),
        ({"benchmark": "quiz", "fall": 1.5}, scores, SpecError, "fall.*less than 1"),
        ({"benchmark": "quizz", "fall": 0.1}, scores, StudyError, "did you mean 'quiz'"),
        ({"domain": "quiz", "fall": 0.1}, scores, SpecError, "'benchmark' is missing"),
        ({"benchmark": "quiz", "fall": 0.1}, lambda: None, StudyError, "--scores FILE"),
    ],
)
def test_score_constraints_that_are_malformed_or_without_scores(
    own: dict[str, Any], known: Callable[[], ScoreFit | None], error: type[Exception], said: str
) -> None:
    goal = {"preset": "balanced", "score_constraints": [own | {"probability": 0.1}]}
    with pytest.raises(error, match=said):
        decide(lab_posterior(), goal, PLAIN, scores=known(), **OPTIONS)
