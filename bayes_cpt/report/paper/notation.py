"""The printed equation as LaTeX and as MathML, made from the same lines that a terminal shows.

The lines of `bayes_cpt.report.equation` are read by Python's own parser, and each printer below writes the
tree that it gives: no equation is written twice.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# What a letter is called in code, and the sign it is printed as.
GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eta": "η",
    "kappa": "κ",
    "lambda": "λ",
    "omega": "ω",
    "rho": "ρ",
    "tau": "τ",
    "xi": "ξ",
    "zeta": "ζ",
}
# Where words go on after a formula.
WORDS = re.compile(r", (?=[a-z])")
# Python keeps this word for itself.
LAMBDA = "lambda_"
PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.USub: 3, ast.Pow: 4}
ATOM = 5
SIGNS = {"+": "+", "-": "−"}
TIMES = '<mspace width=".17em"/>'
# Summands that stand in one line; of more each has its own.
ONE_LINE = 3
LETTER = re.compile(r"([A-Za-z]+?)(\d*)")


@dataclass(frozen=True)
class Statement:
    """One equation of a law.

    Parameters
    ----------
    left : ast.expr
    right : ast.expr
    note : str
        What is said of it in words: where it holds, or what it means; empty where nothing is.
    """

    left: ast.expr
    right: ast.expr
    note: str


@dataclass(frozen=True)
class Symbol:
    """A letter with its index.

    Parameters
    ----------
    letter : str
        A letter, the name of a Greek one, or a word.
    index : tuple of str
        Parts of the index; empty where there is none.
    """

    letter: str
    index: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> "Symbol":
        """Return the symbol that a name of code stands for.

        Parameters
        ----------
        name : str

        Examples
        --------
        >>> Symbol.of("S1_pt"), Symbol.of("slow_share").letter
        (Symbol(letter='S', index=('1', 'pt')), 'slow share')
        >>> Symbol.of("e_at_the_transfer").index
        ('at the transfer',)
        """
        if name == LAMBDA:
            name = "lambda"
        first, *rest = name.removeprefix(LAMBDA).split("_") if "_" in name else [name]
        if name.startswith(LAMBDA):
            return cls("lambda", tuple(part for part in (first, *rest) if part))
        match = LETTER.fullmatch(first)
        letter, digits = match.groups() if match else (first, "")
        if len(letter) > 1 and letter not in GREEK:
            return cls(name.replace("_", " "), ())
        if rest[:1] == ["at"]:
            # Words that say where the letter is taken: one part, not a list.
            rest = [" ".join(rest)]
        return cls(letter, tuple(part for part in (digits, *rest) if part))


def statements(lines: Sequence[str]) -> list[Statement]:
    r"""Return the equations that printed lines hold.

    Parameters
    ----------
    lines : sequence of str
        Of `bayes_cpt.report.equation.equation`; one that begins with a space goes on with the one before.

    Raises
    ------
    SyntaxError
        If a line is no equation.

    Examples
    --------
    >>> [found] = statements(["L = L0", "    + A·S1_pt^-alpha"])
    >>> latex(found)
    'L = L_{0} + A\\,S_{1,\\mathrm{pt}}^{-\\alpha}'
    """
    whole: list[str] = []
    for line in lines:
        if line.startswith(" ") and whole:
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line.strip())
    found: list[tuple[str, list[str]]] = []
    for text in whole:
        if " = " in text:
            found.append((text, []))
        elif not found:
            raise SyntaxError(f"this is no equation: {text}")
        else:
            # Words alone say more of the equation before them.
            found[-1][1].append(text)
    return [_statement(text, remarks) for text, remarks in found]


def _statement(text: str, remarks: Sequence[str]) -> Statement:
    left, right = text.split(" = ", 1)
    right, _, domain = right.partition(" on ")
    right, _, meaning = WORDS.subn(": ", right, count=1)[0].partition(": ")
    notes = [meaning, f"on {domain}" if domain else "", *remarks]
    return Statement(_tree(left), _tree(right), "; ".join(note for note in notes if note))


def _tree(text: str) -> ast.expr:
    text = re.sub(r"\bsum (?:of )?(\S+)", r"sum(\1)", text)
    text = re.sub(r"(?<=[a-z]) (?=[a-z])", "_", text)
    text = re.sub(r"\blambda(?=\b|_)", LAMBDA, text).replace(f"{LAMBDA}_", LAMBDA)
    return ast.parse(text.replace("·", "*").replace("^", "**"), mode="eval").body


def latex(statement: Statement) -> str:
    """Return an equation as LaTeX, without its note.

    Parameters
    ----------
    statement : Statement
    """
    first, *rest = _summands(statement.right)
    rows = [f"{_latex(statement.left)} ={{}}& {_latex(first[1])}"]
    rows += [f"& {sign} {_signed(sign, node, _latex, _latex_fenced)}" for sign, node in rest]
    if len(rows) <= ONE_LINE:
        return f"{_latex(statement.left)} = {_latex(statement.right)}"
    return f"\\begin{{aligned}}{' \\\\ '.join(rows)}\\end{{aligned}}"


def _summands(node: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the summands of a sum, each with its sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = "+" if isinstance(node.op, ast.Add) else "-"
        return [*_summands(node.left), (sign, node.right)]
    return [("+", node)]


def _signed(
    sign: str, node: ast.expr, write: Callable[[ast.expr], str], fence: Callable[[str], str]
) -> str:
    """Return a summand as it stands after its sign: a sum that is taken away, in parentheses."""
    text = write(node)
    return fence(text) if sign == "-" and _strength(node) <= PRECEDENCE[ast.Sub] else text


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
    return _latex(_tree(name))


def mathml(statement: Statement) -> str:
    """Return an equation as one MathML element, without its note.

    Parameters
    ----------
    statement : Statement

    Examples
    --------
    >>> [found] = statements(["x = E·beta"])
    >>> mathml(found).removeprefix('<math display="block"><mrow>')
    '<mi>x</mi><mo>=</mo><mi>E</mi><mspace width=".17em"/><mi>β</mi></mrow></math>'
    """
    left, first, *rest = (statement.left, *_summands(statement.right))
    if len(rest) < ONE_LINE:
        body = f"<mrow>{_mathml(left)}<mo>=</mo>{_mathml(statement.right)}</mrow>"
        return f'<math display="block">{body}</math>'
    rows = [(f"{_mathml(left)}<mo>=</mo>", _mathml(first[1]))]
    rows += [
        ("", f"<mo>{SIGNS[sign]}</mo>{_signed(sign, node, _mathml, _fenced)}")
        for sign, node in rest
    ]
    cells = (
        f"<mtr><mtd>{head}</mtd><mtd><mrow>{summand}</mrow></mtd></mtr>" for head, summand in rows
    )
    return f'<math display="block"><mtable class="sum">{"".join(cells)}</mtable></math>'


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
    return f"<math>{_mathml(_tree(name))}</math>"


def _strength(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        return PRECEDENCE[type(node.op)]
    return PRECEDENCE[type(node.op)] if isinstance(node, ast.UnaryOp) else ATOM


def _operands(
    node: ast.BinOp, write: Callable[[ast.expr], str], fence: Callable[[str], str]
) -> tuple[str, str]:
    """Return both sides of an operation, in parentheses where they need them."""
    own = PRECEDENCE[type(node.op)]
    sides = []
    for side, least in ((node.left, own), (node.right, own + isinstance(node.op, ast.Sub))):
        # An exponent stands by itself; a base must be an atom.
        bare = isinstance(node.op, ast.Div) or (isinstance(node.op, ast.Pow) and side is node.right)
        least = ATOM if isinstance(node.op, ast.Pow) else least
        text = write(side)
        sides.append(text if bare or _strength(side) >= least else fence(text))
    return sides[0], sides[1]


def _latex(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _latex_name(name)
        case ast.Constant(value=int() | float() as value):
            return str(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_latex(operand)}"
        case ast.Call(func=ast.Name(id="exp" | "expm1" as name), args=[power]):
            whole = f"e^{{{_latex(power)}}}"
            return whole if name == "exp" else f"\\left({whole} - 1\\right)"
        case ast.Call(func=ast.Name(id="sum"), args=[summand]):
            return f"\\sum {_latex(summand)}"
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return f"{_latex_name(name)}({_latex(argument)})"
        case ast.BinOp(op=operator):
            first, second = _operands(node, _latex, _latex_fenced)
            match operator:
                case ast.Div():
                    return f"\\frac{{{first}}}{{{second}}}"
                case ast.Pow():
                    return f"{first}^{{{second}}}"
                case ast.Mult():
                    return f"{first}\\,{second}"
            return f"{first} {'+' if isinstance(operator, ast.Add) else '-'} {second}"
    raise SyntaxError(f"no sign for {ast.unparse(node)}")


def _latex_fenced(text: str) -> str:
    return f"\\left({text}\\right)"


def _latex_name(name: str) -> str:
    symbol = Symbol.of(name)
    letter = f"\\{symbol.letter}" if symbol.letter in GREEK else symbol.letter
    if len(symbol.letter) > 1 and symbol.letter not in GREEK:
        letter = f"\\mathrm{{{letter.replace(' ', '\\ ')}}}"
    if not symbol.index:
        return letter
    index = ",".join(
        part if len(part) == 1 else f"\\mathrm{{{part.replace(' ', '\\ ')}}}"
        for part in symbol.index
    )
    return f"{letter}_{{{index}}}"


def _mathml(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _mathml_name(name)
        case ast.Constant(value=int() | float() as value):
            return f"<mn>{value!s}</mn>"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"<mrow><mo>−</mo>{_mathml(operand)}</mrow>"
        case ast.Call(func=ast.Name(id="exp" | "expm1" as name), args=[power]):
            whole = f"<msup><mi>e</mi><mrow>{_mathml(power)}</mrow></msup>"
            return whole if name == "exp" else _fenced(f"{whole}<mo>−</mo><mn>1</mn>")
        case ast.Call(func=ast.Name(id="sum"), args=[summand]):
            return f"<mrow><mo>∑</mo>{_mathml(summand)}</mrow>"
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return f"<mrow>{_mathml_name(name)}<mo>&#x2061;</mo>{_fenced(_mathml(argument))}</mrow>"
        case ast.BinOp(op=operator):
            first, second = _operands(node, _mathml, _fenced)
            match operator:
                case ast.Div():
                    return f"<mfrac><mrow>{first}</mrow><mrow>{second}</mrow></mfrac>"
                case ast.Pow():
                    return f"<msup><mrow>{first}</mrow><mrow>{second}</mrow></msup>"
                case ast.Mult():
                    return f"{first}{TIMES}{second}"
            return f"{first}<mo>{'+' if isinstance(operator, ast.Add) else '−'}</mo>{second}"
    raise SyntaxError(f"no sign for {ast.unparse(node)}")


def _fenced(text: str) -> str:
    return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>"


def _mathml_name(name: str) -> str:
    symbol = Symbol.of(name)
    if len(symbol.letter) > 1 and symbol.letter not in GREEK:
        return f"<mtext>{symbol.letter}</mtext>"
    letter = f"<mi>{GREEK.get(symbol.letter, symbol.letter)}</mi>"
    if not symbol.index:
        return letter
    parts = [
        f"<mn>{part}</mn>" if part.isdigit() else f"<mtext>{part}</mtext>" for part in symbol.index
    ]
    index = parts[0] if len(parts) == 1 else f"<mrow>{'<mo>,</mo>'.join(parts)}</mrow>"
    return f"<msub>{letter}{index}</msub>"
