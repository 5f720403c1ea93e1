"""The critical point: how much pre-training is too much for a general loss that comes back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cpt.arrays import central
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.decomposition import transferred
from bayes_cpt.landmarks.trials import Trial, check_measured, law_draws, trial_curves
from bayes_cpt.laws.phase_areas import transfer_state
from bayes_cpt.laws.term import sized
from bayes_cpt.model.evaluate import Draws, at_points
from bayes_cpt.model.fitted_points import check_replays
from bayes_cpt.model.groups import check_one_target
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.study.ranges import outside_span
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant
from bayes_cpt.study.study import Study

DRAWS = 1000
# Of the prior: a probability to a percent or two.
PRIOR_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """Posterior of the critical point, per replay ratio.

    Parameters
    ----------
    draws : xarray.Dataset
        Dims draw, replay. ``rise``: what the limit of the transfer adds to the general loss, nats/token.
        ``forward_area``: S1_pt of the critical point, infinite where the rise is not positive: the loss
        then always comes back. ``power``: rho, of the learning rates that it is the sum of.
        ``steps``: the same in PT steps at the reference learning rate.
    prior : xarray.Dataset
        The same in draws of the prior: what is said of it without the data.
    study : Study
        What was fitted.
    frame : BoundModel
        Of the fit.
    """

    draws: xr.Dataset
    prior: xr.Dataset
    study: Study
    frame: BoundModel

    def table(self, interval: float = 0.9) -> pd.DataFrame:
        """Return one row per replay ratio.

        Parameters
        ----------
        interval : float
            Mass of the intervals.

        Returns
        -------
        DataFrame
            Columns replay; rise (median); exists, the probability that there is a critical point, and
            exists_prior, the same by the prior alone: where that is 1 already, the sign of the shift fixes
            it and the data add nothing; median, lower, upper in PT steps, infinite draws included; outside.
        """
        lengths = [base.steps for base in self.study.bases if base.steps]
        lengths += [run.schedule.steps for run in self.study.pretraining_runs]
        rise, before = (own["rise"].to_numpy() for own in (self.draws, self.prior))
        steps = central(self.draws["steps"].to_numpy().T, interval, method="inverted_cdf")
        ends = steps["median"]
        notes = [outside_span("PT steps", own, lengths) if lengths else [] for own in ends]
        columns = {
            "replay": self.draws["replay"].to_numpy(),
            "rise": np.median(rise, axis=0),
            "exists": (rise > 0).mean(axis=0),
            "exists_prior": (before > 0).mean(axis=0),
            **steps,
            "outside": ["; ".join(own) for own in notes],
        }
        return pd.DataFrame(columns)

    def past(self, base: Base, *, by_prior: bool = False) -> xr.DataArray:
        """Return the probability, per replay ratio, that a base lies past the critical point.

        Parameters
        ----------
        base : Base
            Of known pre-training.
        by_prior : bool
            Whether by the prior alone, without the data.

        Raises
        ------
        ValueError
            If the base's schedule is not known.
        """
        if base.schedule is None:
            raise ValueError(f"the schedule of base {base.name} is not known: give it")
        draws = self.prior if by_prior else self.draws
        form = self.frame.area_form
        areas = form.powers.series(np.log(transfer_state(base.schedule, form).forward))
        log_area = form.powers.basis(draws["power"].to_numpy()) @ areas
        beyond: xr.DataArray = draws["forward_area"] < np.exp(log_area)[:, None]
        return beyond.mean("draw")


def critical_point(
    posterior: Posterior, replays: Sequence[float] | None = None, draws: int = DRAWS
) -> CriticalPoint:
    r"""Return the pre-training past which the general loss starts below where CPT would take it.

    A base on the law, trained without annealing, has the general loss ``L0 + A·S1_pt^-alpha``; held at its
    learning rate in CPT, it goes to ``L0 + rise``, the level of the hidden curve of the target data, where
    ``rise`` is the limit of the shift (and of the transient, where the law has one). The critical point is
    ``S1_pt = (A/rise)^(1/alpha)`` (Fig. 7c of arXiv 2505.07796).

    Parameters
    ----------
    posterior, draws
        As in `decompose`.
    replays : sequence of float, optional
        Replay ratios; those of the study's CPT runs unless given.

    Notes
    -----
    Past it the loss cannot *stay* back, and its turning length is infinite. It may still be back for a
    while, where the shift goes to its limit more slowly than the power: with the coefficients of Fig. 3
    from 8,994 to 11,211 PT steps.
    """
    check_one_target(posterior.study, "the critical point")
    check_measured(posterior.frame, ["general"], "the critical point")
    posterior = posterior.in_batch()
    laws = law_draws(posterior, draws)
    # A coefficient on a ridge overflows in the far tail of its prior, where it is only large.
    with np.errstate(over="ignore", invalid="ignore"):
        priors = [
            Draws.of(law.frame, draw_priors(law.frame, count or PRIOR_DRAWS, 0))
            for law, count in posterior.shares(PRIOR_DRAWS)
        ]
    runs = posterior.study.continual_runs
    ratios = sorted({run.replay or 0.0 for run in runs}) if replays is None else list(replays)
    for law in posterior.laws if replays is not None else ():
        check_replays(law.frame.spec, posterior.study, [("critical point", own) for own in ratios])
    points, before = (
        xr.concat([_of_law(law, ratios) for law in of_laws], "draw") for of_laws in (laws, priors)
    )
    return CriticalPoint(points, before, posterior.study, posterior.frame)


def _of_law(draws: Draws, replays: list[float]) -> xr.Dataset:
    """Return the critical point in every draw of a law, as `CriticalPoint.draws` holds it.

    At the typical model size, where the law has one.
    """
    sets, rate = len(draws.frame.domains), draws.frame.reference.learning_rate
    step, nowhere = constant(1, rate), (None,) * sets
    base = Base("base", 1, step)
    trials = [Trial(base, Run("run", "cpt", step, base.name, own), nowhere) for own in replays]
    points = trial_curves(draws, trials, [[1]] * len(trials)).points
    # The general validation set comes first.
    rise = transferred(points, draws)[::sets].T
    sizes = at_points(points, draws, lambda tile: {"A": sized(tile.gathered, "A")})
    alpha = draws.coefficients["alpha"][:, :1]
    power = draws.coefficients.get("rho", np.ones(draws.count))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        area = np.exp((np.log(sizes["A"][::sets].T) - np.log(rise)) / alpha)
    area = np.where(rise > 0, area, np.inf)
    dims = ("draw", "replay")
    return xr.Dataset(
        {
            "rise": (dims, rise, {"units": "nats/token"}),
            "forward_area": (dims, area, {"units": "LR^rho·steps"}),
            "power": ("draw", power),
            "steps": (dims, area / rate ** power[:, None], {"units": "steps"}),
        },
        coords={"replay": replays},
        attrs={"learning_rate": rate},
    )
