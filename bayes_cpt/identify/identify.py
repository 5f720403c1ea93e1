"""What a study can determine, before anything is fitted, and which run would tell the rest.

The law's curve is linearised at its parameters, the residuals are given the sizes that their priors
expect, and the information that the study's points carry is set against the prior's. That is the
Laplace approximation of a fit to losses nobody has seen, so it costs no sampling.
"""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.derived import Typical, derived_quantities, effects_of, tried
from bayes_cpt.identify.candidates import candidate_runs, with_further_sizes
from bayes_cpt.identify.information import STEP, FreeParameters, finite, information, marginal
from bayes_cpt.laws.law import ALONG
from bayes_cpt.model.groups.grouping import GROUPED
from bayes_cpt.model.setup import POOLED, build_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.points import Curves


# A quantity of which the study takes less than half of the prior's variance rests on its prior.
IDENTIFIED = 0.5
# Where the law is linearised: at the priors' medians, and at points around them.
PLACES = 9
SPREAD = 0.5
SEED = 0
# Above this correlation two quantities are told apart badly: they move together.
STRONG_CORRELATION = 0.7
PARTNERS = 3


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
        One row per parameter of the law and per effect of a typical run (see `bayes_cpt.forecast.derived`),
        and validation set. Columns quantity, domain, kind (``parameter`` or ``effect``), contraction
        (expected share of the prior's variance that the study takes away), sd (expected: nats/token for
        effects, prior sds for parameters), identified (a contraction of at least 0.5), tried (whether runs
        differ in what an effect is about, see `bayes_cpt.forecast.derived.tried`), moves_with (what it is
        expected to correlate with by more than 0.7: (quantity, domain, correlation), strongest first),
        advice (the run that would tell most about what is not identified or not tried, else empty) and
        with_advice (the contraction with that run).

    Raises
    ------
    StudyError
        If the study lacks what the law needs.
    """
    setup = build_setup(spec, study)
    free = FreeParameters(setup.frame)
    generator = np.random.default_rng(SEED)
    places = SPREAD * generator.standard_normal((PLACES, len(free.labels)))
    places[0] = 0.0
    table = expected(free, study, setup.curves, places)
    return table.assign(advice=table["advice"].where(~table["identified"] | ~table["tried"], ""))


def expected(
    free: FreeParameters,
    study: Study,
    curves: "Curves",
    places: Floats,
    *,
    coefficients: bool = False,
) -> "pd.DataFrame":
    """Return `identifiability` with the law linearised at given places, the median of which counts.

    Here every quantity has its advice.

    Parameters
    ----------
    free : FreeParameters
    study : Study
        Says what a typical run is.
    curves : Curves
        Its points.
    places : ndarray, shape (places, free)
        In prior standard deviations from the priors' medians.
    coefficients : bool
        Whether the coefficients of the printed equation are asked about as well.
    """
    import pandas as pd

    directions = _quantity_directions(free, study, places, coefficients=coefficients)
    wide = FreeParameters(with_further_sizes(free.frame))
    candidates = candidate_runs(wide.frame, Typical.of(study))
    known = [wide.labels.index(label) for label in free.labels]
    at_places: dict[str, list[Floats]] = {"kept": [], "added": [], "alike": [], "sd": []}
    for index, place in enumerate(places):
        slopes = np.stack([slope[index] for slope in directions.values()])
        told = np.eye(place.size) + np.sum(list(information(free, curves, place).values()), axis=0)
        everywhere = np.zeros(len(wide.labels))
        everywhere[known] = place
        more = [
            marginal(added, known) for added in information(wide, candidates, everywhere).values()
        ]
        covariance = _covariance_left(slopes, told)
        sd = np.sqrt(np.diag(covariance))
        at_places["sd"].append(sd)
        at_places["alike"].append(ratio(covariance, sd[:, None] * sd, where_none=0.0))
        at_places["kept"].append(contractions(slopes, told))
        at_places["added"].append(np.stack([contractions(slopes, told + added) for added in more]))
    medians = {name: np.median(np.stack(values), axis=0) for name, values in at_places.items()}
    names = list(dict.fromkeys(curve.run for curve in candidates.curves))
    differ = tried(free.frame, study)
    trials = {effect.name: effect.trial for effect in effects_of(free.frame)}
    rows = []
    for index, (kind, quantity, domain) in enumerate(directions):
        kept = float(medians["kept"][index])
        is_tried = differ.get(quantity, True) if kind == "effect" else True
        added = dict(zip(names, medians["added"][:, index], strict=True))
        best = max(added, key=lambda name: added[name])
        advice = best if is_tried or kept < IDENTIFIED else trials[quantity]
        rows.append(
            {
                "quantity": quantity,
                "domain": domain,
                "kind": kind,
                "contraction": kept,
                "sd": float(medians["sd"][index]),
                "identified": kept >= IDENTIFIED,
                "tried": is_tried,
                "moves_with": partners(medians["alike"][index], list(directions), index),
                "advice": advice,
                "with_advice": float(added[advice]),
            }
        )
    return pd.DataFrame(rows)


def _quantity_directions(
    free: FreeParameters, study: Study, places: Floats, *, coefficients: bool = False
) -> dict[tuple[str, str, str], Floats]:
    """Return the slope of every quantity in the free parameters, shape (places, free).

    Quantities are the law's parameters, the effects of a typical run and, if wanted, the coefficients, by
    kind, name and validation set. What does not depend on the free parameters is left out, and so is what
    is of one group of runs.

    Parameters
    ----------
    free : FreeParameters
    study : Study
    places : ndarray, shape (places, free)
        Where slopes are taken, in sds of the prior.
    coefficients : bool
        Whether coefficients of the printed equation are wanted too.
    """
    size = places.shape[1]
    law = free.frame.law
    directions = {
        ("parameter", name, member): np.tile(np.eye(size)[i], (len(places), 1))
        for i, (name, member) in enumerate(free.labels)
        if name in law.parameters() and law.parameters()[name].dims not in (*GROUPED, POOLED)
    }
    shifts = np.concatenate(
        [places[:, None] + STEP * np.eye(size), places[:, None] - STEP * np.eye(size)], axis=1
    )
    values = free.values(shifts.reshape(-1, size))
    # A law far outside its range may overflow, and then tells nothing there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        asked = {"effect": derived_quantities(free.frame, study, values)}
        if coefficients:
            asked["coefficient"] = law.coefficients(values, np)
    for kind, quantities in asked.items():
        for name, value in quantities.items():
            split = value.reshape(len(places), 2, size, -1)
            slopes = finite((split[:, 0] - split[:, 1]) / (2 * STEP))
            if name in ALONG:
                continue
            members = free.frame.domains if value.ndim == 2 else ("all",)
            for i, member in enumerate(members):
                if slopes[..., i].any():
                    directions[kind, name, member] = slopes[..., i]
    return directions


def contractions(slopes: Floats, told: Floats) -> Floats:
    """Return the share of the prior's variance taken from each quantity, shape (quantities,).

    Parameters
    ----------
    slopes : ndarray, shape (quantities, free)
    told : ndarray, shape (free, free)
        Precision of the free parameters given the study, the prior's identity in it.
    """
    left = np.diag(_covariance_left(slopes, told))
    return np.clip(1.0 - ratio(left, np.sum(slopes**2, axis=1), where_none=1.0), 0.0, 1.0)


def ratio(part: Floats, whole: Floats, where_none: float) -> Floats:
    """Return part over whole; where the law is too steep for numbers a quantity has no variance at all.

    Parameters
    ----------
    part, whole : ndarray
    where_none : float
        What to return where the whole is 0 or no number.
    """
    return np.divide(part, whole, out=np.full_like(whole, where_none), where=whole > 0.0)


def _covariance_left(slopes: Floats, told: Floats) -> Floats:
    """Return the covariance of quantities given what is told, shape (quantities, quantities).

    `told` holds the prior's identity, so none of its eigenvalues is below 1 but by rounding, which studies
    of runs that hardly move the loss make large.

    Parameters
    ----------
    slopes : ndarray, shape (quantities, free)
    told : ndarray, shape (free, free)
        Precision of the free parameters given the study.
    """
    values, vectors = np.linalg.eigh(told)
    root = slopes @ vectors / np.sqrt(np.maximum(values, 1.0))
    return np.asarray(root @ root.T)


def partners(
    correlations: Floats, labels: list[tuple[str, str, str]], index: int
) -> list[tuple[str, str, float]]:
    """Return the quantities of the same kind that one correlates with strongly, strongest first.

    Parameters
    ----------
    correlations : ndarray, shape (quantities, quantities)
        Correlations of the quantities.
    labels : list of tuple of str
        Kind, name and validation set of each.
    index : int
        Of the one.
    """
    order = np.argsort(-np.abs(correlations))
    strongest = []
    for other in order:
        kind, name, member = labels[other]
        strong = abs(correlations[other]) > STRONG_CORRELATION
        if other != index and kind == labels[index][0] and strong:
            strongest.append((name, member, float(correlations[other])))
    return strongest[:PARTNERS]
