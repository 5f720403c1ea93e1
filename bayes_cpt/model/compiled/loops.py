"""Expressions -> the code of a function that works them out at the points of a curve.

What the whole curve shares stands before the loops. Exponentials and logarithms are taken of all points at
once (`bayes_cpt.model.compiled.elementary`), those that others are taken of first; between them loops work
out what they are taken of, and the last one all that is asked for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from bayes_cpt.model.compiled.symbols import Exp, Expm1, Log, Log1p, Printer

# How each is taken of an array.
OF_ARRAYS = {Exp: "exponentials", Log: "logarithms", Log1p: "logarithms_of_one_more"}
INDENT = "    "

type Assignment = tuple[Any, Any]


@dataclass(frozen=True)
class Point:
    """What the code of a function is given.

    Parameters
    ----------
    parameters, reference, curve : tuple of str
        Names of the numbers in three vectors.
    columns, areas : tuple of str
        Names of the rows of two arrays, a number for each point.
    settled : frozenset of str
        Those of them that do not change along a curve.
    """

    parameters: tuple[str, ...]
    reference: tuple[str, ...]
    curve: tuple[str, ...]
    columns: tuple[str, ...]
    areas: tuple[str, ...]
    settled: frozenset[str]

    @property
    def places(self) -> dict[str, str]:
        """The row in which each stands, ``columns[0``, say."""
        columns = {name: f"columns[{k}" for k, name in enumerate(self.columns)}
        return columns | {name: f"areas[{k}" for k, name in enumerate(self.areas)}

    @property
    def varying(self) -> set[Any]:
        """The symbols of what changes along a curve."""
        return {sympy.Symbol(name, real=True) for name in self.places if name not in self.settled}


def source_of(name: str, point: Point, targets: Sequence[str], results: Sequence[Any]) -> str:
    """Return the code of a function of parameters, reference, curve, columns, areas, values and slopes.

    Parameters
    ----------
    name : str
    point : Point
    targets : sequence of str
        What is filled in at point ``i``, ``values[0, i]``, say.
    results : sequence of sympy expression
        With what.
    """
    shared, results = sympy.cse(list(results), symbols=sympy.numbered_symbols("x"))
    varying = point.varying
    once: list[Assignment] = []
    inside: list[Assignment] = []
    hoist, calls = _Hoist(varying, once), _Calls()
    for symbol, expression in shared:
        if expression.free_symbols & varying:
            varying.add(symbol)
            inside.append((symbol, _at_a_point(hoist(expression))))
        else:
            once.append((symbol, expression))
    rows = [_at_a_point(hoist(result)) for result in results]
    inside = [(symbol, calls.taken_out(symbol, expression)) for symbol, expression in inside]
    rows = [calls.taken_out(None, row) for row in rows]
    loops = _Loops(point, inside, calls)
    body = [line for stage in calls.stages for line in loops.of_stage(stage)]
    body += loops.filling(targets, rows)
    used = _used(expression for _, expression in once) | loops.used
    head = [f"def {name}(parameters, reference, curve, columns, areas, values, slopes):"]
    for array in ("parameters", "reference", "curve"):
        head += [f"{own} = {array}[{k}]" for k, own in enumerate(getattr(point, array))]
    head += [
        f"{own} = {row}, 0]" for own, row in point.places.items() if own in point.settled & used
    ]
    head += [f"{symbol} = {_shown(expression)}" for symbol, expression in once]
    if calls.rows:
        head.append(f"room = np.empty(({len(calls.rows)}, columns.shape[1]))")
    return f"\n{INDENT}".join([*head, *body]) + "\n"


def _shown(expression: Any) -> str:
    return str(Printer({"fully_qualified_modules": False}).doprint(expression))


def _used(expressions: Iterable[Any]) -> set[str]:
    return {str(symbol) for expression in expressions for symbol in expression.free_symbols}


def _at_a_point(expression: Any) -> Any:
    """Write expm1 as exp less 1, which takes a quarter of the time.

    It is off by 1e-16, which what it is divided by makes larger: 5e-12 where an exponent is 1e-4. Before
    the loop, where quotients of what is nearly 0 come from, it stays expm1.
    """
    return expression.replace(Expm1, lambda argument: Exp(argument) - 1)


@dataclass
class _Calls:
    """Takes calls of elementary functions out of expressions, each a symbol in its place.

    Parameters
    ----------
    known : dict
        The symbol of each call.
    depth : dict
        Of each symbol: how many calls deep it is.
    """

    known: dict[Any, Any] = field(default_factory=dict)
    depth: dict[Any, int] = field(default_factory=dict)

    def taken_out(self, symbol: Any, expression: Any) -> Any:
        """Return an expression without calls, the value of a symbol from now on."""
        # One by one, so that a call of a call has the symbol of the inner one.
        expression = expression.replace(
            lambda part: part.func in OF_ARRAYS, self._of, simultaneous=False
        )
        self.depth[symbol] = self._deepest(expression)
        return expression

    def _of(self, call: Any) -> Any:
        if call not in self.known:
            self.known[call] = sympy.Symbol(f"e{len(self.known)}", real=True)
            self.depth[self.known[call]] = 1 + self._deepest(call)
        return self.known[call]

    def _deepest(self, expression: Any) -> int:
        return max((self.depth.get(symbol, 0) for symbol in expression.free_symbols), default=0)

    @property
    def stages(self) -> list[dict[Any, list[Any]]]:
        """The calls of each depth, by function."""
        found: dict[int, dict[Any, list[Any]]] = {}
        for call, symbol in self.known.items():
            found.setdefault(self.depth[symbol], {}).setdefault(call.func, []).append(call)
        return [found[depth] for depth in sorted(found)]

    @property
    def rows(self) -> dict[Any, int]:
        """Where each call's symbol stands, those of a function at a depth one after the other."""
        every = [call for stage in self.stages for calls in stage.values() for call in calls]
        return {self.known[call]: k for k, call in enumerate(every)}


class _Loops:
    """Writes loops over the points of a curve, each with all that it needs."""

    def __init__(self, point: Point, inside: Sequence[Assignment], calls: _Calls) -> None:
        self.calls, self.inside, self.rows = calls, inside, calls.rows
        self.places, self.settled = point.places, point.settled
        self.used: set[str] = set()

    def of_stage(self, stage: dict[Any, list[Any]]) -> list[str]:
        """Return the lines that take all calls of one depth."""
        places = {call: self.rows[self.calls.known[call]] for own in stage.values() for call in own}
        targets = [f"room[{place}, i]" for place in places.values()]
        lines = self.filling(targets, [call.args[0] for call in places])
        for function, calls in stage.items():
            first = places[calls[0]]
            lines.append(f"{OF_ARRAYS[function]}(room[{first}:{first + len(calls)}].reshape(-1))")
        return lines

    def filling(self, targets: Sequence[str], results: Sequence[Any]) -> list[str]:
        """Return the lines of a loop that fills in results."""
        needed = {symbol for result in results for symbol in result.free_symbols}
        kept: list[Assignment] = []
        for symbol, expression in reversed(self.inside):
            if symbol in needed:
                kept.insert(0, (symbol, expression))
                needed |= expression.free_symbols
        names = {str(symbol) for symbol in needed}
        self.used |= names
        lines = [
            f"{name} = {row}, i]"
            for name, row in self.places.items()
            if name in names - self.settled
        ]
        lines += [f"{symbol} = room[{k}, i]" for symbol, k in self.rows.items() if symbol in needed]
        lines += [f"{symbol} = {_shown(expression)}" for symbol, expression in kept]
        lines += [
            f"{target} = {_shown(result)}" for target, result in zip(targets, results, strict=True)
        ]
        return ["for i in range(columns.shape[1]):", *(INDENT + line for line in lines)]


class _Hoist:
    """Takes what does not vary along a curve out of an expression, and notes it in `once`."""

    def __init__(self, varying: set[Any], once: list[Assignment]) -> None:
        self.varying, self.once = varying, once
        self.known: dict[Any, Any] = {}

    def __call__(self, expression: Any) -> Any:
        if expression.is_Atom or expression.is_Relational:
            return expression
        if isinstance(expression, ExprCondPair):
            # A case is no value of its own, and what cannot vary in it may still stand before the loop.
            return ExprCondPair(self(expression.expr), expression.cond)
        if not expression.free_symbols & self.varying:
            if expression not in self.known:
                self.known[expression] = sympy.Symbol(f"c{len(self.known)}", real=True)
                self.once.append((self.known[expression], expression))
            return self.known[expression]
        if expression.is_Add or expression.is_Mul:
            moving = [a for a in expression.args if a.free_symbols & self.varying]
            still = [a for a in expression.args if not a.free_symbols & self.varying]
            kept = [self(expression.func(*still))] if still else []
            return expression.func(*kept, *map(self, moving))
        return expression.func(*map(self, expression.args))
