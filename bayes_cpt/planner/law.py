"""The law in the page: the terms of `bayes_cpt.laws` as JavaScript, and the draws that it is evaluated in.

The expressions are those from which the sampler's code is made, and the spread of a new run is that of
`bayes_cpt.model.residuals`: the page has no law of its own. `expressions` alone knows where they come from.
"""

import base64
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import sympy
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.series import Interval
from bayes_cpt.model.discrepancy import OWN_SHARE
from bayes_cpt.model.printed_law import REFERENCE, Symbols, law_expressions
from bayes_cpt.model.residuals import ONSET_SHARE, Placed, Scales, predictive_parts
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.folder import toml_value
from bayes_cpt.study.runs import Base

# What an expression changes with. What changes with fewer is computed less often.
SETTING, DRAW, POINT, BOTH = 0, 1, 2, 3
LEVELS = {"setting": SETTING, "draw": DRAW, "point": POINT, "both": BOTH}
# What the page gives to the law, and what each changes with (docs/planner.md, "What the page computes").
INPUTS = {
    "target_share": SETTING,
    "floating": SETTING,
    "start_pt": SETTING,
    "log_peak_pt": SETTING,
    "start_cpt": SETTING,
    "carried": SETTING,
    "level_pt": DRAW,
    "base_offset": DRAW,
    "cpt_steps": POINT,
    "paced_steps": POINT,
    "learning_rate": POINT,
    "misfit_variance": POINT,
    "log_level_cpt": BOTH,
    "log_shift": BOTH,
    "log_forward": BOTH,
} | {f"reference_{quantity}": SETTING for quantity in REFERENCE}
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


@cache
def environment() -> Environment:
    """Return what finds the page's templates; HTML is escaped, JavaScript is not."""
    return Environment(
        loader=PackageLoader("bayes_cpt.planner", "assets"),
        undefined=StrictUndefined,
        autoescape=lambda name: name == "planner.html",
        trim_blocks=True,
        lstrip_blocks=True,
    )


def javascript(expression: Any) -> str:
    """Return an expression in JavaScript.

    Examples
    --------
    >>> x = sympy.Symbol("x")
    >>> javascript(sympy.exp(-x) + x / 4)
    '(1/4)*x + Math.exp(-x)'
    """
    text = sympy.jscode(expression, user_functions=FUNCTIONS, contract=False, strict=True)
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
    """Return the code of the law on validation sets of a role, ``general`` or ``target``, for runs of CPT.

    Raises
    ------
    UnknownToThePageError
        If the law takes what the page does not compute.
    """
    try:
        symbols, outputs = expressions(spec, role)
        known = INPUTS | {str(parameter): DRAW for parameter in symbols.values()}
        free = {str(symbol) for output in outputs for symbol in output.free_symbols}
        if unknown := sorted(free - set(known)):
            raise UnknownToThePageError(spec.name, role, ", ".join(unknown))
        source = _Loops(known).function(name, outputs)
    except (AttributeError, TypeError, NotImplementedError) as error:
        raise UnknownToThePageError(spec.name, role, str(error)) from error
    return LawCode(source, tuple(own for own, symbol in symbols.items() if str(symbol) in free))


