"""Priors from statements: "the loss will fall by 0.1 to 0.4", "the exponent is 0.4 to 0.7".

A statement about a parameter has a closed form: the member of its prior's family with that interval. A
statement about what a run comes to is about all parameters at once: sought is the prior nearest to the
model's own, in the second-order Kullback-Leibler distance of its normal scales, under which the stated
interval is the one predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.derived import Typical, effect_runs, last_points, start_loss
from bayes_cpt.distributions import (
    center_and_spread,
    from_interval,
    moved_quantiles,
    quantiles,
    with_center_and_spread,
)
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.information import FreeParameters
from bayes_cpt.points import Curves
from bayes_cpt.readers.writer import toml_value
from bayes_cpt.setup import Frame
from bayes_cpt.simulate import expected_loss
from bayes_cpt.spec import ROLES, Distribution, Fixed, LogNormal, ModelSpec, Prior
from bayes_cpt.statements import Statement
from bayes_cpt.study import Study

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Label = tuple[str, str]

# A power of two of quasi-random draws: their quantiles vary less than those of so many random ones.
DRAWS = 4096
SEED = 0
ROUNDS, PATIENCE = 25, 5
LONGEST_STEP, HALVINGS = 1.0, 5
# Mass to each side of a quantile that its density is taken from.
NEAR = 0.02
# A parameter that moves a change by less than this share of its interval stays as it is.
LEAST_SHARE = 0.1
# Share of a stated interval's width that the predicted one may be off by.
TOLERANCE, NEARLY = 0.01, 0.1
# In prior standard deviations (their logarithm): a prior that moves by less stays as it is.
SMALLEST_MOVE = 0.01


@dataclass(frozen=True, eq=False)
class Elicited:
    """A specification whose priors say what was stated.

    Parameters
    ----------
    spec : ModelSpec
    changed : tuple of str
        Parameters whose priors are not the model's own.
    table : DataFrame
        One row per statement and validation set: statement (in words), domain, lower, upper (as stated),
        was_lower, was_upper (under the model's own priors), now_lower, now_upper.
    """

    spec: ModelSpec
    changed: tuple[str, ...]
    table: "pd.DataFrame"


def elicit(frame: Frame, plan: Study, statements: Sequence[Statement]) -> Elicited:
    """Return a model whose priors say what is stated.

    Parameters
    ----------
    frame : Frame
        Of the model whose priors are to be changed, on a study.
    plan : Study
        Says what a typical run is; statements may be about its runs.
    statements : sequence of Statement

    Raises
    ------
    SpecError
        If a statement is about what the model has not, or no priors of these families say all of it.
    """
    import pandas as pd

    free = FreeParameters(frame)
    direct, derived = [], []
    for statement in statements:
        if statement.parameter is None:
            derived.append(_Change.of(frame, plan, statement))
        else:
            direct += [(label, statement) for label in _labels(free, statement)]
    priors = dict(free.priors)
    for label, statement in direct:
        priors[label] = _stated(free.priors[label], statement)
    if derived:
        law = frame.law.parameters()
        settled = {label for label, _ in direct}
        free_to_move = [label for label in priors if label not in settled and label[0] in law]
        priors = _nearest(free, priors, _relevant(free, priors, free_to_move, derived), derived)
    spec, changed = _respecified(free, priors, statements)
    told = [free.priors, FreeParameters(replace(frame, spec=spec)).priors]
    rows = [
        _row(statement, [quantiles(own[label], statement.tails) for own in told], label[1])
        for label, statement in direct
    ]
    draws = [free.assembled(_columns(own, _uniform(len(own)))) for own in told]
    rows += [
        _row(change.statement, [change.interval(own) for own in draws], change.domain)
        for change in derived
    ]
    return Elicited(spec, changed, pd.DataFrame(rows))


@dataclass(frozen=True, eq=False)
class _Change:
    """The change of a loss that a statement is about."""

    frame: Frame
    statement: Statement
    curves: Curves
    index: int

    @classmethod
    def of(cls, frame: Frame, plan: Study, statement: Statement) -> "_Change":
        place = f"statement: {statement.words}"
        if not frame.spec.law.continual:
            problem = "the model knows no CPT run"
            raise SpecError([Problem(place, problem, "choose a model of CPT, or state parameters")])
        domain = _domain(frame, statement.loss, place)
        if statement.run is None:
            typical = Typical.of(plan)
            steps, replay = statement.steps, statement.replay
            typical = replace(
                typical,
                steps=typical.steps if steps is None else steps,
                replay=typical.replay if replay is None else replay,
            )
            source = effect_runs(frame, typical)
            run = source.run("typical")
        else:
            source, run = plan, plan.run(statement.run)
        curves = last_points(frame, source, [run])
        index = [curve.domain for curve in curves.curves].index(domain)
        return cls(frame, statement, curves, index)

    @property
    def domain(self) -> str:
        """The validation set."""
        return self.curves.curves[self.index].domain

    def values(self, parameters: dict[str, Floats]) -> Floats:
        """Return the change under draws of the parameters, shape (draws,), nats/token."""
        last = expected_loss(self.frame, parameters, self.curves)
        first = start_loss(self.frame, parameters, self.curves)
        return np.asarray((last - first)[:, self.index])

    def interval(self, parameters: dict[str, Floats]) -> Floats:
        """Return the interval of the stated mass under draws of the parameters."""
        return np.quantile(self.values(parameters), self.statement.tails)


def _labels(free: FreeParameters, statement: Statement) -> list[Label]:
    """Return what a statement about a parameter is about, one or several validation sets."""
    place, name = f"statement: {statement.words}", str(statement.parameter)
    names = free.frame.parameters()
    if name not in names:
        close = get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        problem = f"the model {free.frame.spec.name} has no parameter {name!r}"
        mend = f"{hint}bayes-cpt prior {free.frame.spec.name} lists them"
        raise SpecError([Problem(place, problem, mend)])
    if statement.on is not None and names[name].dims is None:
        raise SpecError([Problem(place, "all validation sets share it", "leave on out")])
    domain = None if statement.on is None else _domain(free.frame, statement.on, place)
    found = [label for label in free.labels if label[0] == name and domain in (None, label[1])]
    if not found:
        problem = f"{name} is not sampled there"
        raise SpecError([Problem(place, problem, "state it where the model has it, and not fixed")])
    return found


def _domain(frame: Frame, name: str | None, place: str) -> str:
    roles = dict(zip(frame.roles, frame.domains, strict=True))
    found = roles.get(str(name), str(name))
    if found in frame.domains:
        return found
    problem = f"there is no validation set {name!r}"
    mend = f"name one of {', '.join((*frame.domains, *frame.roles))}"
    raise SpecError([Problem(place, problem, mend)])


def _stated(prior: Distribution, statement: Statement) -> Distribution:
    try:
        return from_interval(prior, *statement.interval, statement.mass)
    except ValueError as error:
        place = f"statement: {statement.words}"
        raise SpecError(
            [Problem(place, str(error), "state an interval that it can have")]
        ) from None


def _relevant(
    free: FreeParameters,
    priors: dict[Label, Distribution],
    labels: list[Label],
    changes: list[_Change],
) -> list[Label]:
    """Return the parameters whose priors matter for the changes: drawn anew, each moves one of them."""
    uniform = _uniform(len(priors))
    columns = _columns(priors, uniform)
    before = [change.values(free.assembled(columns)) for change in changes]
    # Half a turn of a quasi-random sequence is as good as another draw.
    anew = dict(zip(priors, (uniform + 0.5).T % 1.0, strict=True))
    found = []
    for label in labels:
        drawn = columns | {label: quantiles(priors[label], anew[label])}
        after = [change.values(free.assembled(drawn)) for change in changes]
        for change, one, other in zip(changes, before, after, strict=True):
            low, high = np.quantile(other - one, change.statement.tails)
            lower, upper = change.statement.interval
            if high - low > LEAST_SHARE * (upper - lower):
                found.append(label)
                break
    return found


def _nearest(
    free: FreeParameters,
    priors: dict[Label, Distribution],
    moving: list[Label],
    changes: list[_Change],
) -> dict[Label, Distribution]:
    """Return priors under which the changes have their intervals, moved as little as can be.

    The unknowns are, per prior, the shift of its mean in its own sds and the log of the factor of its sd:
    half the squared shift and the squared log are its Kullback-Leibler distance to second order. Each
    round solves the linearised problem (Gauss-Newton with minimal norm).
    """
    uniform = _uniform(len(priors))
    places = dict(zip(priors, uniform.T, strict=True))
    fixed = _columns(priors, uniform)
    wanted = np.concatenate([change.statement.interval for change in changes])
    widths = np.repeat(np.diff(wanted.reshape(-1, 2), axis=1), 2)
    size = len(moving)
    weights = np.repeat([1.0, 0.5], size)

    def drawn(unknown: Floats) -> list[Floats]:
        columns = dict(fixed)
        for i, label in enumerate(moving):
            center, spread = _moved(priors[label], unknown[i], unknown[size + i])
            columns[label] = moved_quantiles(priors[label], center, spread, places[label])
        parameters = free.assembled(columns)
        return [change.values(parameters) for change in changes]

    def missed(values: list[Floats]) -> Floats:
        found = [
            np.quantile(own, change.statement.tails)
            for own, change in zip(values, changes, strict=True)
        ]
        return np.asarray((np.concatenate(found) - wanted) / widths)

    unknown = np.zeros(2 * size)
    values = drawn(unknown)
    now = missed(values)
    stalled = 0
    for _ in range(ROUNDS):
        if np.abs(now).max() < TOLERANCE / 2 or stalled == PATIENCE:
            break
        scores = _scores([places[label] for label in moving], unknown)
        slopes = np.concatenate(
            [
                _slopes(own, c.statement.tails, scores)
                for own, c in zip(values, changes, strict=True)
            ]
        )
        slopes /= widths[:, None]
        normal = (slopes * weights) @ slopes.T
        # A hair of damping: statements that say the same leave the system singular.
        normal += 1e-9 * np.trace(normal) * np.eye(now.size)
        # Far off, the whole way from the model's own priors is chosen anew; near by, only the rest.
        start = unknown if np.abs(now).max() > NEARLY else np.zeros_like(unknown)
        aim = np.linalg.solve(normal, slopes @ start - now)
        step = weights * (slopes.T @ aim) - start
        step /= max(1.0, np.abs(step).max() / LONGEST_STEP)
        for _ in range(HALVINGS):
            values = drawn(unknown + step)
            if np.abs(ahead := missed(values)).max() < np.abs(now).max():
                break
            step /= 2.0
        stalled = stalled + 1 if np.abs(ahead).max() > 0.9 * np.abs(now).max() else 0
        unknown, now = unknown + step, ahead
    if np.abs(now).max() > TOLERANCE:
        _give_up(free, changes, values)
    return priors | {
        label: with_center_and_spread(
            priors[label], *_moved(priors[label], unknown[i], unknown[size + i])
        )
        for i, label in enumerate(moving)
    }


def _scores(places: list[Floats], unknown: Floats) -> Floats:
    """Return the slopes of the log density in the unknowns, shape (draws, unknowns)."""
    from scipy.special import ndtri

    normal = ndtri(np.stack(places, axis=1))
    factors = np.exp(unknown[normal.shape[1] :])
    return np.concatenate([normal / factors, normal**2 - 1.0], axis=1)


def _slopes(values: Floats, tails: tuple[float, float], scores: Floats) -> Floats:
    """Return the slopes of two quantiles in the unknowns, shape (2, unknowns).

    The mass below a value changes by the mean score of the draws below it, and its quantile by that over
    the density there.
    """
    found = []
    for tail in tails:
        near = np.quantile(values, [max(tail - NEAR, 0.001), tail, min(tail + NEAR, 0.999)])
        share = min(tail + NEAR, 0.999) - max(tail - NEAR, 0.001)
        below = np.mean(scores * (values <= near[1])[:, None], axis=0)
        found.append(-below * (near[2] - near[0]) / share)
    return np.stack(found)


def _moved(prior: Distribution, shift: float, factor: float) -> tuple[float, float]:
    center, spread = center_and_spread(prior)
    return _inside(prior, center + shift * spread), float(spread * np.exp(factor))


def _inside(prior: Distribution, center: float) -> float:
    """Return a mean between a prior's bounds, where it has any: a specification takes no other."""
    if isinstance(prior, LogNormal) and prior.lower and prior.upper:
        low, high = np.log([prior.lower, prior.upper])
        return float(np.clip(center, low + 0.01 * (high - low), high - 0.01 * (high - low)))
    return center


def _give_up(free: FreeParameters, changes: list[_Change], values: list[Floats]) -> None:
    problems = []
    for change, own in zip(changes, values, strict=True):
        low, high = np.quantile(own, change.statement.tails)
        problems.append(
            Problem(
                f"statement: {change.statement.words}",
                f"no priors near those of {free.frame.spec.name} say it; they come to "
                f"{low:.3g} to {high:.3g}",
                "widen the interval, or leave out a statement that contradicts it",
            )
        )
    raise SpecError(problems)


def _uniform(count: int) -> Floats:
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(count, rng=SEED).random(DRAWS))


