"""The law and the likelihood of its curves as one PyTensor operation, with its gradient.

As a graph of elementary operations law and likelihood compile for minutes. As one operation, whose code
is printed from the law's terms, the model compiles in seconds. Printed and compiled code stay in
PyTensor's folder.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytensor
import pytensor.tensor as pt
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from bayes_cpt.arrays import Floats
from bayes_cpt.files import replacing
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.groups import GROUPED
from bayes_cpt.model.law_kernel import likelihood_in_c, log_likelihoods
from bayes_cpt.model.likelihood_tables import MEMBER, likelihood_tables, series_of
from bayes_cpt.model.packing import packed
from bayes_cpt.model.priors import is_positive
from bayes_cpt.model.setup import BoundModel, Setup, elements
from bayes_cpt.model.spec import ModelSpec

# Place of the values among the inputs: what the likelihood is differentiated by.
VALUES = 1
# Code that shapes what is printed: with a change of it, a law is printed and compiled anew.
SOURCES = ("laws/*.py", "model/*.py")
MODULE = '''"""Printed by bayes_cpt from the terms of a law. May be deleted."""

import math
from functools import cache

import numba
import numpy as np

from bayes_cpt.model.law_kernel import LAW
from bayes_cpt.model.residual_kernel import COMPILED

PLACES = np.array({places!r}, dtype=np.float64)


{rows}

def evaluate(kind, {given}):
{choice}

@cache
def in_c():
    return numba.cfunc(LAW, **COMPILED | {{"forceinline": False}})(evaluate)
'''


class CurveLogLikelihoods(Op):  # type: ignore[misc]
    """Log likelihood of each curve, shape (curves,), and its slopes, shape (curves, values).

    It is of a law on validation sets of these roles. The inputs are the measured losses, the values of the
    law's parameters, in the order of `bayes_cpt.model.setup.elements`, and the tables of the study
    (`study_tables`).
    """

    __props__ = ("key",)

    def __init__(self, spec: ModelSpec, roles: tuple[str, ...]) -> None:
        self.spec, self.roles = spec, roles
        self.key = law_key(spec, roles)

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node of some inputs."""
        # C takes them for doubles.
        variables = [pt.as_tensor_variable(value).astype("float64") for value in inputs]
        return Apply(self, variables, [pt.vector(dtype="float64"), pt.matrix(dtype="float64")])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Compute the outputs (where PyTensor does not compile to Numba)."""
        law = law_code(self.spec, self.roles).in_c()
        found = log_likelihoods(likelihood_in_c().address, law.address, *inputs)
        for storage, output in zip(output_storage, found, strict=True):
            storage[0] = output

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the likelihood is differentiated, by the values alone."""
        return [[i == VALUES, False] for i in range(len(node.inputs))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Return the gradient: the slopes are outputs already."""
        # As a matrix product Numba would compile for three times as long.
        slopes = (cotangents[0][:, None] * outputs[1]).sum(axis=0)
        return [slopes if i == VALUES else disconnected_type() for i in range(len(inputs))]


@register_funcify_default_op_cache_key(CurveLogLikelihoods)  # type: ignore[untyped-decorator]
def _numba_curve_log_likelihoods(op: Any, node: Any, **kwargs: Any) -> Any:
    likelihood = _place_of("bayes_cpt_likelihood", likelihood_in_c().address)
    law = _place_of(f"bayes_cpt_law_{op.key}", law_code(op.spec, op.roles).in_c().address)

    @numba_njit
    def curve_log_likelihoods(loss, values, study):  # type: ignore[no-untyped-def]
        return log_likelihoods(likelihood(), law(), loss, values, study)

    return curve_log_likelihoods


def _place_of(symbol: str, address: int) -> Any:
    """Return a compiled function that returns an address.

    By a symbol: the address is another in each process, and compiled code is kept on disk.
    """
    add_symbol(symbol, address)

    @intrinsic
    def place(typing_context):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [])
            insert: Any = cgutils.get_or_insert_function
            function = insert(builder.module, kind, symbol)
            return builder.ptrtoint(function, context.get_value_type(types.intp))

        return types.intp(), generate

    return place


@cache
def _sources() -> bytes:
    package = Path(__file__).parents[1]
    paths = [path for pattern in SOURCES for path in sorted(package.glob(pattern))]
    return b"".join(path.read_bytes() for path in paths)


def law_key(spec: ModelSpec, roles: tuple[str, ...]) -> str:
    """Return a digest of all that the printed code of a law depends on."""
    priors = spec.priors.items()
    signs = {name: [is_positive(prior.of(role)) for role in roles] for name, prior in priors}
    described = f"{spec.law!r} {spec.residuals.kind} {sorted(signs.items())} {roles}"
    return hashlib.sha256(described.encode() + _sources()).hexdigest()[:32]


# The modules of this process, by key.
_LOADED: dict[str, ModuleType] = {}


def law_code(spec: ModelSpec, roles: tuple[str, ...]) -> ModuleType:
    """Return the module printed from a law: the ``PLACES`` of its tables, and ``in_c``, its code.

    The first call on a machine prints the law, and the first of ``in_c`` compiles it, in some seconds;
    later ones load what is kept.
    """
    key = law_key(spec, roles)
    if key not in _LOADED:
        path = Path(pytensor.config.base_compiledir) / "bayes_cpt" / f"law_{key}.py"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial:
                partial.write_text(_printed(spec, roles), encoding="utf-8")
        described = importlib.util.spec_from_file_location(path.stem, path)
        assert described is not None
        assert described.loader is not None
        module = importlib.util.module_from_spec(described)
        # Numba looks up by name the module whose compiled code it kept.
        sys.modules[path.stem] = module
        described.loader.exec_module(module)
        _LOADED[key] = module
    return _LOADED[key]


def study_tables(setup: Setup) -> Floats:
    """Return what the likelihood of a study takes beside losses and values, as one array."""
    places = law_code(setup.frame.spec, setup.frame.roles).PLACES
    return packed(list(likelihood_tables(setup, places).values()))


def _printed(spec: ModelSpec, roles: tuple[str, ...]) -> str:
    from bayes_cpt.model.printed_law import print_law

    kinds = [(role, phase) for role in roles for phase in (False, True)]
    # Several targets are validation sets of one role, and share its code.
    names = {kind: f"rows_{k}" for k, kind in enumerate(dict.fromkeys(kinds))}
    laws = {own: print_law(spec, own[0], name, pretraining=own[1]) for own, name in names.items()}
    given = "parameters, reference, curve, columns, areas, values, slopes"
    choice = "".join(
        f"    if kind == {k}:\n        {names[kind]}({given})\n" for k, kind in enumerate(kinds)
    )
    return MODULE.format(
        places=_places(spec, roles, [laws[kind] for kind in kinds]),
        rows="\n\n".join(f"@numba.njit(**COMPILED)\n{law.source}" for law in laws.values()),
        given=given,
        choice=choice,
    )


def _places(spec: ModelSpec, roles: tuple[str, ...], laws: Sequence[Any]) -> list[list[int]]:
    """Return which values law and series of each validation set take, rows of one length, -1 for none.

    In this order: for each validation set the values that its law takes (-1, -2 ... are those that a
    curve names itself); for each kind of curves the output that each row of slopes belongs to; and the
    parameter; for each validation set the value that each series is in.
    """
    domains = tuple(str(k) for k in range(len(roles)))
    frame = BoundModel(spec, domains, roles, Reference(1.0, 1.0, 1.0, 1.0))
    place = {(element.name, element.domain): k for k, element in enumerate(elements(frame))}
    place |= {(f"{name}{MEMBER}{domain}", None): k for (name, domain), k in place.items() if domain}
    of_groups = [name for name, info in frame.parameters().items() if info.dims in GROUPED]
    of_members = {name: -1 - k for k, name in enumerate(of_groups)}

    def place_of(name: str, domain: str) -> int:
        return place.get((name, domain), place.get((name, None), -1))

    values = [
        [of_members.get(name, place_of(name, domain)) for name in law.parameters]
        for domain, law in zip(domains, laws[::2], strict=True)
    ]
    outputs = [[output for output, _ in law.slopes] for law in laws]
    inputs = [[parameter for _, parameter in law.slopes] for law in laws]
    series = [[place_of(own.parameter, domain) for own in series_of(spec)] for domain in domains]
    rows = [*values, *outputs, *inputs, *series]
    width = max(len(row) for row in rows)
    return [row + [-1] * (width - len(row)) for row in rows]
