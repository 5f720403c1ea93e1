from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.derived import Typical, effect_runs, last_points, start_loss
from bayes_cpt.identify.elicitation import elicit, model_text
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.identify.statements import Statement
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

SPEC = read_spec("cpt-replay")
FRAME = build_setup(SPEC, lab()).frame


def stated(**keys: Any) -> Statement:
    return Statement(reason="Runs before these.", **keys)


def predicted(spec: ModelSpec, source: Study, run: Run, domain: str) -> Floats:
    """Return the change of a loss under a model's priors, from draws of its own."""
    frame = Frame(spec, FRAME.domains, FRAME.roles, FRAME.reference)
    curves = last_points(frame, source, [run])
    draws = draw_priors(frame, 40_000, seed=7)
    change = expected_loss(frame, draws, curves) - start_loss(frame, draws, curves)
    return np.asarray(change[:, [curve.domain for curve in curves.curves].index(domain)])


def typical(replay: float) -> tuple[Study, Run]:
    source = effect_runs(FRAME, Typical(steps=3000, peak=2e-3, replay=replay))
    return source, source.run("typical")


CASES: dict[str, list[Statement]] = {
    "one": [stated(loss="target", falls_by=(0.1, 0.4))],
    "two": [
        stated(loss="kernel", replay=0.0, falls_by=(0.5, 1.5), mass=0.8),
        stated(loss="general", replay=0.25, changes_by=(-0.3, 0.1)),
    ],
    "a run": [stated(loss="target", run="r25_cos", falls_by=(0.5, 1.5))],
}


