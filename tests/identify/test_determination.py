"""What a study can tell of each quantity, before a fit and after one, and the run that would tell more."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from designs import DESIGNS, laplace_posterior
from size_family import family
from synthetic import lab, prior_as_posterior

from bayes_cpt import Posterior
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast import derived
from bayes_cpt.forecast.derived import LONG, PT_ANNEALED, SLOWER, Typical, effects_of, tried
from bayes_cpt.identify.determination import (
    IDENTIFIED,
    candidate_runs,
    determination,
    identifiability,
)
from bayes_cpt.model.priors import LogNormal, Prior
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec

# --- before a fit ---------------------------------------------------------------------------------


@cache
def found(name: str) -> pd.DataFrame:
    table = identifiability(DESIGNS[name](), read_spec("cpt-replay"))
    return table.set_index(["quantity", "domain"])


def named(name: str) -> dict[tuple[str, str], str]:
    """Return what a design is said to leave open, and the run that would tell."""
    return {label: advice for label, advice in found(name)["advice"].items() if advice}


def test_sizes_of_which_a_quarter_of_the_mean_is_one_but_for_rounding() -> None:
    frame = build_setup(read_spec("cpt-replay-sizes"), family()).frame
    assert 0.25 * frame.reference.model_size not in frame.sizes
    table = identifiability(family(), read_spec("cpt-replay-sizes"))
    assert table["contraction"].between(0.0, 1.0).all()


# Quantities that each lack leaves open, with a part of the advice.
LACKS: list[tuple[str, list[str], str]] = [
    # A whole PT curve tells C1 and C2, and nearly as well the start of a CPT run from an annealed base.
    ("without anneals", ["gain_ratio", "base_effect"], "anneal"),
    ("one rate", ["rate_effect"], SLOWER),
    ("one replay", ["replay_onset", "gain_replay", "replay_effect"], "at replay"),
    ("too short", ["shift_exponent", "length_effect"], LONG),
    ("all annealed", ["base_effect"], derived.UNANNEALED),
]


@pytest.mark.parametrize(("lacking", "quantities", "advice"), LACKS)
def test_a_lack_is_named_with_its_remedy(lacking: str, quantities: list[str], advice: str) -> None:
    open_ones = named(lacking)
    for quantity in quantities:
        advised = [said for (name, _), said in open_ones.items() if name == quantity]
        assert advised, quantity
        assert all(advice in said for said in advised), advised
    # Where nothing lacks none is named.
    assert not {name for name, _ in named("full")} & set(quantities)


def test_the_run_advised_is_the_one_that_tells() -> None:
    gained = found("without anneals").loc["gain_ratio"]
    assert (gained["contraction"] < 0.2).all()
    assert (gained["with_advice"] > gained["contraction"] + 0.35).all()
    shape = found("too short").loc["shift_exponent"]
    left = (1.0 - shape["with_advice"]) / (1.0 - shape["contraction"])
    # The target moves fast enough to show its exponent in short runs too.
    assert left["target"] < 0.8
    assert left["general"] < 2 / 3


UNTRIED = {
    "full": set(),
    "one rate": {"rate_effect"},
    "one replay": {"replay_effect"},
    "without anneals": {"base_effect"},
    "too short": {"length_effect"},
}


def test_a_study_that_differs_in_one_thing_has_tried_it() -> None:
    studies = [(DESIGNS[name](), own) for name, own in UNTRIED.items()]
    for study, untried in (*studies, (lab(), {"length_effect"})):
        frame = build_setup(read_spec("cpt-replay"), study).frame
        assert {name for name, differ in tried(frame, study).items() if not differ} == untried


def test_contractions_are_shares_and_grow_with_what_is_added() -> None:
    for name in DESIGNS:
        table = found(name)
        assert table["contraction"].between(0, 1).all()
        assert (table["with_advice"] >= table["contraction"] - 1e-9).all()
        assert (table["identified"] == (table["contraction"] >= IDENTIFIED)).all()


def test_a_longer_run_never_tells_less() -> None:
    short, whole = found("too short"), found("full")
    assert (whole["contraction"] >= short["contraction"] - 1e-9).all()
    effects = whole.index[whole["kind"] == "effect"]
    assert (whole.loc[effects, "sd"] <= short.loc[effects, "sd"]).all()


def test_what_moves_together_is_named_both_ways() -> None:
    table = found("one replay")
    pairs = {
        ((quantity, domain), partner[:2]): partner[2]
        for (quantity, domain), partners in table["moves_with"].items()
        for partner in partners
    }
    assert pairs
    assert all(abs(value) > 0.7 for value in pairs.values())
    # At one replay ratio, the size of the shift and what replay does to it are one number.
    assert (("shift_share", "general"), ("replay_quarter", "general")) in pairs


@pytest.mark.parametrize("model", ["pretrain", "cpt"])
def test_other_laws_have_effects_and_candidates_of_their_own(model: str) -> None:
    study = DESIGNS["full"]().subset(["pt_stable", "pt_annealed", "quarter", "slow", "rewarmed"])
    spec = read_spec(model)
    frame = build_setup(spec, study).frame
    table = identifiability(study, spec)
    effects = set(table.loc[table["kind"] == "effect", "quantity"])
    assert effects == {effect.name for effect in effects_of(frame)}
    names = {curve.run for curve in candidate_runs(frame, Typical.of(study)).curves}
    assert {effect.run for effect in effects_of(frame)} <= names
    assert not any("replay" in name for name in names)
    assert not (model == "pretrain" and any("CPT" in name for name in names))


def test_a_study_without_what_the_law_needs_is_refused() -> None:
    with pytest.raises(StudyError, match="there is no CPT run"):
        identifiability(DESIGNS["full"]().subset(["pt_stable"]), read_spec("cpt-replay"))


def test_priors_that_leave_all_numbers_still_get_an_answer() -> None:
    """An exponent of e^50 at one prior sd: the law overflows, and tells nothing there."""
    spec = read_spec("cpt-replay")
    wide = Prior(reason="trial", every=LogNormal(distribution="lognormal", median=0.5, sigma=50.0))
    changed = spec.model_copy(update={"priors": spec.priors | {"exponent": wide}})
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        found = identifiability(lab(), changed)
    assert found["contraction"].between(0.0, 1.0).all()
    assert np.isfinite(found["sd"]).all()


# --- after one ------------------------------------------------------------------------------------


@cache
def fitted(name: str) -> Posterior:
    return laplace_posterior(DESIGNS[name]())


@cache
def found_after(name: str) -> pd.DataFrame:
    return determination(fitted(name)).set_index(["kind", "quantity", "domain"])


def advice(name: str, kind: str, quantity: str) -> list[str]:
    own = found_after(name).xs((kind, quantity), level=("kind", "quantity"))
    return [said for said in own["advice"] if said]


@pytest.mark.parametrize(
    ("lacking", "kind", "quantity", "said"),
    [
        ("without anneals", "parameter", "gain_ratio", PT_ANNEALED),
        ("one rate", "effect", "rate_effect", SLOWER),
        ("one replay", "coefficient", "omega", "at replay"),
        ("one replay", "effect", "replay_effect", "at replay"),
        ("too short", "coefficient", "beta", LONG),
        ("too short", "effect", "length_effect", LONG),
    ],
)
def test_a_lack_is_named_after_a_fit_too(lacking: str, kind: str, quantity: str, said: str) -> None:
    assert any(said in one for one in advice(lacking, kind, quantity))
    assert advice("full", kind, quantity) == []


def test_the_ridges_of_the_law_are_named() -> None:
    table = found_after("full")
    level, power = (
        {tuple(label): r for *label, r in table.loc[("coefficient", *own), "moves_with"]}
        for own in (("L0", "general"), ("A", "target"))
    )
    # A higher floor is met by a faster fall; and A, which is per LR^rho·steps, goes with rho.
    assert level["alpha", "general"] > 0 > power["rho", "all"]
    for (kind, *_), moves_with in table["moves_with"].items():
        for name, domain, correlation in moves_with:
            assert abs(correlation) > 0.7
            assert (kind, name, domain) in table.index


def test_correlations_are_of_ranks_in_the_posterior() -> None:
    from scipy.stats import spearmanr

    posterior = fitted("full")
    draws = [posterior.draws(name, "general").ravel() for name in ("L0", "alpha")]
    told = found_after("full").loc[("coefficient", "L0", "general"), "moves_with"]
    value = next(r for name, domain, r in told if (name, domain) == ("alpha", "general"))
    assert value == pytest.approx(spearmanr(*draws).statistic, abs=1e-9)


def test_moments_and_contraction_are_those_of_the_summary() -> None:
    posterior = fitted("full")
    wanted = posterior.summary(0.8).set_index(["kind", "quantity", "domain"])
    table = determination(posterior, 0.8).set_index(["kind", "quantity", "domain"])
    shared = wanted.index.intersection(table.index)
    assert len(shared) > 40
    for column in ("mean", "lower", "upper", "contraction"):
        np.testing.assert_allclose(table.loc[shared, column], wanted.loc[shared, column], rtol=1e-9)
    assert (table["with_advice"] >= table["contraction"] - 1e-9).all()


def test_a_posterior_that_is_its_prior_determines_nothing() -> None:
    table = determination(prior_as_posterior(lab(), draws=250, spread=1.0))
    parameters = table[table["kind"] == "parameter"]
    assert not parameters["identified"].any()
    assert (parameters["advice"] != "").all()
