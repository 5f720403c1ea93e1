"""The law of one validation set as JavaScript: the terms of `bayes_cpt.laws`, written out for the page.

The expressions are those from which the sampler's code is made (`bayes_cpt.model.printed_law`), and
the spread of a new run is that of `bayes_cpt.model.residuals`: the page has no law of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy.printing.jscode import JavascriptCodePrinter

from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.model.printed_law import REFERENCE, Symbols, law_expressions
from bayes_cpt.model.residuals import Placed, Scales, predictive_parts
from bayes_cpt.model.spec import ModelSpec

# What an expression changes with. What changes with fewer is computed less often.
SETTING, DRAW, POINT, BOTH = 0, 1, 2, 3
# What the page gives to the law, and what each changes with (docs/planner.md, "What the page computes").
INPUTS = {
    "target_share": SETTING,
    "floating": SETTING,
    "start_pt": SETTING,
    "log_peak_pt": SETTING,
    "start_cpt": SETTING,
    "level_pt": DRAW,
    "base_offset": DRAW,
    "cpt_steps": POINT,
    "paced_steps": POINT,
    "learning_rate": POINT,
    "forward_cpt": POINT,
    "misfit_variance": POINT,
    "log_level_cpt": BOTH,
    "log_forward": BOTH,
}
# What the law fills in, and where: of the fluctuation the last point, written last, stays.
OUTPUTS = {"mean": "k", "sd": "k", "fluctuation": "j"}
# What SymPy's printer has no name for.
FUNCTIONS = {"expm1": "Math.expm1", "log1p": "Math.log1p"}


class UnknownToThePageError(SpecError):
    """A law with something in it that the planner's page does not compute."""

    def __init__(self, model: str, role: str, what: str) -> None:
        problem = f"on {role} data its law takes {what}, which the planner's page does not compute"
        fix = "use bayes-cpt predict and decide, or fit one of the shipped models for the page"
        super().__init__([Problem(f"model {model}", problem, fix)])


def shown(expression: Any) -> str:
    """Return an expression in JavaScript.

    Parameters
    ----------
    expression : sympy.Expr

    Examples
    --------
    >>> x = sympy.Symbol("x")
    >>> shown(sympy.exp(-x) + x**2 / 4)
    '(1/4)*Math.pow(x, 2) + Math.exp(-x)'
    """
    text = JavascriptCodePrinter({"contract": False, "user_functions": FUNCTIONS}).doprint(
        expression
    )
    return " ".join(str(text).split())


@dataclass(frozen=True)
class LawCode:
    """The law of a validation set in JavaScript.

    Parameters
    ----------
    source : str
        Of a function ``name(setting, points, draws, both, found)`` that fills in mean and sd of a new
        run's loss, of every draw at every point, and the sd of its fluctuation alone at the last.
    parameters : tuple of str
        What of the sampled parameters it reads from `draws`, by the names of the fit.
    """

    source: str
    parameters: tuple[str, ...]


def law_code(spec: ModelSpec, role: str, name: str) -> LawCode:
    """Return the code of the law on validation sets of a role, for runs of CPT.

    Parameters
    ----------
    spec : ModelSpec
    role : str
        ``general`` or ``target``.
    name : str
        Of the JavaScript function.

    Raises
    ------
    UnknownToThePageError
        If the law takes what the page does not compute.
    """
    try:
        symbols, named = law_expressions(spec, role, pretraining=False)
        fluctuation, law = _variances(named)
        values = [_mean(named), sympy.sqrt(fluctuation + law), sympy.sqrt(fluctuation)]
        outputs = [_in_log_level(value) for value in values]
        known = INPUTS | {str(parameter): DRAW for parameter in symbols.values()}
        known |= {f"reference_{quantity}": SETTING for quantity in REFERENCE}
        free = {str(symbol) for output in outputs for symbol in output.free_symbols}
        if unknown := sorted(free - set(known)):
            raise UnknownToThePageError(spec.name, role, ", ".join(unknown))
        loops = _Loops(known)
        source = loops.function(name, outputs)
    except (AttributeError, TypeError) as error:
        raise UnknownToThePageError(spec.name, role, str(error)) from error
    used = tuple(parameter for parameter, symbol in symbols.items() if str(symbol) in loops.used)
    return LawCode(source, used)


def _in_log_level(expression: Any) -> Any:
    """Return an expression in the log of the level, which is computed once for all validation sets."""
    logarithm = sympy.Symbol("log_level_cpt", real=True)
    for level in [symbol for symbol in expression.free_symbols if str(symbol) == "level_cpt"]:
        expression = expression.xreplace({sympy.log(level): logarithm}).xreplace(
            {level: sympy.exp(logarithm)}
        )
    return expression


def _mean(named: Mapping[str, Any]) -> Any:
    """Return the law's loss moved by what is kept of the base's offset (`Columns.losses`)."""
    return named["law"] + sympy.Symbol("base_offset", real=True) * named["kept"]


