"""Words of every verb: a short verdict first, sentences that are read once, numbers of the result."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import batch_family
import numpy as np
import pytest
import size_family
import target_family
from designs import DESIGNS
from printed import printed_posterior
from synthetic import lab, lab_posterior

from bayes_cpt import decide, next_run
from bayes_cpt.decisions.schedule_choice import choose_schedule
from bayes_cpt.inference.law_checks import DRIFT, FACTOR, RUN, SIZE, WILD, LawCheck
from bayes_cpt.landmarks import survey
from bayes_cpt.report.fit import (
    alarm_text,
    batch_words,
    checks_passed,
    power_words,
    resting,
    rests_on,
    size_words,
    undivided,
)
from bayes_cpt.report.forecasts import advice, below, ends_below, forecast_words, learnt_words
from bayes_cpt.report.results import runs_table
from bayes_cpt.report.words import sentence
from bayes_cpt.study.schedules import linear
from bayes_cpt.watch import Status
from bayes_cpt.watch.watcher import Continuation, Continuations

HOPELESS: dict[str, Any] = {
    "weights": {"target": 1.0},
    "constraints": [{"domain": "general", "rise": -2.0, "probability": 0.1}],
}
MAKERS: dict[str, Callable[[], Any]] = {
    "decide": lambda: decide(lab_posterior(), draws=60, candidates=512),
    "hopeless": lambda: decide(lab_posterior(), HOPELESS, draws=60, candidates=256),
    "next-run": lambda: next_run(lab_posterior(), run_steps=100, draws=80, candidates=32),
    "schedule": lambda: choose_schedule(lab_posterior(), None, None, 400, draws=12),
    "landmarks": lambda: survey(
        lab_posterior(), lab().subset(["r00_cos", "r25_cos"]).without_losses(), draws=40
    ),
}
# Of a line of a verdict in characters, and of a sentence in words.
LINE, SENTENCE = 190, 45


@cache
def result(verb: str) -> Any:
    return MAKERS[verb]()


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("verb", MAKERS)
def test_a_verdict_is_what_to_do_how_sure_and_what_would_change_it(verb: str) -> None:
    verdict = result(verb).verdict()
    assert len(verdict) == 3
    assert verdict[1].startswith("How sure: ")
    assert verdict[2].startswith("What would change it: ")
    for line in verdict:
        assert len(line) <= LINE, line
        assert any(letter.isdigit() for letter in line) or line is verdict[2]
    # Sentences are read once.
    for text in (*verdict, *result(verb).sentences()):
        assert text.endswith(".")
        for slip in (r"\bnan\b", r"\[\]", "  ", r"\.\.", r" [,.;:]"):
            assert not re.search(slip, text), text
        for part in re.split(r"[.:;] ", text):
            assert len(part.split()) <= SENTENCE, part


def test_a_verdict_is_about_the_result() -> None:
    decision = result("decide")
    row = decision.table().iloc[0]
    optimum = decision.optimum_table().set_index("quantity").loc["replay"]
    first, sure, _ = decision.verdict()
    held = row["steps"] - row["decay_steps"]
    course = f"held to step {held}, then down to {row['final']:.2g}"
    assert first == (
        f"Train from {row['base']}, {row['steps']} steps (the longest tried), "
        f"{100 * row['replay']:.0f} % general data, peak LR {row['peak']:.3g}, {course}. "
        f"Best replay ratio: between {optimum['lower']:.2f} and {optimum['upper']:.2f} (90 %)."
    )
    assert f"{100 * row['p_within']:.0f} %" in sure
    assert row["outside"].split("; ")[0] in sure or not row["outside"]


@pytest.mark.usefixtures("few_candidates")
def test_a_short_run_is_advised_where_it_may_be_worth_more_than_the_tolerance() -> None:
    decision = result("decide")
    # Within two Monte Carlo errors of the tolerance it is not.
    assert "hardly any" in replace(decision, information=(0.0053, 0.0002)).verdict()[2]
    worth = replace(decision, information=(0.0055, 0.0002))
    assert "see bayes-cpt next-run. " in worth.verdict()[2]
    mine = decision.valuation.objective.model_copy(update={"name": "mine"})
    for chosen, same in (
        ({"tokens", "steps"}, "next-run --steps 3000, with the same --objective. "),
        ({"replay"}, "next-run, with the same --objective and a --space of the same choices. "),
    ):
        given = replace(
            worth,
            valuation=replace(decision.valuation, objective=mine),
            space=replace(decision.space, given=chosen),
        )
        assert same in given.verdict()[2]


def test_a_forecast_opens_with_where_it_ends_and_how_sure_that_is() -> None:
    from bayes_cpt.forecast.bands import bands

    table = bands(lab_posterior(), "data/cpt-lab/plan-example.toml", draws=60, interval=0.8)
    first, sure, change = forecast_words(table).verdict
    last = table[(table["run"] == "long_r25") & (table["domain"] == "general")].iloc[-1]
    shown = float(first.split("long_r25 ends at ")[1].split(" on general")[0])
    assert abs(shown - last["median"]) <= 0.5 * last["sd"]
    within = r"the widest 80 % band is ±(\S+) on general, ±\S+ on kernel\."
    reach = re.search(within, sure)
    ends = table[table["domain"] == "general"].groupby("run").tail(1)
    widest = max((ends["upper"] - ends["median"]).max(), (ends["median"] - ends["lower"]).max())
    assert reach
    assert abs(float(reach[1]) - widest) <= 0.5 * last["sd"]
    assert change.endswith("to long_r25 and rewarmed_r50, which lie outside the fitted range.")
    assert max(map(len, (first, sure, change))) <= 110
    alone = table[table["run"] == "long_r25"]
    alone.attrs |= table.attrs
    _, sure, change = forecast_words(alone).verdict
    between = r"80 % of such runs end between \S+ and \S+ on general and between \S+ and \S+ on ker"
    assert re.search(between, sure)
    assert "4.0x the longest run" in change
    inside = table.assign(outside="")
    inside.attrs |= table.attrs
    assert "within the fitted range" in forecast_words(inside).verdict[2]


def test_what_no_two_runs_differ_in_is_named_by_phase() -> None:
    assert undivided(lab(), continual=True) == [
        "No two PT runs differ in: peak learning rate.",
        "No two CPT runs differ in: length.",
    ]
    told = undivided(DESIGNS["full"]().subset(["pt_stable", "quarter", "half"]), continual=True)[1]
    assert "schedule family (all: decay throughout), base (all: stable)" in told
    assert undivided(lab().subset(["pt_trunk"]), continual=False) == [
        "There is one PT run: nothing can be compared with it."
    ]


def test_a_path_that_begins_with_a_dot_stays_a_word_of_its_own() -> None:
    said = sentence("fit.txt", "next", {"fit": "../onset.nc", "continual": False})
    assert said == "Next: bayes-cpt summary ../onset.nc says what affects a run."


def test_conclusions_rest_on_what_is_the_same_in_all_runs() -> None:
    assert rests_on(lab(), continual=True) == "one PT peak learning rate (0.002)"
    assert rests_on(DESIGNS["one rate"](), continual=True) == (
        "one PT peak learning rate (0.002) and one CPT peak learning rate (0.002)"
    )
    some = DESIGNS["full"]().subset(["pt_stable", "quarter", "half"])
    assert "one base (stable)" in rests_on(some, continual=True)
    ramp = linear(5, 0.0, 1.25e-4) + linear(95, 1.25e-4, 0.0)
    warmed = [replace(run, schedule=ramp) for run in some.continual_runs]
    told = rests_on(replace(some.without_losses(), runs=(some.runs[0], *warmed)), continual=True)
    assert "one CPT peak learning rate (0.000125)" in told  # not what is left of it after a tenth
    assert "one CPT schedule family (decay throughout)" in resting(some, continual=True)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ((RUN, "long", "pt", 0.03, 0.01, 3.0), "Run long on g lies 0.03 nats above the law, 3.0"),
        ((DRIFT, "long", "pt", -0.03, 0.01, -3.0), "Run long on g falls by 0.03 nats"),
        ((FACTOR, "base", "cpt", 0.2, 0.0, 0.0), "CPT runs on g go with their base, over 0.2"),
        ((WILD, "long", "cpt", 0.3, 0.01, 30.0), "steps 1, 2: up to 0.3 nats above its neighbours"),
        ((SIZE, "offset_pt", "", 0.156, 0.005, 0.0), "0.16 nats where the prior's median is 0.005"),
    ],
)
def test_every_alarm_has_its_sentence(
    check: tuple[str, str, str, float, float, float], said: str
) -> None:
    assert said in alarm_text(LawCheck(*check[:3], "g", *check[3:], 1e-5, True, "1, 2"))


def test_a_mode_without_draws_is_told_with_what_lies_farthest_there() -> None:
    mode: dict[str, Any] = {"parameter": "shift_rate", "domain": "math"}
    mode |= {"share": 0.284, "there": 33.4, "drawn": 512.0}
    frame = SimpleNamespace(spec=SimpleNamespace(law=SimpleNamespace(takes_printed_clock=True)))
    checks = SimpleNamespace(checks=(1, 2))
    said: Any = SimpleNamespace(missed_modes=[mode], law_checks=checks, frame=frame)
    assert checks_passed(said) == (
        "the sampler converged, but there is another mode with about 28 % of the posterior and no draw "
        "around it (shift_rate of math is 33 there, 512 among the draws), and the law passes all 2 checks "
        "against its runs, with a memory of the annealing that fades with each step, as printed: the "
        "losses say so"
    )


def test_what_twice_the_peak_gives_follows_from_rho() -> None:
    """Steps at twice the learning rate sum to 2^rho times the area."""
    said = power_words(lab_posterior(), 0.8)
    low, high = np.quantile(lab_posterior().parameters()["forward_power"], [0.1, 0.9])
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", said)]
    assert numbers[:3] == [round(low, 2), round(high, 2), 80.0]
    areas = np.sum(np.full(500, 2.0)[:, None] ** [low, high], axis=0) / 500.0
    assert numbers[3:5] == [round(100 * (area - 1.0)) for area in areas]
    assert power_words(printed_posterior("moderate"), 0.8) == ""


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((80.0,), ["All runs have one model size, 80M", "two more sizes, say 20M and 5M"]),
        ((20.0, 320.0), ["two model sizes, 20M to 320M", "neither its exponent", "say 5M"]),
    ],
)
def test_too_few_sizes_are_said_with_what_to_add(sizes: tuple[float, ...], said: list[str]) -> None:
    (line,) = size_words(size_family.family(sizes=sizes), continual=True)
    assert all(part in line for part in said), line


def test_three_sizes_over_a_wide_range_are_enough() -> None:
    assert size_words(size_family.family(), continual=True) == []
    study = size_family.family(continual=False)
    near = {20.0: 50.0, 80.0: 80.0, 320.0: 100.0}
    runs = tuple(replace(run, model_size=near[float(run.model_size or 0)]) for run in study.runs)
    (line,) = size_words(replace(study, runs=runs), continual=False)
    assert "differ by a factor of 2" in line
    assert "12.5M or 400M" in line


def test_batches_are_counted_and_those_apart_from_all_others_are_named() -> None:
    study = batch_family.family()
    assert batch_words(study) == [
        "The CPT runs have 3 batches: batch of 65536 tokens in sequences of 512 (3 runs), batch of "
        "131072 tokens in sequences of 512 (2 runs), batch of 131072 tokens in sequences of 1024 (2 runs)."
    ]
    told = {own.label for own in batch_family.BATCHES} | {""}  # of PT runs
    assert set(runs_table(study).cells["batch"]) == told
    assert not {"batch", "targets", "size"} & set(runs_table(lab()).cells)
    assert "60 % code, 40 % law" in set(runs_table(target_family.several()).cells["targets"])
    assert runs_table(size_family.family()).cells["size"].nunique() > 1
    other = {run: replace(run, replay=0.9) for run in study.runs if run.sequence_length == 1024}
    runs = tuple(other.get(run, run) for run in study.runs)
    (_, apart) = batch_words(replace(study, runs=runs))
    said = "No run of another batch shares the replay ratio of the runs with batch"
    assert apart.startswith(said)
    assert "sequences of 1024" in apart


def test_two_batches_one_and_none_have_their_own_words() -> None:
    (_, two) = batch_words(batch_family.family(batch_family.BATCHES[:2]))
    assert two.startswith("Two batches tell how they differ, but hardly how different")
    (one,) = batch_words(batch_family.family(batch_family.BATCHES[:1]))
    assert one.startswith("All CPT runs have one batch, batch of 65536 tokens in sequences of 512")
    (none,) = batch_words(replace(lab(), tokens_per_step=None, unique_tokens=None))
    assert none.startswith("No CPT run says its batch size")


def learnt(labels: int) -> Any:
    return SimpleNamespace(
        population=SimpleNamespace(studies=("a", "b", "c"), labels=range(9), pairs=(), problems=()),
        labels=range(labels),
        before=SimpleNamespace(name="pretrain"),
    )


@pytest.mark.parametrize(
    ("labels", "trustworthy", "use"),
    [
        (4, True, "Use ours.toml for studies like these 3: 4 of 9 priors are learnt, the others stay"),
        (0, True, "Keep pretrain: "),
        (4, False, "Do not use ours.toml yet: "),
    ],
)  # fmt: skip
def test_whether_to_use_what_was_learnt(labels: int, trustworthy: bool, use: str) -> None:
    below = {} if trustworthy else {"a": 0.0103, "b": 0.0097}
    lines = learnt_words(learnt(labels), "ours.toml", {}, below).verdict
    assert lines[0].startswith(use)
    assert lines[1].startswith("How sure: not tested; bayes-cpt validate --model ours.toml")
    assert ("leaving out a, or narrowing" in lines[2]) is not trustworthy


END = {"mean": 2.51234, "lower": 2.4801, "upper": 2.5441}
END |= {"planned_lower": 2.4, "planned_upper": 2.6}
STATUS = Status(
    step=1000, steps=3000, on_track=True, probability=0.972, off_since=None, looks_like=None,
    losses={"code": 2.65}, forecast={"code": END}, gain_left={}, notes=[],
)  # fmt: skip


def test_three_lines_with_the_digits_that_the_band_supports() -> None:
    assert STATUS.verdict() == [
        "On track at step 1000 of 3000: let it run.",
        "How sure: 97 % of healthy runs stray this far from their forecast at some time.",
        "What would change it: its later losses. Until then it is forecast to end at 2.512 on code "
        "(2.480 to 2.544).",
    ]
    assert STATUS.words() == " ".join(STATUS.verdict())


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        ({"on_track": False, "off_since": 500, "probability": 0.0312, "looks_like": "too hot"}, 0,
         "OFF TRACK, first seen at step 500, now at step 1000 of 3000: stop it and look. It looks like too"
         " hot."),
        ({"probability": 0.0312}, 1, "How sure: 3.1 % of healthy runs stray"),
        ({"probability": 1.0}, 1, "How sure: over 99 % of healthy runs stray"),
        ({"on_track": False, "off_since": 9, "probability": 0.0}, 1, "its loss is not finite"),
        ({"on_track": False, "off_since": 9, "probability": 0.0}, 2, "restarted from before"),
        ({"step": 0}, 0, "Nothing was measured yet of 3000 steps: wait."),
        ({"step": 3000}, 2, "nothing; the run is over"),
    ],
)  # fmt: skip
def test_each_state_says_what_to_do(changes: dict[str, object], place: int, said: str) -> None:
    assert said in replace(STATUS, **changes).verdict()[place]  # type: ignore[arg-type]


def test_advice_is_given_where_it_is_nearly_sure() -> None:
    rest = Continuation("decay to 0 until step 1300", 1300, 0.01234, 0.0051, 0.0196, 0.87)
    said = advice(Continuations("balanced", (rest,)), 1000, 3000)
    assert "decay to 0 until step 1300, by 0.012 nats (0.005 to 0.020; 87 %)" in said
    assert advice(Continuations("balanced", (replace(rest, probability=0.6),)), 1000, 3000) == ""


def test_how_probably_it_ends_below_a_loss() -> None:
    # The end is forecast as normal: its interval's ends have the tails that its mass leaves.
    assert ends_below(STATUS, {"code": 2.5441}, 0.9) == [
        "It ends below 2.5441 on code with probability 95 %."
    ]
    assert ends_below(STATUS, {"code": 2.0}, 0.9)[0].endswith("probability under 1 %.")
    assert ends_below(STATUS, {}, 0.9) == []
    # A run that is over has ended where it has.
    over = {"mean": 2.4, "lower": 2.4, "upper": 2.4}
    assert (below(over, 2.5, 0.9), below(over, 2.3, 0.9)) == (1.0, 0.0)
