"""A stack: posteriors of several laws, of which each gives its share of the draws.

Laws have different parameters, so a stack has none of its own. It has draws of losses: whatever turns draws
into losses asks for `Posterior.shares`, goes law by law and puts the draws together. Their shares are the
weights of the mixture (Yao, Vehtari, Simpson and Gelman 2018, doi:10.1214/17-BA1091).
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from bayes_cpt.inference.mixing import stack_error, stack_name
from bayes_cpt.inference.posterior import Posterior, StackedPosterior
from bayes_cpt.inference.saved.fit_files import LAW, STACK_FORMAT, WEIGHTS

# A law with a smaller weight would not have one draw of a forecast's thousand.
LEAST_WEIGHT = 1e-3


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
        names = [law.frame.spec.name for law in posterior.laws]
        raise stack_error(posterior.study.name, names, asked)


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
        "model": stack_name([law.frame.spec.name for law in kept.values()], shares),
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
