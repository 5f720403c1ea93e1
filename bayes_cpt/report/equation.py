"""The law as it is printed: its terms on SymPy's symbols, written by SymPy's own printers.

What a terminal, a page and a paper show is what the terms of `bayes_cpt.laws` compute: each term's `loss`
is called with a letter for each coefficient and for each quantity of a point. `law_equations` alone knows
how the law is put together.
"""

import copy
import re
import textwrap
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from html import escape
from types import SimpleNamespace
from typing import Any

import numpy as np
import sympy
from markupsafe import Markup
from sympy.core.function import AppliedUndef
from sympy.printing.conventions import split_super_sub
from sympy.printing.mathml import mathml as sympy_mathml

from bayes_cpt.laws.groups import factors
from bayes_cpt.laws.pretraining import Annealing
from bayes_cpt.laws.term import MEANINGS
from bayes_cpt.laws.transfer import BEND, Shift, effective_share
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.printed_law import Symbols
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.report.numbers import enumerated
from bayes_cpt.report.words import notation, sentence

# The coefficients of each form of the replay factor.
OF_FACTOR = {"exponential": ("a",), "saturating": ("c", "delta"), "power": ("b", "gamma")}
MIXED = (
    "x: share of a target's own data in the batches (for general data, of all targets'); y: share of the "
    "other targets' (for general data 0); phi: 1 for a target, the mean over the targets for general data"
)
COEFFICIENTS: dict[str, str] = notation()["coefficients"] | MEANINGS
# A letter of a formula in a note or a meaning, or a power.
LETTER = re.compile(
    r"\b((?:eta|tau|Delta|N|V|S\d|w|q)_\w+|(?:LR|area)\^\w+|eta|[BEQZcehmuxy]|"
    rf"{'|'.join(name for name in COEFFICIENTS if len(name) > 1)})\b"
)


@dataclass(frozen=True)
class Equation:
    """One equation of a law, of SymPy's expressions."""

    left: Any  # what it defines
    summands: tuple[Any, ...]  # whose sum that is; of a law one for each term
    note: str = ""  # where it holds, or what its letters mean

    @property
    def is_long(self) -> bool:
        """Whether each summand has a line of its own."""
        return len(self.summands) > 2

    @property
    def plus(self) -> list[str]:
        """The sign before each summand, where it has none of its own and is not the first."""
        return ["+" * (place > 0 and not _text(own).startswith("-"))
                for place, own in enumerate(self.summands)]  # fmt: skip


def lettered(said: str, letter: Callable[[str], str], text: Callable[[str], str] = str) -> str:
    """Return what is said, as `letter` prints its letters and `text` what is between them."""
    parts = enumerate(LETTER.split(said))
    return "".join(letter(part) if place % 2 else text(part) for place, part in parts)


# Of remarks in a terminal.
WIDTH, INDENT = 96, "    "
# A function, as SymPy's own is a power that it moves below fraction lines.
EXP = sympy.Function("exp")


def _exp(value: Any) -> Any:
    """Return exp(a + b*log(c)) as c**b*exp(a)."""
    powers, rest = sympy.Integer(1), sympy.Integer(0)
    for part in sympy.Add.make_args(sympy.sympify(value)):
        logs = [own for own in sympy.Mul.make_args(part) if isinstance(own, sympy.log)]
        if len(logs) == 1:
            powers *= logs[0].args[0] ** (part / logs[0])
        else:
            rest += part
    return powers if rest == 0 else powers * EXP(rest)


class _Printed(Symbols):
    """The part of NumPy that terms use, on single symbols, in the form in which formulas are printed."""

    exp = staticmethod(_exp)
    expm1 = staticmethod(lambda value: _exp(value) - 1)
    log1p = staticmethod(lambda value: sympy.log(1 + value))
    # What cannot be decided guards a limit, such as a curvature of 0: the formula is the other case.
    where = staticmethod(lambda which, yes, no: yes if which == True else no)  # noqa: E712 (SymPy's True)
    # The other is a bound that keeps numbers finite.
    maximum = staticmethod(lambda one, other: one)


