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

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.derived import Typical, effect_runs, last_points
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.identify.nearest import Change, columns_of, nearest, relevant, uniform_draws
from bayes_cpt.identify.statements import Statement
from bayes_cpt.model.priors.families import Distribution, Fixed
from bayes_cpt.model.priors.tables import Prior
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import ROLES, ModelSpec
from bayes_cpt.study.study import Study
from bayes_cpt.study.writers.folder import toml_value

if TYPE_CHECKING:
    import pandas as pd

type Label = tuple[str, str]

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
            derived.append(_change(frame, plan, statement))
        else:
            direct += [(label, statement) for label in _labels(free, statement)]
    priors = dict(free.priors)
    for label, statement in direct:
        priors[label] = _stated(free.priors[label], statement)
    if derived:
        law = frame.law.parameters()
        settled = {label for label, _ in direct}
        free_to_move = [label for label in priors if label not in settled and label[0] in law]
        priors = nearest(free, priors, relevant(free, priors, free_to_move, derived), derived)
    spec, changed = _respecified(free, priors, statements)
    told = [free.priors, FreeParameters(replace(frame, spec=spec)).priors]
    rows = [
        _row(statement, [stated[label].quantiles(statement.tails) for stated in told], label[1])
        for label, statement in direct
    ]
    draws = [free.assembled(columns_of(stated, uniform_draws(len(stated)))) for stated in told]
    rows += [
        _row(change.statement, [change.interval(stated) for stated in draws], change.domain)
        for change in derived
    ]
    return Elicited(spec, changed, pd.DataFrame(rows))


def _change(frame: Frame, plan: Study, statement: Statement) -> Change:
    """Return the change that a statement is about."""
    place = f"statement: {statement.words}"
    if not frame.spec.law.continual:
        problem = "the model knows no CPT run"
        raise SpecError.at(place, problem, "choose a model of CPT, or state parameters")
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
        if run.phase != "cpt":
            problem = f"{run.name} is a PT run, which starts from no base"
            raise SpecError.at(place, problem, "name a CPT run, or leave run out")
    curves = last_points(frame, source, [run])
    index = [curve.domain for curve in curves.curves].index(domain)
    return Change(frame, statement, curves, index)


def _labels(free: FreeParameters, statement: Statement) -> list[Label]:
    """Return what a statement about a parameter is about, one or several validation sets."""
    place, name = f"statement: {statement.words}", str(statement.parameter)
    names = free.frame.parameters()
    if name not in names:
        close = get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        problem = f"the model {free.frame.spec.name} has no parameter {name!r}"
        fix = f"{hint}bayes-cpt prior {free.frame.spec.name} lists them"
        raise SpecError.at(place, problem, fix)
    if statement.on is not None and names[name].dims is None:
        raise SpecError.at(place, "all validation sets share it", "leave on out")
    domain = None if statement.on is None else _domain(free.frame, statement.on, place)
    labels = [label for label in free.labels if label[0] == name and domain in (None, label[1])]
    if not labels:
        problem = f"{name} is not sampled there"
        raise SpecError.at(place, problem, "state it where the model has it, and not fixed")
    return labels


def _domain(frame: Frame, name: str | None, place: str) -> str:
    roles = dict(zip(frame.roles, frame.domains, strict=True))
    domain = roles.get(str(name), str(name))
    if domain in frame.domains:
        return domain
    problem = f"there is no validation set {name!r}"
    fix = f"name one of {', '.join((*frame.domains, *frame.roles))}"
    raise SpecError.at(place, problem, fix)


def _stated(prior: Distribution, statement: Statement) -> Distribution:
    try:
        return prior.from_interval(*statement.interval, statement.mass)
    except ValueError as error:
        place = f"statement: {statement.words}"
        raise SpecError.at(place, str(error), "state an interval that it can have") from None


def _respecified(
    free: FreeParameters, priors: dict[Label, Distribution], statements: Sequence[Statement]
) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the specification with priors replaced, and the names of those that moved."""
    frame = free.frame
    moved = {label for label, prior in priors.items() if _differ(prior, free.priors[label])}
    replaced = {}
    for name in dict.fromkeys(label[0] for label in free.labels if label in moved):
        before = frame.spec.priors[name]
        of_it = [s.reason for s in statements if s.parameter == name]
        about = of_it or [s.reason for s in statements if s.parameter is None]
        reason = " ".join(dict.fromkeys([before.reason, "Elicited:", *about]))
        if (name, "all") in priors:
            replaced[name] = Prior(reason=reason, every=priors[name, "all"])
            continue
        roles = {
            role: priors[name, domain] if (name, domain) in moved else before.of(role)
            for role, domain in zip(frame.roles, frame.domains, strict=True)
        }
        roles = {role: roles.get(role, before.of(role)) for role in ROLES}
        alike = roles["general"] == roles["target"]
        replaced[name] = (
            Prior(reason=reason, every=roles["general"]) if alike else Prior(reason=reason, **roles)
        )
    spec = frame.spec.model_copy(update={"priors": frame.spec.priors | replaced})
    return spec, tuple(replaced)


def _differ(prior: Distribution, other: Distribution) -> bool:
    center, spread = prior.center, prior.spread
    was_center, was_spread = other.center, other.spread
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
        lines += ["", *prior_lines(parameter, elicited.spec.priors[parameter])]
    return "\n".join(lines) + "\n"


def prior_lines(parameter: str, prior: Prior) -> list[str]:
    """Return the table of a prior in a model's TOML, a line each.

    Parameters
    ----------
    parameter : str
    prior : Prior
    """
    lines = [f"[priors.{parameter}]", f"reason = {toml_value(prior.reason)}"]
    for role in ("every", *ROLES):
        family = getattr(prior, role)
        if family is not None:
            keys = family.model_dump(exclude_none=True).items()
            inner = ", ".join(f"{key} = {toml_value(value)}" for key, value in keys)
            lines.append(f"{role} = {{ {inner} }}")
    return lines
