"""Real refits in this process, on two processes and on a Dask cluster: the same numbers."""

import importlib.util
from functools import partial

import pandas as pd
import pytest
from synthetic import lab
from testbench.calibration import (
    HELD_OUT,
    ModelReplicates,
    design_study,
    held_out_run,
    simulated_ranks,
)

from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.folds import held_out_folds
from bayes_cpt.validate.held_out import OURS, package_method, score_folds
from bayes_cpt.validate.tasks import Pool

pytestmark = pytest.mark.slow

# It fits fastest.
SPEC = read_spec("pretrain")
SIMULATIONS = 4


def ranks(pool: Pool) -> pd.DataFrame:
    design = design_study(lab(), SPEC, points=5)
    whole = design.with_runs([held_out_run(design)])
    replicate = ModelReplicates(SPEC, whole, (HELD_OUT,), cores=pool.cores(SIMULATIONS))
    return simulated_ranks(replicate, SIMULATIONS, seed=1, pool=pool)


def scores(pool: Pool) -> pd.DataFrame:
    folds = held_out_folds(lab(), SPEC, ["pt_cosine", "pt_trunk"], [0.5])
    method = partial(package_method, specs=[SPEC], draws=300, cores=pool.cores(len(folds)))
    points, refits = score_folds(folds, {OURS: method}, seed=1, pool=pool)
    assert len(refits) == 2
    return points


@pytest.fixture(scope="module")
def here() -> tuple[pd.DataFrame, pd.DataFrame]:
    return ranks(Pool(jobs=1)), scores(Pool(jobs=1))


def test_two_processes(here: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    pd.testing.assert_frame_equal(ranks(Pool(jobs=2)), here[0], check_exact=True)
    pd.testing.assert_frame_equal(scores(Pool(jobs=2)), here[1], check_exact=True)


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
)
def test_a_dask_cluster(here: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    from distributed import LocalCluster

    # Two workers of two threads each: fits in one process at the same time must not meddle.
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as cluster:
        pool = Pool(dask=cluster.scheduler_address)
        pd.testing.assert_frame_equal(ranks(pool), here[0], check_exact=True)
        pd.testing.assert_frame_equal(scores(pool), here[1], check_exact=True)
