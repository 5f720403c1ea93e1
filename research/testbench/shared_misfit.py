"""A misfit that belongs to the configuration: what the law misses of a run it misses of runs like it.

Its length is drawn anew for each study, within what errors of real runs leave open, and its two losses err
together as those of cpt-lab do.
"""

from collections.abc import Mapping

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.discrepancy import (
    OWN_SHARE,
    Configuration,
    ErrorCorrelation,
    SharedMisfit,
    correlated,
)
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import simulate
from bayes_cpt.study.runs import Run
from testbench.short_studies import BASES, DOMAINS, Noise, package_noise
from testbench.truths import Parameters

MIDDLE = 0.85
LENGTHS = (MIDDLE / 3.0, 2.0 * MIDDLE)
ALIKE = ErrorCorrelation(misfit=0.73, fluctuation=0.15)


def shared_misfit(seed: int) -> SharedMisfit:
    """Return the misfit of one true law."""
    low, high = np.log(LENGTHS)
    length = float(np.exp(np.random.default_rng(seed).uniform(low, high)))
    return SharedMisfit(1, ALIKE.misfit, len(DOMAINS), seed, (length,))


def noise_of(misfit: SharedMisfit | None, runs: tuple[Run, ...]) -> Noise:
    """Return what makes measured losses of runs."""
    if misfit is None:
        return package_noise
    bases = {base.name: base.schedule for base in BASES}
    features: Mapping[str, Configuration] = {
        run.name: Configuration.of(bases[str(run.base)], run.schedule, run.replay or 0.0)
        for run in runs
        if run.phase == "cpt"
    }

    def measured(
        frame: BoundModel, truth: Parameters, curves: Curves, generator: np.random.Generator
    ) -> Floats:
        own: dict[str, Floats] = {}

        def innovations(curve: Curve, knots: int) -> Floats | None:
            if not curve.continual:
                return None
            if curve.run not in own:
                drawn = generator.standard_normal((len(DOMAINS), 1, knots))
                own[curve.run] = np.asarray(correlated(drawn, ALIKE.misfit), np.float64)
            places = features[curve.run].features(frame.reference)
            shared = misfit.innovations(places, knots)[:, 0]
            whole = np.sqrt(1.0 - OWN_SHARE) * shared + np.sqrt(OWN_SHARE) * own[curve.run]
            return np.asarray(whole[DOMAINS.index(curve.domain)])

        drawn = simulate(frame, truth, curves, None, generator, ALIKE, innovations)
        return np.asarray(drawn.loss[0])

    return measured
