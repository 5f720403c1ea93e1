"""All commands agree on what a fit has determined, what it leaves open and which run tells most of that."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Call
from open_weights import open_study
from synthetic import lab, prior_as_posterior

from bayes_cpt.forecast.derived import AT_REPLAY, LONG, SLOWER
from bayes_cpt.identify.determination import Facts, facts, identifiability
from bayes_cpt.study.study import Study

pytestmark = pytest.mark.usefixtures("few_candidates")

FEW = ("--draws", 60, "--candidates", 16)
PURE, REWARMED = AT_REPLAY.format(0), ("r25_a0_rewarm", "r50_a30_lin")
COMMANDS = {"summary": (), "decide": FEW, "next-run": FEW, "schedule": ("--steps", 300, *FEW[:2])}


def one_set(kept: str, *runs: str) -> Study:
    losses = lab().losses
    unmeasured: Any = {"target" if kept == "general" else "general": None}
    shown = losses["run"].isin(runs) & (losses["domain"] == kept)
    return replace(lab().subset(list(runs)), losses=losses[shown], **unmeasured)


# What is left open, and the run that tells most. The target alone has annealed bases, and no replay of 0.
KINDS: dict[str, tuple[Callable[[], Study], str, str]] = {
    "cpt-lab": (lab, "length", LONG),
    "general": (lambda: one_set("general", "r00_cos", "r50_cos"), "rate base length", SLOWER),
    "target": (lambda: one_set("kernel", *REWARMED), "replay base length", PURE),
    "unknown base": (open_study, "rate length", SLOWER),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_commands_tell_the_same_facts(call: Call, tmp_path: Path, kind: str) -> None:
    made, left_open, telling = KINDS[kind]
    posterior, fit = prior_as_posterior(made()), tmp_path / "fit.nc"
    # As a fit keeps them; summary works them out again.
    known = asdict(facts(posterior))
    posterior.save(fit)
    assert list(known["left_open"]) == [f"{name}_effect" for name in left_open.split()]
    assert known["telling"] == telling
    expected = Facts.of(identifiability(posterior.study, posterior.frame.spec))
    assert (expected.left_open, expected.telling) == (known["left_open"], telling)
    for verb, options in COMMANDS.items():
        assert call(verb, fit, *options, "--json").json()["facts"] == known
