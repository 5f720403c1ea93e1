"""The law of one validation set as source code: values at a point and their slopes.

The terms of `bayes_cpt.laws` and the residual scales are evaluated on symbols, differentiated by SymPy, and
written out as loops over the points of a curve (`bayes_cpt.model.compiled.loops`): those of CPT, and short
ones of PT, where nothing has been transferred. So the law has one definition, and its gradient costs little
more than the law itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from bayes_cpt.laws import Reference
from bayes_cpt.laws.law import gather
from bayes_cpt.model.compiled.kernels import POWER
from bayes_cpt.model.compiled.loops import Point, source_of
from bayes_cpt.model.compiled.symbols import Symbols
from bayes_cpt.model.likelihood_data import COLUMNS
from bayes_cpt.model.priors.families import Distribution, is_positive
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import ModelSpec

# What differs between the points of a curve, beside `COLUMNS`: levels and log forward area, with slopes.
LEVELS = ("level_pt", "level_cpt")
AREA = "log_forward"
AREAS = (*LEVELS, *(f"{level}_by_pace_{k}" for k in range(3) for level in LEVELS),
         AREA, f"{AREA}_by_{POWER}")  # fmt: skip
POINT = (*COLUMNS, *AREAS)
# What does not change along a curve all the same, and what only in PT does.
STARTS = {"start_pt", "start_cpt"}
CARRIED = {"log_peak_pt", *(name for name in POINT if name.startswith("level_pt"))}
# What a whole curve shares, in the order of `bayes_cpt.model.likelihood_data`; and what of several targets.
CURVE = ("target_share", "log_size")
MIXED = ("pretraining", "other_share")
# Of which curves of the general validation set take the values of every target.
OF_ALL = "forgetting_factor"
# What is 0 in PT; the level of CPT is that of PT where it is carried over, and then S2_cpt is 0.
TRANSFER = {
    "target_share",
    "other_share",
    "paced_steps",
    *(name for name in POINT if "cpt" in name),
}
REFERENCE = ("learning_rate", "forward_pt", "forward_cpt", "steps", "unique_steps")
# Stands between the name of a parameter and the place of one of its members.
MEMBER = "__"
# What is computed at each point.
OUTPUTS = ("law", "kept", "fluctuation", "memory", "misfit", "offset")


class _Points:
    """Stands in for `Points`: one point, its attributes symbols."""

    domain_index = 0

    def __init__(self, pretraining: bool, carried: bool, shared: Iterable[str]) -> None:
        names = (*POINT, *shared)
        self.__dict__ |= {name: sympy.Symbol(name, real=True) for name in names}
        # Of curves of PT those alone have an offset that branch off another one.
        self.branched = sympy.Integer(int(pretraining))
        if pretraining:
            self.__dict__ |= dict.fromkeys(TRANSFER, sympy.Integer(0))
        if pretraining and carried:
            self.level_cpt = self.level_pt  # type: ignore[attr-defined]

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Any, Any]:
        return self.level_pt, self.level_cpt  # type: ignore[attr-defined]

    def log_forward_area(self, coefficients: Any, xp: Any) -> Any:
        return self.log_forward  # type: ignore[attr-defined]

    def of_group(self, dims: str, values: Any) -> Any:
        return values[..., 0]

    def of_mixture(self, values: Any) -> Any:
        # A target's own shift has no factor of forgetting.
        if len(values) == 1:
            return sympy.Integer(1)
        return sum(value * getattr(self, _share(k)) for k, value in enumerate(values))


@dataclass(frozen=True)
class RoleSource:
    """Code for the curves of one validation set, of CPT or of PT.

    Parameters
    ----------
    source : str
        Of a function that fills columns of values and slopes, one per point.
    parameters : tuple of str
        Names in the order in which the function takes their values.
    slopes : tuple of (int, int)
        For each row of slopes the output and the parameter it belongs to.
    """

    source: str
    parameters: tuple[str, ...]
    slopes: tuple[tuple[int, int], ...]


def role_source(spec: ModelSpec, role: str, name: str, *, pretraining: bool) -> RoleSource:
    """Return the code of a function `name` for validation sets of a role, in CPT or in PT.

    Parameters
    ----------
    spec : ModelSpec
    role : str
        ``general`` or ``target``.
    name : str
        Of the function.
    pretraining : bool
        Whether at points of PT, else of CPT.
    """
    symbols, named = role_expressions(spec, role, pretraining=pretraining)
    names, outputs = tuple(symbols), list(named.values())
    tabulated = _tabulated(spec)
    slopes, expressions = [], []
    for i, output in enumerate(outputs):
        for j, parameter in enumerate(names):
            slope = _slope(output, symbols[parameter], tabulated.get(parameter, {}))
            if slope != 0:
                slopes.append((i, j))
                expressions.append(slope)
    point = given_at(spec, symbols, pretraining=pretraining)
    targets = [f"values[{k}, i]" for k in range(len(outputs))]
    targets += [f"slopes[{k}, i]" for k in range(len(expressions))]
    source = source_of(name, point, targets, [*outputs, *expressions])
    return RoleSource(source, names, tuple(slopes))


def given_at(spec: ModelSpec, symbols: Mapping[str, Any], *, pretraining: bool) -> Point:
    """Return what the code of a validation set is given at the points of a curve.

    Parameters
    ----------
    spec : ModelSpec
    symbols : mapping of str to sympy symbol
        Of the parameters, in order.
    pretraining : bool
        Whether at points of PT, else of CPT.
    """
    return Point(
        parameters=tuple(map(str, symbols.values())),
        reference=tuple(f"reference_{name}" for name in REFERENCE),
        curve=curve_names(spec),
        columns=COLUMNS,
        areas=AREAS,
        settled=frozenset(STARTS if pretraining else STARTS | CARRIED),
    )


def role_expressions(
    spec: ModelSpec, role: str, *, pretraining: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the symbols of the parameters by name, and the expressions of `OUTPUTS` by name.

    Parameters
    ----------
    spec : ModelSpec
    role : str
        ``general`` or ``target``.
    pretraining : bool
        Whether at points of PT, else of CPT.
    """
    reference = Reference(**{k: sympy.Symbol(f"reference_{k}", positive=True) for k in REFERENCE})
    frame = Frame(spec, (role,), (role,), reference)
    symbols = {
        name: _parameter_symbol(name, spec.priors[name.partition(MEMBER)[0]].of(role))
        for name in parameters_of(spec, role)
    }
    outputs = _outputs(frame, symbols, pretraining=pretraining)
    return symbols, dict(zip(OUTPUTS, outputs, strict=True))


