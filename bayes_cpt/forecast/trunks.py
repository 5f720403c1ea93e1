"""What is known of planned runs that branch off a run of the fitted study: the trunk's losses."""

from dataclasses import replace

from bayes_cpt.forecast.plans import observed_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import trunk_steps
from bayes_cpt.model.points import Curves
from bayes_cpt.study.study import Run, Study
from bayes_cpt.study.trunks import trunk_curve


def shared_steps(posterior: Posterior, run: Run, domain: str) -> list[int]:
    """Return the steps at which the trunk of a planned run was measured, of those that entered the fit.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    run : Run
        Of a plan.
    domain : str
    """
    frame = posterior.frame
    residuals, steps = frame.spec.residuals, frame.reference.steps
    return trunk_steps(posterior.study, run, domain, residuals, steps)


def goes_on(posterior: Posterior, run: Run) -> bool:
    """Return whether a run goes on from what a trunk showed on all of the law's validation sets.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    run : Run
        Of a plan.
    """
    return run.branch is not None and all(
        shared_steps(posterior, run, domain) for domain in posterior.frame.domains
    )


def measured_curves(posterior: Posterior, plan: Study, curves: Curves, kind: str) -> Curves | None:
    """Return what was measured of runs to be forecast: themselves, or the trunks that they branch off.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    plan : Study
        Has the runs.
    curves : Curves
        What is to be forecast, in whose order they come.
    kind : {"expected", "new_run", "known_run"}

    Returns
    -------
    Curves or None
        None where nothing was measured, and of the law's own curve.

    Raises
    ------
    PlanError
        If a known run was not measured.
    """
    if kind == "known_run":
        return observed_curves(posterior, curves)
    return trunk_curves(posterior, plan, curves) if kind == "new_run" else None


def trunk_curves(posterior: Posterior, plan: Study, curves: Curves) -> Curves | None:
    """Return what the trunks of planned runs showed, as curves of these runs; None where none did.

    Up to the branch a run is its trunk, so that a forecast of it is one of a run that was measured so far.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    plan : Study
        Has the runs.
    curves : Curves
        What is to be forecast, in whose order they come.
    """
    wanted = {(curve.run, curve.domain) for curve in curves.curves}
    names = dict.fromkeys(curve.run for curve in curves.curves)
    runs = [run for run in map(plan.run, names) if goes_on(posterior, run)]
    if not runs:
        return None
    found = posterior.frame.curves(
        plan,
        lambda run, domain: (
            shared_steps(posterior, run, domain) if (run.name, domain) in wanted else []
        ),
        runs,
    )
    losses = found.points.loss.copy()
    for place, curve in enumerate(found.curves):
        rows = found.points.curve_index == place
        steps, measured = trunk_curve(posterior.study, plan.run(curve.run), curve.domain)
        losses[rows] = measured[steps.searchsorted(found.points.steps[rows])]
    return replace(found, points=replace(found.points, loss=losses))
