"""The lines of the printed equation as trees: read by Python's own parser."""

import ast
import re
from collections.abc import Sequence
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

    @property
    def is_word(self) -> bool:
        """Whether it is a word, printed upright, and no letter."""
        return len(self.letter) > 1 and self.letter not in GREEK


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
    >>> ast.unparse(found.right)
    'L0 + A * S1_pt ** (-alpha)'
    """
    whole: list[str] = []
    for line in lines:
        if line.startswith(" ") and whole:
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line.strip())
    equations: list[tuple[str, list[str]]] = []
    for text in whole:
        if " = " in text:
            equations.append((text, []))
        elif not equations:
            raise SyntaxError(f"this is no equation: {text}")
        else:
            # Words alone say more of the equation before them.
            equations[-1][1].append(text)
    return [_statement(text, remarks) for text, remarks in equations]


def _statement(text: str, remarks: Sequence[str]) -> Statement:
    left, right = text.split(" = ", 1)
    right, _, domain = right.partition(" on ")
    right, _, meaning = WORDS.subn(": ", right, count=1)[0].partition(": ")
    notes = [meaning, f"on {domain}" if domain else "", *remarks]
    return Statement(tree(left), tree(right), "; ".join(note for note in notes if note))


def tree(text: str) -> ast.expr:
    """Return a side of an equation, or a name, as Python reads it.

    Parameters
    ----------
    text : str
        As a terminal shows it.
    """
    text = re.sub(r"\bsum (?:of )?(\S+)", r"sum(\1)", text)
    text = re.sub(r"(?<=[a-z]) (?=[a-z])", "_", text)
    text = re.sub(r"\blambda(?=\b|_)", LAMBDA, text).replace(f"{LAMBDA}_", LAMBDA)
    return ast.parse(text.replace("·", "*").replace("^", "**"), mode="eval").body
