"""How well a posterior was sampled, in numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior


@dataclass(frozen=True)
class Convergence:
    """The diagnostics of a fit.

    Parameters
    ----------
    chains, draws : int
        Draws are those kept of each chain.
    attempts : int
        How often sampling was begun.
    largest_rhat, smallest_bulk, smallest_tail : float
        Over all sampled parameters.
    divergences, saturated : int
        Draws that diverged, and those whose trajectory was cut off at the greatest depth.
    """

    chains: int
    draws: int
    attempts: int
    largest_rhat: float
    smallest_bulk: float
    smallest_tail: float
    divergences: int
    saturated: int

    @classmethod
    def of(cls, posterior: "Posterior", table: "pd.DataFrame | None" = None) -> Self:
        """Return the diagnostics of a posterior.

        Parameters
        ----------
        posterior : Posterior
        table : DataFrame, optional
            Its summary, where that is at hand.
        """
        table = posterior.summary(coefficients=False) if table is None else table
        sampled = table[table["kind"] == "parameter"]
        statistics = posterior.tree["sample_stats"]
        saturated = statistics.get("reached_max_treedepth")
        return cls(
            chains=posterior.tree["posterior"].sizes["chain"],
            draws=posterior.tree["posterior"].sizes["draw"],
            attempts=int(posterior.tree.attrs["attempts"]),
            largest_rhat=float(sampled["r_hat"].max()),
            smallest_bulk=float(sampled["ess_bulk"].min()),
            smallest_tail=float(sampled["ess_tail"].min()),
            divergences=int(statistics["diverging"].sum()),
            saturated=0 if saturated is None else int(saturated.sum()),
        )
