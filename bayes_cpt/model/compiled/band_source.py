"""The law along CPT curves in many draws as source code, for `bayes_cpt.forecast.bands`.

As in `bayes_cpt.model.compiled.symbolic` the law's own terms are evaluated on symbols, so that it has one
definition. What is written out is sorted by what it depends on: draws alone, draws and curve, a point, or
draws and points together. Only the last is computed for every draw at every point: in single precision, in
a loop that becomes vector instructions.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import sympy

from bayes_cpt.laws import Reference
from bayes_cpt.model.compiled.symbolic import (
    REFERENCE,
    Exp,
    Sqrt,
    _outputs,
    _parameter_symbol,
    _Printer,
    parameters_of,
)
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import ModelSpec

# Draws in a row of the workspace: a multiple of what fits a vector, few enough for the fastest cache.
BLOCK = 256
POINT = ("cpt_steps", "learning_rate", "forward_cpt", "innovations")
CURVE = (
    "forward_pt", "target_share", "base_loss", "base_known", *(f"reference_{own}" for own in REFERENCE)
)  # fmt: skip
RESULTS = ("mean", "variance", "value")


def _real(name: str) -> Any:
    return sympy.Symbol(name, real=True)


# Of draws: S2 of the base, the standard normal number that a draw is paired with, S2 of the run.
BASE_AREA, NOISE, AREA = map(_real, ("annealing_pt", "noise", "annealing_cpt"))


class Separated:
    """Takes the largest parts that are free of some symbols out of expressions, and names them.

    Parameters
    ----------
    moving : iterable of Symbol
    prefix : str
        Of the names.

    Attributes
    ----------
    parts : dict of Symbol to expression
        What was taken out.
    """

    def __init__(self, moving: Iterable[Any], prefix: str) -> None:
        self.moving, self.prefix = set(moving), prefix
        self.parts: dict[Any, Any] = {}
        self._names: dict[Any, Any] = {}

    def __call__(self, expression: Any) -> Any:
        """Return the expression with names for what was taken out."""
        if expression.is_number or expression in self.moving:
            return expression
        if not self._moves(expression):
            return self._named(expression)
        if expression.is_Add or expression.is_Mul:
            still = [part for part in expression.args if not self._moves(part)]
            rest = [self(part) for part in expression.args if self._moves(part)]
            return expression.func(*([self(expression.func(*still))] if still else []), *rest)
        if isinstance(expression, sympy.Piecewise):
            return sympy.Piecewise(*((self(own), self._condition(c)) for own, c in expression.args))
        return expression.func(*map(self, expression.args))

    def _moves(self, expression: Any) -> bool:
        return bool(expression.free_symbols & self.moving)

    def _named(self, expression: Any) -> Any:
        if expression not in self._names:
            name = _real(f"{self.prefix}{len(self.parts)}")
            self._names[expression], self.parts[name] = name, expression
        return self._names[expression]

    def _condition(self, condition: Any) -> Any:
        return condition.func(*map(self, condition.args)) if condition.is_Relational else condition


class _Single(_Printer):
    """Prints numbers in single precision, and functions as those of `bayes_cpt.model.compiled.single`."""

    def _print_Function(self, expr: Any) -> str:  # noqa: N802
        return f"single_{super()._print_Function(expr)}"

    def _print_Number(self, expr: Any) -> str:  # noqa: N802
        return f"float32({float(expr)!r})"

    _print_Integer = _print_Rational = _print_Float = _print_Number  # noqa: N815


def curve_expressions(spec: ModelSpec, role: str) -> list[Any]:
    """Return `RESULTS` at a point of a CPT curve: mean and variance of a loss, and a loss with them.

    The variance is that of `bayes_cpt.model.simulate`: fluctuation, misfit, and the unknown level of a
    curve whose base was not measured.
    """
    reference = Reference(**{own: _real(f"reference_{own}") for own in REFERENCE})
    frame = Frame(spec, (role,), (role,), reference)
    outputs = _outputs(frame, _parameters(spec, role))
    law, kept, fluctuation, memory, misfit, offset = outputs
    steps, known = _real("cpt_steps"), _real("base_known")
    at_base = law.subs({own: sympy.Integer(0) for own in (steps, _real("forward_cpt"), AREA)})
    mean = law + known * (_real("base_loss") - at_base) * kept
    variance = (
        fluctuation**2 * (1 - known * Exp(-2 * steps / memory))
        + misfit**2 * _real("innovations")
        + (1 - known) * offset**2
    )
    return [mean, variance, mean + Sqrt(variance) * NOISE]


def _parameters(spec: ModelSpec, role: str) -> dict[str, Any]:
    return {
        own: _parameter_symbol(own, spec.priors[own].of(role)) for own in parameters_of(spec, role)
    }


def band_source(spec: ModelSpec, role: str) -> str:
    """Return the functions ``prepare``, ``fill``, ``at_point`` and ``along`` of a validation set.

    They fill what depends on draws alone, the rows of a workspace for a curve, what depends on a point
    alone, and the last rows of a block of the workspace, `RESULTS`, for a point. `SIZES` holds how many of
    the first three there are.
    """
    parameters = list(_parameters(spec, role).values())
    numbers = Separated([*parameters, BASE_AREA, NOISE, AREA], "s")
    results = [numbers(own) for own in curve_expressions(spec, role)]
    points = set(map(_real, POINT))
    of_point = {name: own for name, own in numbers.parts.items() if own.free_symbols & points}
    of_curve = {name: own for name, own in numbers.parts.items() if name not in of_point}
    rows = Separated([*of_point, AREA], "c")
    results = [rows(own) for own in results]
    draws = Separated([*of_curve, BASE_AREA, NOISE], "d")
    filled = [draws(own) for own in rows.parts.values()]
    sizes = (len(draws.parts), len(rows.parts), len(of_point))
    return "\n\n".join(
        [
            f"SIZES = {sizes!r}\n",
            _prepare(parameters, list(draws.parts.values())),
            _fill(of_curve, list(draws.parts), filled),
            _at_point(list(of_point.values())),
            _along(list(of_point), list(rows.parts), results),
        ]
    )


def _prepare(parameters: list[Any], wanted: list[Any]) -> str:
    lines = ["def prepare(parameters, prepared):", "    for i in range(parameters.shape[1]):"]
    lines += [f"        {name} = parameters[{k}, i]" for k, name in enumerate(parameters)]
    lines += _computed(wanted, [f"prepared[{k}, i]" for k in range(len(wanted))], 8)
    return "\n".join(lines) + "\n"


def _fill(of_curve: dict[Any, Any], prepared: list[Any], wanted: list[Any]) -> str:
    lines = ["def fill(prepared, annealing_pt, noise, curve, workspace):"]
    lines += [f"    {name} = curve[{k}]" for k, name in enumerate(CURVE)]
    lines += _computed(list(of_curve.values()), list(map(str, of_curve)), 4)
    lines += ["    for i in range(annealing_pt.size):"]
    lines += [f"        {name} = prepared[{k}, i]" for k, name in enumerate(prepared)]
    lines += [f"        {BASE_AREA}_, {NOISE}_ = {BASE_AREA}[i], {NOISE}[i]"]
    own = {BASE_AREA: _real(f"{BASE_AREA}_"), NOISE: _real(f"{NOISE}_")}
    lines += [f"        block, j = i // {BLOCK}, i % {BLOCK}"]
    places = [f"workspace[block, {BLOCK * k} + j]" for k in range(len(wanted))]
    lines += _computed([expression.subs(own) for expression in wanted], places, 8)
    return "\n".join(lines) + "\n"


def _at_point(wanted: list[Any]) -> str:
    lines = ["def at_point(point, curve, numbers):"]
    lines += [f"    {name} = curve[{k}]" for k, name in enumerate(CURVE)]
    lines += [f"    {name} = point[{k}]" for k, name in enumerate(POINT)]
    lines += _computed(wanted, [f"numbers[{k}]" for k in range(len(wanted))], 4)
    return "\n".join(lines) + "\n"


def _along(numbers: list[Any], rows: list[Any], results: list[Any]) -> str:
    """Write the loop over the draws of a block.

    All rows lie in one array at constant distances: so the compiler sees that none overlap.
    """
    lines = ["def along(block, numbers):"]
    lines += [f"    {name} = numbers[{k}]" for k, name in enumerate(numbers)]
    lines += [f"    for j in range({BLOCK}):"]
    lines += [f"        {name} = block[{BLOCK * k} + j]" for k, name in enumerate([*rows, AREA])]
    first = len(rows) + 1
    places = [f"block[{BLOCK * (first + k)} + j]" for k in range(len(results))]
    lines += _computed(results, places, 8, _Single)
    return "\n".join(lines) + "\n"


def _computed(
    wanted: Sequence[Any], places: Sequence[str], indent: int, printer: Any = _Printer
) -> list[str]:
    """Write assignments of expressions to places, what they share first."""
    show = printer({"fully_qualified_modules": False}).doprint
    shared, results = sympy.cse(wanted, symbols=sympy.numbered_symbols("x"))
    found = [f"{name} = {show(expression)}" for name, expression in shared]
    found += [f"{place} = {show(own)}" for place, own in zip(places, results, strict=True)]
    return [" " * indent + line for line in found]
