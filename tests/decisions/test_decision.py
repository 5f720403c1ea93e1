"""A whole decision: what its tables, sentences and plan say of its own draws."""

import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import lab_posterior

import bayes_cpt
from bayes_cpt.arrays import chance
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.decision import Decision, decide

WHOLE: dict[str, Any] = {"decay_share": 1.0, "relative_final": 0.1}
SPACE: dict[str, Any] = {
    "bases": ["stable_12k", "annealed_0pct"],
    "replay": {"low": 0.0, "high": 0.8},
    "relative_peak": {"low": 0.1, "high": 1.0},
    "decay_shape": ["cosine", "linear"],
    "steps": 6000,
    **WHOLE,
}
OBJECTIVE: dict[str, Any] = {
    "preset": "balanced",
    "constraints": [{"domain": "general", "rise": 0.4, "probability": 0.5}],
}
OPTIONS: dict[str, Any] = {"draws": 100, "candidates": 1024, "seed": 2}


@cache
def decision() -> Decision:
    return decide(lab_posterior(), OBJECTIVE, SPACE, **OPTIONS)


def test_the_table_says_what_the_draws_say() -> None:
    table, own = decision().table(interval=0.8), decision().contenders
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(decision())).table(0.8), table)
    assert table["option"].tolist() == decision().names
    assert table["option"][0] == "recommended"
    np.testing.assert_allclose(table["regret"], own.regrets.mean(axis=1))
    np.testing.assert_allclose(table["p_best"], risk.probability_best(own.values.T))
    np.testing.assert_allclose(table["objective"], np.median(own.values, axis=1))
    np.testing.assert_allclose(table["objective_upper"], np.quantile(own.values, 0.9, axis=1))
    assert (table["breach_1"] <= 0.5).all()
    assert (np.diff(table["score"]) >= 0).all()
    assert (table["steps"] == 6000).all()
    # The longest run of the study has half as many.
    assert table["outside"].str.contains("6000 steps, 2.0x the longest run").all()
    assert (table["kernel_lower"] < table["kernel"]).all()
    front = decision().front_table(), decision().front.losses[0].mean(axis=1)
    np.testing.assert_allclose(front[0]["general"], front[1])


@pytest.mark.parametrize(
    ("wrong", "ask"),
    [
        ("draws is 0", lambda fit: bayes_cpt.fit(fit.study, draws=0)),
        ("attempts is 0", lambda fit: bayes_cpt.fit(fit.study, attempts=0)),
        ("seed is None", lambda fit: fit.predict(seed=None)),
        ("draws is 0", lambda fit: decide(fit, draws=0)),
        ("tolerance is nan", lambda fit: decide(fit, tolerance=np.nan)),
        ("interval is 90", lambda fit: fit.summary(90)),
        ("did you mean 'exponent'", lambda fit: fit.members("expnent")),
    ],
)
def test_what_is_no_count_mass_or_quantity_is_refused(wrong: str, ask: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=wrong):
        ask(lab_posterior())


def test_the_posterior_of_the_optimum_is_that_of_each_draw() -> None:
    table = decision().optimum_table(interval=0.9).set_index("quantity")
    best = decision().search
    replay = best.candidates.replay[best.optimum]
    row = table.loc["replay"]
    assert row["median"] == pytest.approx(np.median(replay))
    assert row["lower"] == pytest.approx(np.quantile(replay, 0.05))
    assert row["near_lowest"] <= row["recommended"] <= row["near_highest"]
    means = best.means[best.feasible]
    close = best.candidates.replay[best.feasible][means <= means.min() + 0.005]
    assert (row["near_lowest"], row["near_highest"]) == (close.min(), close.max())
    bases = table.loc["base"]
    assert bases["probability"].sum() == pytest.approx(1.0)
    assert bases["recommended"].sum() == 1
    peaks = best.candidates.column("relative_peak")[best.optimum]
    assert table.loc["relative_peak", "at_highest"] == np.mean(peaks >= 0.9955)


def test_the_value_of_perfect_information_is_the_least_expected_regret() -> None:
    value, error = decision().information
    best = decision().search
    assert value == pytest.approx(best.means[best.feasible].min() - best.best.mean(), abs=1e-5)
    assert 0 < error < value
    # Whoever minimises expected loss loses just that.
    assert value == pytest.approx(decision().contenders.regrets[0].mean(), abs=1e-5)