def _letter(name: str) -> Any:
    return sympy.Symbol(name, positive=True)


def law_equations(frame: BoundModel) -> list[Equation]:
    """Return the law of a frame: the loss as a sum of its terms, then the areas and factors in it."""
    law, spec = frame.law, frame.spec.law
    # Of the coefficients only the names are wanted: any values give them.
    values = {
        name: np.full(() if info.dims is None else len(frame.coords()[info.dims]), 0.5)
        for name, info in frame.parameters().items()
    }
    letters: dict[str, Any] = {name: _letter(name) for name in law.coefficients(values, np)}
    point = _point(frame, letters)
    gathered = letters | factors(point, letters, _Printed)
    terms = [_opened(term, letters) for term in law.terms]
    summands = [term.loss(point, gathered, _Printed) for term in terms]
    if law.base_offset is not None:
        kept = law.base_offset.kept(point, gathered, _Printed)
        summands.append(sympy.Symbol("Delta_base") * kept)
    notes = [MIXED] if spec.targets > 1 else []
    if law.base_offset is not None:
        notes.append("Delta_base: how far the base lies off the law")
    notes += _constants(frame, {own.name for part in summands for own in part.atoms(sympy.Symbol)})
    if frame.batches:
        notes.append(f"q_B, q_E and q_beta are 1 for the {frame.batches[0].words}")
    found = [Equation(sympy.Symbol("L"), tuple(summands), "; ".join(notes))]
    if spec.model_size:
        said = f"N: parameters without embeddings; N_ref = {frame.reference.model_size:.3g} million"
        found.append(Equation(_letter("n"), (_letter("N") / _letter("N_ref"),), said))
    if "gamma_V" in letters:
        said = f"V_run: tokens per step; V_ref = {np.exp(frame.batch_sizes.mean):.3g}"
        found.append(Equation(_letter("V"), (_letter("V_run") / _letter("V_ref"),), said))
    found += _forward_areas(frame, letters) + _annealing_areas(frame, point, letters)
    if "xi" in letters or "peak" in spec.terms:
        ratio = sympy.log(_letter("eta_peak") / _letter("eta_ref"))
        said = f"eta_peak: the highest LR of PT so far; {_reference_rate(frame)}"
        found.append(Equation(_letter("p"), (ratio,), said))
    found += _repeats(point, letters) + _replay(frame, letters)
    return [Equation(own.left, tuple(map(_whole, own.summands)), own.note) for own in found]


def _constants(frame: BoundModel, letters: Set[str]) -> list[str]:
    """Return the values of letters that a fit has no draws of, and which others are 0 on one set."""
    drawn = frame.law.coefficients(draw_priors(frame, 2, seed=0), np)
    told, absent = [], dict[str, list[str]]()
    for name, values in drawn.items():
        if name in letters and np.ptp(values) == 0:
            said, _, unit = COEFFICIENTS[name].rpartition(", ")
            last = f" {unit}" if said and values.any() else ""
            told.append(f"{name} = {np.max(values):.3g}{last}")
        # Where a replay factor holds stands beside it.
        if values.ndim < 2 or not values.any() or any(name in own for own in OF_FACTOR.values()):
            continue
        for domain, own in zip(frame.domains, values.T, strict=False):
            if not own.any():
                absent.setdefault(domain, []).append(name)
    return told + [f"{' = '.join(names)} = 0 on {domain}" for domain, names in absent.items()]


def letter_meanings(frame: BoundModel) -> dict[str, str]:
    """Return what the letters of the law's equations are, those of its coefficients last."""
    parts = [part for own in law_equations(frame) for part in (own.left, *own.summands)]
    kinds = (sympy.Symbol, AppliedUndef)
    printed = {getattr(own, "name", "") for part in parts for own in part.atoms(*kinds)}
    letters = notation()["letters"] | COEFFICIENTS
    return {name: said for name, said in letters.items() if name in printed}


