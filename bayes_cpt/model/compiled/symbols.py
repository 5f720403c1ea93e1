"""Elementary functions as symbols that stay as they were written, and how they are printed."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import sympy
from sympy.printing.pycode import PythonCodePrinter


class _Written(sympy.Function):  # type: ignore[misc]
    """A function left as it was written; each has its value at 0, unless that is none, and its slope."""

    at_zero: ClassVar[int | None] = None

    @classmethod
    def eval(cls, argument: Any) -> Any:
        """Return the value where it is known.

        Parameters
        ----------
        argument : sympy expression
        """
        return None if cls.at_zero is None or argument != 0 else sympy.Integer(cls.at_zero)

    def fdiff(self, argindex: int = 1) -> Any:
        """Return the derivative.

        Parameters
        ----------
        argindex : int
            By which argument; there is one.
        """
        return self._slope(self.args[0])


class Exp(_Written):
    """exp: SymPy would turn exp(a log x) into a slower power."""

    at_zero = 1

    def _slope(self, argument: Any) -> Any:
        return self


class Log(_Written):
    """log."""

    def _slope(self, argument: Any) -> Any:
        return 1 / argument


class Expm1(_Written):
    """expm1; its derivative costs no second exponential."""

    at_zero = 0

    def _slope(self, argument: Any) -> Any:
        return 1 + self


class Log1p(_Written):
    """log1p."""

    at_zero = 0

    def _slope(self, argument: Any) -> Any:
        return 1 / (1 + argument)


class Sqrt(_Written):
    """sqrt."""

    def _slope(self, argument: Any) -> Any:
        return 1 / (2 * self)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    vectorised = np.vectorize(function, otypes=[object])
    # An index of () takes a lone symbol out of its array and leaves other arrays as they are.
    return lambda *arguments: vectorised(*arguments)[()]


class Symbols:
    """The part of NumPy that the law uses, on arrays of symbols."""

    exp = staticmethod(_elementwise(Exp))
    log = staticmethod(_elementwise(Log))
    expm1 = staticmethod(_elementwise(Expm1))
    log1p = staticmethod(_elementwise(Log1p))
    sqrt = staticmethod(_elementwise(Sqrt))
    abs = staticmethod(_elementwise(sympy.Abs))
    ones_like = staticmethod(_elementwise(lambda _: sympy.Integer(1)))
    zeros_like = staticmethod(_elementwise(lambda _: sympy.Integer(0)))
    where = staticmethod(
        _elementwise(lambda which, yes, no: sympy.Piecewise((yes, which), (no, True)))
    )
    repeat = staticmethod(np.repeat)
    maximum = staticmethod(
        _elementwise(lambda one, two: sympy.Piecewise((one, one > two), (two, True)))
    )


class Printer(PythonCodePrinter):  # type: ignore[misc]
    """Writes expressions as code that Numba compiles."""

    def _print_Function(self, expr: Any) -> str:  # noqa: N802
        arguments = ", ".join(self._print(argument) for argument in expr.args)
        return f"{type(expr).__name__.lower()}({arguments})"

    def _print_Pow(self, expr: Any, rational: bool = False) -> str:  # noqa: N802
        base, power = expr.args
        product = "*".join([f"({self._print(base)})"] * abs(int(power)))
        return f"({product})" if power > 0 else f"(1.0/({product}))"

    def _print_Abs(self, expr: Any) -> str:  # noqa: N802
        return f"abs({self._print(expr.args[0])})"
