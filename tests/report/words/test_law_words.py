"""What a study's runs have in common, and what a law misses, in words."""

import re

import numpy as np
import pytest
from designs import full, one_rate
from printed import printed_posterior
from synthetic import lab, lab_posterior

from bayes_cpt.inference.law_checks import DRIFT, FACTOR, RUN, SIZE, LawCheck
from bayes_cpt.report.words.law import alarm_text, power_words, resting, rests_on, undivided


def test_what_no_two_runs_differ_in_is_named_by_phase() -> None:
    assert undivided(lab(), continual=True) == [
        "No two PT runs differ in: peak learning rate.",
        "No two CPT runs differ in: length.",
    ]
    assert undivided(lab(), continual=False) == ["No two PT runs differ in: peak learning rate."]
    alone = lab().subset(["pt_trunk"])
    assert undivided(alone, continual=False) == [
        "There is one PT run: nothing can be compared with it."
    ]


def test_conclusions_rest_on_what_is_the_same_in_all_runs() -> None:
    assert rests_on(lab(), continual=True) == "one PT peak learning rate (0.002)"
    assert rests_on(one_rate(), continual=True) == (
        "one PT peak learning rate (0.002) and one CPT peak learning rate (0.002)"
    )
    some = full().subset(["pt_stable", "quarter", "half"])
    assert "one base (stable)" in rests_on(some, continual=True)
    assert "one CPT schedule family (decay throughout)" in resting(some, continual=True)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ((RUN, "long", "pt", 0.03, 0.01, 3.0), "Run long on g lies 0.03 nats above the law, 3.0"),
        ((DRIFT, "long", "pt", -0.03, 0.01, -3.0), "Run long on g falls by 0.03 nats"),
        ((FACTOR, "base", "cpt", 0.2, 0.0, 0.0), "CPT runs on g goes with their base, over 0.2"),
        ((SIZE, "offset_pt", "", 0.156, 0.005, 0.0), "0.16 nats where the prior's median is 0.005"),
    ],
)
def test_every_alarm_has_its_sentence(
    check: tuple[str, str, str, float, float, float], told: str
) -> None:
    kind, subject, phase, value, usual, score = check
    assert told in alarm_text(LawCheck(kind, subject, phase, "g", value, usual, score, 1e-5, True))


def test_what_twice_the_peak_gives_follows_from_rho() -> None:
    """Steps at twice the learning rate sum to 2^rho times the area."""
    said = power_words(lab_posterior(), 0.8)
    low, high = np.quantile(lab_posterior().parameters()["forward_power"], [0.1, 0.9])
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", said)]
    assert numbers[:3] == [round(low, 2), round(high, 2), 80.0]
    areas = np.sum(np.full(500, 2.0)[:, None] ** [low, high], axis=0) / 500.0
    assert numbers[3:5] == [round(100 * (area - 1.0)) for area in areas]
    assert power_words(printed_posterior("moderate"), 0.8) == ""
