"""How alike the errors of the two losses of a run are: what is in the data, and what is used."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, prior_as_posterior

from bayes_cpt.forecast.error_correlation import FLUCTUATION, MISFIT, error_correlation
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import simulate

TRUE = ErrorCorrelation(-0.6, 0.8)


def test_the_correlation_of_simulated_runs_is_found_as_far_as_they_tell() -> None:
    posterior = prior_as_posterior(lab(), spread=0.0)
    setup = fitted_setup(posterior.frame, posterior.study)
    points, named = setup.curves.points, setup.curves.curves
    one = {name: value[:1] for name, value in posterior.parameters(4).items()}
    found = []
    for seed in range(6):
        drawn = simulate(
            posterior.frame, one, setup.curves, None, np.random.default_rng(seed), TRUE
        ).loss[0]
        index = points.curve_index
        table = pd.DataFrame(
            {
                "run": [named[place].run for place in index],
                "step": points.steps.astype(int),
                "domain": [named[place].domain for place in index],
                "loss": drawn,
            }
        )
        table = table[table["run"].isin([run.name for run in lab().continual_runs])]
        others = lab().losses["run"].str.startswith("pt_") | lab().losses["step"].eq(0)
        losses = pd.concat([lab().losses[others], table], ignore_index=True)
        study = replace(lab(), losses=losses)
        found.append(error_correlation(Posterior(posterior.tree, study, posterior.frame)))
    misfit, fluctuation = (
        np.mean([getattr(own, name) for own in found]) for name in ("misfit", "fluctuation")
    )
    # Ten runs against what five others showed; hundreds of neighbours against fifty.
    shrunk = np.tanh((10 * np.arctanh(-0.6) + 5 * np.arctanh(MISFIT)) / 15)
    assert misfit == pytest.approx(shrunk, abs=0.25)
    # The misfit, which goes the other way here, moves a little between neighbours too.
    assert 0.5 < fluctuation < 0.85


def test_without_a_measured_pair_other_studies_are_believed() -> None:
    posterior = prior_as_posterior(lab())
    alone = lab().losses["domain"].ne("kernel") | lab().losses["step"].eq(0)
    runs = lab().losses["run"].str.startswith("pt_")
    study = replace(lab(), losses=lab().losses[alone | runs])
    found = error_correlation(Posterior(posterior.tree, study, posterior.frame))
    assert (found.misfit, found.fluctuation) == pytest.approx((MISFIT, FLUCTUATION))