@cache
def made(name: str) -> Any:
    return elicit(FRAME, lab(), CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_elicited_prior_predicts_what_was_stated(name: str) -> None:
    for statement in CASES[name]:
        domain = "general" if statement.loss == "general" else "kernel"
        if statement.run:
            source, run = lab(), lab().run(statement.run)
        else:
            source, run = typical(0.25 if statement.replay is None else statement.replay)
        change = predicted(made(name).spec, source, run, domain)
        lower, upper = statement.interval
        # Draws of their own vary: a hundredth of the mass, and its width, is what they may be off by.
        found = np.quantile(change, statement.tails)
        np.testing.assert_allclose(found, [lower, upper], atol=0.05 * (upper - lower))
        inside = np.mean((change >= lower) & (change <= upper))
        assert inside == pytest.approx(statement.mass, abs=0.015)
        before = predicted(SPEC, source, run, domain)
        assert abs(np.mean((before >= lower) & (before <= upper)) - statement.mass) > 0.1


@pytest.mark.parametrize("name", CASES)
def test_the_table_says_how_priors_moved(name: str) -> None:
    table = made(name).table
    width = table["upper"] - table["lower"]
    for end in ("lower", "upper"):
        assert ((table[f"now_{end}"] - table[end]).abs() <= 0.02 * width).all()
    assert ((table["was_upper"] - table["was_lower"]) > 1.2 * width).any()


def test_what_has_nothing_to_do_with_a_statement_stays() -> None:
    now = FreeParameters(Frame(made("one").spec, FRAME.domains, FRAME.roles, FRAME.reference))
    for label, prior in FreeParameters(FRAME).priors.items():
        if label[1] == "general" or label[0].startswith(("fluctuation", "misfit", "offset_pt")):
            assert now.priors[label] == prior, label


def test_priors_move_as_little_as_can_be() -> None:
    """Moving the size of the shift alone says the same, but from further away."""
    spec = made("one").spec
    now = FreeParameters(Frame(spec, FRAME.domains, FRAME.roles, FRAME.reference)).priors
    was = FreeParameters(FRAME).priors
    distance = 0.0
    for label, prior in was.items():
        (center, spread), (before, width) = (
            (now[label].center, now[label].spread),
            (prior.center, prior.spread),
        )
        ratio = spread / width
        distance += 0.5 * (ratio**2 + ((center - before) / width) ** 2 - 1) - np.log(ratio)
    assert 0 < distance < 12
    shift = now["shift_share", "kernel"]
    assert shift.center < was["shift_share", "kernel"].center
    assert shift.spread < was["shift_share", "kernel"].spread


def test_statements_about_parameters_have_closed_forms() -> None:
    found = elicit(
        FRAME,
        lab(),
        [
            stated(parameter="exponent", between=(0.1, 0.4)),
            stated(parameter="offset_kept", on="target", between=(0.0, 0.2), mass=0.5),
            stated(parameter="memory", between=(15.0, 200.0)),
            stated(parameter="replay_quarter", between=(0.1, 0.5)),
        ],
    )
    priors = found.spec.priors
    np.testing.assert_allclose(
        priors["exponent"].of("general").quantiles([0.05, 0.95]), [0.1, 0.4], rtol=1e-3
    )
    kept = priors["offset_kept"]
    np.testing.assert_allclose(kept.of("target").quantiles([0.25, 0.75]), [0.0, 0.2], atol=1e-3)
    assert kept.of("general") == SPEC.priors["offset_kept"].of("general")
    np.testing.assert_allclose(
        priors["memory"].of(None).quantiles([0.05, 0.95]), [15, 200], rtol=2e-3
    )
    assert set(found.changed) == {"exponent", "offset_kept", "memory", "replay_quarter"}
    assert "Runs before these." in priors["exponent"].reason
    assert SPEC.priors["exponent"].reason in priors["exponent"].reason


def test_the_text_is_a_model_that_says_the_same(tmp_path: Path) -> None:
    place = tmp_path / "mine.toml"
    place.write_text(model_text(made("two"), "mine", "cpt-replay"), encoding="utf-8")
    read = read_spec(place)
    assert read.name == "mine"
    assert read.priors == made("two").spec.priors
    assert read.law == SPEC.law


def test_a_model_of_ones_own_is_extended(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "own.toml"
    own.write_text('extends = "cpt-replay"\nname = "own"\n[residuals]\nskip_pretraining = 0.2\n')
    found = elicit(build_setup(read_spec(own), lab()).frame, lab(), CASES["one"])
    place = tmp_path / "mine.toml"
    place.write_text(model_text(found, "mine", "own/own.toml"), encoding="utf-8")
    assert read_spec(place).residuals.skip_pretraining == 0.2


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (
            [stated(parameter="exponnent", between=(0.1, 0.2))],
            ("did you mean exponent", "bayes-cpt prior"),
        ),
        ([stated(parameter="memory", on="target", between=(20, 90))], ("share it", "leave on out")),
        ([stated(parameter="replay_onset", on="target", between=(20, 90))], ("not sampled there",)),
        ([stated(parameter="exponent", between=(-1, 0.5))], ("between 0 and inf",)),
        (
            [stated(loss="code", falls_by=(0.1, 0.4))],
            ("no validation set 'code'", "general, kernel"),
        ),
        (
            [
                stated(loss="target", falls_by=(0.1, 0.2)),
                stated(loss="target", falls_by=(1.0, 1.1)),
            ],
            ("no priors near those of cpt-replay say it", "contradicts it"),
        ),
    ],
)
def test_what_cannot_be_said_is_refused(statements: list[Statement], said: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as refused:
        elicit(FRAME, lab(), statements)
    for fragment in said:
        assert fragment.lower() in str(refused.value).lower()


def test_an_unknown_run_and_a_law_without_runs() -> None:
    with pytest.raises(ValueError, match="there is no run 'r25_cosine'"):
        elicit(FRAME, lab(), [stated(loss="target", run="r25_cosine", falls_by=(0.1, 0.4))])
    frame = build_setup(read_spec("pretrain"), lab()).frame
    with pytest.raises(SpecError, match="the model knows no CPT run"):
        elicit(frame, lab(), [stated(loss="general", falls_by=(0.1, 0.4))])
