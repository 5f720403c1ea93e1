"""What nutpie calls is the density, and nothing of it is kept when a part of its code changes."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from open_weights import open_study
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.inference import native
from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.whitening import Metric
from bayes_cpt.model.build import build_model
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study

SPEC = read_spec("cpt-replay")
POINTER = ctypes.POINTER(ctypes.c_double)


def metric(density: Density, seed: int) -> Metric:
    """Return white coordinates about the priors' centre, turned and stretched."""
    size = density.start.size
    turned = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]
    return Metric(density.start, 0.2 * turned)


def called(density: Density, white: Floats, chosen: Metric) -> tuple[int, float, Floats]:
    """Return what the compiled function answers, its log density and its gradient."""
    model = native.native_model(density.block(chosen), lambda seed: white)
    gradient, total = np.empty(white.size), np.empty(1)
    pointers = (
        array.ctypes.data_as(POINTER) for array in (white, gradient, total, model.user_data)
    )
    answer = model.compiled_logp_func.ctypes(white.size, *pointers)
    return int(answer), float(total[0]), gradient


@pytest.mark.parametrize("study", [lab(), open_study()], ids=["replay", "unknown base"])
def test_nutpie_is_told_what_the_density_says(study: Study) -> None:
    density = density_of(build_model(study, SPEC))
    chosen = metric(density, seed=1)
    function = density.in_metric(chosen)
    for white in np.random.default_rng(2).standard_normal((5, density.start.size)):
        answer, total, gradient = called(density, white, chosen)
        expected, slopes = function(white)
        assert answer == native.DONE
        assert total == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "separate_paces",
        "join_slopes",
        "separate_spreads",
        "join_spread_slopes",
        "_log_mean",
        "add_alikeness",
        "add_correlations",
        "prior_density",
        "white_gradient",
    ],
)
def test_what_is_compiled_together_stands_in_one_file(name: str) -> None:
    """Numba keeps what a file compiles until that file changes, whatever it calls in others."""
    module = native.compiled_density()
    assert getattr(module, name).py_func.__module__ == module.__name__
    assert module.__file__ is not None
    assert f"def {name}(" in Path(module.__file__).read_text(encoding="utf-8")


def test_a_step_to_where_nothing_is_finite_is_rejected() -> None:
    density = density_of(build_model(open_study(), SPEC))
    far = np.full(density.start.size, 1e6)
    answer, _, _ = called(density, far, Metric(density.start, np.eye(far.size)))
    assert answer == native.NOT_FINITE


def test_a_draw_is_its_position() -> None:
    density = density_of(build_model(open_study(), SPEC))
    white = np.random.default_rng(3).standard_normal(density.start.size)
    model = native.native_model(density.block(metric(density, seed=1)), lambda seed: white)
    drawn = np.empty(white.size)
    pointers = (array.ctypes.data_as(POINTER) for array in (white, drawn, model.user_data))
    assert model.compiled_expand_func.ctypes(white.size, white.size, *pointers) == native.DONE
    np.testing.assert_array_equal(drawn, white)
