"""A family of three sizes gives back the sizes' part of the law that made its losses."""

import numpy as np
import pytest
from size_family import BIG, family, plan, simulated

from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.fitting import fit
from bayes_cpt.inference.new_sizes import covering_sizes
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run

MODEL = "pretrain-sizes"
ASKED = ("size_slope", "power_by_size", "annealing_by_size", "reference_loss", "annealing_gain")
# An error of more sds than this has a chance of a hundredth in any of some sixty.
FARTHEST = 4.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_parameters_of_size_are_recovered_and_a_larger_model_is_foretold(seed: int) -> None:
    study = family(continual=False)
    frame = build_setup(read_spec(MODEL), study).frame
    every = draw_priors(frame, 400, seed=seed)
    # A study like those that the priors expect, nearer to their middle than the tails.
    truth = {
        name: np.median(values, axis=0)[None] + 0.5 * (values[:1] - np.median(values, axis=0))
        for name, values in every.items()
    }
    posterior = fit(simulated(study, truth, MODEL, seed), MODEL, seed, draws=250)
    found = posterior.parameters()
    for name in ASKED:
        error = found[name].mean(axis=0) - truth[name][0]
        assert np.all(np.abs(error) < FARTHEST * found[name].std(axis=0)), name
    assert found["size_slope"].std() < 0.8 * every["size_slope"].std()
    run = Run("large", "pt", BIG, model_size=1300.0)
    table = bands(posterior, plan(run), "expected")
    covering = covering_sizes(posterior, [1300.0]).frame
    curves = covering.curves(plan(run), lambda asked, _: [asked.schedule.steps])
    own = truth | {
        name: np.append(truth[name], 0.0)[None]
        for name in ("size_deviation", "annealing_deviation")
    }
    coefficients = covering.law.coefficients(own, np)
    law = covering.law.curve_loss(curves.points, curves.bases, coefficients, np)
    last = table[table["step"] == BIG.steps].iloc[0]
    assert abs(float(law[0, 0]) - last["mean"]) < FARTHEST * last["sd"]
