"""The law in the page: the terms of `bayes_cpt.laws` as JavaScript, and the draws that it is evaluated in.

The expressions are those from which the sampler's code is made, and the spread of a new run is that of
`bayes_cpt.model.residuals`: the page has no law of its own. `expressions` alone knows where they come from.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import sympy
from jinja2 import Environment, PackageLoader
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.errors import SpecError
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.series import Interval
from bayes_cpt.model.discrepancy import OWN_SHARE
from bayes_cpt.model.likelihood_tables import REFERENCE
from bayes_cpt.model.printed_law import Symbols, law_expressions
from bayes_cpt.model.residuals import ONSET_SHARE, Scales, predictive_parts
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.report import words
from bayes_cpt.report.numbers import enumerated
from bayes_cpt.study.runs import Base
from bayes_cpt.toml_files import toml_value

# What an input changes with, and in how many loops: what changes with fewer is computed less often.
LOOPS = {"setting": 0, "draw": 1, "point": 2, "both": 2}
# What the page gives to the law, and what each changes with (docs/planner.md, "What the page computes").
CHANGES = {
    "setting": ("target_share", "start_pt", "log_peak_pt", "start_cpt", "carried"),
    "draw": ("level_pt", "base_offset"),
    "point": ("cpt_steps", "paced_steps", "squared_area", "learning_rate", "rewarming",
              "misfit_variance", "beyond"),
    "both": ("log_level_cpt", "log_shift", "log_forward"),
}  # fmt: skip
INPUTS = {name: place for place, names in CHANGES.items() for name in names}
INPUTS |= {f"reference_{quantity}": "setting" for quantity in REFERENCE}
# What the law fills in, and where: of the last two the last point, written last, stays.
OUTPUTS = {"mean": "k", "sd": "k", "fluctuation": "j", "own": "j"}
# What the page does not know, in words.
WORDS = {"log_size": "the model size", "log_batch": "the batch size"}
# What SymPy's printer has no name for.
FUNCTIONS = {"expm1": "Math.expm1", "log1p": "Math.log1p"}


def environment() -> Environment:
    """Return what finds the page's templates; HTML is escaped, JavaScript is not."""
    assets = PackageLoader("bayes_cpt.planner", "assets")
    return words.environment().overlay(loader=assets, trim_blocks=True, lstrip_blocks=True)


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
    """The law of a validation set in JavaScript."""

    # Of a function ``name(setting, points, draws, both, found)`` that fills in mean and sd of a new run's
    # loss, of every draw at every point, and at the last the sds of its fluctuation and of its own misfit
    # alone
    source: str
    # What of the sampled parameters it reads from ``draws``, by the names of the fit
    parameters: tuple[str, ...]


def law_code(spec: ModelSpec, role: str, name: str) -> LawCode:
    """Return the code of the law on validation sets of a role, ``general`` or ``target``, for runs of CPT.

    Refused if the law takes what the page does not compute.
    """
    try:
        symbols, outputs = expressions(spec, role)
        known = INPUTS | {str(parameter): "draw" for parameter in symbols.values()}
        free = {str(symbol) for output in outputs for symbol in output.free_symbols}
        if unknown := sorted(free - set(known)):
            raise _not_computed(spec, role, enumerated([WORDS.get(own, own) for own in unknown]))
        source = _source(name, known, free, outputs)
    except (AttributeError, TypeError, NotImplementedError) as error:
        raise _not_computed(spec, role, str(error)) from error
    return LawCode(source, tuple(own for own, symbol in symbols.items() if str(symbol) in free))


def _not_computed(spec: ModelSpec, role: str, what: str) -> SpecError:
    problem = f"on {role} data its law takes {what}, which the planner's page does not compute"
    fix = "use bayes-cpt predict and decide, or fit cpt-replay to runs of one size and batch for the page"
    return SpecError.at(f"model {spec.name}", problem, fix)


