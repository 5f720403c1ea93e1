"""Fits of earlier versions, brought to what this version computes with: same curves, same bands.

A file holds the specification that it was fitted under, so most of what changes between versions needs
nothing here: only parameters that were replaced by others do. Each replacement is exact in the draws; the
priors become what the old ones amount to, as near as their families come.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.distributions import quantiles
from bayes_cpt.laws import shift_signs
from bayes_cpt.spec import ROLES, LawTable, Prior

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]
# From values of the old parameters (of one validation set, or with their signs) to those of the new ones.
type Replacement = Callable[[dict[str, Any], Any], dict[str, Any]]

DRAWS = 4000
SEED = 0
# The quartiles of a normal distribution are this many sds apart.
QUARTILES = 1.349


def upgrade(tree: "xr.DataTree") -> "xr.DataTree":
    """Return the tree of a saved fit in the parameters of this version; a current one as it is."""
    priors = json.loads(tree.attrs["spec"])["priors"]
    if "misfit_shift" in priors:
        tree = _replaced(tree, ("misfit_cpt", "misfit_shift"), ("shift_size",), _shared_misfit)
    if "adaptation_size" in priors:
        gone = ("shift_size", "adaptation_size")
        tree = _replaced(tree, gone, ("adaptation_time",), _share_of_change)
    return tree


def _shared_misfit(old: dict[str, Any], _: Any) -> dict[str, Any]:
    """Replace a misfit that had a part of its own, growing with the shift, by one and a share of it.

    The variance ``m² + (s·size)²·h`` at the replay factor h is ``M²·(1 - q·(1 - h))`` with
    ``M² = m² + (s·size)²`` and ``q = (s·size)²/M²``.
    """
    of_shift = old["misfit_shift"] * old["shift_size"]
    variance = old["misfit_cpt"] ** 2 + of_shift**2
    return {
        "misfit_cpt": ("lognormal", np.sqrt(variance)),
        "misfit_replay": ("logitnormal", of_shift**2 / variance),
    }


def _share_of_change(old: dict[str, Any], sign: Any) -> dict[str, Any]:
    """Replace a transient with a size of its own by a share of the whole change, shift and transient."""
    transient = sign * old["adaptation_size"] * -np.expm1(-1.0 / old["adaptation_time"])
    change = old["shift_size"] + transient
    return {
        "shift_size": ("lognormal", change),
        "adaptation_share": ("normal", transient / change),
    }


def _replaced(
    tree: "xr.DataTree", gone: tuple[str, ...], used: tuple[str, ...], replacement: Replacement
) -> "xr.DataTree":
    """Return a fit with parameters replaced in its draws and in its specification.

    Parameters
    ----------
    tree : xarray.DataTree
    gone, used : tuple of str
        Parameters that are replaced, and others that their replacement depends on.
    replacement : callable
    """
    import xarray as xr

    spec = json.loads(tree.attrs["spec"])
    draws = tree["posterior"].to_dataset()
    signs = xr.DataArray(list(shift_signs(json.loads(tree.attrs["roles"]))), dims="domain")
    found = replacement({name: draws[name] for name in (*gone, *used)}, signs)
    if not LawTable.model_validate(spec["law"]).uses_replay:
        found.pop("misfit_replay", None)
    new = {name: values.transpose("chain", "draw", ...) for name, (_, values) in found.items()}
    variables: dict[str, Any] = {}
    for name, values in draws.data_vars.items():
        # All that comes instead is put in the place of the first that goes.
        variables |= new if name == gone[0] else {}
        if name not in gone:
            variables[str(name)] = values
    spec["priors"] = _priors(spec["priors"], gone, used, replacement, set(found))
    changed = tree.copy()
    changed["posterior"] = type(tree)(draws.drop_vars(list(draws.data_vars)).assign(variables))
    changed.attrs["spec"] = json.dumps(spec)
    return changed


def _priors(
    tables: dict[str, Any],
    gone: tuple[str, ...],
    used: tuple[str, ...],
    replacement: Replacement,
    new: set[str],
) -> dict[str, Any]:
    old = {name: Prior.model_validate(tables[name]) for name in (*gone, *used)}
    reason = " ".join(dict.fromkeys(old[name].reason for name in gone))
    made: dict[str, dict[str, Any]] = {
        name: {"reason": f"{reason} (As in the version that fitted it.)"} for name in new
    }
    places = np.random.default_rng(SEED).uniform(size=(len(old), DRAWS))
    for role, sign in zip(ROLES, shift_signs(ROLES), strict=True):
        draws = {
            name: quantiles(prior.of(role), place)
            for (name, prior), place in zip(old.items(), places, strict=True)
        }
        for name, (family, values) in replacement(draws, sign).items():
            if name in new:
                made[name][role] = _matched(family, values)
    return {name: table for name, table in tables.items() if name not in gone} | made


def _matched(family: str, values: Floats) -> dict[str, Any]:
    """Return the member of a family with the quartiles of some draws."""
    if family != "normal":
        values = values[values > 0]
    match family:
        case "normal":
            scaled = values
        case "lognormal":
            scaled = np.log(values)
        case _:
            scaled = np.log(values) - np.log1p(-values)
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    spread = float(high - low) / QUARTILES
    if family == "normal":
        return {"distribution": family, "mean": float(middle), "sd": spread}
    median = np.exp(middle) if family == "lognormal" else 1.0 / (1.0 + np.exp(-middle))
    return {"distribution": family, "median": float(median), "sigma": spread}