def _columns(priors: dict[Label, Distribution], uniform: Floats) -> dict[Label, Floats]:
    return {
        label: quantiles(prior, column)
        for (label, prior), column in zip(priors.items(), uniform.T, strict=True)
    }


def _respecified(
    free: FreeParameters, priors: dict[Label, Distribution], statements: Sequence[Statement]
) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the specification with priors replaced, and the names of those that moved."""
    frame = free.frame
    moved = {label for label, prior in priors.items() if _differ(prior, free.priors[label])}
    replaced = {}
    for name in dict.fromkeys(label[0] for label in free.labels if label in moved):
        own = frame.spec.priors[name]
        of_it = [s.reason for s in statements if s.parameter == name]
        about = of_it or [s.reason for s in statements if s.parameter is None]
        reason = " ".join(dict.fromkeys([own.reason, "Elicited:", *about]))
        if (name, "all") in priors:
            replaced[name] = Prior(reason=reason, every=priors[name, "all"])
            continue
        roles = {
            role: priors[name, domain] if (name, domain) in moved else own.of(role)
            for role, domain in zip(frame.roles, frame.domains, strict=True)
        }
        roles = {role: roles.get(role, own.of(role)) for role in ROLES}
        alike = roles["general"] == roles["target"]
        replaced[name] = (
            Prior(reason=reason, every=roles["general"]) if alike else Prior(reason=reason, **roles)
        )
    spec = frame.spec.model_copy(update={"priors": frame.spec.priors | replaced})
    return spec, tuple(replaced)


def _differ(prior: Distribution, other: Distribution) -> bool:
    center, spread = center_and_spread(prior)
    was_center, was_spread = center_and_spread(other)
    if isinstance(prior, Fixed):
        return False
    shift, factor = (center - was_center) / was_spread, np.log(spread / was_spread)
    return bool(max(abs(shift), abs(factor)) > SMALLEST_MOVE)


def _row(statement: Statement, intervals: list[Floats], domain: str) -> dict[str, object]:
    (low, high), (was, now) = statement.interval, intervals
    return {
        "statement": statement.words,
        "domain": domain,
        "lower": low,
        "upper": high,
        "was_lower": float(was[0]),
        "was_upper": float(was[1]),
        "now_lower": float(now[0]),
        "now_upper": float(now[1]),
    }


def model_text(elicited: Elicited, name: str, extends: str) -> str:
    """Return the TOML of an elicited model, to be given to `fit --model`.

    Parameters
    ----------
    elicited : Elicited
    name : str
        Of the model.
    extends : str
        The model it was made from: a shipped one by name, or a path as seen from the new file.
    """
    said = [f"# - {row.statement}" for row in elicited.table.itertuples()]
    lines = [
        "# Priors elicited by bayes-cpt prior from these statements:",
        *dict.fromkeys(said),
        "",
    ]
    lines += [f"extends = {toml_value(extends)}", f"name = {toml_value(name)}"]
    for parameter in elicited.changed:
        prior = elicited.spec.priors[parameter]
        lines += ["", f"[priors.{parameter}]", f"reason = {toml_value(prior.reason)}"]
        for role in ("every", *ROLES):
            own = getattr(prior, role)
            if own is not None:
                keys = own.model_dump(exclude_none=True).items()
                inner = ", ".join(f"{key} = {toml_value(value)}" for key, value in keys)
                lines.append(f"{role} = {{ {inner} }}")
    return "\n".join(lines) + "\n"
