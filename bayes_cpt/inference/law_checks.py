"""Whether a law fits: posterior predictive checks by run, by what runs differ in, and of the misfit.

Every check asks of one posterior draw something whose distribution is known if the model is right: a
pivotal quantity (V. Johnson 2007, doi:10.1214/07-BA229; Yuan and Johnson 2012,
doi:10.1111/j.1541-0420.2011.01668.x). A posterior draw and the losses then have the joint distribution of
truth and losses, so the probability of a value as far out is uniform, draw by draw, also though the draw
was fitted to these very losses. Draws depend on each other. But by Markov's inequality at least half of
them lie in a region of probability a/2 with probability a at most, so that twice the median over the
draws never alarms more often than it says, whatever the study.

- *run*: its mean residuals and drifts along the run on all validation sets, by generalised least squares
  over the sd that fluctuation, misfit and level give them: independent and standard normal, so that their
  squares sum to a chi-squared. One wrong setting moves them all.
- *factor*: whether the levels of runs go with something that they differ in: what a line (a parabola
  where there are three values) or a level for each kind explains of them is chi-squared.
- *size*: the prior probability of a larger misfit or level sd. A law that does not fit is made to by these.
- *wild*: whatever the law says of noise, how far an evaluation sticks out of those before and after it, as
  measured and less the law, so that no bend counts, in robust sds of how far they lie off those beside.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import BoundModel, elements
from bayes_cpt.model.simulate import expected_loss, residual_products
from bayes_cpt.study.ranges import Factor, factors
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd


# Probability that any check at all alarms on a study that the model describes, at most.
FALSE_ALARMS = 0.05
# Posterior draws that are asked: a median needs no more.
DRAWS = 100
# What the model explains of what its law leaves, nats: too large where the law does not fit.
SIZES = ("offset_pt", "misfit_pt", "misfit_cpt", "size_misfit", "error")
RUN, DRIFT, FACTOR, SIZE, WILD = "run", "drift", "factor", "size", "wild"
# Checks of one kind share its part of the false alarms.
PARTS = ((RUN, DRIFT), (FACTOR,), (SIZE,))
# Evaluations to each side that one is compared with; fewer in all, and the first of a curve, say nothing.
NEIGHBOURS, FEWEST, SETTLED = 10, 6, 3
# From so many sds on an evaluation is wild; the least sd, nats; a normal variable's sd over its median
# absolute deviation. In the bundled studies none lies 7 off, also with nothing known of the law, and one
# that is put 0.3 nats off lies 25 or more.
WILD_SDS, LEAST_SD, MAD = 12.0, 0.1 / 12.0, 1.4826


@dataclass(frozen=True)
class LawCheck:
    """One check of a law against its runs; what a kind of check does not have is nan or empty."""

    kind: str  # `FACTOR`, `SIZE` or `WILD`; of a run `RUN` or `DRIFT`, by which it stands out most
    subject: str  # name of the run, the factor (`bayes_cpt.study.ranges.Factor`) or the parameter
    phase: str  # ``pt`` or ``cpt``, of the runs
    domain: str  # validation set, of a run that where it stands out most; ``all`` where a size is shared
    # Nats/token. Of a run the mean residual, measured less expected; of a drift by how much residuals rise
    # from the first of its points to the last; of a factor by how much levels differ over what the runs
    # cover; of a size its posterior median; of a curve how far its wildest evaluation lies off.
    value: float
    # The sd by the model, of an evaluation that of others, of a size the prior's median
    usual: float = np.nan
    score: float = np.nan  # of a run, drift or wild evaluation value over usual, in the median draw
    probability: float = 1.0  # of a check as far out if the model is right, at most
    alarms: bool = False  # whether so improbable that the law does not fit
    steps: str = ""  # of wild evaluations


@dataclass(frozen=True)
class LawChecks:
    """All checks of a fit."""

    checks: tuple[LawCheck, ...]

    @property
    def alarms(self) -> tuple[LawCheck, ...]:
        """The checks that alarm, wild evaluations first, which spoil the rest, the least probable first."""
        order = {WILD: 0, SIZE: 1, FACTOR: 2, RUN: 3, DRIFT: 3}
        alarming = [check for check in self.checks if check.alarms]
        return tuple(sorted(alarming, key=lambda check: (order[check.kind], check.probability)))

    def table(self) -> "pd.DataFrame":
        """Return one row per check, with the columns of `LawCheck`."""
        import pandas as pd

        return pd.DataFrame([asdict(check) for check in self.checks])


def check_law(
    frame: BoundModel, study: Study, curves: Curves, parameters: Mapping[str, Floats]
) -> LawChecks:
    """Check a law against the runs that it was fitted to, in posterior draws of all parameters."""
    available = next(iter(parameters.values())).shape[0]
    kept = np.unique(np.linspace(0, available - 1, min(DRAWS, available)).round().astype(int))
    some = {name: value[kept] for name, value in parameters.items()}
    directions = _directions(frame, curves)
    # A draw far out in a wide posterior may overflow; it then says nothing, and the others decide.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        products = residual_products(frame, some, curves, directions)
        checks = _by_run(study, curves, products, directions)
        for phase in ("pt", "cpt"):
            for factor in factors(study, phase):
                checks += _by_factor(factor, phase, frame, curves, products)
        checks += _sizes(frame, some, parameters)
        residual = np.nanmedian(curves.points.loss - expected_loss(frame, some, curves), axis=0)
    return LawChecks((*_decided(checks), *_wild(study, curves, residual)))


def _directions(frame: BoundModel, curves: Curves) -> Floats:
    """Return a level and a rise in the logarithm of the step, from 0 to 1 along each curve."""
    place = np.log1p(curves.points.steps / (ONSET_SHARE * frame.reference.steps))
    for curve in range(len(curves.curves)):
        of_curve = curves.points.curve_index == curve
        first, last = place[of_curve].min(), place[of_curve].max()
        place[of_curve] = (place[of_curve] - first) / (last - first) if last > first else 0.0
    return np.stack([np.ones_like(place), place], axis=1)


def _by_run(study: Study, curves: Curves, products: Floats, directions: Floats) -> list[LawCheck]:
    """Return the check of each run: of its levels on all validation sets, and of its drifts given these."""
    from scipy.special import chdtrc

    found: dict[str, list[tuple[Curve, str, Floats, Floats]]] = {}
    for i, curve in enumerate(curves.curves):
        # Curves that stand for a base's lone loss are no runs.
        if curve.run not in study:
            continue
        parts, product = found.setdefault(curve.run, []), products[i]
        weight = product[:, 1, 1]
        parts.append((curve, RUN, product[:, 0, 1] / weight, weight**-0.5))
        if directions[curves.points.curve_index == i, 1].any():
            share = product[:, 1, 2] / weight
            rest = product[:, 2, 2] - share * product[:, 1, 2]
            rise = (product[:, 0, 2] - share * product[:, 0, 1]) / rest
            parts.append((curve, DRIFT, rise, rest**-0.5))
    checks = []
    for run, parts in found.items():
        squares = np.sum([(value / sd) ** 2 for *_, value, sd in parts], axis=0)
        # What is told of the run is where it stands out most.
        curve, kind, value, sd = max(parts, key=lambda part: abs(_middle(part[2] / part[3])))
        where = (kind, run, "cpt" if curve.continual else "pt", curve.domain)
        middle, usual, score = map(_middle, (value, sd, value / sd))
        probability = _at_most(chdtrc(len(parts), squares))
        checks.append(LawCheck(*where, middle, usual, score, probability))
    return checks


def _by_factor(
    factor: Factor, phase: str, frame: BoundModel, curves: Curves, products: Floats
) -> list[LawCheck]:
    """Return on each validation set whether the levels of runs go with something they differ in."""
    from scipy.special import chdtrc

    checks = []
    for domain in frame.domains:
        chosen = {
            curve.run: i
            for i, curve in enumerate(curves.curves)
            if curve.domain == domain
            and curve.continual == (phase == "cpt")
            and curve.run in factor.values
        }
        restricted = Factor(factor.name, {run: factor.values[run] for run in chosen})
        if len(chosen) < 2 or not restricted.differs:
            continue
        basis = _basis(restricted)
        rows = list(chosen.values())
        weight, scores = products[rows, :, 1, 1].T, products[rows, :, 0, 1].T
        gram = np.einsum("ri,dr,rj->dij", basis, weight, basis)
        sums = scores @ basis
        slopes = np.linalg.solve(gram, sums[..., None])[..., 0]
        explained = np.sum(sums * slopes, axis=1) - scores.sum(axis=1) ** 2 / weight.sum(axis=1)
        value = _middle(np.ptp(slopes @ basis.T, axis=1))
        probability = _at_most(chdtrc(basis.shape[1] - 1, np.maximum(explained, 0.0)))
        checks.append(LawCheck(FACTOR, factor.name, phase, domain, value, probability=probability))
    return checks


def _basis(factor: Factor) -> Floats:
    """Return what levels are explained by, shape (runs, columns); a constant is among it."""
    runs = list(factor.values)
    if not factor.graded:
        kinds = list(dict.fromkeys(factor.values.values()))
        return np.array([[float(factor.values[run] == kind) for kind in kinds] for run in runs])
    places = np.array([factor.place(run) for run in runs])
    standard = (places - places.mean()) / places.std()
    values = np.unique(standard.round(6)).size
    return np.asarray(standard[:, None] ** np.arange(min(3, values)))


def _sizes(
    frame: BoundModel, some: Mapping[str, Floats], parameters: Mapping[str, Floats]
) -> list[LawCheck]:
    """Return how far misfit and level are above what their priors expect."""
    checks = []
    for element in elements(frame):
        if element.name not in SIZES or isinstance(element.prior, Fixed):
            continue
        asked, every = (element.of(draws) for draws in (some, parameters))
        value, usual = float(np.median(every)), float(element.prior.quantiles(0.5))
        probability = _at_most(element.prior.probability_above(asked))
        where = (SIZE, element.name, "", element.domain or "all")
        checks.append(LawCheck(*where, value, usual, probability=probability))
    return checks


def _wild(study: Study, curves: Curves, residual: Floats) -> list[LawCheck]:
    """Return how far the wildest evaluation of each curve sticks out of its neighbours."""
    points, found = curves.points, []
    for i, curve in enumerate(curves.curves):
        rows = points.curve_index == i
        if curve.run in study and rows.sum() >= FEWEST:
            left, kind = residual[rows], ("cpt" if curve.continual else "pt", curve.domain)
            between = MAD * np.abs(left[1:-1] - (left[:-2] + left[2:]) / 2.0)
            above = np.concatenate([_above(left), _above(points.loss[rows])])
            off = np.maximum(above.min(axis=0), 0.0) + np.minimum(above.max(axis=0), 0.0)
            found.append((curve.run, kind, points.steps[rows], off, between))
    checks = []
    for run, kind, steps, off, between in found:
        # Of the curve's own too: some runs are far noisier than others.
        alike = np.concatenate([other for _, its, *_, other in found if its == kind])
        usual = float(max(np.median(alike), np.median(between), LEAST_SD))
        value = float(off[np.abs(off).argmax()])
        named = ", ".join(f"{step:.0f}" for step in steps[np.abs(off) > WILD_SDS * usual])
        probability = min(1.0, off.size * float(np.exp(-0.5 * (score := value / usual) ** 2)))
        numbers = (value, usual, score, probability)
        checks.append(LawCheck(WILD, run, *kind, *numbers, bool(named), named))
    return checks


def _above(values: Floats) -> Floats:
    """Return how far values lie above the middle of those before, and of those after: (2, values).

    The first, before a curve has settled, stick out of nothing; the last has the one before on both sides.
    """
    import pandas as pd

    series = pd.Series(values)
    before = series.shift().rolling(NEIGHBOURS, min_periods=SETTLED).median()
    after = series[::-1].shift().rolling(NEIGHBOURS, min_periods=1).median()
    both = [series - before, series - after.fillna(series.shift())]
    return np.asarray(np.nan_to_num(both))


def _at_most(probabilities: Floats) -> float:
    """Return twice the median over draws: no more often as small as a than with probability a."""
    finite = probabilities[np.isfinite(probabilities)]
    return float(min(1.0, 2.0 * np.median(finite))) if finite.size else 1.0


def _middle(values: Floats) -> float:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")


def _decided(checks: list[LawCheck]) -> tuple[LawCheck, ...]:
    """Return the checks with alarms: each part has its share of the false alarms, each check in it too."""
    counts = {kind: sum(check.kind in part for check in checks) for part in PARTS for kind in part}
    share = FALSE_ALARMS / len(PARTS)
    return tuple(
        replace(check, alarms=bool(check.probability * counts[check.kind] <= share))
        for check in checks
    )
