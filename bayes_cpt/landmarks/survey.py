"""All landmarks of a plan at once, as tables and in words."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_cpt.landmarks.critical import CriticalPoint, critical_point
from bayes_cpt.landmarks.decomposition import decompose
from bayes_cpt.landmarks.responses import (
    Response,
    base_response,
    loss_potential_response,
    main_run,
    peak_response,
)
from bayes_cpt.landmarks.trials import as_study, known_base
from bayes_cpt.landmarks.turning import TurningLength, turning_length
from bayes_cpt.posterior import Posterior
from bayes_cpt.runs import Base, Run
from bayes_cpt.study import Study

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

DRAWS = 500


@dataclass(frozen=True, eq=False)
class Survey:
    """The landmarks of a plan; the responses are those of one of its runs.

    Parameters
    ----------
    plan : Study
        What was surveyed: the fitted study where there is no plan, or none of its bases is known.
    run, base : Run, Base
        The run whose choices are varied, and its base.
    turning : TurningLength
        Of every run on a known base, for the general loss and for a balance.
    critical : CriticalPoint
        At the replay ratios of plan and fitted study.
    direct, rewarmed : Response
        Final losses against loss potential, without and with a re-warm-up to the run's peak.
    peaks, bases : Response
        Final losses against the peak learning rate, and from each known base.
    lift : xarray.DataArray
        How far the run's re-warm-up lifts the loss at most, dims draw, domain; 0 without one.
    unknown : tuple of str
        Bases of the plan whose history is not known.
    """

    plan: Study
    run: Run
    base: Base
    turning: TurningLength
    critical: CriticalPoint
    direct: Response
    rewarmed: Response
    peaks: Response
    bases: Response
    lift: "xr.DataArray"
    unknown: tuple[str, ...]

    def tables(self, interval: float = 0.9) -> "dict[str, pd.DataFrame]":
        """Return all tables, by name.

        Returns
        -------
        dict
            ``turning_length``, ``critical_point``, ``loss_potential``, ``peak_learning_rate``, ``bases``.
        """
        import pandas as pd

        potentials = [response.table(interval) for response in (self.direct, self.rewarmed)]
        return {
            "turning_length": self.turning.table(interval),
            "critical_point": self.critical.table(interval),
            "loss_potential": pd.concat(potentials, ignore_index=True),
            "peak_learning_rate": self.peaks.table(interval),
            "bases": self.bases.table(interval),
        }

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what it comes to, in sentences to act on, each with its probability."""
        from bayes_cpt.landmarks.advice import advise

        return advise(self, interval)


def survey(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    run: str | None = None,
    *,
    balance: float = 0.5,
    draws: int = DRAWS,
) -> Survey:
    """Return the landmarks of a plan.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        As in `bayes_cpt.forecast.predict`: None takes the fitted study. So does a plan none of whose
        bases is known.
    run : str, optional
        The run whose choices are varied; see `bayes_cpt.landmarks.responses.main_run`.
    balance : float
        Weight of the general loss in the balance of Eq. 5, beside the general loss alone.
    draws : int
        Posterior draws to use, spread evenly over the chains.

    Raises
    ------
    PlanError, StudyError, ValueError
        Naming what cannot be computed.
    """
    target = as_study(posterior, plan)
    homes = [target.base(str(own.base)) for own in target.continual_runs]
    unknown = tuple(dict.fromkeys(base.name for base in homes if base.schedule is None))
    if unknown and run is None and all(base.schedule is None for base in homes):
        target = posterior.study
    _, chosen = main_run(posterior, target, run)
    turning = turning_length(posterior, target, balances=_balances(balance), draws=draws)
    runs = (*posterior.study.continual_runs, *target.continual_runs)
    replays = sorted({own.replay or 0.0 for own in runs})
    annealing = decompose(posterior, target, [chosen.name], draws)["annealing_cpt"]
    name = chosen.name
    return Survey(
        plan=target,
        run=chosen,
        base=known_base(target, chosen),
        turning=turning,
        critical=critical_point(posterior, replays, draws),
        direct=loss_potential_response(
            posterior, target, name, rewarmed_to_peak=False, draws=draws
        ),
        rewarmed=loss_potential_response(
            posterior, target, name, rewarmed_to_peak=True, draws=draws
        ),
        peaks=peak_response(posterior, target, name, draws=draws),
        bases=base_response(posterior, target, name, draws=draws),
        lift=annealing.isel(run=0).max("step").clip(min=0.0),
        unknown=unknown,
    )


def _balances(balance: float) -> list[float]:
    return [1.0] if balance == 1.0 else [1.0, balance]