def _whole(expression: Any) -> Any:
    """Return an expression with integers for what is one, and no fraction of two differences below 0.

    ``1 - 1/(1 + a/b)`` is ``a/(a + b)``.
    """
    expression = sympy.sympify(expression)
    floats = [own for own in expression.atoms(sympy.Float) if float(own).is_integer()]
    expression = expression.xreplace({own: sympy.Integer(int(own)) for own in floats})
    sums = [own for own in expression.atoms(sympy.Add) if (1 - own).as_base_exp()[1] == -1]
    expression = expression.xreplace({own: sympy.together(own) for own in sums})
    below = [own for own in expression.atoms(sympy.Add) if -1 in own.args and len(own.args) == 2]
    if expression.is_Mul and len(below) == 2:
        return expression.xreplace({own: -own for own in below})
    return expression


def _point(frame: BoundModel, letters: Mapping[str, Any]) -> Any:
    """Return a point of a CPT curve, or of PT where the law knows no other, in letters."""
    law = frame.spec.law
    area = _letter("S1_pt")
    if law.continual:
        area = _letter("S1_cpt") if law.unknown_base else area + _letter("S1_cpt")
    own, others = (_letter("x"), _letter("y")) if law.targets > 1 else (_letter("r_cpt"), 0)
    start = _letter("eta_ref") if law.count_warmup else _letter("eta_warm")
    return SimpleNamespace(
        log_forward_area=lambda coefficients, xp: sympy.log(area),
        learning_rate_levels=lambda coefficients, xp: (_letter("m_pt"), _letter("m_cpt")),
        start_pt=start,
        start_cpt=_letter("eta_transfer"),
        carried=int(frame.carries_memory),
        log_peak_pt=_letter("p"),
        log_size=sympy.log(_letter("n")),
        log_batch=sympy.log(_letter("V")),
        shift_area=lambda *given: _letter("T_cpt" if _own_area(letters) else "S1_cpt"),
        cpt_steps=_letter("t"),
        paced_steps=_letter("u"),
        squared_area=_letter("S3_cpt"),
        target_share=own + others,
        other_share=others,
        branched=0,
    )


def _opened(term: Any, letters: Mapping[str, Any]) -> Any:
    """Return a term whose areas and replay factor are letters: each has an equation of its own."""
    opened = copy.copy(term)
    if isinstance(term, Annealing):
        before = sympy.Integer(0) if term.unknown_base else _letter("S2_pt")
        object.__setattr__(opened, "areas", lambda *given: (before, _letter("S2_cpt")))
    if isinstance(term, Shift) and set(term.replay_factors) != {"none"}:
        h = sympy.Function("h")
        object.__setattr__(opened, "replay_factor", lambda share, *given: h(share))
    if isinstance(term, Shift) and "R_star" in letters:
        seen = _letter("w")
        object.__setattr__(opened, "forward_area", lambda point, *given: point.shift_area() * seen)
    return opened


def _own_area(letters: Mapping[str, Any]) -> bool:
    """Return whether the forward area of the shift is another than that of the power."""
    return "B" in letters and ("rho" in letters or "rho_s" in letters)


INDEX = sympy.Symbol("i", integer=True)
RATE = sympy.IndexedBase("eta")[INDEX]


def _over_steps(summand: Any) -> Any:
    return sympy.Sum(summand, (INDEX, 1, sympy.Symbol("t")))


def _reference_rate(frame: BoundModel) -> str:
    return f"eta_ref = {frame.reference.learning_rate:.3g}"


def _forward_areas(frame: BoundModel, letters: Mapping[str, Any]) -> list[Equation]:
    power = RATE ** letters.get("rho", sympy.Integer(1))
    found = [Equation(_letter("S1"), (_over_steps(power),), "over the steps of each phase")]
    if "Q" in letters:
        found.append(Equation(_letter("S3_cpt"), (_over_steps(RATE**2),), "over CPT"))
    if not _own_area(letters):
        return found
    if "rho_s" not in letters:
        return [*found, Equation(_letter("T_cpt"), (_over_steps(RATE),), "over CPT")]
    reference = sympy.Symbol("eta_ref")
    area = reference * _over_steps((RATE / reference) ** letters["rho_s"])
    return [*found, Equation(_letter("T_cpt"), (area,), f"over CPT; {_reference_rate(frame)}")]


