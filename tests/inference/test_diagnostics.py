"""What falls short of the contract is named, and good draws have no problem."""

import numpy as np
import pytest

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.diagnostics import Diagnostics, diagnose


def good(seed: int = 0, draws: int = 1000) -> Floats:
    return np.random.default_rng(seed).standard_normal((4, draws))


def verdict(values: dict[str, Floats], *, diverging: int = 0, saturated: int = 0) -> Diagnostics:
    shape = next(iter(values.values())).shape[:2]
    flags = np.zeros((2, *shape), dtype=bool)
    flags[0].flat[:diverging] = True
    flags[1].flat[:saturated] = True
    return diagnose(values, {"diverging": flags[0], "reached_max_treedepth": flags[1]})


def test_good_draws_have_no_problem() -> None:
    found = verdict({"a": good(), "b": np.stack([good(1), good(2)], axis=2)})
    assert found.trustworthy
    assert found.problems == ()
    assert found.rhat["b"].shape == (2,)
    assert found.rhat["a"] < 1.01
    assert found.ess_bulk["a"] > 3000


def test_chains_apart_are_named_by_r_hat_the_worst_first() -> None:
    shift = np.arange(4)[:, None]
    found = verdict({"fine": good(), "near": good(1) + 0.5 * shift, "apart": good(1) + shift})
    assert not found.trustworthy
    figures = [problem.split(" is ")[0] for problem in found.problems]
    worst = [f"{kind} of {name}" for kind in ("R-hat", "bulk ESS") for name in ("apart", "near")]
    assert figures[:4] == worst
    assert not any("fine" in p for p in found.problems)


def test_sticky_chains_are_named_by_their_effective_draws() -> None:
    problems = verdict({"sticky": np.repeat(good(3, 50), 20, axis=1)}).problems
    assert any(p.startswith("bulk ESS of sticky is") and "below 400" in p for p in problems)
    assert any(p.startswith("tail ESS of sticky is") and "below 400" in p for p in problems)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_named(bad: float) -> None:
    broken = good()
    broken[2, 7] = bad
    assert verdict({"broken": broken}).problems == ("broken has draws that are not finite",)


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_fewer_draws_than_arviz_needs_are_a_problem(draws: int) -> None:
    problems = verdict({"a": good(draws=draws)}).problems
    assert problems[:2] == ("R-hat of a is inf, above 1.01", "bulk ESS of a is 0, below 400")


def test_divergences_and_saturation_are_counted() -> None:
    found = verdict({"a": good()}, diverging=3, saturated=5)
    assert (found.divergences, found.saturated) == (3, 5)
    assert found.problems == ("3 draws diverged", "5 trajectories ran to the greatest depth")
