"""Verdict first: three short lines, and no sentence that has to be read twice."""

import re
from collections.abc import Callable
from functools import cache

import pytest
from synthetic import lab_posterior

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.next_run import next_run
from bayes_cpt.decisions.schedule_choice import choose_schedule
from bayes_cpt.landmarks import survey
from bayes_cpt.views import Worded

MAKERS: dict[str, Callable[[], Worded]] = {
    "decide": lambda: decide(lab_posterior(), draws=60, candidates=512),
    "hopeless": lambda: decide(
        lab_posterior(),
        {
            "weights": {"target": 1.0},
            "constraints": [{"domain": "general", "rise": -2.0, "probability": 0.1}],
        },
        draws=60,
        candidates=256,
    ),
    "next-run": lambda: next_run(lab_posterior(), steps=100, draws=80, candidates=32),
    "schedule": lambda: choose_schedule(lab_posterior(), None, None, 400, draws=12),
    "landmarks": lambda: survey(lab_posterior(), draws=40),
}
# Of a line of a verdict, and of a sentence.
LINE, SENTENCE = 190, 45


@cache
def result(verb: str) -> Worded:
    return MAKERS[verb]()


@pytest.mark.parametrize("verb", MAKERS)
def test_a_verdict_is_what_to_do_how_sure_and_what_would_change_it(verb: str) -> None:
    verdict = result(verb).verdict()
    assert len(verdict) == 3
    assert verdict[1].startswith("How sure: ")
    assert verdict[2].startswith("What would change it: ")
    for line in verdict:
        assert len(line) <= LINE, line
        assert any(letter.isdigit() for letter in line) or line is verdict[2]


@pytest.mark.parametrize("verb", MAKERS)
def test_sentences_are_read_once(verb: str) -> None:
    for text in (*result(verb).verdict(), *result(verb).sentences()):
        assert text.endswith(".")
        for slip in (r"\bnan\b", r"\[\]", "  ", r"\.\.", r" [,.;:]"):
            assert not re.search(slip, text), text
        for sentence in re.split(r"[.:;] ", text):
            assert len(sentence.split()) <= SENTENCE, sentence


def test_a_verdict_is_about_the_result() -> None:
    decision = decide(lab_posterior(), draws=60, candidates=512)
    row = decision.table().iloc[0]
    optimum = decision.optimum_table().set_index("quantity").loc["replay"]
    first, sure, _ = decision.verdict()
    assert first == (
        f"Train from {row['base']}, {row['steps']} steps, {100 * row['replay']:.0f} % general data, "
        f"peak LR {row['peak']:.3g}. "
        f"Best replay ratio: between {optimum['lower']:.2g} and {optimum['upper']:.2g} (90 %)."
    )
    assert f"{100 * row['p_within']:.0f} %" in sure
    assert row["outside"].split("; ")[0] in sure or not row["outside"]


def test_a_forecast_opens_with_where_it_ends_and_how_sure_that_is() -> None:
    from bayes_cpt.forecast.bands import bands
    from bayes_cpt.report.words.forecast import verdict

    table = bands(lab_posterior(), "data/cpt-lab/plan-example.toml", draws=60, interval=0.8)
    first, sure, change = verdict(table)
    last = table[(table["run"] == "long_r25") & (table["domain"] == "general")].iloc[-1]
    shown = float(first.split("long_r25 ends at ")[1].split(" on general")[0])
    assert abs(shown - last["median"]) <= 0.5 * last["sd"]
    reach = re.search(
        r"80 % of such runs end within (\S+) of that on general and \S+ on kernel", sure
    )
    ends = table[table["domain"] == "general"].groupby("run").tail(1)
    widest = max((ends["upper"] - ends["median"]).max(), (ends["median"] - ends["lower"]).max())
    assert reach
    assert abs(float(reach[1]) - widest) <= 0.5 * last["sd"]
    assert change.endswith("to long_r25 and rewarmed_r50, which leave what was fitted.")
    assert max(map(len, (first, sure, change))) <= 110
    alone = table[table["run"] == "long_r25"]
    alone.attrs |= table.attrs
    _, sure, change = verdict(alone)
    assert re.search(
        r"80 % of such runs end within \S+ to \S+ on general and \S+ to \S+ on ker", sure
    )
    assert "4.0x the longest run" in change
    inside = table.assign(outside="")
    inside.attrs |= table.attrs
    assert "within what was fitted" in verdict(inside)[2]
