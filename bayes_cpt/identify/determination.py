"""What runs determine, before and after a fit, and which further run would determine the rest.

Before anything is fitted the law's curve is linearised at its parameters, the residuals are given the sizes
that their priors expect, and the information that the study's points carry is set against the prior's. That
is the Laplace approximation of a fit to losses nobody has seen, so it costs no sampling. After a fit the
contraction is that of its draws, and only what a further run would add is linearised, around the posterior.

Parameters are counted in prior standard deviations on the scale where their prior is normal, so that the
prior's precision is the identity. Around one place the law's curves are straight lines in them, and the
information of some curves is ``S' C^-1 S`` with their slopes S and the covariance C of their residuals.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, summary
from bayes_cpt.forecast import derived
from bayes_cpt.forecast.plans import denser_early
from bayes_cpt.inference.posterior import PRIOR_DRAWS, Posterior, contraction
from bayes_cpt.laws.law import ALONG
from bayes_cpt.model.evaluate import Draws, law_losses, scales_of
from bayes_cpt.model.groups import GROUPED
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.setup import POOLED, BoundModel, Element, build_setup, by_parameter, elements
from bayes_cpt.model.simulate import CurveResidual, expected_loss, precision_products
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.trunks import with_found_branches

STEP = 1e-4
STEEPEST = 1e50
# Information from more points of one curve than this adds next to nothing: neighbours are correlated.
POINTS_PER_CURVE = 60
# Nats between a base and the PT law, as in the lab's studies.
TYPICAL_OFFSET = 0.03
# A quantity of which the study takes less than half of the prior's variance rests on its prior.
IDENTIFIED = 0.5
# Where the law is linearised: at the priors' medians, and at points around them. Medians over fifteen are
# those over 45 within 0.1; over nine a share may be 0.3 off.
PLACES = 15
SPREAD = 0.5
# Draws that the law is linearised at after a fit.
POSTERIOR_PLACES = 5
SEED = 0
# The key of `Facts` in a fit's file.
FACTS = "facts"
# Above this correlation two quantities are hard to tell apart: they move together.
STRONG_CORRELATION = 0.7
PARTNERS = 3
# Of further runs: points along each.
POINTS = 30
# Sizes of further models, as shares of the typical one: small ones cost least.
SMALLER = (0.25, 0.0625)
OTHER_SIZE = "a PT run of a model of {:.3g}M parameters"


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """Everything that is sampled under a frame, one entry per validation set."""

    frame: BoundModel

    @cached_property
    def elements(self) -> dict[tuple[str, str], Element]:
        """Each by parameter and validation set (``all`` where it is shared)."""
        free = (own for own in elements(self.frame) if not isinstance(own.prior, Fixed))
        return {(own.name, own.label): own for own in free}

    def values(self, places: Floats) -> dict[str, Floats]:
        """Return parameters, fixed ones too, from places of shape (places, free) in prior sds."""
        columns, found = iter(places.T), []
        for prior in (own.prior for own in elements(self.frame)):
            place = np.zeros(len(places)) if isinstance(prior, Fixed) else next(columns)
            found.append(np.clip(prior.at(place), *prior.bounds))
        return by_parameter(self.frame, found)

    def places(self, values: Mapping[str, Floats]) -> Floats:
        """Return places, shape (draws, free), from parameters of shape (draws, ...)."""
        found = [own.prior.standard(own.of(values)) for own in self.elements.values()]
        return np.stack(found, axis=1)


def information(free: FreeParameters, curves: Curves, place: Floats) -> dict[str, Floats]:
    """Return what the curves of each run tell at a place, in prior sds, shape (free, free), by run."""
    frame, size = free.frame, place.size
    shifts = np.concatenate([place + STEP * np.eye(size), place[None]])
    values = free.values(shifts)
    here = {name: value[-1:] for name, value in values.items()}
    # A law far outside its range may overflow, and then tells nothing there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # As far from the law as bases are, whatever was measured: the law at its prior's medians may lie a
        # nat from that, and such an offset would seem to say everything about how offsets are kept.
        bases = curves.bases
        start = law_losses(bases, Draws.of(frame, here, bases.form))[:, 0] + TYPICAL_OFFSET
        typical = replace(curves, bases=replace(bases, loss=start))
        losses = expected_loss(frame, values, typical)
        # From the place on: slopes to a ten-thousandth are enough for what is taken to be straight.
        slopes = finite((losses[:size] - losses[size]).T / STEP)
        scales = scales_of(curves, Draws.of(frame, here, curves.points.form))
    design = frame.residual_design(curves)
    by_run: dict[str, Floats] = {}
    for curve, rows in zip(curves.curves, design.rows, strict=True):
        # Every so many points, up to the last one.
        apart = -(-(rows.stop - rows.start) // POINTS_PER_CURVE)
        kept = slice(rows.start + (rows.stop - rows.start - 1) % apart, rows.stop, apart)
        part = CurveResidual.of(design, scales, kept)
        products, _ = precision_products(part, slopes[None, kept])
        by_run[curve.run] = by_run.get(curve.run, 0.0) + products[0]
    return by_run


def marginal(whole: Floats, kept: list[int]) -> Floats:
    """Return the information about some parameters when nothing but their prior is known of the others.

    `whole` is the information about all of them, without the prior's identity.

    Examples
    --------
    >>> whole = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> marginal(whole, [0]).tolist(), float(np.linalg.inv(np.linalg.inv(whole + np.eye(2))[:1, :1])[0, 0])
    ([[3.0]], 4.0)
    """
    others = [place for place in range(len(whole)) if place not in set(kept)]
    within, across = whole[np.ix_(kept, kept)], whole[np.ix_(kept, others)]
    rest = whole[np.ix_(others, others)] + np.eye(len(others))
    return np.asarray(within - across @ np.linalg.solve(rest, across.T))


def finite(slopes: Floats) -> Floats:
    """Return slopes with those that are too steep for a number, or none, as nothing."""
    return np.where(np.abs(slopes) < STEEPEST, slopes, 0.0)


type Label = tuple[str, str, str]


@dataclass(frozen=True)
class Facts:
    """What all that is said of a study or fit agrees on."""

    # Validation sets by effect of a typical run: those that the runs determine, and those that rest on the
    # prior or that no two runs differ in
    determined: dict[str, list[str]]
    left_open: dict[str, list[str]]
    # The run that would tell most of what is left open, in words; empty where nothing is
    telling: str

    @classmethod
    def of(cls, table: pd.DataFrame) -> Self:
        """Return the facts of `identifiability` or `determination`."""
        effects = table[table["kind"] == "effect"]
        firm = settled(effects)
        listed = [
            {str(name): list(own) for name, own in rows.groupby("quantity", sort=False)["domain"]}
            for rows in (effects[firm], effects[~firm])
        ]
        named = effects.loc[~firm, "advice"]
        # Who has no other base can train all others.
        others = named[named != derived.UNANNEALED]
        advice = Counter(named if others.empty else others).most_common(1)
        return cls(listed[0], listed[1], str(advice[0][0]) if advice else "")


def settled(table: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each quantity is identified, and runs differ in what it is about."""
    return table["identified"].astype(bool) & table["tried"].astype(bool)


