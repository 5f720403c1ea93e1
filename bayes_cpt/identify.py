"""Which parameters of a law a study can determine, before anything is fitted.

The law's curve is linearised at its parameters, the residuals are given the sizes that their priors
expect, and the information that the study's points carry is set against the prior's. That is the
Laplace approximation of a fit to losses nobody has seen, so it costs no sampling.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.laws.law import gather
from bayes_cpt.points import Curves
from bayes_cpt.residuals import ResidualDesign, Scales
from bayes_cpt.setup import Frame, Setup, build_setup
from bayes_cpt.simulate import expected_loss
from bayes_cpt.spec import Distribution, Fixed, LogitNormal, LogNormal, ModelSpec, Normal
from bayes_cpt.study import Study

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

# A parameter of which the study takes less than half of the prior's variance rests on its prior.
IDENTIFIED = 0.5
# Where the law is linearised: at the priors' medians, and at points around them.
PLACES = 9
SPREAD = 0.5
SEED = 0
STEP = 1e-4
# Nats between a base and the PT law, as in the lab's studies.
TYPICAL_OFFSET = 0.03
# Information from more points of one curve than this adds next to nothing: neighbours are correlated.
POINTS_PER_CURVE = 60

ADVICE = {
    "reference_loss": "a PT run, or a CPT run from a known base",
    "reference_slope": "a PT run, or bases at different PT steps",
    "exponent": "a longer PT run, measured from early on",
    "annealing_gain": "a PT run or a base that anneals its learning rate",
    "memory": "a run whose learning rate falls or rises within a few hundred steps",
    "gain_ratio": "a CPT run that decays its learning rate to 0",
    "gain_replay": "CPT runs that decay the learning rate at high and at low replay",
    "shift_size": "a CPT run at low replay",
    "shift_rate": "checkpoints in the first per cents of a CPT run",
    "shift_exponent": "a CPT run several times longer, at low replay",
    "replay_curvature": "CPT runs at other replay ratios, one of 0.5 or more",
    "saturation_rate": "CPT runs at other replay ratios, one of 0.75 or more",
    "saturation_exponent": "CPT runs at three or more replay ratios, one of 0.75 or more",
    "replay_onset": "CPT runs at replay 0 and at a few per cent",
    "replay_quarter": "CPT runs at replay 0 and near 0.25",
    "replay_rate": "early checkpoints of CPT runs at different replay ratios",
    "adaptation_size": "CPT runs of different learning rates at the same replay",
    "adaptation_time": "CPT runs of different learning rates, two or three times longer",
    "offset_kept": "runs from bases that lie above and below the PT law (other steps, other anneals)",
    "offset_time": "the loss of every base at step 0, and checkpoints right after it",
}


def identifiability(study: Study, spec: ModelSpec) -> "pd.DataFrame":
    """Return what the runs of a study can be expected to determine.

    Parameters
    ----------
    study : Study
        Its losses are not used, only where they were measured.
    spec : ModelSpec

    Returns
    -------
    DataFrame
        Columns quantity, domain, contraction (expected share of the prior's variance that the study
        takes away), identified, advice (what would determine it).

    Raises
    ------
    StudyError
        If the study lacks what the law needs.
    """
    import pandas as pd

    setup = build_setup(spec, study)
    labels, priors = _free_parameters(setup.frame)
    generator = np.random.default_rng(SEED)
    places = SPREAD * generator.standard_normal((PLACES, len(labels)))
    places[0] = 0.0
    kept = np.median([_contractions(setup, labels, priors, place) for place in places], axis=0)
    names = setup.frame.law.parameters()
    rows = [
        {
            "quantity": name,
            "domain": member,
            "contraction": float(value),
            "identified": bool(value >= IDENTIFIED),
            "advice": ADVICE[name],
        }
        for (name, member), value in zip(labels, kept, strict=True)
        if name in names
    ]
    return pd.DataFrame(rows)


def _free_parameters(frame: Frame) -> tuple[list[tuple[str, str]], list[Distribution]]:
    """Return (parameter, validation set) and prior of everything that is sampled."""
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    labels: list[tuple[str, str]] = []
    priors: list[Distribution] = []
    for name, info in frame.parameters().items():
        for member in frame.coords()[info.dims] if info.dims else ("all",):
            prior = frame.spec.priors[name].of(roles.get(member))
            if not isinstance(prior, Fixed):
                labels.append((name, member))
                priors.append(prior)
    return labels, priors


def _contractions(
    setup: Setup, labels: list[tuple[str, str]], priors: list[Distribution], place: Floats
) -> Floats:
    """Return the expected contraction of each parameter, linearised at one place.

    Places are counted in prior standard deviations, so the prior's precision is the identity.
    """
    size = len(labels)
    shifts = np.concatenate([place + STEP * np.eye(size), place - STEP * np.eye(size), place[None]])
    values = _values(setup.frame, labels, priors, shifts)
    here = {name: value[-1:] for name, value in values.items()}
    curves = expected_loss(setup.frame, values, _typical_bases(setup, here))
    slopes = (curves[:size] - curves[size : 2 * size]).T / (2 * STEP)
    information = np.eye(size)
    for rows, covariance in _covariances(setup, here):
        information += slopes[rows].T @ np.linalg.solve(covariance, slopes[rows])
    return np.asarray(1.0 - np.diag(np.linalg.inv(information)))


def _typical_bases(setup: Setup, values: dict[str, Floats]) -> Curves:
    """Return the study's curves with bases as far from the law as bases are, whatever was measured.

    The law at its prior's medians may lie a nat from these losses; taken as a base's own offset, that
    would seem to say everything about how offsets are kept.
    """
    curves, law = setup.curves, setup.frame.law
    coefficients = gather(curves.bases, law.coefficients(values, np))
    loss = law.loss(curves.bases, coefficients, np)[0] + TYPICAL_OFFSET
    return replace(curves, bases=replace(curves.bases, loss=loss))


def _values(
    frame: Frame, labels: list[tuple[str, str]], priors: list[Distribution], places: Floats
) -> dict[str, Floats]:
    """Return parameters, shape (places, ...), from places in prior standard deviations."""
    columns = {
        label: _quantile(prior, places[:, i])
        for i, (label, prior) in enumerate(zip(labels, priors, strict=True))
    }
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    found = {}
    for name, info in frame.parameters().items():
        members = frame.coords()[info.dims] if info.dims else ("all",)
        filled = []
        for member in members:
            prior = frame.spec.priors[name].of(roles.get(member))
            fixed = np.full(len(places), prior.value) if isinstance(prior, Fixed) else None
            filled.append(columns[name, member] if fixed is None else fixed)
        found[name] = np.stack(filled, axis=1) if info.dims else filled[0]
    return found


def _quantile(prior: Distribution, place: Floats) -> Floats:
    match prior:
        case Normal(mean=mean, sd=sd):
            return np.asarray(mean + sd * place)
        case LogNormal(median=median, sigma=sigma, lower=lower, upper=upper):
            value = median * np.exp(sigma * place)
            return np.clip(value, lower, upper) if lower else np.asarray(value)
        case LogitNormal(median=median, sigma=sigma):
            logit = np.log(median / (1 - median)) + sigma * place
            return np.asarray(1.0 / (1.0 + np.exp(-logit)))
        case Fixed(value=value):
            return np.full_like(place, value)


def _covariances(setup: Setup, values: dict[str, Floats]) -> list[tuple[NDArray[np.int64], Floats]]:
    """Return chosen points of each curve and the covariance of their residuals."""
    frame, curves, design = setup.frame, setup.curves, setup.design
    if frame.spec.residuals.kind == "independent":
        error = values["error"][0, curves.points.domain_index]
        return [(np.arange(error.size), np.diag(error**2))]
    coefficients = frame.law.coefficients(values, np)
    scales = frame.residual_scales(curves.points, design.pretraining, values, coefficients, np)
    found = []
    for first, last in zip(design.first, design.last, strict=True):
        count = min(POINTS_PER_CURVE, last - first)
        rows = np.unique(np.linspace(first, last - 1, count).astype(np.int64))
        found.append((rows, _covariance(rows, curves, design, scales)))
    return found


def _covariance(
    rows: NDArray[np.int64], curves: Curves, design: ResidualDesign, scales: Scales
) -> Floats:
    steps = curves.points.steps[rows]
    memory = scales.memory[0, rows[0]]
    fluctuation = np.exp(-np.abs(steps[:, None] - steps) / memory)
    if design.floating[rows[0]] == 0:
        fluctuation -= np.exp(-(steps[:, None] + steps) / memory)
    size = scales.fluctuation[0, rows]
    misfit = scales.misfit[0, rows, None] * design.ramps[rows]
    level = scales.offset[0, rows] * design.floating[rows]
    return np.asarray(
        fluctuation * size[:, None] * size + misfit @ misfit.T + level[:, None] * level
    )
