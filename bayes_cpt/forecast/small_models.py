"""Small PyMC models beside the law, such as links of scores: sampled, and held to the contract."""

from typing import Any

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.diagnostics import diagnose

CHAINS = 4


def sampled(
    compiled: Any, names: tuple[str, ...], **settings: Any
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Return draws of some variables of a model, chains one after the other, and what they fall short of.

    The model is from `nutpie.compile_pymc_model`, with its data; settings are those of `nutpie.sample`.
    """
    import nutpie

    tree = nutpie.sample(compiled, chains=CHAINS, save_warmup=False, progress_bar=False, **settings)
    values = {name: tree["posterior"][name].to_numpy() for name in names}
    statistics = {
        "diverging": tree["sample_stats"]["diverging"].to_numpy(),
        "reached_max_treedepth": tree["sample_stats"]["maxdepth_reached"].to_numpy(),
    }
    joined = {name: own.reshape(-1, *own.shape[2:]) for name, own in values.items()}
    return joined, diagnose(values, statistics).problems