def _annealing_areas(frame: BoundModel, point: Any, letters: Mapping[str, Any]) -> list[Equation]:
    """Return the annealing areas, and the level of the learning rate that they count."""
    (annealing,) = (term for term in frame.law.terms if isinstance(term, Annealing))
    law = frame.spec.law
    reference = sympy.Symbol("eta_ref")
    clock = (RATE / reference) ** sympy.Float(law.memory_clock) if law.memory_clock else 1
    kept = _letter("lambda") ** clock
    areas = annealing.areas(point, letters, _Printed)
    found = [
        Equation(_letter(f"S2_{phase}"), (area,))
        for phase, area in zip(("pt", "cpt"), areas, strict=True)
        if (phase == "cpt" or not law.unknown_base) and (phase == "pt" or law.continual)
    ]
    found[-1] = Equation(found[-1].left, found[-1].summands, _note(frame, "areas"))
    level = sympy.IndexedBase("m")
    before = sympy.Add(INDEX, -1, evaluate=False)
    step = (kept * level[before], (1 - kept) * RATE)
    found.append(Equation(level[INDEX], step, _note(frame, "level")))
    if "lambda_slow" in letters:
        share, m = _letter("w_slow"), sympy.Function("m")
        mixed = (1 - share) * m(_letter("lambda")) + share * m(_letter("lambda_slow"))
        found.append(Equation(_letter("m"), (mixed,), "of two memories, each by the step above"))
    return found


def _note(frame: BoundModel, block: str) -> str:
    facts = {"carried": frame.carries_memory, "reference": _reference_rate(frame)}
    return sentence("equation.txt", block, {"law": frame.spec.law} | facts)


def _repeats(point: Any, letters: Mapping[str, Any]) -> list[Equation]:
    if "R_star" not in letters:
        return []
    repeats = _letter("R")
    worth = effective_share(repeats, letters["R_star"], _Printed)
    epochs = point.cpt_steps * point.target_share / letters["U_steps"]
    said = "epochs over the target data beyond the first, not below 0"
    beyond = Equation(repeats, (epochs, sympy.Integer(-1)), said)
    return [Equation(_letter("w"), (worth,)), beyond]


def _replay(frame: BoundModel, letters: Mapping[str, Any]) -> list[Equation]:
    if not frame.spec.law.uses_replay:
        return []
    (shift,) = (term for term in frame.law.terms if isinstance(term, Shift))
    x = _letter("x")
    domains: dict[Any, list[str]] = {}
    for domain, factor in zip(frame.domains, shift.replay_factors, strict=True):
        # Each has the coefficients of its own form alone.
        others = {name for form, own in OF_FACTOR.items() if form != factor for name in own}
        mine = {name: letter for name, letter in letters.items() if name not in others}
        value = sympy.Integer(1) if factor == "none" else shift.replay_factor(x, mine, _Printed)
        domains.setdefault(value, []).append(domain)
    known = {value: f"; c = {BEND:g}" * value.has(_letter("c")) for value in domains}
    return [
        Equation(sympy.Function("h")(x), (value,), f"on {enumerated(names)}{known[value]}")
        for value, names in domains.items()
    ]


def equation(frame: BoundModel) -> list[str]:
    """Return the law of a frame as a terminal shows it, one line per summand.

    Examples
    --------
    >>> from bayes_cpt.laws.term import Reference
    >>> from bayes_cpt.model.spec import read_spec
    >>> reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    >>> equation(BoundModel(read_spec("pretrain"), ("general",), ("general",), reference))[0]
    'L = L0 + A/S1_pt**alpha'
    """
    lines = []
    for own in law_equations(frame):
        first, *rest = map(_text, own.summands)
        signed = [f"- {text[1:]}" if text[0] == "-" else f"+ {text}" for text in rest]
        joined = (f"\n{INDENT}" if own.is_long else " ").join([first, *signed])
        note = textwrap.wrap(
            f"({own.note})", WIDTH, initial_indent=INDENT, subsequent_indent=INDENT
        )
        lines += [*f"{_text(own.left)} = {joined}".split("\n"), *(note if own.note else [])]
    return lines


