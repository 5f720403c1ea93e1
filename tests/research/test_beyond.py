"""The share of the law's slope that is off beyond the fitted steps, from ends made by hand."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from testbench.beyond import ends, likeliest_share, shares, without_widening

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study

SLOPE, STUDIED = 0.2, 1000
MEASURED = pd.DataFrame(
    [
        ("inside", "validation", 900, 3.4),
        ("far", "validation", 2000, 3.2),
        ("far", "validation", 4000, 3.1),
        ("nearly", "validation", 1010, 3.3),
    ],
    columns=["run", "domain", "step", "loss"],
)


def simulated_ends(share: float, studies: int, runs: int, seed: int) -> list[pd.DataFrame]:
    """Return ends of studies whose slopes are off by a share, beside errors of a known sd."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(studies):
        promised, sd = generator.uniform(0.05, 0.3, runs), generator.uniform(1e-3, 5e-3, runs)
        error = np.hypot(sd, share * promised) * generator.standard_normal(runs)
        found.append(pd.DataFrame({"error": error, "sd": sd, "promised": promised}))
    return found


def predict(plan: object, kind: str, at: pd.DataFrame) -> xr.Dataset:
    """Return draws of 3.05 and 3.07 at the asked points."""
    assert (plan, kind) == ("plan", "new_run")
    assert at["step"].tolist() == [4000]
    losses = np.broadcast_to([[[3.05]], [[3.07]]], (2, 1, 1))
    coordinates = {"run": ["far"], "domain": ["validation"], "step": [4000]}
    values = losses.reshape(1, 2, 1, 1, 1)
    return xr.Dataset(
        {"loss": (("chain", "draw", "run", "domain", "step"), values)}, coords=coordinates
    )


def test_ends_beyond_the_fitted_steps_alone_are_looked_at() -> None:
    posterior: Any = SimpleNamespace(
        parameters=lambda: {"reference_slope": np.array([[0.15], [0.25]])},
        frame=SimpleNamespace(studied_pt=STUDIED),
        predict=predict,
    )
    row = ends(cast(Posterior, posterior), cast(Study, "plan"), MEASURED).iloc[0]
    assert row["promised"] == pytest.approx(SLOPE * np.log(4.0))
    assert row["error"] == pytest.approx(3.1 - 3.06)
    assert row["sd"] == pytest.approx(0.01)
    near = MEASURED[MEASURED["run"] != "far"]
    assert ends(cast(Posterior, posterior), cast(Study, "plan"), near).empty


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_the_share_that_made_the_ends_is_found(share: float) -> None:
    found = likeliest_share(simulated_ends(share, 40, 50, 3))
    assert found == pytest.approx(share, rel=0.1)


def test_a_study_of_many_runs_tells_no_more_than_one_of_few() -> None:
    (few,), (many,) = simulated_ends(0.02, 1, 40, 1), simulated_ends(0.2, 1, 40, 2)
    once = likeliest_share([few, many])
    assert likeliest_share([few, pd.concat([many] * 30)]) == pytest.approx(once, rel=1e-3)
    table = shares({"size-1x1": few, "mpl-1m": many}).set_index("studies")
    assert table.loc["all", "share"] == pytest.approx(once)
    assert table.loc["all without mpl", "share"] == pytest.approx(table.loc["size-1x1", "share"])
    assert table.loc["mpl-1m", "runs"] == 40


def test_the_model_that_ends_are_forecast_by_does_not_widen() -> None:
    spec = without_widening(read_spec("pretrain"))
    assert spec.residuals.extrapolation_pt == 0.0
    assert spec.priors == read_spec("pretrain").priors