def _parameter_symbol(name: str, prior: Distribution) -> Any:
    # A known sign settles which branch the law takes.
    return sympy.Symbol(f"p_{name}", **{"positive" if is_positive(prior) else "real": True})


def curve_names(spec: ModelSpec) -> tuple[str, ...]:
    """Return what a whole curve shares under a specification, in the order of the arrays.

    Parameters
    ----------
    spec : ModelSpec
    """
    if spec.law.targets == 1:
        return CURVE
    return (*CURVE, *MIXED, *(_share(k) for k in range(1 + spec.law.targets)))


def _share(domain: int) -> str:
    return f"mixture_{domain}"


def parameters_of(spec: ModelSpec, role: str) -> tuple[str, ...]:
    """Return the names of the parameters that validation sets of a role depend on.

    A name with `MEMBER` and a number is of the validation set of that place.

    Parameters
    ----------
    spec : ModelSpec
    role : str
        ``general`` or ``target``.
    """
    names = list(Frame(spec, (role,), (role,), Reference(1.0, 1.0, 1.0, 1.0)).parameters())
    if OF_ALL in names and role == "general":
        place = names.index(OF_ALL)
        names[place : place + 1] = [f"{OF_ALL}{MEMBER}{k}" for k in range(1 + spec.law.targets)]
    return tuple(names)


def _outputs(frame: Frame, symbols: dict[str, Any], *, pretraining: bool = False) -> list[Any]:
    """Return the expressions of `OUTPUTS`, in CPT or in PT."""
    infos = frame.parameters()
    members: dict[str, list[Any]] = {}
    for name, symbol in symbols.items():
        members.setdefault(name.partition(MEMBER)[0], []).append(symbol)
    values = {
        name: parts[0] if infos[name].dims is None else np.array(parts, dtype=object)
        for name, parts in members.items()
    }
    law = frame.spec.law
    carried = law.carry_memory and not law.unknown_base
    points = _Points(pretraining, carried, curve_names(frame.spec))
    coefficients = frame.law.coefficients(values, Symbols)
    gathered = gather(points, coefficients, Symbols)
    phase = sympy.Integer(int(pretraining))
    scales = frame.residual_scales(points, phase, values, coefficients, Symbols)  # type: ignore[arg-type]
    outputs = [
        frame.law.loss(points, gathered, Symbols),
        frame.law.kept(points, gathered, Symbols),
        scales.fluctuation,
        scales.memory,
        scales.misfit,
        scales.offset,
    ]
    return [sympy.sympify(np.asarray(value, dtype=object).item()) for value in outputs]


def _tabulated(spec: ModelSpec) -> dict[str, dict[str, str]]:
    """Return, by parameter, what of a point it moves, and the column with the slope of that."""
    moved = {
        name: {level: f"{level}_by_pace_{k}" for level in LEVELS}
        for k, name in enumerate(spec.law.paces)
    }
    return {**moved, POWER: {AREA: f"{AREA}_by_{POWER}"}}


def _slope(output: Any, parameter: Any, tabulated: dict[str, str]) -> Any:
    slope = sympy.diff(output, parameter)
    for moved, rate in tabulated.items():
        along = sympy.diff(output, sympy.Symbol(moved, real=True))
        slope += along * sympy.Symbol(rate, real=True)
    return slope