def facts(posterior: Posterior) -> Facts:
    """Return the facts of a fit; worked out once, and kept with it."""
    kept = posterior.tree.attrs
    if FACTS not in kept:
        kept[FACTS] = json.dumps(asdict(Facts.of(determination(posterior))))
    return Facts(**json.loads(kept[FACTS]))


def candidate_runs(frame: BoundModel, typical: derived.Typical) -> Curves:
    """Return the curves of `trial_runs`, and of runs of other model sizes where the law has a size.

    The losses of their bases count as measured, theirs at about 30 checkpoints, more of them early.
    """
    runs, base = derived.trial_runs(frame, typical), derived.base_schedule(frame.reference)
    sizes = {OTHER_SIZE.format(size): size for size in _further_sizes(frame)}
    runs |= {name: (derived.annealed(base), None, 0.0) for name in sizes}
    plan = derived.plan_of(frame, runs, measured=True)
    sized = [replace(run, model_size=sizes.get(run.name, run.model_size)) for run in plan.runs]
    plan = replace(plan, runs=tuple(sized))

    def checkpoints(run: Run, _: str) -> list[int]:
        first = frame.first_step(plan, run)
        return [step for step in denser_early(run.schedule.steps, POINTS) if step > first]

    return frame.curves(plan, checkpoints)


