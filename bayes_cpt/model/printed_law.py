"""The law of one validation set as source code: values at the points of a curve, and their slopes.

The terms of `bayes_cpt.laws` and the sizes of the residuals are evaluated on symbols, differentiated by
SymPy, and printed as loops over the points of a curve: those of CPT, and short ones of PT, where
nothing has been transferred. So the law has one definition, and its gradient costs little more than the
law itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, override

import numpy as np
import sympy
from sympy.codegen.cfunctions import expm1, log1p
from sympy.printing.pycode import PythonCodePrinter

from bayes_cpt.laws.law import gather
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.likelihood_tables import COLUMNS, CURVE, MEMBER, MIXED, REFERENCE, series_of
from bayes_cpt.model.priors import is_positive
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import ModelSpec

# What does not change along a curve all the same, and what only in PT does.
STARTS = {"start_pt", "start_cpt", "carried"}
CARRIED = {"log_peak_pt", "level_pt", "level_pt_slope", "slow_level_pt", "slow_level_pt_slope"}
# Of which curves of the general validation set take the values of every target.
OF_ALL = "forgetting_factor"
# What is computed at each point.
OUTPUTS = ("law", "kept", "fluctuation", "memory", "misfit", "offset")


class LawPrinter(PythonCodePrinter):  # type: ignore[misc]
    """Prints expressions as Numba compiles them without an error of their own."""

    @override
    def _print_Pow(self, expr: Any, rational: bool = False) -> str:
        # Where Numba divides by 0 the result is infinite; of a negative power of 0 it makes an error.
        if expr.exp.is_Integer and expr.exp < -1:
            return f"(1/{self.parenthesize(expr.base**-expr.exp, 0)})"
        return str(super()._print_Pow(expr, rational))


def _elementwise(function: Callable[..., Any]) -> Any:
    vectorised = np.vectorize(function, otypes=[object])
    # An index of () takes a lone symbol out of its array and leaves other arrays as they are.
    return staticmethod(lambda *arguments: vectorised(*arguments)[()])


class Symbols:
    """The part of NumPy that the law uses, on arrays of symbols."""

    exp = _elementwise(sympy.exp)
    log = _elementwise(sympy.log)
    expm1 = _elementwise(expm1)
    log1p = _elementwise(log1p)
    sqrt = _elementwise(sympy.sqrt)
    abs = _elementwise(sympy.Abs)
    ones_like = _elementwise(lambda _: sympy.Integer(1))
    zeros_like = _elementwise(lambda _: sympy.Integer(0))
    where = _elementwise(lambda which, yes, no: sympy.Piecewise((yes, which), (no, True)))
    repeat = staticmethod(np.repeat)
    maximum = _elementwise(lambda one, two: sympy.Piecewise((one, one > two), (two, True)))


class _Points:
    """Stands in for `Points`: one point, its attributes symbols."""

    domain_index = 0

    def __init__(self, spec: ModelSpec, pretraining: bool, paces_apart: bool) -> None:
        series = [name for each in series_of(spec) for name in each.names]
        names = (*COLUMNS, *curve_names(spec), *series)
        self.__dict__ |= {name: sympy.Symbol(name, real=True) for name in names}
        # Of curves of PT those alone have an offset that branch off another one.
        self.branched = sympy.Integer(int(pretraining))
        self.slow = "slow_share" in spec.priors and paces_apart
        self.pretraining = pretraining
        if pretraining:
            of_cpt = ("target_share", "other_share", "paced_steps", "squared_area", "rewarming")
            of_base = ("base_misfit", "base_rate")
            transfer = (*of_cpt, *of_base, *(name for name in names if "cpt" in name))
            self.__dict__ |= dict.fromkeys(transfer, sympy.Integer(0))
            self.carried = sympy.Integer(1)
            if not spec.law.unknown_base:
                # The level of CPT is that of PT: S2_cpt is 0.
                for name in (name for name in series if "_cpt" in name):
                    setattr(self, name, getattr(self, name.replace("_cpt", "_pt")))

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Any, Any]:
        levels = (self.level_pt, self.level_cpt)  # type: ignore[attr-defined]
        if not self.slow:
            return levels
        share = coefficients["w_slow"]
        slow = (self.slow_level_pt, self.slow_level_cpt)  # type: ignore[attr-defined]
        before, after = (
            (1 - share) * fast + share * late for fast, late in zip(levels, slow, strict=True)
        )
        return before, after

    def log_forward_area(self, coefficients: Any, xp: Any) -> Any:
        return self.log_forward  # type: ignore[attr-defined]

    def shift_area(self, coefficients: Any, xp: Any) -> Any:
        return 0 if self.pretraining else sympy.exp(self.log_shift)  # type: ignore[attr-defined]

    def of_group(self, dims: str, values: Any) -> Any:
        return values[..., 0]

    def of_mixture(self, values: Any) -> Any:
        # A target's own shift has no factor of forgetting.
        if len(values) == 1:
            return sympy.Integer(1)
        return sum(value * getattr(self, _share(k)) for k, value in enumerate(values))


@dataclass(frozen=True)
class PrintedLaw:
    """Code for the curves of one validation set, of CPT or of PT."""

    # Of a function that fills in a row of values for each of `OUTPUTS`, and the rows of slopes
    source: str
    parameters: tuple[str, ...]  # names in the order in which the function takes their values
    # For each row of slopes the output and the parameter it belongs to
    slopes: tuple[tuple[int, int], ...]


def print_law(spec: ModelSpec, role: str, name: str, *, pretraining: bool) -> PrintedLaw:
    """Return the code of a function `name` for validation sets of a role, in CPT or in PT."""
    symbols, named = law_expressions(spec, role, pretraining=pretraining)
    names, outputs = tuple(symbols), [named[output] for output in OUTPUTS]
    slopes = {
        (i, j): slope
        for i, output in enumerate(outputs)
        for j, parameter in enumerate(names)
        if (slope := _slope(spec, output, parameter, symbols[parameter])) != 0
    }
    settled = STARTS if pretraining else STARTS | CARRIED
    results = {f"values[{k}, i]": output for k, output in enumerate(outputs)}
    results |= {f"slopes[{k}, i]": slope for k, slope in enumerate(slopes.values())}
    source = _function(name, spec, tuple(map(str, symbols.values())), settled, results)
    return PrintedLaw(source, names, tuple(slopes))


def law_expressions(
    spec: ModelSpec, role: str, *, pretraining: bool, paces_apart: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the symbols of the parameters by name, and the law and residual scales at a point by name.

    Fast and slow level of the learning rate are symbols of their own, or one for both.
    """
    reference = Reference(**{k: sympy.Symbol(f"reference_{k}", positive=True) for k in REFERENCE})
    frame = BoundModel(spec, (role,), (role,), reference)
    symbols = {}
    for name in parameters_of(spec, role):
        # A known sign settles which branch the law takes.
        positive = is_positive(spec.priors[name.partition(MEMBER)[0]].of(role))
        symbols[name] = sympy.Symbol(f"p_{name}", **{"positive" if positive else "real": True})
    points = _Points(spec, pretraining, paces_apart)
    return symbols, _named(frame, symbols, points, pretraining=pretraining)


