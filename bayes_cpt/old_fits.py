"""Fits of earlier versions, brought to what this version computes with: same curves, same bands.

A file holds the specification that it was fitted under, so most of what changes between versions needs
nothing here: only parameters that were replaced by others do.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.distributions import quantiles
from bayes_cpt.spec import LawTable, Prior

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]

DRAWS = 4000
SEED = 0


def upgrade(tree: "xr.DataTree") -> "xr.DataTree":
    """Return the tree of a saved fit in the parameters of this version; a current one as it is."""
    spec = json.loads(tree.attrs["spec"])
    if "misfit_shift" in spec["priors"]:
        return _shared_misfit(tree, spec)
    return tree


def _shared_misfit(tree: "xr.DataTree", spec: dict[str, Any]) -> "xr.DataTree":
    """Return a fit of 0.1.0, whose misfit had a part of its own that grew with the shift.

    Its variance ``m² + (s·size)²·h`` at the replay factor h is ``M²·(1 - q·(1 - h))`` with
    ``M² = m² + (s·size)²`` and ``q = (s·size)²/M²``, so nothing is lost. The priors of M and q are what
    those of m, s and size amount to, as near as their families come.
    """
    replay = LawTable.model_validate(spec["law"]).uses_replay
    old = tree["posterior"].to_dataset()
    size, share = _size_and_share(old["misfit_cpt"], old["misfit_shift"] * old["shift_size"])
    changed = {"misfit_cpt": size.assign_attrs(old["misfit_cpt"].attrs)}
    if replay:
        changed["misfit_replay"] = share
    variables: dict[str, Any] = {}
    for name, values in old.data_vars.items():
        if name == "misfit_shift":
            variables |= {key: value for key, value in changed.items() if key not in variables}
        else:
            variables[str(name)] = changed.get(str(name), values)
    spec["priors"] = _misfit_priors(spec["priors"], replay)
    upgraded = tree.copy()
    upgraded["posterior"] = type(tree)(old.drop_vars(list(old.data_vars)).assign(variables))
    upgraded.attrs["spec"] = json.dumps(spec)
    return upgraded


def _size_and_share(common: Any, of_shift: Any) -> tuple[Any, Any]:
    variance = common**2 + of_shift**2
    return np.sqrt(variance), of_shift**2 / variance


def _misfit_priors(tables: dict[str, Any], replay: bool) -> dict[str, Any]:
    """Return the priors with those of the misfit replaced."""
    names = ("misfit_cpt", "misfit_shift", "shift_size")
    priors = {name: Prior.model_validate(tables[name]) for name in names}
    reason = f"{priors['misfit_cpt'].reason} (as in the version that fitted it)"
    size: dict[str, Any] = {"reason": reason}
    share: dict[str, Any] = {"reason": reason}
    places = np.random.default_rng(SEED).uniform(size=(len(names), DRAWS))
    for role in ("general", "target"):
        common, of_shift, shift = (
            quantiles(priors[name].of(role), place)
            for name, place in zip(names, places, strict=True)
        )
        sizes, shares = _size_and_share(common, of_shift * shift)
        logs, logits = np.log(sizes), np.log(shares) - np.log1p(-shares)
        median = float(np.exp(logs.mean()))
        size[role] = {"distribution": "lognormal", "median": median, "sigma": float(logs.std())}
        median = float(1.0 / (1.0 + np.exp(-logits.mean())))
        share[role] = {
            "distribution": "logitnormal",
            "median": median,
            "sigma": float(logits.std()),
        }
    kept = {name: table for name, table in tables.items() if name != "misfit_shift"}
    return kept | {"misfit_cpt": size} | ({"misfit_replay": share} if replay else {})
