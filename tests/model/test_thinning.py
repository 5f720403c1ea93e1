"""What thinning a long log costs, against the whole log, in exact information."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from synthetic import lab

from bayes_cpt import Run, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyWarning
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.identify.determination import STEP, FreeParameters
from bayes_cpt.model.evaluate import Draws, scales_of
from bayes_cpt.model.fitted_points import thinned
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE, ResidualDesign, Scales
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.simulate import CurveResidual, expected_loss, precision_products
from bayes_cpt.study.schedules import cosine, warmup_stable_decay

SPEC = read_spec("cpt-replay")
LENGTH, POINTS = 12_000, 3000
STEPS = np.unique(np.linspace(1, LENGTH, POINTS).astype(int)).tolist()


@given(
    st.sets(st.integers(1, 100_000), min_size=1, max_size=300),
    st.floats(0.1, 1e3),
    st.integers(4, 60),
)
def test_thinned_steps_are_some_of_all_with_both_ends(
    steps: set[int], onset: float, most: int
) -> None:
    every = sorted(steps)
    kept = thinned(every, onset, most)
    assert kept == sorted(set(kept))
    assert set(kept) <= steps
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (every[0], every[-1])
    assert len(kept) == len(every) or len(every) > most


@cache
def frame() -> BoundModel:
    return build_setup(SPEC, lab()).frame


@cache
def long_curves() -> Curves:
    own = frame()
    base = lab().bases[0]
    assert base.schedule is not None
    start = base.schedule.final
    runs = (
        Run("wsd", "cpt", warmup_stable_decay(LENGTH, 2e-3, decay_steps=2000, warmup_steps=50,
                                               start=start), base=base.name, replay=0.1),
        Run("cosine", "cpt", cosine(LENGTH, 1e-3), base=base.name, replay=0.5),
    )  # fmt: skip
    plan = replace(lab(), runs=runs, losses=lab().losses.iloc[:0], is_plan=True)
    plan = with_base_losses(lab(), own.domains, plan)
    return own.curves(plan, lambda run, domain: STEPS, runs)


@cache
def slopes(seed: int) -> Floats:
    """Return the slopes of the law at a draw from the priors, which knows no memory of errors."""
    free = FreeParameters(frame())
    place = free.places(draw_priors(frame(), 1, seed))[0]
    size = place.size
    around = np.concatenate([place + STEP * np.eye(size), place - STEP * np.eye(size)])
    losses = expected_loss(frame(), free.values(around), long_curves())
    return np.asarray((losses[:size] - losses[size:]).T / (2 * STEP))


def told(
    rows: NDArray[np.int64], curves: Curves, slopes: Floats, design: ResidualDesign, scales: Scales
) -> Floats:
    """Return the information of some points of one curve: S' C^-1 S, in O(points)."""
    part = CurveResidual.of(design, scales, rows)  # type: ignore[arg-type]
    products, _ = precision_products(part, slopes[None, rows])
    return np.asarray(products[0])


# What is lost beside slow changes where the fluctuation all but vanishes at the end of a decay, in sds.
AT_THE_END = 0.25


@pytest.mark.parametrize("floor", [0.25, 0.06])
@pytest.mark.parametrize("memory", [0.05, 0.02, 0.01])
def test_no_quantity_is_known_much_less_from_a_thinned_log(memory: float, floor: float) -> None:
    known = {"fluctuation_memory": memory, "fluctuation_floor": floor}
    fixed = {name: np.full((1, 2), value) for name, value in known.items()}
    curves = long_curves()
    firsts = range(0, curves.points.steps.size, len(STEPS))
    for seed in range(4):
        draws = Draws.of(frame(), draw_priors(frame(), 1, seed) | fixed, curves.points.form)
        parts = slopes(seed), frame().residual_design(curves), scales_of(curves, draws)
        size = parts[0].shape[1]
        whole = np.eye(size)
        for first in firsts:
            whole += told(first + np.arange(len(STEPS)), curves, *parts)
        for most in (100, 250, 500):
            kept = np.array(thinned(STEPS, ONSET_SHARE * frame().reference.steps, most))
            less = np.eye(size)
            for first in firsts:
                less += told(first + np.searchsorted(STEPS, kept), curves, *parts)
            # The largest ratio of posterior variances, over all linear combinations of parameters.
            ratio = np.linalg.eigvals(np.linalg.solve(less, whole)).real.max()
            # What thinning takes from whatever changes slowly beside the gaps, in sds; the start does not.
            x = 0.5 * np.diff(kept).max() / (memory * frame().reference.steps)
            slow = np.sqrt(x / np.tanh(x)) - 1.0
            assert 0.0 < np.sqrt(ratio) - 1.0 <= 2.0 * slow + (AT_THE_END if floor < 0.1 else 0.0)


def test_long_logs_are_thinned_and_said_to_be_but_not_where_errors_are_independent() -> None:
    study = lab()
    run, general = study.continual_runs[0], str(study.general)
    every = range(1, 3001)
    falling = 3.0 - 1e-3 * np.log1p(np.asarray(every))
    losses = pd.DataFrame({"run": run.name, "step": every, "domain": general, "loss": falling})
    rest = study.losses[study.losses["run"] != run.name]
    long = replace(study, losses=pd.concat([losses, rest], ignore_index=True))
    assert len(frame().fitted_steps(long, run, general)) <= 1000
    printed = build_setup(read_spec("cpt-replay-printed"), study).frame
    assert printed.fitted_steps(long, run, general) == list(every)
    with pytest.warns(StudyWarning, match=rf"run {run.name}, domain .*\d of its 3000 losses enter"):
        setup = build_setup(SPEC, long)
    assert np.bincount(setup.curves.points.curve_index).max() <= 1000


def test_of_many_long_logs_fewer_points_enter() -> None:
    study = lab()
    run, every = study.run("r25_cos"), range(10, 3001, 10)
    runs = [replace(run, name=f"copy {k}") for k in range(30)]
    losses = pd.concat(
        pd.DataFrame(
            {"run": own.name, "step": every, "domain": domain, "loss": 3.0 - k * 1e-3 - 1e-5 * step}
        )
        for k, own in enumerate(runs)
        for domain, step in product(frame().domains, [np.asarray(every)])
    )
    study = replace(
        study,
        runs=(*study.runs, *runs),
        losses=pd.concat([study.losses, losses], ignore_index=True),
    )
    with pytest.warns(StudyWarning, match="of its 300 losses enter"):
        setup = build_setup(SPEC, study)
    kept = np.bincount(setup.curves.points.curve_index)
    assert 80 < kept.max() <= 10_000 // (2 * 44)
