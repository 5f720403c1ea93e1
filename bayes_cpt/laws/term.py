"""What a law term is: a name, the parameters it samples, its coefficients, its share of the loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

type Values = Mapping[str, Any]

# Ends the names of the factors by which model size and a mixture of targets change coefficients.
FACTOR = "_factor"


@dataclass(frozen=True)
class Parameter:
    """A quantity that is sampled."""

    meaning: str  # one line for tables and errors
    unit: str = "1"  # of the sampled value; "1" where it has none
    # Coordinate it runs along: "domain", one like "power_domain" that holds the validation sets with that
    # replay factor, "size_domain", which holds every model size of every validation set, "batch_domain",
    # the same with every batch, "pooled", which holds the names of the parameters that several targets, or
    # batches, share in part, or None for a value shared by all validation sets
    dims: str | None = "domain"
    # Where it stands, as the law is printed, in a model that gives no prior for it; None where every model
    # must give one
    printed: float | None = None
    beside: str | None = None  # parameter without which this one has no part in the law


@dataclass(frozen=True)
class Reference:
    """Where a study pins its law down: the sampled parameters are values at these points.

    Losses and slopes at a point inside the data are well determined and nearly independent; the
    coefficients L0, A, B, E are extrapolations and lie on ridges (docs/law.md, "What is sampled").
    """

    learning_rate: float  # peak PT learning rate, raw
    # Typical S1_pt of a base, and S1_cpt at the end of a CPT run, LR·steps
    forward_pt: float
    forward_cpt: float
    steps: float  # typical length of a CPT run. Time scales are sampled as shares of it
    # Geometric mean of the model sizes, millions of parameters; 1 where the law has no size
    model_size: float = 1.0
    # Steps on target data alone that go through them once; 1 where the law does not discount repeats
    unique_steps: float = 1.0


class Term(Protocol):
    """One summand of a law, evaluated on arrays and on symbols alike.

    ``xp`` is `numpy`, or `bayes_cpt.model.printed_law.Symbols`, from whose expressions the likelihood is
    printed. Points, of shape (rows, 1), meet coefficients of shape (draws,), gathered of their validation
    set (`bayes_cpt.model.evaluate.Tile`).
    """

    @property
    def name(self) -> str:
        """Name in specifications and decompositions."""

    def parameters(self) -> dict[str, Parameter]:
        """Return what may be sampled for this term, by name."""

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return the coefficients of the printed equation from the sampled parameters.

        Parameters
        ----------
        parameters : mapping
            Sampled values by name, shape (..., members of their coordinate) or (...) where shared. One
            that stands at its printed value is not among them.
        reference : Reference
            Where the sampled values are values of the law.
        """

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return this term's share of the loss at each point, nats/token.

        Parameters
        ----------
        coefficients : mapping
            By name, from `bayes_cpt.laws.law.gather`.
        """


# What builds each term that a model's file may name and that needs no other word in it, by name, in the
# order in which the files of this folder are read; and what the coefficients of all of them are.
ADDED: dict[str, Callable[[], Term]] = {}
MEANINGS: dict[str, str] = {}


def added_term[C: type](**meanings: str) -> Callable[[C], C]:
    """Return a decorator that makes a class a term which a model's file may name.

    Parameters
    ----------
    **meanings : str
        What each of its coefficients is, with the unit.
    """

    def add(term: C) -> C:
        ADDED[term().name] = term
        MEANINGS.update(meanings)
        return term

    return add


def where_free(parameters: Values, **letters: str) -> dict[str, Any]:
    """Return those parameters that are sampled, by the letters of the coefficients that they are."""
    return {letter: parameters[name] for name, letter in letters.items() if name in parameters}


def sized(coefficients: Values, name: str) -> Any:
    """Return a coefficient at the model size and mixture of each point (`bayes_cpt.laws.law.gather`)."""
    factor = coefficients.get(f"{name}{FACTOR}")
    return coefficients[name] if factor is None else coefficients[name] * factor


def not_worn_off(points: Any, coefficients: Values, xp: Any) -> Any:
    """Return what is left of that which wears off after the transfer: 1 there, 1/e after tau_0 steps."""
    return xp.exp(-points.cpt_steps / coefficients["tau_0"])


# Curvature at which a convex curve is a step.
STEEPEST = 700.0


def relative_exponential(curvature: Any, share: Any, xp: Any) -> Any:
    """Return expm1(-a x)/expm1(-a), its limit x where a is near 0.

    Parameters
    ----------
    curvature : array
        a: positive saturates, negative is convex, 0 is linear.

    Examples
    --------
    >>> import numpy as np
    >>> float(relative_exponential(np.float64(0.0), 0.25, np))
    0.25
    """
    # Of the curvature as it is: SymPy solves a condition that holds one, for a second.
    small = xp.abs(curvature) < 1e-4
    # A more convex curve is the same step, and its exponentials would overflow.
    curvature = xp.maximum(curvature, -STEEPEST)
    safe = xp.where(small, 1.0, curvature)
    series = share * (1.0 + 0.5 * curvature * (1.0 - share))
    return xp.where(small, series, xp.expm1(-safe * share) / xp.expm1(-safe))
