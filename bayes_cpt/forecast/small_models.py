"""Small PyMC models beside the law, such as links of scores: sampled, and held to the contract."""

from typing import Any

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.diagnostics import diagnose

CHAINS = 4


def sampled(
    compiled: Any,
    names: tuple[str, ...],
    *,
    draws: int,
    tune: int,
    target_accept: float,
    seed: int,
    cores: int | None = None,
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Return draws of some variables of a model, chains one after the other, and what they fall short of.

    Parameters
    ----------
    compiled : CompiledModel
        From `nutpie.compile_pymc_model`, with its data.
    names : tuple of str
    draws, tune : int
        Of each chain.
    target_accept : float
    seed : int
    cores : int, optional
        Chains sampled at once; all unless given.
    """
    import nutpie

    tree = nutpie.sample(
        compiled,
        draws=draws,
        tune=tune,
        chains=CHAINS,
        cores=cores,
        seed=seed,
        target_accept=target_accept,
        save_warmup=False,
        progress_bar=False,
    )
    values = {name: tree["posterior"][name].to_numpy() for name in names}
    statistics = {
        "diverging": tree["sample_stats"]["diverging"].to_numpy(),
        "reached_max_treedepth": tree["sample_stats"]["maxdepth_reached"].to_numpy(),
    }
    joined = {name: own.reshape(-1, *own.shape[2:]) for name, own in values.items()}
    return joined, diagnose(values, statistics).problems