def _further_sizes(frame: BoundModel) -> tuple[float, ...]:
    """Return model sizes that runs could have beside those of the study; none where the law has no size.

    One that differs from a size of the law by rounding is that size.
    """
    if not frame.spec.law.model_size:
        return ()
    wanted = (share * frame.reference.model_size for share in SMALLER)
    return tuple(
        next((known for known in frame.sizes if np.isclose(known, size)), size) for size in wanted
    )


def identifiability(study: Study, spec: ModelSpec) -> pd.DataFrame:
    """Return what the runs of a study can be expected to determine: parameters, effects of a typical run.

    Contraction is the expected share of the prior's variance that the study takes away, from 0.5 on a
    quantity is identified; sd is expected, nats/token for effects, prior sds for parameters. Tried: whether
    runs differ in what an effect is about; moves_with: correlations above 0.7, strongest first. Advice is
    the run that would tell most about what is not identified or not tried, with_advice the contraction with
    it.
    """
    setup = build_setup(spec, study)
    free = FreeParameters(setup.frame)
    generator = np.random.default_rng(SEED)
    places = SPREAD * generator.standard_normal((PLACES, len(free.elements)))
    places[0] = 0.0
    table = expected(free, study, setup.curves, places)
    table = table[table["kind"] != "coefficient"]
    return table.assign(advice=table["advice"].mask(settled(table), ""))


def expected(free: FreeParameters, study: Study, curves: Curves, places: Floats) -> pd.DataFrame:
    """Return `identifiability` with the law linearised at places in prior sds, whose median counts.

    Here coefficients of the printed equation are asked about as well, and every quantity has its advice.
    """
    directions = _quantity_directions(free, study, places)
    sizes = dict.fromkeys((*free.frame.sizes, *_further_sizes(free.frame)))
    wide = FreeParameters(replace(free.frame, sizes=tuple(sizes)))
    typical, differ = derived.Typical.of(study), derived.tried(free.frame, study)
    candidates = candidate_runs(wide.frame, typical)
    known = [list(wide.elements).index(label) for label in free.elements]
    found = []
    for place, slopes in zip(places, np.stack([*directions.values()], axis=1), strict=True):
        told = information(free, curves, place)
        precision = np.eye(place.size) + np.sum(list(told.values()), axis=0)
        everywhere = np.zeros(len(wide.elements))
        everywhere[known] = place
        more = information(wide, candidates, everywhere)
        whole = [contractions(slopes, precision + marginal(own, known)) for own in more.values()]
        covariance = _covariance_left(slopes, precision)
        sd = np.sqrt(np.diag(covariance))
        correlations = ratio(covariance, sd[:, None] * sd, where_none=0.0)
        found.append((contractions(slopes, precision), whole, correlations, sd))
    kept, with_more, alike, sd = (np.median(own, axis=0) for own in zip(*found, strict=True))
    labels = list(directions)
    table = _labelled(labels, differ)
    added = pd.DataFrame(with_more, index=list(more))
    # What no two runs differ in is told by the run that would show it.
    had = [] if differ.get("replay_effect", True) else derived.replays_near(study)
    effects = derived.effects_of(free.frame)
    showing = {own.name: own.against if own.run in had else own.run for own in effects}
    added = added.drop(index=had, errors="ignore")
    if derived.REWARMED in more and derived.only_annealed(study):
        # Such a run is one from the bases at hand, and what starts from the others is new.
        added = added.drop(index=derived.REWARMED)
        showing["base_effect"] = derived.UNANNEALED
    advice = added.idxmax().where(table["tried"], table["quantity"].map(showing))
    return table.assign(
        contraction=kept,
        sd=sd,
        identified=kept >= IDENTIFIED,
        moves_with=[partners(alike[index], labels, index) for index in range(len(labels))],
        advice=advice,
        with_advice=[float(added.at[name, index]) for index, name in enumerate(advice)],
    )


