"""A stack: posteriors of several laws, of which each gives its share of the draws.

Laws have different parameters, so a stack has none of its own. It has draws of losses: whatever turns draws
into losses asks for `Posterior.shares`, goes law by law and puts the draws together. Their shares are the
weights of the mixture (Yao, Vehtari, Simpson and Gelman 2018, doi:10.1214/17-BA1091).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.inference.fit_files import LAW, STACK_FORMAT, WEIGHTS
from bayes_cpt.inference.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

type Floats = NDArray[np.float64]

# A law with a smaller weight would not have one draw of a forecast's thousand.
LEAST_WEIGHT = 1e-3


class StackError(BayesCPTError):
    """Something that is asked of a stack and can only be answered by a fit of one law."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


@dataclass(frozen=True, eq=False)
class StackedPosterior(Posterior):
    """Draws of losses from several laws; `tree`, `study` and `frame` are as in `Posterior`.

    Parameters
    ----------
    laws : tuple of Posterior
        Fits of the same study, each of one law.
    weights : tuple of float
        The share of the draws of each, above 0; they add up to 1.

    Notes
    -----
    `frame` is that of the law with the largest weight: validation sets, reference and phase, which all
    share. Its name is that of the whole stack.
    """

    laws: tuple[Posterior, ...]
    weights: tuple[float, ...]

    @classmethod
    def of_tree(cls, tree: "xr.DataTree", laws: Sequence[Posterior]) -> Self:
        """Return the stack of a tree whose laws have been read."""
        weights = tuple(json.loads(tree.attrs[WEIGHTS]))
        heaviest = laws[int(np.argmax(weights))]
        named = heaviest.frame.spec.model_copy(update={"name": _name(laws, weights)})
        frame = replace(heaviest.frame, spec=named)
        return cls(tree, heaviest.study, frame, tuple(laws), weights)

    @property
    def chains(self) -> int:
        """One: the chains of different laws have nothing to do with each other."""
        return 1

    def shares(self, draws: int | None = None) -> tuple[tuple[Posterior, int | None], ...]:
        """Return the posterior of each law, and how many of the draws are its, by weight.

        Parameters
        ----------
        draws : int, optional
            In all, and no more than there are; as many as the weights allow unless given.
        """
        sizes = [law.tree["posterior"].sizes for law in self.laws]
        most = min(size["draw"] / weight for size, weight in zip(sizes, self.weights, strict=True))
        chains = max(size["chain"] for size in sizes)
        wanted = most if draws is None else min(most, max(draws // chains, 1))
        counts = apportioned(np.array(self.weights), int(wanted))
        parts = zip(self.laws, sizes, counts, strict=True)
        return tuple((law, int(count) * size["chain"]) for law, size, count in parts if count)

    def summary(self, interval: float = 0.9) -> "pd.DataFrame":
        """Return `Posterior.summary` of each law, with the columns law and weight before the others.

        Parameters
        ----------
        interval : float
            Mass of the central credible interval.
        """
        import pandas as pd

        tables = []
        for law, weight in zip(self.laws, self.weights, strict=True):
            table = law.summary(interval)
            table.insert(0, "weight", weight)
            table.insert(0, "law", law.frame.spec.name)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Raise `StackError`: laws have different parameters."""
        self._refuse("its parameters")

    def draws(self, quantity: str, domain: str) -> Floats:
        """Raise `StackError`: laws have different parameters."""
        self._refuse(f"the draws of {quantity}")

    def prior_draws(self, quantity: str, domain: str) -> Floats:
        """Raise `StackError`: laws have different parameters."""
        self._refuse(f"the prior of {quantity}")

    def members(self, quantity: str) -> tuple[str, ...]:
        """Raise `StackError`: laws have different parameters."""
        self._refuse(f"the validation sets of {quantity}")

    def _refuse(self, asked: str) -> NoReturn:
        one_law(self, asked)
        raise AssertionError


def one_law(posterior: Posterior, asked: str) -> None:
    """Raise unless a fit is of one law.

    Parameters
    ----------
    posterior : Posterior
    asked : str
        What is asked of it.

    Raises
    ------
    StackError
        Naming the fits that can be asked.
    """
    if isinstance(posterior, StackedPosterior):
        names = ", ".join(law.frame.spec.name for law in posterior.laws)
        raise StackError(
            Problem(
                f"fit of {posterior.study.name}",
                f"it is a stack of laws, and {asked} can only be had of one law",
                f"give the fit of one of them ({names}): bayes-cpt compare -o FOLDER writes them beside "
                "the stack",
            )
        )


def stack(
    laws: Mapping[str, Posterior], weights: Mapping[str, float], seed: int
) -> StackedPosterior:
    """Return the stack of some fits of a study.

    Parameters
    ----------
    laws : mapping of str to Posterior
        Fits of one study, by name.
    weights : mapping of str to float
        Of each; they are scaled to add up to 1, and laws below a thousandth are left out.
    seed : int
        Of the comparison that found the weights.

    Raises
    ------
    ValueError
        If the fits are of different studies, or no law has a weight.
    """
    import xarray as xr

    total = sum(weights[name] for name in laws)
    kept = {name: law for name, law in laws.items() if weights[name] >= LEAST_WEIGHT * total > 0}
    if not kept:
        raise ValueError("no law has a weight")
    if len({law.study.digest() for law in kept.values()}) > 1:
        raise ValueError("the fits are of different studies: fit all laws to the same one")
    total = sum(weights[name] for name in kept)
    shares = [weights[name] / total for name in kept]
    first = next(iter(kept.values()))
    problems = [f"{name}: {problem}" for name, law in kept.items() for problem in law.problems]
    attributes = {
        "bayes_cpt_format": STACK_FORMAT,
        WEIGHTS: json.dumps(shares),
        "model": _name(list(kept.values()), shares),
        "study_name": first.study.name,
        "study_digest": first.study.digest(),
        "seed": seed,
        "attempts": max(int(law.tree.attrs["attempts"]) for law in kept.values()),
        "problems": json.dumps(problems),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    children = {f"{LAW}{index}": law.tree.copy() for index, law in enumerate(kept.values())}
    tree = xr.DataTree(xr.Dataset(attrs=attributes), children=children)
    return StackedPosterior.of_tree(tree, list(kept.values()))


def _name(laws: Sequence[Posterior], weights: Sequence[float]) -> str:
    """Return what a stack is called: its laws with their weights, the heaviest first."""
    order = sorted(range(len(laws)), key=lambda index: -weights[index])
    parts = [f"{100 * weights[index]:.0f} % {laws[index].frame.spec.name}" for index in order]
    return f"a stack of {' and '.join(parts)}"


def apportioned(weights: Floats, count: int) -> NDArray[np.int64]:
    """Return whole numbers that add up to a count, as near to the weights as can be (largest remainder).

    Parameters
    ----------
    weights : ndarray, shape (laws,)
        They add up to 1.
    count : int

    Examples
    --------
    >>> apportioned(np.array([0.5, 0.26, 0.24]), 10).tolist()
    [5, 3, 2]
    """
    exact = weights * count
    whole = np.floor(exact).astype(np.int64)
    left = count - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole
