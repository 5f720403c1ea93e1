"""A base that was not measured: as uncertain under a CPT run as at the end of its own PT run."""

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, lab_posterior

from bayes_cpt.forecast.evaluate import Draws, noise
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import simulate
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, linear
from bayes_cpt.study.study import Study

PRETRAINING = linear(300, 0.0, 2e-3) + constant(7700, 2e-3) + linear(2000, 2e-3, 5e-4)
PT, CPT = 0, 1


def curves() -> Curves:
    """Return the end of a PT run, and the first and last steps of a CPT run that starts there."""
    runs = (
        Run("pretraining", "pt", PRETRAINING),
        Run("continued", "cpt", constant(3000, 5e-4), base="fresh", replay=0.5),
    )
    empty = pd.DataFrame(columns=["run", "step", "domain", "loss"])
    bases = (Base("fresh", PRETRAINING.steps, PRETRAINING),)
    plan = Study("plan", lab().general, lab().target, bases, runs, empty, is_plan=True)

    def steps(run: Run, _: str) -> list[int]:
        return [PRETRAINING.steps] if run.phase == "pt" else [1, 3000]

    return lab_posterior().frame.curves(plan, steps, runs, law().form)


def law() -> Draws:
    posterior = lab_posterior()
    return Draws.of(posterior.frame, posterior.parameters(100))


@pytest.mark.parametrize("domain", [0, 1])
def test_a_cpt_run_starts_as_uncertain_as_the_pt_run_ends(domain: int) -> None:
    found, frame = curves(), lab_posterior().frame
    sizes = noise(found, law())
    pretraining, continued = (
        sizes[found.points.curve_index == curve] for curve in (2 * PT + domain, 2 * CPT + domain)
    )
    # The first step keeps nearly all of the level, and adds the fluctuation and the first of the misfit of
    # a CPT run.
    assert (continued[0] > 0.95 * pretraining[0]).all()
    fluctuation, misfit = (
        law().parameters[name][:, domain] for name in ("fluctuation_cpt", "misfit_cpt")
    )
    started = 1.0 - 0.6 ** (2.0 * np.log1p(1.0 / (0.002 * frame.reference.steps)))
    added = fluctuation**2 + misfit**2 * started / (1.0 - 0.6**2)
    assert (continued[0] ** 2 < pretraining[0] ** 2 + added + 1e-6).all()


def test_draws_of_curves_are_as_wide_as_bands() -> None:
    found, posterior = curves(), lab_posterior()
    draws = [
        simulate(
            posterior.frame, posterior.parameters(100), found, None, np.random.default_rng(seed)
        )
        for seed in range(30)
    ]
    spread = np.concatenate([own.loss - own.expected for own in draws]).std(axis=0)
    sizes = np.sqrt((noise(found, law()) ** 2).mean(axis=1))
    np.testing.assert_allclose(spread, sizes, rtol=0.08)
