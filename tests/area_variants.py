"""Models with the annealing areas of other papers and appendices, made from shipped ones."""

from typing import Any

from bayes_cpt.model.spec import ModelSpec, parse_spec, read_spec

# What each frees under [law], and the priors of that.
WEIGHT = {"distribution": "lognormal", "median": 1.0, "sigma": 0.3, "lower": 0.6, "upper": 2.5}
POWER = {"distribution": "lognormal", "median": 1.0, "sigma": 0.2}
FREED: dict[str, dict[str, dict[str, Any]]] = {
    "fall_weight": {"fall_weight": WEIGHT},
    "area_power": {"area_power": POWER, "area_power_cpt": POWER},
}
NAMES = ("multi_power", *FREED)


def variant(name: str, model: str = "pretrain", **fixed: float) -> ModelSpec:
    """Return a model with another annealing area.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    model : str
        That it is made from; the multi-power law is shipped.
    **fixed : float
        Parameters that are fixed, and at what.
    """
    shipped = "pretrain-multi-power" if name == "multi_power" else model
    table = read_spec(shipped).model_dump(mode="json")
    if name in FREED:
        table["law"] |= {name: True, "level_power": False}
        del table["priors"]["level_power"]
        for parameter, prior in FREED[name].items():
            if "shift" in table["law"]["terms"] or not parameter.endswith("_cpt"):
                table["priors"][parameter] = {"reason": "of a test", "every": prior}
    for parameter, value in fixed.items():
        own = {"distribution": "fixed", "value": value}
        table["priors"][parameter] = {"reason": "of a test", "every": own}
    return parse_spec(table, name)
