"""What a specification expects of runs before any loss is seen but that of their bases.

A CPT run starts at the measured loss of its base, so the level of the law, `reference_loss`, is taken from
these losses: the law is linear in it with slope 1.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, central
from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.derived import last_points, start_loss
from bayes_cpt.forecast.drawn import point_table
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.model.bases import for_base
from bayes_cpt.model.evaluate import Draws, law_losses
from bayes_cpt.model.groups import for_batches, for_targets
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.residuals import Studied
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.folder import read_plan, read_study
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import find_table
from bayes_cpt.toml_files import read_toml

LEVEL = "reference_loss"
DRAWS = 4000
# More draws than this share below 0, or not finite, and priors do not look like losses.
MOST_BELOW_ZERO = 0.01


def read_prior_plan(
    spec: ModelSpec, plan: str | Path | None = None, study: str | Path | None = None
) -> tuple[BoundModel, Study]:
    """Return the frame and the runs that a specification's priors are to be looked at on.

    A plan is a study folder, whose losses may be missing, or one TOML file. The study sets the units of the
    priors, and supplies what a plan leaves out; the bundled one for a file without a [study] table.
    """
    place = bundled_study() if plan is None else Path(plan)
    if study is None and place.is_file() and "study" not in read_toml(place):
        study = bundled_study()
    if study is not None:
        home = read_study(study)
        wanted = read_plan(place, home)
        _check_phase(spec, wanted)
        frame = frame_of(spec, home)
        return frame, with_base_losses(home, frame.domains, wanted)
    wanted = read_design(place)
    return frame_of(spec, wanted), wanted


def read_design(place: str | Path) -> Study:
    """Read a study folder, or a folder or TOML file of runs that were not measured yet."""
    folder = Path(place)
    measured = folder.is_dir() and find_table(folder, "losses") is not None
    return read_study(folder) if measured else read_plan(folder)


def frame_of(spec: ModelSpec, plan: Study) -> BoundModel:
    """Return a specification's frame on a study or plan; it needs no losses."""
    _check_phase(spec, plan)
    spec = for_batches(for_targets(for_base(spec, plan), plan), plan)
    return replace(BoundModel.of(spec, plan), studied=Studied())


def expected_ends(
    frame: BoundModel, plan: Study, interval: float = 0.9, draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Return where the priors expect the runs of a plan to end, given the losses of its bases.

    Of CPT the ``change`` of the law's curve from the run's start, of PT its ``loss``. Draws in which a loss
    ends below 0 are left out (`above_zero`); `below_zero` is their share: above `MOST_BELOW_ZERO` the
    priors are too wide for these losses.
    """
    ends = draw_ends(frame, plan, draws, seed)
    bounds = central(ends.values.T, interval)
    kind = "change" if frame.spec.law.continual else "loss"
    table = point_table(ends.curves)[["run", "domain", "step"]]
    return table.assign(quantity=kind, **bounds, below_zero=ends.below_zero)


class Ends(NamedTuple):
    """The ends of the runs of a plan in draws of the priors whose losses could be measured."""

    curves: Curves
    parameters: dict[str, Floats]  # of these draws
    values: Floats  # loss, in CPT its change from the run's start, nats/token, (draws, curves)
    below_zero: Floats  # share of all draws in which a loss ends below 0, (curves,)


def draw_ends(frame: BoundModel, plan: Study, draws: int, seed: int) -> Ends:
    """Draw the ends of the runs of a plan; draws with a loss that could not be measured are left out."""
    continual = frame.spec.law.continual
    curves = last_points(frame, plan, frame.spec.law.last_phase_runs(plan))
    parameters = draw_at_bases(frame, plan, draws, seed)
    # Far in the tails of wide priors a curve may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        losses = expected_loss(frame, parameters, curves)
        starts: Floats | float = start_loss(frame, parameters, curves) if continual else 0.0
        values = losses - starts
    if not (kept := above_zero(losses)).any():
        problem = "in every draw of the priors some loss ends below 0: they are too wide"
        raise StudyError.at(f"study {plan.name}", problem, "state narrower ones in a model file")
    parameters = {name: own[kept] for name, own in parameters.items()}
    return Ends(curves, parameters, values[kept], (~(losses > 0.0)).mean(axis=0))


def draw_at_bases(frame: BoundModel, plan: Study, draws: int, seed: int) -> dict[str, Floats]:
    """Return draws of the priors in which the law meets the measured losses of a plan's bases.

    On each validation set the level is moved to where the law is right for the bases on average, and
    draws are chosen again in proportion to the prior density of the level that this takes. Those bases
    count that CPT runs of the plan start from, whose pre-training is known and whose loss was measured;
    where there are none draws are the priors' own.
    """
    parameters = draw_priors(frame, draws, seed)
    if not frame.spec.law.continual or frame.spec.law.unknown_base:
        return parameters
    bases = last_points(frame, plan, plan.continual_runs).bases
    if not (bases.base_known > 0).any():
        return parameters
    levels, log_weights = parameters[LEVEL], np.zeros(draws)
    # Far in the tails of wide priors a curve may overflow: such a draw has no weight.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gaps = bases.loss - law_losses(bases, Draws.of(frame, parameters, bases.form)).T
        for index, role in enumerate(frame.roles):
            own = (bases.base_known > 0) & (bases.domain_index == index)
            family = frame.spec.priors[LEVEL].of(role)
            if own.any() and not isinstance(family, Fixed):
                levels[:, index] += gaps[:, own].mean(axis=1)
                log_weights += family.log_density(levels[:, index])
    if (lost := (~np.isfinite(gaps)).any(axis=1).mean()) > MOST_BELOW_ZERO:
        problem = f"in {100 * lost:.0f} % of the draws of the priors a loss is not finite"
        fix = "give what cannot be negative a lognormal prior, a share a logitnormal one"
        raise StudyError.at(f"model {frame.spec.name}", problem, fix)
    weights = np.exp(log_weights - np.nanmax(log_weights))
    weights[~np.isfinite(weights)] = 0.0
    generator = np.random.default_rng([seed, 1])
    chosen = generator.choice(draws, draws, p=weights / weights.sum())
    return {name: values[chosen] for name, values in parameters.items()}


def above_zero(losses: Floats) -> NDArray[np.bool_]:
    """Return which draws have losses, shape (draws, points), that could be measured: finite, above 0."""
    return np.asarray((np.isfinite(losses) & (losses > 0.0)).all(axis=1))


def _check_phase(spec: ModelSpec, plan: Study) -> None:
    if not spec.law.last_phase_runs(plan):
        phase = "cpt" if spec.law.continual else "pt"
        problem = f"there is no {phase.upper()} run, and the law is about such runs"
        fix = f'add a run of phase = "{phase}", or choose another model'
        raise StudyError.at(f"plan {plan.name}, model {spec.name}", problem, fix)
