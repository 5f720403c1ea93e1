"""How alike the errors of the losses of a run are: what is in the data, and what is used."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from size_family import losses_of
from synthetic import lab, prior_as_posterior
from target_family import several

from bayes_cpt.forecast.error_correlation import FLUCTUATION, MISFIT, error_correlation
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.discrepancy import ErrorCorrelation
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import simulate

TRUE = ErrorCorrelation(-0.6, 0.8)


def measured_again(posterior: Posterior, truth: ErrorCorrelation) -> dict[str, float]:
    """Return the mean of what is found of studies whose CPT runs are drawn anew."""
    setup = fitted_setup(posterior.frame, posterior.study)
    one = {name: value[:1] for name, value in posterior.parameters(4).items()}
    names = [run.name for run in posterior.study.continual_runs]
    losses = posterior.study.losses
    others = losses[~losses["run"].isin(names) | losses["step"].eq(0)]
    found = []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        drawn = simulate(posterior.frame, one, setup.curves, None, generator, truth).loss[0]
        table = losses_of(setup.curves, drawn)
        whole = pd.concat([others, table[table["run"].isin(names)]], ignore_index=True)
        study = replace(posterior.study, losses=whole)
        found.append(asdict(error_correlation(Posterior(posterior.tree, study, posterior.frame))))
    return {name: float(np.mean([own[name] for own in found])) for name in found[0]}


def test_the_correlation_of_simulated_runs_is_found_as_far_as_they_tell() -> None:
    found = measured_again(prior_as_posterior(lab(), draws=1, spread=0.0), TRUE)
    # Ten runs against what five others showed; hundreds of neighbours against fifty.
    shrunk = np.tanh((10 * np.arctanh(-0.6) + 5 * np.arctanh(MISFIT)) / 15)
    assert found["misfit"] == pytest.approx(shrunk, abs=0.25)
    # The misfit, which goes the other way here, moves a little between neighbours too.
    assert 0.5 < found["fluctuation"] < 0.85


@pytest.mark.parametrize("alike", [0.0, 0.95])
def test_several_targets_are_as_alike_as_their_runs_show(alike: float) -> None:
    posterior = prior_as_posterior(several(measured=40), draws=1, spread=0.0)
    found = measured_again(posterior, ErrorCorrelation(alike, alike))
    # Eight runs of four sets count for 12 pairs, beside what five others showed.
    shrunk = np.tanh((12 * np.arctanh(alike) + 5 * np.arctanh(MISFIT)) / 17)
    assert found["misfit"] == pytest.approx(shrunk, abs=0.15)


def test_without_a_measured_pair_other_studies_are_believed() -> None:
    posterior = prior_as_posterior(lab())
    alone = lab().losses["domain"].ne("kernel") | lab().losses["step"].eq(0)
    study = replace(lab(), losses=lab().losses[alone | lab().losses["run"].str.startswith("pt_")])
    found = error_correlation(Posterior(posterior.tree, study, posterior.frame))
    assert (found.misfit, found.fluctuation) == pytest.approx((MISFIT, FLUCTUATION))