def _text(expression: Any) -> str:
    return str(sympy.sstr(expression, order="none", full_prec=False))


def latex(own: Equation) -> str:
    """Return an equation as LaTeX, without its note."""
    names = {
        symbol: latex_symbol(symbol.name)
        for part in (own.left, *own.summands)
        for symbol in part.atoms(sympy.Symbol)
    }

    def printed(part: Any) -> str:
        # With a slash in short fractions, which are in exponents.
        given: dict[str, Any] = {"order": "none", "mul_symbol": r"\,", "fold_short_frac": True}
        return str(sympy.latex(part, symbol_names=names, **given))

    left = printed(own.left)
    parts = [f"{sign} {printed(part)}" for sign, part in zip(own.plus, own.summands, strict=True)]
    if not own.is_long:
        return f"{left} = {' '.join(parts)}"
    rows = " \\\\ & ".join(parts)
    return f"\\begin{{aligned}}{left} ={{}}& {rows}\\end{{aligned}}"


def latex_symbol(name: str) -> str:
    r"""Return a name as LaTeX prints it.

    Examples
    --------
    >>> latex_symbol("lambda_slow"), latex_symbol("C1"), latex_symbol("LR^rho")
    ('\\lambda_{\\mathrm{slow}}', 'C_{1}', '\\mathrm{LR}^{\\rho}')
    """
    letter, *places = split_super_sub(name)
    parts = zip("^_", [",".join(map(_latex_word, own)) for own in places], strict=True)
    return _latex_word(letter) + "".join(f"{sign}{{{part}}}" for sign, part in parts if part)


def _latex_word(word: str) -> str:
    printed = str(sympy.latex(sympy.Symbol(word)))
    return rf"\mathrm{{{word}}}" if len(word) > 1 and printed == word else printed


def mathml(own: Equation) -> str:
    """Return an equation as one MathML element, without its note."""
    left = f"{_mathml(own.left)}<mo>=</mo>"
    parts = [
        f"<mrow>{f'<mo form="infix">{sign}</mo>' if sign else ''}{_mathml(part)}</mrow>"
        for sign, part in zip(own.plus, own.summands, strict=True)
    ]
    if not own.is_long:
        return f'<math display="block"><mrow>{left}{"".join(parts)}</mrow></math>'
    rows = "</mtd></mtr><mtr><mtd></mtd><mtd>".join(parts)
    table = f"<mtr><mtd>{left}</mtd><mtd>{rows}</mtd></mtr>"
    return f'<math display="block"><mtable class="sum" displaystyle="true">{table}</mtable></math>'


def mathml_equations(frame: BoundModel) -> list[tuple[Markup, Markup]]:
    """Return the law of a frame as MathML, each equation with its note, both safe in a page."""
    return [
        (Markup(mathml(own)), Markup(lettered(own.note, mathml_symbol, escape)))
        for own in law_equations(frame)
    ]


def mathml_symbol(name: str) -> str:
    """Return a name as MathML prints it within a line.

    Examples
    --------
    >>> mathml_symbol("L0")
    '<math><msub><mi>L</mi><mi>0</mi></msub></math>'
    """
    return f"<math>{_mathml(sympy.Symbol(name))}</math>"


def _mathml(expression: Any) -> str:
    printed = sympy_mathml(expression, printer="presentation", order="none", mul_symbol="dot")
    # In exponents, where learning rates are divided, a fraction would be too small to read.
    letter = "(<msub>(?:(?!</?msub>).)*</msub>)"
    printed = re.sub(f"<mfrac>{letter}{letter}</mfrac>", r"\1<mo>/</mo>\2", printed)
    # SymPy writes a hyphen, which not every browser draws as a minus sign.
    return str(printed).replace("<mo>-</mo>", "<mo>−</mo>")


def meaning(frame: BoundModel, quantity: str) -> str:
    """Return in one line what a coefficient or a sampled parameter is."""
    if quantity in COEFFICIENTS:
        return COEFFICIENTS[quantity]
    info = frame.parameters()[quantity]
    return info.meaning if info.unit == "1" else f"{info.meaning}, {info.unit}"
