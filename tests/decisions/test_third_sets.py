"""Objectives that name third validation sets, against the sums that these sets are made of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import lab, posterior_near_the_mode
from third_set import MADE, with_mix

from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.decisions.next_run import next_run
from bayes_cpt.errors import SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.report.methods import methods
from bayes_cpt.report.page import Report

NAMED = {"weights": {"general": 0.4, "mix": 0.6}}
TYPED = NAMED | {"mixtures": {"mix": {"general": MADE["general"], "target": MADE["kernel"]}}}
SPACE: dict[str, Any] = {"bases": ["stable_12k", "annealed_0pct"], "replay": [0.1, 0.3, 0.5]}
SHORT = """
[runs.short]
phase = "cpt"
base = "stable_12k"
replay = 0.0
schedule = [ { shape = "constant", steps = 400, start = 0.002, end = 0.002 } ]
"""


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    runs = ["pt_trunk", "pt_anneal0", "r00_cos", "r25_cos", "r50_cos", "r25_a0_rewarm"]
    return posterior_near_the_mode(with_mix(lab().subset(runs)))


def choice(posterior: Posterior, objective: dict[str, Any], risk: str = "expected") -> Decision:
    return decide(posterior, objective, SPACE, risk, draws=100, candidates=16)


def test_a_set_by_name_is_worth_what_the_sum_it_is_made_of_is(posterior: Posterior) -> None:
    named, typed = (choice(posterior, own) for own in (NAMED, TYPED))
    found, wanted = (own.contenders.values.mean(axis=1) for own in (named, typed))
    np.testing.assert_allclose(found, wanted, atol=0.03)
    own = named.table().set_index("option").loc["recommended"]
    wanted = MADE["general"] * own["general_change"] + MADE["kernel"] * own["kernel_change"]
    assert own["mix_change"] == pytest.approx(wanted, abs=0.05)
    assert own["mix_lower"] < own["mix"] < own["mix_upper"]
    assert "mix" not in typed.table()
    # A report forecasts it beside the others.
    page = Report(posterior, named, named.plan(), None, 0.9, 0, "")
    assert "mix" in set(page.tables["forecast"].values["domain"])
    assert named.sentences()
    assert "mix since the base is a weighted" in " ".join(
        methods(posterior, choice=named.valuation)
    )
    # What is not known of the weights counts.
    assert named.contenders.values.std(axis=1)[0] > 0.0


def test_changes_count_from_what_was_measured_of_the_base(posterior: Posterior) -> None:
    decision = choice(posterior, NAMED)
    valuation = decision.valuation
    study, reference = posterior.study, valuation.reference
    assert reference is not None
    losses = [study.base_loss(reference.name, name) or 0.0 for name in ("general", "mix")]
    found = valuation.before(valuation.combination, decision.contenders.candidates)
    np.testing.assert_allclose(found, 0.4 * losses[0] + 0.6 * losses[1], atol=1e-9)


def test_a_tighter_constraint_on_a_third_set_is_kept_less_often(posterior: Posterior) -> None:
    change = choice(posterior, NAMED).table()["mix_change"][0]
    table = {"domain": "mix", "probability": 0.999}
    rises = [{**table, "rise": change + apart} for apart in (-0.2, 0.0, 0.2)]
    limit = {**table, "limit": 100.0, "kind": "expected"}
    breaches = choice(posterior, NAMED | {"constraints": [*rises, limit]}).contenders.breaches[:, 0]
    assert breaches[0] > 0.9
    assert 0.3 < breaches[1] < 0.7
    assert breaches[2] < 0.1
    assert breaches[3] == 0.0


def test_a_base_that_nobody_measured_is_told(posterior: Posterior) -> None:
    unmeasured = replace(posterior.study.base("annealed_0pct"), name="other")
    valuation = choice(posterior, NAMED).valuation
    with pytest.raises(SpecError, match=r"objective, domain mix: the base \w+ was not measured"):
        valuation.combination.offset((unmeasured,))


def test_a_short_run_tells_how_a_set_goes_with_a_law(posterior: Posterior, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text(SHORT, encoding="utf-8")
    losses = posterior.study.losses
    # Measured in one run alone, and there with errors.
    told = (losses["domain"] == "mix") & (losses["run"] == "r50_cos") & (losses["step"] > 0)
    kept = losses[(losses["domain"] != "mix") | (losses["step"] == 0) | told]
    errors = 0.03 * np.random.default_rng(0).standard_normal(len(kept))
    kept = kept.assign(loss=kept["loss"] + np.where(told[kept.index], errors, 0.0))
    hardly = replace(posterior, study=replace(posterior.study, losses=kept.reset_index(drop=True)))
    space, objective = SPACE | {"replay": [0.0, 0.5]}, {"weights": {"mix": 1.0}}
    typed = objective | {"mixtures": TYPED["mixtures"]}
    named, known = (
        next_run(hardly, own, space, tmp_path / "runs.toml", draws=400, candidates=16)
        for own in (objective, typed)
    )
    worth, of_law = (found.values["short"].value for found in (named, known))
    assert 0.3 * named.perfect[0] < worth < 1.1 * named.perfect[0]
    assert worth > 10.0 * of_law
    assert "measured on mix too" in named.verdict()[0]
    assert " too" not in known.verdict()[0]