def _labelled(labels: Sequence[Label], differ: Mapping[str, bool]) -> pd.DataFrame:
    """Return a row per quantity, and whether runs differ in what it is about, for effects of a run."""
    table = pd.DataFrame(labels, columns=["kind", "quantity", "domain"])
    is_tried = [differ[name] if kind == "effect" else True for kind, name, _ in labels]
    return table[["quantity", "domain", "kind"]].assign(tried=is_tried)


def _quantity_directions(free: FreeParameters, study: Study, places: Floats) -> dict[Label, Floats]:
    """Return the slope of every quantity in the free parameters, shape (places, free).

    Quantities are the law's parameters, the effects of a typical run and the coefficients, by kind, name
    and validation set. What does not depend on the free parameters is left out, and so is what
    is of one group of runs.
    """
    size = places.shape[1]
    law = free.frame.law
    directions = {
        ("parameter", name, member): np.tile(np.eye(size)[i], (len(places), 1))
        for i, (name, member) in enumerate(free.elements)
        if name in law.parameters() and law.parameters()[name].dims not in (*GROUPED, POOLED)
    }
    step = STEP * np.eye(size)
    shifts = np.concatenate([places[:, None] + step, places[:, None] - step], axis=1)
    values = free.values(shifts.reshape(-1, size))
    # A law far outside its range may overflow, and then tells nothing there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        asked = {
            "effect": derived.derived_quantities(free.frame, study, values),
            "coefficient": law.coefficients(values, np),
        }
        for kind, quantities in asked.items():
            for name, value in quantities.items():
                if name in ALONG:
                    continue
                split = value.reshape(len(places), 2, size, -1)
                slopes = finite((split[:, 0] - split[:, 1]) / (2 * STEP))
                members = free.frame.domains if value.ndim == 2 else ("all",)
                for i, member in enumerate(members):
                    if slopes[..., i].any():
                        directions[kind, name, member] = slopes[..., i]
    return directions


def contractions(slopes: Floats, precision: Floats) -> Floats:
    """Return the share of the prior's variance taken from each quantity, shape (quantities,).

    `slopes` has shape (quantities, free); `precision` is that of the free parameters given the study, the
    prior's identity in it.
    """
    left = np.diag(_covariance_left(slopes, precision))
    return np.clip(1.0 - ratio(left, np.sum(slopes**2, axis=1), where_none=1.0), 0.0, 1.0)


def ratio(part: Floats, whole: Floats, where_none: float) -> Floats:
    """Return part over whole; where the law is too steep for numbers a quantity has no variance at all."""
    return np.divide(part, whole, out=np.full_like(whole, where_none), where=whole > 0.0)


def _covariance_left(slopes: Floats, precision: Floats) -> Floats:
    """Return the covariance of quantities given the study, shape (quantities, quantities).

    `precision` holds the prior's identity, so none of its eigenvalues is below 1 but by rounding, which
    studies of runs that hardly move the loss make large.
    """
    values, vectors = np.linalg.eigh(precision)
    root = slopes @ vectors / np.sqrt(np.maximum(values, 1.0))
    return np.asarray(root @ root.T)


