from functools import cache

import numpy as np
import pandas as pd
import pytest
from designs import DESIGNS_BY_NAME, laplace_posterior
from synthetic import lab, prior_as_posterior

from bayes_cpt.forecast.derived import LONG, PT_ANNEALED, SLOWER
from bayes_cpt.identify.determination import determination


@cache
def found(name: str) -> pd.DataFrame:
    table = determination(laplace_posterior(DESIGNS_BY_NAME[name]()))
    return table.set_index(["kind", "quantity", "domain"])


def advice(name: str, kind: str, quantity: str) -> list[str]:
    own = found(name).xs((kind, quantity), level=("kind", "quantity"))
    return [said for said in own["advice"] if said]


@pytest.mark.parametrize(
    ("lacking", "kind", "quantity", "said"),
    [
        ("without anneals", "parameter", "gain_ratio", PT_ANNEALED),
        ("one rate", "effect", "rate_effect", SLOWER),
        ("one replay", "coefficient", "omega", "at replay"),
        ("one replay", "coefficient", "b", "at replay"),
        ("one replay", "effect", "replay_effect", "at replay"),
        ("too short", "coefficient", "beta", LONG),
        ("too short", "effect", "length_effect", LONG),
    ],
)
def test_each_lack_is_named_after_a_fit_too(
    lacking: str, kind: str, quantity: str, said: str
) -> None:
    assert any(said in one for one in advice(lacking, kind, quantity))
    assert advice("full", kind, quantity) == []


def test_the_ridges_of_the_law_are_named() -> None:
    table = found("full")
    partners = {
        coefficient: {
            (name, domain): correlation
            for name, domain, correlation in table.loc[
                ("coefficient", coefficient, on), "moves_with"
            ]
        }
        for coefficient, on in (("L0", "general"), ("A", "target"))
    }
    # A higher floor is met by a faster fall; and A, which is per LR^rho·steps, goes with rho.
    assert partners["L0"]["alpha", "general"] > 0 > partners["A"]["rho", "all"]
    for index in table.index:
        kind = index[0]
        for name, domain, correlation in table.loc[index, "moves_with"]:
            assert abs(correlation) > 0.7
            assert (kind, name, domain) in table.index


def test_correlations_are_of_ranks_in_the_posterior() -> None:
    from scipy.stats import spearmanr

    posterior = laplace_posterior(DESIGNS_BY_NAME["full"]())
    draws = [posterior.draws(name, "general").ravel() for name in ("L0", "alpha")]
    told = found("full").loc[("coefficient", "L0", "general"), "moves_with"]
    value = next(r for name, domain, r in told if (name, domain) == ("alpha", "general"))
    assert value == pytest.approx(spearmanr(*draws).statistic, abs=1e-9)


def test_moments_and_contraction_are_those_of_the_summary() -> None:
    posterior = laplace_posterior(DESIGNS_BY_NAME["full"]())
    wanted = posterior.summary(0.8).set_index(["kind", "quantity", "domain"])
    table = determination(posterior, 0.8).set_index(["kind", "quantity", "domain"])
    shared = wanted.index.intersection(table.index)
    assert len(shared) > 40
    for column in ("mean", "lower", "upper", "contraction"):
        np.testing.assert_allclose(table.loc[shared, column], wanted.loc[shared, column], rtol=1e-9)


def test_a_posterior_that_is_its_prior_determines_nothing() -> None:
    table = determination(prior_as_posterior(lab(), draws=250, spread=1.0))
    parameters = table[table["kind"] == "parameter"]
    assert not parameters["identified"].any()
    assert (parameters["advice"] != "").all()
