"""The multi-power term that says the same as a posterior's annealing term about a study's own runs.

Two terms that agree on every schedule that was run may differ on one that was not: a gain that only one
of them promises rests on its form, not on data. `bayes_cpt.laws.multi_power` has the term.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import AreaForm, learning_rate_level
from bayes_cpt.laws.multi_power import Falls, MultiPower
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

# Medians of the authors' three fits, 25M to 400M parameters, which agree within 0.02. With both free, least
# squares takes gamma to 1 and beta to infinity, where the term is the annealing area once more.
BETA, GAMMA = 0.594, 0.641
POINTS = 12
# More falls than this are merged.
FALLS = 150
NODES = 17
# How far from the memory's own pace C is looked for, in logs.
REACH = 6.0


@dataclass(frozen=True, eq=False)
class MultiPowerMatch:
    """Coefficients of the multi-power term for each momentum of the annealing area.

    By least squares over points spread evenly along every run of a study: at each momentum C and a factor b
    are such that ``b·sum_k (eta_{k-1} - eta_k)·G`` is the fall of the level of the learning rate. Both
    terms have the same gain per fall in each draw, so that this is the least-squares match of every draw.

    Parameters
    ----------
    momenta : ndarray, shape (nodes,)
        Falling or alike.
    pace, factor : ndarray, shape (nodes,)
        C and b.
    misfit : ndarray, shape (nodes,)
        Root mean square of what is left between the two, as a share of the highest learning rate: times
        the gain of a full anneal it is in nats.
    """

    momenta: Floats
    pace: Floats
    factor: Floats
    misfit: Floats

    @classmethod
    def of(cls, study: Study, form: AreaForm) -> Self:
        """Return the match on the runs of a study over the momenta of a form.

        Parameters
        ----------
        study : Study
        form : AreaForm
        """
        distance = 1.0 - np.array([form.momenta.low, form.momenta.high])
        nodes = 1.0 - np.geomspace(distance.min(), distance.max(), NODES)
        courses = _courses(study, form)
        falls = [Falls.of(rates, before, steps, FALLS) for rates, before, steps in courses]
        highest = max(max(float(rates.max()), before) for rates, before, _ in courses)
        matches = []
        for momentum in nodes:
            fallen = [
                before - learning_rate_level(rates, momentum, before, form.paces(rates))[steps - 1]
                for rates, before, steps in courses
            ]
            target = np.concatenate(fallen)
            matches.append(_matched(falls, target, highest, float(1.0 - momentum)))
        pace, factor, misfit = np.array(matches).T
        return cls(nodes, pace, factor, misfit / highest)

    def at(self, momenta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return pace, factor and misfit at momenta of the range, each of their shape.

        Parameters
        ----------
        momenta : ndarray
        """
        place, nodes = np.log(1.0 - momenta), np.log(1.0 - self.momenta)
        return (
            np.exp(np.interp(place, nodes, np.log(self.pace))),
            np.interp(place, nodes, self.factor),
            np.interp(place, nodes, self.misfit),
        )


def _courses(study: Study, form: AreaForm) -> list[tuple[Floats, float, NDArray[np.int64]]]:
    """Return the learning rates of each run, the one before, and the steps that are compared.

    A PT run counts from the end of its warm-up, unless the warm-up counts in its annealing area.
    """
    courses = []
    for run in study.runs:
        rates, before = run.schedule.learning_rates(), 0.0
        if run.phase == "pt":
            warmup = 0 if form.count_warmup else run.schedule.warmup_steps
            before = 0.0 if form.count_warmup else float(rates[max(warmup - 1, 0)])
            rates = rates[warmup:]
        else:
            base: Schedule | None = study.base(str(run.base)).schedule
            before = base.final if base else 0.0
        if rates.size:
            shares = np.arange(1, POINTS + 1) / POINTS
            courses.append(
                (rates, before, np.unique(np.ceil(shares * rates.size).astype(np.int64)))
            )
    return courses


def _matched(
    falls: list[Falls], target: Floats, highest: float, distance: float
) -> tuple[float, float, float]:
    from scipy.optimize import minimize_scalar

    def reduced(log_pace: float) -> Floats:
        values = {"C_mp": np.exp(log_pace), "beta_mp": BETA, "gamma_mp": GAMMA}
        given = {name: np.array([value]) for name, value in values.items()}
        return np.concatenate([MultiPower().reduced(course, given, np) for course in falls])

    def factor(effect: Floats) -> float:
        square = float(effect @ effect)
        return float(effect @ target) / square if square > 0 else 1.0

    def misfit(log_pace: float) -> float:
        effect = reduced(log_pace)
        return float(np.mean((factor(effect) * effect - target) ** 2))

    middle = np.log(distance * highest ** (GAMMA - 1.0))
    best = minimize_scalar(misfit, bounds=(middle - REACH, middle + REACH), method="bounded")
    return float(np.exp(best.x)), factor(reduced(best.x)), float(np.sqrt(best.fun))