def partners(correlations: Floats, labels: list[Label], index: int) -> list[tuple[str, str, float]]:
    """Return the quantities of the same kind that one correlates with strongly, strongest first."""
    strongest = [
        (*labels[other][1:], float(correlations[other]))
        for other in np.argsort(-np.abs(correlations))
        if other != index
        and labels[other][0] == labels[index][0]
        and abs(correlations[other]) > STRONG_CORRELATION
    ]
    return strongest[:PARTNERS]


def determination(posterior: Posterior, interval: float = 0.9) -> pd.DataFrame:
    """Return what the runs of a fit have determined of the law and of the effects of a typical run.

    As `identifiability`, but of the posterior, and of coefficients too, with mean, lower and upper; what
    further runs would tell is computed around it. Of a stack the effects alone, over the draws of all laws,
    with the advice of its heaviest law.
    """
    from scipy.stats import rankdata

    heaviest = posterior.laws[int(np.argmax(posterior.weights))]
    frame, study = heaviest.frame, posterior.study
    drawn = [quantities(law, law.parameters(count)) for law, count in posterior.shares()]
    before = [
        quantities(law, draw_priors(law.frame, count or PRIOR_DRAWS, SEED))
        for law, count in posterior.shares(PRIOR_DRAWS)
    ]
    free, parameters = FreeParameters(frame), heaviest.parameters()
    branching = with_found_branches(study)
    runs = frame.spec.law.fitted_runs(branching)
    curves = frame.curves(branching, lambda run, d: frame.fitted_steps(branching, run, d), runs)
    count = len(next(iter(parameters.values())))
    kept = np.unique(np.linspace(0, count - 1, POSTERIOR_PLACES).round().astype(int))
    places = free.places({name: values[kept] for name, values in parameters.items()})
    advised = expected(free, study, curves, places).set_index(["kind", "quantity", "domain"])
    shared = set(advised.index).intersection(*drawn)
    told = ("effect",) if posterior.stacked else ("effect", "parameter", "coefficient")
    labels = [label for label in drawn[0] if label in shared and label[0] in told]
    draws, priors = (
        {label: np.concatenate([of_law[label] for of_law in parts]) for label in labels}
        for parts in (drawn, before)
    )
    values = np.stack(list(draws.values()))
    # What is the same in all draws has no correlation: 0/0, which is above no bound.
    with np.errstate(invalid="ignore"):
        alike = np.atleast_2d(np.corrcoef(rankdata(values, axis=1)))
    estimates = pd.DataFrame(summary(values, interval)).drop(columns="median")
    shares = np.array([contraction(priors[label], draws[label]) for label in labels])
    table = _labelled(labels, derived.tried(frame, study)).join(estimates)
    table = table.assign(contraction=shares, identified=shares >= IDENTIFIED)
    further = advised.loc[labels].reset_index()
    # How much of what is open a run leaves is told around the posterior; how much is open, by the draws.
    lacking, after = (1.0 - further[name].to_numpy() for name in ("contraction", "with_advice"))
    left = (1.0 - shares) * ratio(after, lacking, where_none=1.0)
    return table.assign(
        moves_with=[partners(alike[index], labels, index) for index in range(len(labels))],
        advice=further["advice"].mask(settled(table), ""),
        with_advice=1.0 - left,
    )


def quantities(posterior: Posterior, parameters: dict[str, Floats]) -> dict[Label, Floats]:
    """Return draws of coefficients, parameters and effects of one law, by kind, name and validation set."""
    frame, found = posterior.frame, posterior.by_member(parameters)
    by_label = {
        ("coefficient", *key): own for key, own in found.items() if key[0] not in parameters
    }
    by_label |= {("parameter", *key): own for key, own in found.items() if key[0] in parameters}
    # A prior's far tail may overflow, which quartiles ignore.
    with np.errstate(over="ignore", invalid="ignore"):
        effects = derived.derived_quantities(frame, posterior.study, parameters)
    return by_label | {
        ("effect", name, member): column
        for name, values in effects.items()
        for member, column in zip(frame.domains, values.T, strict=True)
    }