def _variances(named: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the variances of a new run's fluctuation and of the law's errors."""
    sizes = {name: named[name] for name in ("fluctuation", "memory", "misfit", "offset")}
    # Only PT is extrapolated beyond the last step that was measured.
    floating = sympy.Symbol("floating", real=True)
    at = Placed(
        Scales(**sizes, extrapolation=sympy.Integer(0)),
        sympy.Symbol("cpt_steps", real=True),
        floating,
        1 - floating,
        sympy.Integer(0),
    )
    misfit = sympy.Symbol("misfit_variance", real=True)
    fluctuation, law = predictive_parts(at, at, misfit, Symbols)
    return sympy.sympify(fluctuation), sympy.sympify(law)


@dataclass
class _Loops:
    """Sorts an expression by what its parts change with, and writes it as loops over draws and points."""

    known: Mapping[str, int]
    used: set[str] = field(default_factory=set)
    # Statements by what they change with, in order.
    bodies: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    _names: dict[Any, Any] = field(default_factory=dict)
    _levels: dict[Any, int] = field(default_factory=dict)

    def function(self, name: str, outputs: list[Any]) -> str:
        """Return the source of a function of three outputs: mean, sd, and sd of the fluctuation."""
        shared, results = sympy.cse(outputs, symbols=sympy.numbered_symbols("x"))
        self.bodies = {level: [] for level in (SETTING, DRAW, POINT, BOTH)}
        for symbol, expression in shared:
            level = self._levels[symbol] = self._level(expression)
            whole = expression if level != BOTH else self._hoisted(expression)
            self.bodies[level].append((symbol, whole))
        return "\n".join(self._lines(name, [self._hoisted(result) for result in results])) + "\n"

    def _level(self, expression: Any) -> int:
        level = SETTING
        for symbol in expression.free_symbols:
            level |= self._levels.get(symbol, self.known.get(str(symbol), SETTING))
        return level

    def _hoisted(self, expression: Any) -> Any:
        """Return an expression whose parts that change with less are names, computed further out."""
        level = self._level(expression)
        if expression.is_Atom or expression.is_Relational or expression.is_Piecewise:
            return expression
        if level != BOTH:
            return self._named(expression, level)
        if not (expression.is_Add or expression.is_Mul):
            return expression.func(*map(self._hoisted, expression.args))
        groups: dict[int, list[Any]] = {}
        for argument in expression.args:
            groups.setdefault(self._level(argument) or DRAW, []).append(argument)
        inner = [self._hoisted(one) for one in groups.pop(BOTH, [])]
        outer = [self._hoisted(expression.func(*arguments)) for arguments in groups.values()]
        return expression.func(*outer, *inner)

    def _named(self, expression: Any, level: int) -> Any:
        if expression not in self._names:
            symbol = sympy.Symbol(f"c{len(self._names)}", real=True)
            self._names[expression], self._levels[symbol] = symbol, level
            self.bodies[level].append((symbol, expression))
        return self._names[expression]

    def _lines(self, name: str, results: list[Any]) -> Iterable[str]:
        setting, draw, point, both = (self.bodies[level] for level in (SETTING, DRAW, POINT, BOTH))
        inner = [*(expression for _, expression in both), *results]
        outer = [expression for _, expression in (*setting, *draw, *point)]
        kept = sorted(
            str(symbol) for symbol, _ in point if any(symbol in one.free_symbols for one in inner)
        )
        yield f"function {name}(setting, points, draws, both, found) {{"
        yield f"  const {{ {', '.join(OUTPUTS)} }} = found;"
        yield from self._read(SETTING, outer + inner, "  const {} = setting.{};")
        yield from _statements(setting, "  ")
        # What changes with the point alone is computed once for all draws.
        yield from (f"  const {symbol}s = new Float64Array(found.points);" for symbol in kept)
        yield "  for (let i = 0; i < found.points; i++) {"
        yield from self._read(
            POINT, [expression for _, expression in point], "    const {} = points.{}[i];"
        )
        yield from _statements(point, "    ")
        yield from (f"    {symbol}s[i] = {symbol};" for symbol in kept)
        yield "  }"
        yield from self._read(POINT, inner, "  const {}s = points.{};")
        yield from self._read(BOTH, inner, "  const {}s = both.{};")
        yield "  for (let j = 0, k = 0; j < found.draws; j++) {"
        yield from self._read(
            DRAW, [expression for _, expression in draw] + inner, "    const {} = draws.{}[j];"
        )
        yield from _statements(draw, "    ")
        yield "    for (let i = 0; i < found.points; i++, k++) {"
        yield from (f"      const {symbol} = {symbol}s[i];" for symbol in kept)
        yield from self._read(POINT, inner, "      const {} = {}s[i];")
        yield from self._read(BOTH, inner, "      const {} = {}s[k];")
        yield from _statements(both, "      ")
        for (output, place), result in zip(OUTPUTS.items(), results, strict=True):
            yield f"      {output}[{place}] = {shown(result)};"
        yield "    }"
        yield "  }"
        yield "}"

    def _read(self, level: int, expressions: list[Any], form: str) -> Iterable[str]:
        """Yield a line for each input of a level that some expressions name."""
        names = {str(symbol) for one in expressions for symbol in one.free_symbols}
        for name in sorted(name for name in names if self.known.get(name) == level):
            self.used.add(name)
            yield form.format(name, name)


def _statements(body: list[tuple[Any, Any]], indent: str) -> Iterable[str]:
    return (f"{indent}const {symbol} = {shown(expression)};" for symbol, expression in body)