def curve_names(spec: ModelSpec) -> tuple[str, ...]:
    """Return what a whole curve shares under a specification, in the order of the arrays."""
    if spec.law.targets == 1:
        return CURVE
    return (*CURVE, *MIXED, *(_share(k) for k in range(1 + spec.law.targets)))


def _share(domain: int) -> str:
    return f"mixture_{domain}"


def parameters_of(spec: ModelSpec, role: str) -> tuple[str, ...]:
    """Return the names of the parameters that validation sets of a role depend on.

    A name with `MEMBER` and a number is of the validation set of that place.
    """
    names = list(BoundModel(spec, (role,), (role,), Reference(1.0, 1.0, 1.0, 1.0)).parameters())
    if OF_ALL in names and role == "general":
        place = names.index(OF_ALL)
        names[place : place + 1] = [f"{OF_ALL}{MEMBER}{k}" for k in range(1 + spec.law.targets)]
    return tuple(names)


def _named(
    frame: BoundModel, symbols: dict[str, Any], points: Any, *, pretraining: bool
) -> dict[str, Any]:
    """Return the expressions of the law and the residual scales, in CPT or in PT."""
    infos = frame.parameters()
    members: dict[str, list[Any]] = {}
    for name, symbol in symbols.items():
        members.setdefault(name.partition(MEMBER)[0], []).append(symbol)
    values = {
        name: parts[0] if infos[name].dims is None else np.array(parts, dtype=object)
        for name, parts in members.items()
    }
    coefficients = frame.law.coefficients(values, Symbols)
    gathered = gather(points, coefficients, Symbols)
    phase = sympy.Integer(int(pretraining))
    scales = frame.residual_scales(points, phase, values, coefficients, Symbols)
    named = vars(scales) | {
        "law": frame.law.loss(points, gathered, Symbols),
        "kept": frame.law.kept(points, gathered, Symbols),
    }
    return {
        name: sympy.sympify(np.asarray(value, dtype=object).item()) for name, value in named.items()
    }


