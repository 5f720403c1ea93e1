"""Draws of nutpie's raw traces are those of its own ArviZ trees, and ArviZ is not loaded for them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow

from bayes_cpt.traces import Trace, columns_of, drawn, import_nutpie

LISTS = pyarrow.large_list(pyarrow.float64())


def trace(lengths: tuple[int, ...], tuning: int) -> Trace:
    """Return a raw trace whose first draws are tuning, with z = (draw, 10·chain) and a statistic."""
    variables, statistics = [], []
    for chain, length in enumerate(lengths):
        rows = [[float(draw), 10.0 * chain] for draw in range(length)]
        variables.append(pyarrow.record_batch({"z": pyarrow.array(rows, LISTS)}))
        statistics.append(
            pyarrow.record_batch(
                {
                    "tuning": pyarrow.array([draw < tuning for draw in range(length)]),
                    "depth": pyarrow.array(np.arange(length, dtype=np.uint64) + 100 * chain),
                    "message": pyarrow.array([None] * length, pyarrow.string()),
                }
            )
        )
    return tuple(zip(variables, statistics, strict=True))


def test_the_first_draws_after_tuning_are_kept() -> None:
    found = drawn(trace((9, 12), tuning=3), 5, ("z", "depth", "missing"))
    assert found is not None
    assert list(found) == ["z", "depth"]
    assert found["z"].shape == (2, 5, 2)
    np.testing.assert_array_equal(found["z"][1], [[draw, 10.0] for draw in range(3, 8)])
    np.testing.assert_array_equal(found["depth"], [np.arange(3, 8), np.arange(103, 108)])
    assert found["depth"].dtype == np.uint64


def test_a_chain_that_is_too_short_gives_nothing() -> None:
    assert drawn(trace((9, 7), tuning=3), 5, ("z",)) is None


def test_they_are_those_of_its_own_tree() -> None:
    nutpie = import_nutpie()
    from nutpie.compiled_pyfunc import from_pyfunc

    model = from_pyfunc(
        2,
        make_logp_fn=lambda: lambda x: (float(-0.5 * x @ x), -x),
        make_expand_fn=lambda *seeds: lambda x: {"z": x},
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(2,)],
        expanded_names=["z"],
    )
    asked: dict[str, Any] = {"draws": 20, "tune": 50, "chains": 2, "seed": 3, "progress_bar": False}
    raw = columns_of(nutpie.sample(model, **asked, return_raw_trace=True))
    found, again = (drawn(raw, 20, ("z", "depth")) for _ in range(2))
    theirs = nutpie.sample(model, **asked)
    assert found is not None
    assert again is not None
    np.testing.assert_array_equal(found["z"], again["z"])
    np.testing.assert_array_equal(found["z"], theirs.posterior["z"].to_numpy())
    np.testing.assert_array_equal(found["depth"], theirs.sample_stats["depth"].to_numpy())


def test_arviz_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys; from bayes_cpt.traces import import_nutpie; nutpie = import_nutpie()\n"
        "print('arviz' in sys.modules, 'arviz_plots' in sys.modules)\n"
        "print(nutpie.sample.__globals__['arviz'].from_dict.__module__)\n"
        "import arviz; print(arviz.rhat.__name__, import_nutpie() is nutpie)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert done[0] == "False False"
    assert done[1].startswith("arviz_base")
    assert done[2] == "rhat True"
