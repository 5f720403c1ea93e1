"""The printed equation as LaTeX and as MathML, made from the same lines that a terminal shows.

One walk along the trees of `bayes_cpt.report.paper.statements` decides what stands where and in
parentheses; LaTeX and MathML say how each thing is written.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from bayes_cpt.report.paper.statements import GREEK, Statement, Symbol, tree

PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.USub: 3, ast.Pow: 4}
ATOM = 5
SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-"}
# Summands that stand in one line; of more each has its own.
ONE_LINE = 3


class _Notation(ABC):
    """How an equation is written: what stands where is the same in every notation."""

    # What each thing looks like, with places for its parts in the order in which they are read.
    LINE: ClassVar[str]
    NUMBER: ClassVar[str]
    NEGATIVE: ClassVar[str]
    FENCED: ClassVar[str]
    TOTAL: ClassVar[str]
    FUNCTION: ClassVar[str]
    OPERATIONS: ClassVar[dict[type[ast.operator], str]]

    def statement(self, statement: Statement) -> str:
        """Return an equation: one line, or one for each summand."""
        left, (_, first), *rest = statement.left, *_summands(statement.right)
        if len(rest) < ONE_LINE:
            return self.LINE % (self.of(left), self.of(statement.right))
        others = [(sign, self.signed(sign, node)) for sign, node in rest]
        return self.rows(self.of(left), self.of(first), others)

    def of(self, node: ast.expr) -> str:
        """Return an expression."""
        match node:
            case ast.Name(id=name):
                return self.symbol(Symbol.of(name))
            case ast.Constant(value=int() | float() as value):
                return self.NUMBER % value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.NEGATIVE % self.of(operand)
            case ast.Call(func=ast.Name(id="exp"), args=[exponent]):
                return self.OPERATIONS[ast.Pow] % (self.of(ast.Name("e")), self.of(exponent))
            case ast.Call(func=ast.Name(id="expm1"), args=arguments):
                power = ast.Call(ast.Name("exp"), arguments, [])
                return self.FENCED % self.of(ast.BinOp(power, ast.Sub(), ast.Constant(1)))
            case ast.Call(func=ast.Name(id="sum"), args=[summand]):
                return self.TOTAL % self.of(summand)
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                return self.FUNCTION % (self.symbol(Symbol.of(name)), self.of(argument))
            case ast.BinOp(op=operator):
                return self.OPERATIONS[type(operator)] % self.operands(node)
        raise SyntaxError(f"no sign for {ast.unparse(node)}")

    def operands(self, node: ast.BinOp) -> tuple[str, str]:
        """Return both sides of an operation, in parentheses where they need them."""
        strength = PRECEDENCE[type(node.op)]
        sides = []
        for side, least in (
            (node.left, strength),
            (node.right, strength + isinstance(node.op, ast.Sub)),
        ):
            # An exponent stands by itself; a base must be an atom.
            is_exponent = isinstance(node.op, ast.Pow) and side is node.right
            least = ATOM if isinstance(node.op, ast.Pow) else least
            bare = isinstance(node.op, ast.Div) or is_exponent or _strength(side) >= least
            sides.append(self.of(side) if bare else self.FENCED % self.of(side))
        return sides[0], sides[1]

    def signed(self, sign: str, node: ast.expr) -> str:
        """Return a summand as it stands after its sign: a sum that is taken away, in parentheses."""
        is_sum = _strength(node) <= PRECEDENCE[ast.Sub]
        return self.FENCED % self.of(node) if sign == "-" and is_sum else self.of(node)

    @abstractmethod
    def rows(self, left: str, first: str, rest: Sequence[tuple[str, str]]) -> str:
        """Return an equation with a line for each summand; all but the first have a sign."""

    @abstractmethod
    def symbol(self, symbol: Symbol) -> str:
        """Return a letter with its index."""


class _Latex(_Notation):
    LINE = "%s = %s"
    NUMBER = "%s"
    NEGATIVE = "-%s"
    FENCED = r"\left(%s\right)"
    TOTAL = r"\sum %s"
    FUNCTION = "%s(%s)"
    OPERATIONS: ClassVar = {
        ast.Add: "%s + %s",
        ast.Sub: "%s - %s",
        ast.Mult: r"%s\,%s",
        ast.Div: r"\frac{%s}{%s}",
        ast.Pow: "%s^{%s}",
    }

    def rows(self, left: str, first: str, rest: Sequence[tuple[str, str]]) -> str:
        lines = [f"{left} ={{}}& {first}", *(f"& {sign} {summand}" for sign, summand in rest)]
        return f"\\begin{{aligned}}{' \\\\ '.join(lines)}\\end{{aligned}}"

    def symbol(self, symbol: Symbol) -> str:
        letter = f"\\{symbol.letter}" if symbol.letter in GREEK else symbol.letter
        if symbol.is_word:
            letter = f"\\mathrm{{{letter.replace(' ', '\\ ')}}}"
        if not symbol.index:
            return letter
        index = ",".join(
            part if len(part) == 1 else f"\\mathrm{{{part.replace(' ', '\\ ')}}}"
            for part in symbol.index
        )
        return f"{letter}_{{{index}}}"


class _MathML(_Notation):
    LINE = '<math display="block"><mrow>%s<mo>=</mo>%s</mrow></math>'
    NUMBER = "<mn>%s</mn>"
    NEGATIVE = "<mrow><mo>−</mo>%s</mrow>"
    FENCED = "<mrow><mo>(</mo>%s<mo>)</mo></mrow>"
    TOTAL = "<mrow><mo>∑</mo>%s</mrow>"
    FUNCTION = f"<mrow>%s<mo>&#x2061;</mo>{FENCED}</mrow>"
    OPERATIONS: ClassVar = {
        ast.Add: "%s<mo>+</mo>%s",
        ast.Sub: "%s<mo>−</mo>%s",
        ast.Mult: '%s<mspace width=".17em"/>%s',
        ast.Div: "<mfrac><mrow>%s</mrow><mrow>%s</mrow></mfrac>",
        ast.Pow: "<msup><mrow>%s</mrow><mrow>%s</mrow></msup>",
    }

    def rows(self, left: str, first: str, rest: Sequence[tuple[str, str]]) -> str:
        cells = [(f"{left}<mo>=</mo>", first)]
        cells += [
            ("", f"<mo>{'−' if sign == '-' else sign}</mo>{summand}") for sign, summand in rest
        ]
        lines = (
            f"<mtr><mtd>{head}</mtd><mtd><mrow>{summand}</mrow></mtd></mtr>"
            for head, summand in cells
        )
        return f'<math display="block"><mtable class="sum">{"".join(lines)}</mtable></math>'

    def symbol(self, symbol: Symbol) -> str:
        if symbol.is_word:
            return f"<mtext>{symbol.letter}</mtext>"
        letter = f"<mi>{GREEK.get(symbol.letter, symbol.letter)}</mi>"
        if not symbol.index:
            return letter
        parts = [
            f"<mn>{part}</mn>" if part.isdigit() else f"<mtext>{part}</mtext>"
            for part in symbol.index
        ]
        index = parts[0] if len(parts) == 1 else f"<mrow>{'<mo>,</mo>'.join(parts)}</mrow>"
        return f"<msub>{letter}{index}</msub>"


LATEX, MATHML = _Latex(), _MathML()


def latex(statement: Statement) -> str:
    """Return an equation as LaTeX, without its note.

    Parameters
    ----------
    statement : Statement
    """
    return LATEX.statement(statement)


def latex_symbol(name: str) -> str:
    r"""Return a name as LaTeX prints it.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> latex_symbol("lambda_slow"), latex_symbol("C1"), latex_symbol("slow_share")
    ('\\lambda_{\\mathrm{slow}}', 'C_{1}', '\\mathrm{slow\\ share}')
    """
    return LATEX.of(tree(name))


def mathml(statement: Statement) -> str:
    """Return an equation as one MathML element, without its note.

    Parameters
    ----------
    statement : Statement

    Examples
    --------
    >>> from bayes_cpt.report.paper.statements import statements
    >>> [found] = statements(["x = E·beta"])
    >>> mathml(found).removeprefix('<math display="block"><mrow>')
    '<mi>x</mi><mo>=</mo><mi>E</mi><mspace width=".17em"/><mi>β</mi></mrow></math>'
    """
    return MATHML.statement(statement)


def mathml_symbol(name: str) -> str:
    """Return a name as MathML prints it within a line.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> mathml_symbol("L0")
    '<math><msub><mi>L</mi><mn>0</mn></msub></math>'
    """
    return f"<math>{MATHML.of(tree(name))}</math>"


def _summands(node: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the summands of a sum, each with its sign."""
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        return [*_summands(node.left), (SIGNS[type(node.op)], node.right)]
    return [("+", node)]


def _strength(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        return PRECEDENCE[type(node.op)]
    return PRECEDENCE[type(node.op)] if isinstance(node, ast.UnaryOp) else ATOM