def expressions(spec: ModelSpec, role: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the symbols of the parameters by name, and what `OUTPUTS` names of a new run's loss."""
    symbols, named = law_expressions(spec, role, pretraining=False, paces_apart=False)
    # The law's loss moved by what is kept of the base's offset.
    mean = named["law"] + sympy.Symbol("base_offset", real=True) * named["kept"]
    sizes = Scales(**{own.name: named[own.name] for own in fields(Scales)})
    read = ("cpt_steps", "beyond", "misfit_variance")
    steps, beyond, misfit = (sympy.Symbol(name, real=True) for name in read)
    # The losses of a base that the page knows were measured.
    parts = predictive_parts(sizes, steps, sympy.Integer(0), 1, beyond, misfit, Symbols)
    moving = (sum(parts), parts.fluctuation, OWN_SHARE * parts.misfit)
    outputs = [mean, *map(sympy.sqrt, moving)]
    # In the log of the level, which is computed once for all validation sets.
    log, level = (sympy.Symbol(name, real=True) for name in ("log_level_cpt", "level_cpt"))
    rewritten = (output.xreplace({sympy.log(level): log}) for output in outputs)
    return symbols, [output.xreplace({level: sympy.exp(log)}) for output in rewritten]


def _source(name: str, inputs: dict[str, str], used: set[str], outputs: list[Any]) -> str:
    """Return a function of the outputs `OUTPUTS`: loops over draws and, in these, over points."""
    levels = {own: LOOPS[place] for own, place in inputs.items()}
    template = environment().get_template("law.js.j2")
    statements: dict[str, list[tuple[str, str]]] = {"setting": [], "draw": [], "both": []}
    # What does not change with the point has a name, and is computed further out.
    outer = [own for output in outputs for own in _outer(output, levels)]
    shared, results = sympy.cse([*outputs, *outer], symbols=sympy.numbered_symbols("x"))
    for symbol, expression in shared:
        level = max((levels[str(own)] for own in expression.free_symbols), default=0)
        levels[str(symbol)] = level
        statements[list(statements)[level]].append((str(symbol), javascript(expression)))
    return template.render(
        name=name,
        read={place: sorted(own for own in used if inputs[own] == place) for place in LOOPS},
        statements=statements,
        results=[
            (output, place, javascript(result))
            for (output, place), result in zip(OUTPUTS.items(), results, strict=False)
        ],
    )


def _outer(expression: Any, levels: dict[str, int]) -> Iterator[Any]:
    """Yield the largest parts of an expression that do not change with the point."""
    outside = all(levels[str(own)] < LOOPS["point"] for own in expression.free_symbols)
    if outside and (expression.is_Function or expression.is_Pow):
        yield expression
        return
    for argument in expression.args:
        yield from _outer(argument, levels)


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
        "correlation": vars(model.laws[0].correlation),
        # Where the logarithm of a discrepancy sets in, steps, the share carried over an e-fold of them, the
        # last step that the study measured, and what is added at the start of a re-warm-up.
        "misfit": {
            "onset": ONSET_SHARE * frame.reference.steps,
            "carried": frame.spec.residuals.misfit_memory,
            "studied": frame.studied.continual,
            "rewarming": frame.spec.residuals.rewarming_error,
        },
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
    draws = model.laws[0].draws
    form, coefficients = draws.form, draws.coefficients
    shift = form.shift_basis(coefficients)
    shift = np.broadcast_to(shift, (len(shift), model.draws, shift.shape[-1]))

    def powers(interval: Interval, bases: Floats) -> dict[str, Any]:
        return {"powers": interval.at_nodes().tolist(), "weights": _weights(interval, bases)}

    return {
        "reference_rate": form.reference_rate,
        "memory_clock": form.memory_clock,
        "smallest": SMALLEST,
        "level": {
            "momenta": form.node_momenta().tolist(),
            "weights": _weights(form.momenta, form.level_basis(coefficients)),
        },
        "forward": powers(form.powers, form.forward_basis(coefficients)[None]),
        "shift": powers(form.shift_powers, shift),
    }


def _weights(interval: Interval, bases: Floats) -> list[str]:
    """Return what draws make of values at the nodes, of each validation set or one for all, packed."""
    return [packed(basis @ interval.series(np.eye(interval.nodes)).T) for basis in bases]


def _own(model: FinalLosses, name: str, place: int) -> Floats:
    """Return the draws of a parameter for one validation set."""
    frame, values = model.frame, model.laws[0].draws.parameters[name]
    dims = frame.parameters()[name].dims
    if dims is None:
        return values
    return values[:, frame.coords()[dims].index(frame.domains[place])]


def base_states(model: FinalLosses, bases: tuple[Base, ...]) -> list[dict[str, Any]]:
    """Return what a run finds at each base: learning rate, areas, and where its losses start."""
    [table], [law] = model.tables(bases), model.laws
    places = range(len(model.domains))
    # A curve from each base on each validation set: what is said of the base is the same on all.
    starts = table.curves.bases.map(lambda name, values: values[:: len(places)])
    draws = law.draws
    levels = [np.maximum(starts.level_pt @ basis, SMALLEST) for basis in draws.level_basis]
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
        }
        for index, base in enumerate(bases)
    ]
