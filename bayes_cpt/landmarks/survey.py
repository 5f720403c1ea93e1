"""All landmarks of a plan at once, as tables and in words."""

from dataclasses import dataclass
from functools import partial
from typing import Self

import pandas as pd
import xarray as xr

from bayes_cpt.forecast.plans import Plan
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks import responses
from bayes_cpt.landmarks.critical import CriticalPoint, critical_point
from bayes_cpt.landmarks.decomposition import decompose
from bayes_cpt.landmarks.trials import as_study, check_measured
from bayes_cpt.landmarks.turning import TurningLength, turning_length
from bayes_cpt.model.spec import ROLES
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study

DRAWS = 500


@dataclass(frozen=True, eq=False)
class Choices:
    """What the choice of a base does, where the history of bases is known."""

    critical: CriticalPoint  # at the replay ratios of plan and fitted study
    # Final losses against loss potential, without and with a re-warm-up to the run's peak
    direct: responses.Response
    rewarmed: responses.Response
    bases: responses.Response  # final losses from each known base

    @classmethod
    def of(cls, posterior: Posterior, target: Study, run: Run, draws: int) -> Self:
        """Return them for a run of a plan."""
        runs = (*posterior.study.continual_runs, *target.continual_runs)
        replays = sorted({other.replay or 0.0 for other in runs})
        asked = posterior, target, run.name
        respond = partial(responses.loss_potential_response, *asked, draws=draws)
        return cls(
            critical=critical_point(posterior, replays, draws),
            direct=respond(rewarmed_to_peak=False),
            rewarmed=respond(rewarmed_to_peak=True),
            bases=responses.base_response(*asked, draws=draws),
        )


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
        Of every run on a known base, for the general loss.
    peaks : Response
        Final losses against the peak learning rate.
    choices : Choices or None
        What a fit of bases of known history says of them; None for one of unknown history.
    lift : xarray.DataArray
        How far the run's re-warm-up lifts the loss at most, dims draw, domain; 0 without one.
    unknown : tuple of str
        Bases of the plan whose history is not known, if the fit is of bases whose history is.
    """

    plan: Study
    run: Run
    base: Base
    turning: TurningLength
    peaks: responses.Response
    choices: Choices | None
    lift: xr.DataArray
    unknown: tuple[str, ...]

    def tables(self, interval: float = 0.9) -> dict[str, pd.DataFrame]:
        """Return all tables, by name.

        Parameters
        ----------
        interval : float
            Mass of the intervals.

        Returns
        -------
        dict
            ``turning_length``, ``peak_learning_rate``; and where bases are known ``critical_point``,
            ``loss_potential``, ``bases``.
        """
        tables = {"turning_length": self.turning.table(interval)}
        if choices := self.choices:
            potentials = [own.table(interval) for own in (choices.direct, choices.rewarmed)]
            tables["critical_point"] = choices.critical.table(interval)
            tables["loss_potential"] = pd.concat(potentials, ignore_index=True)
            tables["bases"] = choices.bases.table(interval)
        return tables | {"peak_learning_rate": self.peaks.table(interval)}

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each.

        Parameters
        ----------
        interval : float
            Mass of the intervals.
        """
        from bayes_cpt.report.landmarks import survey_words

        return survey_words(self, interval).verdict

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question.

        Parameters
        ----------
        interval : float
            Mass of the intervals.
        """
        from bayes_cpt.report.landmarks import survey_words

        return survey_words(self, interval).sentences

    def past(self) -> tuple[float, float] | None:
        """Return how probably the base lies past its critical point at the run's replay ratio.

        Returns
        -------
        tuple of float or None
            By the posterior, and by the prior alone; None for a base of unknown history.
        """
        if self.choices is None:
            return None
        replay, critical = self.run.replay or 0.0, self.choices.critical
        posterior, prior = (critical.past(self.base, by_prior=alone) for alone in (False, True))
        return float(posterior.sel(replay=replay)), float(prior.sel(replay=replay))


def survey(
    posterior: Posterior, plan: Plan = None, run: str | None = None, *, draws: int = DRAWS
) -> Survey:
    """Return the landmarks of a plan.

    Parameters
    ----------
    posterior, plan, draws
        As in `decompose`; of a plan none of whose bases is known the fitted study is surveyed.
    run : str, optional
        The run whose choices are varied; see `bayes_cpt.landmarks.responses.main_run`.
    """
    check_measured(posterior.frame, ROLES, "a survey of landmarks")
    target = as_study(posterior, plan)
    homes = [target.base(str(planned.base)) for planned in target.continual_runs]
    is_known = not posterior.frame.spec.law.unknown_base
    left_out = [base.name for base in homes if is_known and base.schedule is None]
    if run is None and homes and len(left_out) == len(homes):
        target = posterior.study
    target, chosen = responses.main_run(posterior, target, run)
    name = chosen.name
    annealing = decompose(posterior, target, [name], draws)["annealing_cpt"]
    return Survey(
        plan=target,
        run=chosen,
        base=target.base(str(chosen.base)),
        turning=turning_length(posterior, target, draws=draws),
        peaks=responses.peak_response(posterior, target, name, draws=draws),
        choices=Choices.of(posterior, target, chosen, draws) if is_known else None,
        lift=annealing.isel(run=0).max("step").clip(min=0.0),
        unknown=tuple(dict.fromkeys(left_out)),
    )
