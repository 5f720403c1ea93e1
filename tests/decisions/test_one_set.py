"""Studies that measured one validation set: that is answered for, and the other is said to be unknown."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from few_free import with_few_free
from figures import draw_nothing
from synthetic import lab, prior_as_posterior

import bayes_cpt
from bayes_cpt import Posterior, Study
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.landmarks import critical_point, survey, turning_length
from bayes_cpt.report.page import report

NAMES = {"general": "general", "target": "kernel"}
OTHER = {"general": "target", "target": "general"}
ROLES = list(NAMES)


@cache
def one_set(role: str, bases_too: bool = False) -> Study:
    """Return the lab with the losses of one set, and maybe those of the bases on the other."""
    losses = lab().losses
    kept = losses["domain"] == NAMES[role]
    if bases_too:
        kept |= (losses["step"] == 0) & (losses["domain"] == NAMES[OTHER[role]])
    named: dict[str, Any] = {} if bases_too else {OTHER[role]: None}
    return replace(lab(), losses=losses[kept], **named)


@cache
def posterior(role: str) -> Posterior:
    return prior_as_posterior(one_set(role))


@pytest.mark.parametrize("bases_too", [False, True])
@pytest.mark.parametrize("role", ROLES)
def test_the_law_is_that_of_what_was_measured(role: str, bases_too: bool) -> None:
    own = prior_as_posterior(one_set(role, bases_too))
    frame = own.frame
    assert (frame.domains, frame.roles) == ((NAMES[role],), (role,))
    assert frame.unmeasured == OTHER[role]
    # A slow pace that no set has a share of is no part of it.
    assert ("slow_memory" in frame.parameters()) == (role == "target")
    table = own.predict(one_set(role), draws=40)
    assert set(table["domain"].to_numpy().tolist()) == {NAMES[role]}
    assert np.isfinite(table["loss"].sel(run="r25_cos").to_numpy()).any()


@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_a_fit_of_one_set_forecasts_its_runs(role: str, tmp_path: Path) -> None:
    """Few numbers free, so that it is quick; the rest at medians of their priors."""
    free = ("reference_loss", "reference_slope", "shift_share", "replay_quarter", "replay_dilution")
    spec = with_few_free("cpt-replay", free)
    found = bayes_cpt.fit(one_set(role), spec, seed=1, draws=150, attempts=1)
    assert found.frame.domains == (NAMES[role],)
    ends = found.predict(one_set(role), draws=200)["loss"]
    for run in ("r00_cos", "r50_cos"):
        _, losses = lab().curve(run, NAMES[role])
        drawn = ends.sel(run=run, domain=NAMES[role], step=3000).to_numpy()
        assert abs(drawn.mean() - losses[-1]) < 0.1
    found.save(tmp_path / "fit.nc")
    again = bayes_cpt.load(tmp_path / "fit.nc").predict(one_set(role), draws=200)
    assert again["loss"].equals(ends)
    assert bayes_cpt.decide(found, draws=80, candidates=64).table()[NAMES[role]].notna().all()


@pytest.mark.parametrize("role", ROLES)
def test_a_decision_is_about_what_was_measured_and_says_what_is_unknown(role: str) -> None:
    choice = bayes_cpt.decide(posterior(role), "balanced", draws=80, candidates=64)
    assert choice.valuation.objective.weights == {role: 0.5}
    assert choice.valuation.combination.weights.tolist() == [1.0]
    alone = bayes_cpt.decide(posterior(role), {"weights": {role: 1.0}}, draws=80, candidates=64)
    assert choice.table()["replay"][0] == alone.table()["replay"][0]
    said = f"what runs do to {OTHER[role]} data is unknown"
    assert said in choice.verdict()[1]
    assert any(said in line for line in choice.sentences())
    assert any("Coming back" in line for line in choice.sentences()) == (role == "general")
    # Nothing is traded: of the front the lowest is left.
    assert len(choice.front_table()) == 1
    assert len(choice.plan().continual_runs) >= 1
    assert all(panel.axison for panel in choice.plot().axes)


@pytest.mark.parametrize("role", ROLES)
def test_what_was_not_measured_is_neither_constrained_nor_all_that_counts(role: str) -> None:
    limit = {"domain": OTHER[role], "limit": 3.0, "probability": 0.1}
    for objective in (
        {"weights": {"general": 1.0, "target": 1.0}, "constraints": [limit]},
        {"weights": {OTHER[role]: 1.0}},
    ):
        with pytest.raises(SpecError, match=f"measured {NAMES[role]} alone") as caught:
            bayes_cpt.decide(posterior(role), objective, draws=80, candidates=64)
        assert f"leave {OTHER[role]} out" in caught.value.problems[0].fix


@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@pytest.mark.parametrize("role", ["general", pytest.param("target", marks=pytest.mark.slow)])
def test_a_report_says_what_is_unknown(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    space = {"bases": "stable_12k", "replay": [0.1, 0.5], "steps": 3000}
    page = report(posterior(role), space=space, draws=80).html()
    assert f"what runs do to {OTHER[role]} data is unknown" in " ".join(page.split())


def test_landmarks_of_what_was_not_measured_are_refused_in_words() -> None:
    for asked in (
        lambda: survey(posterior("target")),
        lambda: critical_point(posterior("target")),
        lambda: turning_length(posterior("target")),
        lambda: turning_length(posterior("general"), balances=[0.5]),
    ):
        with pytest.raises(StudyError, match=r"loss, and the fit is of .* alone"):
            asked()
    lengths = turning_length(posterior("general"), runs=["r25_cos"], draws=40, horizon=6000)
    assert lengths.draws["length"].shape == (40, 1, 2, 1)
    assert critical_point(posterior("general"), [0.25]).table()["exists"].item() == 1.0