def test_everything_may_be_fixed() -> None:
    fixed = {"bases": "stable_12k", "replay": 0.25, "peak": 1e-3, **WHOLE}
    found = decide(lab_posterior(), "balanced", fixed, draws=40)
    assert len(found.contenders.candidates) == 1
    assert found.information == pytest.approx((0.0, 0.0), abs=1e-6)
    assert found.optimum_table().empty
    assert found.slices == ()
    sentences = found.sentences()
    assert sentences[0].startswith("Train from stable_12k, 3000 steps with 25 %")
    assert sentences[0].endswith("The space leaves nothing to choose.")
    assert not any(sentence.startswith(("How sure", "Further runs")) for sentence in sentences)


def test_an_end_of_the_space_is_no_finding() -> None:
    space = SPACE | {
        "replay": {"low": 0.0, "high": 0.1},
        "relative_peak": {"low": 0.1, "high": 2.0},
    }
    found = decide(lab_posterior(), "balanced", space, **OPTIONS)
    assert found.edges[0][:3] == ("replay", "highest", 0.1)
    row = found.optimum_table().set_index("quantity").loc["replay"]
    assert (row["edge"], np.isnan(row["upper"])) == ("highest", True)
    assert row["at_highest"] == found.edges[0].share == np.mean(found.optimum.replay >= 0.0995)
    for own in found.edges:
        value, often = f"{own.value:g}", chance(own.share)
        sure = f"lies at or beyond {value}, the highest allowed ({often} of the draws)"
        open_yet = f"is {value}, the highest allowed, in {often} of the draws"
        assert (sure if own.share >= 0.9 else open_yet) in found.verdict()[1]
    assert " ratio: 0." in found.verdict()[0]
    assert repr(found) == "\n".join(found.verdict())
    assert repr(lab_posterior()) == "Posterior of cpt-replay given cpt-lab"
    assert f"Optimal replay ratio: {row['lower']:.2g} or more (95 %)" in " ".join(found.sentences())
    single = decide(lab_posterior(), "balanced", SPACE | {"steps": 1}, **OPTIONS)
    assert np.isfinite(single.table()["regret"]).all()
    wide = decide(lab_posterior(), "balanced", SPACE | {"relative_peak": 0.5}, **OPTIONS)
    assert wide.edges == ()
    assert wide.optimum_table()["edge"].isin(["", np.nan]).all()


def test_the_constraint_that_binds_stands_in_the_first_line() -> None:
    constraints = [
        {"domain": "general", "rise": 0.02, "probability": 0.3},
        {"domain": "general", "limit": 9.0, "probability": 0.3},
        {"domain": "target", "limit": 9.0, "probability": 0.3},
    ]
    goal: dict[str, Any] = {"preset": "domain-focus", "constraints": constraints}
    found = decide(lab_posterior(), goal, SPACE, **OPTIONS)
    free = decide(lab_posterior(), "domain-focus", SPACE, **OPTIONS)
    assert found.binding == (0,)
    replay = next(cut for cut in found.slices if cut.name == "replay")
    row = found.table().iloc[0]
    least, breach = min(replay.values[replay.allowed].min(), row["replay"]), row["breach_1"]
    assert least > free.optimum.replay.mean()
    reference = found.valuation.reference
    assert reference
    assert (
        f"General loss rises by more than 0.02, counted from {reference.name}, "
        f"with probability {100 * breach:.0f} % (30 % allowed), "
        f"which all else equal takes {100 * least:.0f} % replay or more." in found.verdict()[0]
    )
    headings = [own.heading for own in found.valuation.chances]
    assert headings == ["P(general\n> +0.02)", "P(general\n> 9)", "P(kernel\n> 9)"]
    row = found.optimum_table().set_index("quantity").loc["replay"]
    assert row["edge"] == "constraint"
    assert np.isnan([row["lower"], row["upper"]]).all()
    assert "Optimal replay ratio: " in found.sentences()[-2]
    assert ", set by the constraint." in found.sentences()[-2]
    # A limit that takes more replay than the constraint does.
    goal["limits"], space = {"target_epochs": 1.0}, SPACE | {"unique_tokens": {"target": 4e6}}
    limited = decide(lab_posterior(), goal, space, **OPTIONS)
    assert (limited.binding, limited.binding_limits) == ((), ("target_epochs",))
    assert "The limit of 1 epochs over target data binds." in limited.verdict()[0]