def expressions(spec: ModelSpec, role: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the symbols of the parameters by name, and mean, sd and fluctuation of a new run's loss."""
    symbols, named = law_expressions(spec, role, pretraining=False, paces_apart=False)
    # The law's loss moved by what is kept of the base's offset.
    mean = named["law"] + sympy.Symbol("base_offset", real=True) * named["kept"]
    sizes = {name: named[name] for name in ("fluctuation", "memory", "misfit", "offset")}
    floating = sympy.Symbol("floating", real=True)
    at = Placed(
        # Only PT is extrapolated beyond the last step that was measured.
        Scales(**sizes, extrapolation=sympy.Integer(0)),
        sympy.Symbol("cpt_steps", real=True),
        floating,
        1 - floating,
        sympy.Integer(0),
    )
    misfit = sympy.Symbol("misfit_variance", real=True)
    fluctuation, law = map(sympy.sympify, predictive_parts(at, at, misfit, Symbols))
    outputs = [mean, sympy.sqrt(fluctuation + law), sympy.sqrt(fluctuation)]
    return symbols, [_in_log_level(output) for output in outputs]


def _in_log_level(expression: Any) -> Any:
    """Return an expression in the log of the level, which is computed once for all validation sets."""
    logarithm, level = (sympy.Symbol(name, real=True) for name in ("log_level_cpt", "level_cpt"))
    return expression.xreplace({sympy.log(level): logarithm}).xreplace(
        {level: sympy.exp(logarithm)}
    )


@dataclass
class _Loops:
    """Sorts an expression by what its parts change with, and writes it as loops over draws and points."""

    # By name, what an input changes with.
    levels: dict[str, int]
    # Statements by what they change with, in order.
    bodies: dict[int, list[tuple[Any, Any]]] = field(
        default_factory=lambda: {level: [] for level in LEVELS.values()}
    )
    names: dict[Any, Any] = field(default_factory=dict)

    def function(self, name: str, outputs: list[Any]) -> str:
        """Return the source of a function of the outputs `OUTPUTS`."""
        inputs = {str(symbol) for output in outputs for symbol in output.free_symbols}
        read = {
            level: sorted(own for own in inputs if self.levels[own] == level)
            for level in self.bodies
        }
        shared, results = sympy.cse(outputs, symbols=sympy.numbered_symbols("x"))
        for symbol, expression in shared:
            level = self.levels[str(symbol)] = self._level(expression)
            whole = expression if level != BOTH else self._hoisted(expression)
            self.bodies[level].append((symbol, whole))
        results = [self._hoisted(result) for result in results]
        inner = [*(expression for _, expression in self.bodies[BOTH]), *results]
        needed = {symbol for expression in inner for symbol in expression.free_symbols}
        return (
            environment()
            .get_template("law.js.j2")
            .render(
                name=name,
                read={level: read[place] for level, place in LEVELS.items()},
                **{level: self._statements(place) for level, place in LEVELS.items()},
                # What changes with the point alone is computed once for all draws.
                kept=sorted(str(symbol) for symbol, _ in self.bodies[POINT] if symbol in needed),
                results=[
                    (output, place, javascript(result))
                    for (output, place), result in zip(OUTPUTS.items(), results, strict=True)
                ],
            )
        )

    def _statements(self, level: int) -> list[tuple[str, str]]:
        return [(str(symbol), javascript(own)) for symbol, own in self.bodies[level]]

    def _level(self, expression: Any) -> int:
        level = SETTING
        for symbol in expression.free_symbols:
            level |= self.levels[str(symbol)]
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
        if expression not in self.names:
            symbol = sympy.Symbol(f"c{len(self.names)}", real=True)
            self.names[expression], self.levels[str(symbol)] = symbol, level
            self.bodies[level].append((symbol, expression))
        return self.names[expression]


def packed(values: ArrayLike) -> str:
    """Return numbers as the page reads them: doubles, the first axis slowest, in base64.

    Examples
    --------
    >>> packed([1.0])
    'AAAAAAAA8D8='
    """
    array = np.ascontiguousarray(values, dtype="<f8")
    return base64.b64encode(array.tobytes()).decode("ascii")


def law_draws(model: FinalLosses, codes: tuple[LawCode, ...], normals: Floats) -> dict[str, Any]:
    """Return what the page's law takes of the posterior draws; `normals` are paired with the noise."""
    frame = model.frame
    return {
        "draws": model.draws,
        "normals": packed(normals),
        "reference": vars(frame.reference),
        "areas": _area_nodes(model),
        "correlation": vars(model.correlation),
        "own_share": OWN_SHARE,
        "misfit": misfit_table(frame),
        "parameters": [
            {name: packed(_own(model, name, place)) for name in code.parameters}
            for place, code in enumerate(codes)
        ],
    }


def _area_nodes(model: FinalLosses) -> dict[str, Any]:
    """Return how areas follow from schedules: run along one at nodes, and weighted in each draw.

    What depends on a number that is estimated, such as the level on lambda, is a series in it
    (`bayes_cpt.laws.series`). The page runs along a schedule at the nodes of the series; a
    draw's own level is a sum over these, whose weights do not depend on the schedule.
    """
    form, coefficients = model.laws[0].draws.form, model.coefficients
    shift = form.shift_basis(coefficients)
    shift = np.broadcast_to(shift, (len(shift), model.draws, shift.shape[-1]))

    def powers(interval: Interval, bases: Floats) -> dict[str, Any]:
        return {"powers": interval.at_nodes().tolist(), "weights": _weights(interval, bases)}

    return {
        "reference_rate": form.reference_rate,
        "memory_clock": form.memory_clock,
        "smallest": SMALLEST,
        "level": {
            "momenta": form.momenta.node_momenta().tolist(),
            "weights": _weights(form.momenta.interval, form.level_basis(coefficients)),
        },
        "forward": powers(form.powers.interval, form.forward_basis(coefficients)[None]),
        "shift": powers(form.shift_powers.interval, shift),
    }


def _weights(interval: Interval, bases: Floats) -> list[str]:
    """Return what draws make of values at the nodes, of each validation set or one for all, packed."""
    return [packed(basis @ interval.series(np.eye(interval.nodes)).T) for basis in bases]


def _own(model: FinalLosses, name: str, place: int) -> Floats:
    """Return the draws of a parameter for one validation set."""
    frame, values = model.frame, model.parameters[name]
    dims = frame.parameters()[name].dims
    if dims is None:
        return values
    return values[:, frame.coords()[dims].index(frame.domains[place])]


def misfit_table(frame: BoundModel) -> dict[str, Any]:
    """Return what the variance of a discrepancy of size 1 follows from.

    Where the logarithm sets in, steps, and the share that is carried over an e-fold of steps.
    """
    return {
        "onset": ONSET_SHARE * frame.reference.steps,
        "carried": frame.spec.residuals.misfit_memory,
    }


def base_states(model: FinalLosses, bases: tuple[Base, ...]) -> list[dict[str, Any]]:
    """Return what a run finds at each base: learning rate, areas, and where its losses start."""
    [table], [law] = model.tables(bases), model.laws
    places = range(len(model.domains))
    # A curve from each base on each validation set: what is said of the base is the same on all.
    starts = table.curves.bases.map(lambda name, values: values[:: len(places)])
    draws = law.draws
    levels = [draws.form.levels_in_draws(starts.level_pt, basis) for basis in draws.level_basis]
    return [
        {
            "name": base.name,
            "toml": toml_value(base.name),
            "model_size": base.model_size,
            "initial": base.schedule.final if base.schedule else 0.0,
            "start_pt": float(starts.start_pt[index]),
            "carried": float(starts.carried[index]),
            "log_peak_pt": float(starts.log_peak_pt[index]),
            "level": [packed(own[index]) for own in levels],
            "initial_levels": table.initial[index].tolist(),
            "forward": table.forward[index].tolist(),
            "offset": [packed(table.offset[place, index]) for place in places],
            "loss": [packed(table.loss[place, index]) for place in places],
            "known": [bool(table.known[place, index]) for place in places],
        }
        for index, base in enumerate(bases)
    ]