def _slope(spec: ModelSpec, output: Any, parameter: str, symbol: Any) -> Any:
    """Return the slope of an output by a parameter, also through the series in it."""
    slope = sympy.diff(output, symbol)
    for series in series_of(spec):
        if series.parameter == parameter:
            for name in series.names:
                along = sympy.diff(output, sympy.Symbol(name, real=True))
                slope += along * sympy.Symbol(f"{name}_slope", real=True)
    return slope


def _function(
    name: str,
    spec: ModelSpec,
    parameters: Sequence[str],
    settled: Iterable[str],
    results: Mapping[str, Any],
) -> str:
    """Return the code of a function that fills in results at the points of a curve.

    What the whole curve shares stands before the loop.
    """
    areas = [row for series in series_of(spec) for row in series.rows]
    rows = {row: f"columns[{k}" for k, row in enumerate(COLUMNS)}
    rows |= {row: f"areas[{k}" for k, row in enumerate(areas)}
    varying = {sympy.Symbol(row, real=True) for row in rows if row not in set(settled)}
    # What a function or a power is of settled numbers alone is a number before the loop.
    settled_parts = {
        part
        for result in results.values()
        for part in result.atoms(sympy.Function, sympy.Pow)
        if not part.free_symbols & varying and part.free_symbols
    }
    constants = {
        part: sympy.Symbol(f"c{k}") for k, part in enumerate(sorted(settled_parts, key=str))
    }
    reduced = [result.xreplace(constants) for result in results.values()]
    left = {symbol for result in reduced for symbol in result.free_symbols}
    kept = [(symbol, part) for part, symbol in constants.items() if symbol in left]
    before, parts = sympy.cse([part for _, part in kept], symbols=sympy.numbered_symbols("s"))
    before += [(symbol, part) for (symbol, _), part in zip(kept, parts, strict=True)]
    shared, expressions = sympy.cse(reduced, symbols=sympy.numbered_symbols("x"))
    shared = before + shared
    once: list[str] = []
    inside: list[str] = []
    for symbol, expression in shared:
        moves = expression.free_symbols & varying
        varying |= {symbol} if moves else set()
        (inside if moves else once).append(f"{symbol} = {_shown(expression)}")
    used = {str(s) for _, e in shared for s in e.free_symbols}
    used |= {str(s) for e in expressions for s in e.free_symbols}
    arrays = {
        "parameters": parameters,
        "reference": [f"reference_{key}" for key in REFERENCE],
        "curve": curve_names(spec),
    }
    head = [
        f"{own} = {array}[{k}]"
        for array, names in arrays.items()
        for k, own in enumerate(names)
        if own in used
    ]
    head += [f"{own} = {row}, 0]" for own, row in rows.items() if own in used & set(settled)]
    loop = [f"{own} = {row}, i]" for own, row in rows.items() if own in used - set(settled)]
    loop += inside
    filled = zip(results, expressions, strict=True)
    loop += [f"{target} = {_shown(result)}" for target, result in filled]
    body = [*head, *once, "for i in range(columns.shape[1]):", *(f"    {line}" for line in loop)]
    signature = f"def {name}(parameters, reference, curve, columns, areas, values, slopes):"
    return "\n    ".join([signature, *body]) + "\n"


def _shown(expression: Any) -> str:
    return str(LawPrinter({"fully_qualified_modules": True}).doprint(expression))
