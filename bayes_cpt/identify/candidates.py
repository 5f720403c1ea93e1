"""Runs that a study could be given, to find out which of them would tell what it does not."""

from dataclasses import replace

import numpy as np

from bayes_cpt.forecast.derived import (
    ANNEALED,
    AT_REPLAY,
    DECAYING,
    LONG,
    LONG_PURE,
    LONGER,
    PT_ANNEALED,
    PT_LONG,
    PT_STEADY,
    REWARMED,
    SLOWER,
    STABLE,
    STEADY,
    Typical,
    annealed,
    approach,
    base_schedule,
    plan_of,
    start_rate,
)
from bayes_cpt.model.fitted_points import first_step
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant

POINTS = 30
LOWER = 3
# Sizes of further models, as shares of the typical one: small ones cost least.
SMALLER = (0.25, 0.0625)
OTHER_SIZE = "a PT run of a model of {:.3g}M parameters"
REPLAYS = (0.0, 0.03, 0.25, 0.5, 0.75, 0.9)


def candidate_runs(frame: BoundModel, typical: Typical) -> Curves:
    """Return the curves of runs named in words: typical ones, but for what the name says.

    The losses of their bases count as measured, theirs at about 30 checkpoints, more of them early.

    Parameters
    ----------
    frame : BoundModel
    typical : Typical
        What a typical run of the study is.
    """
    runs: dict[str, tuple[Schedule, str | None, float]] = {}
    base, rate = base_schedule(frame.reference), start_rate(frame)
    if frame.spec.law.continual:
        n, peak, replay = typical.steps, typical.peak, typical.replay
        decayed = approach(n, rate, peak, decays=True)
        longer = approach(LONGER * n, rate, peak, decays=True)
        if frame.spec.law.uses_replay:
            runs |= {AT_REPLAY.format(r): (decayed, STABLE, r) for r in REPLAYS}
            runs[LONG_PURE] = (longer, STABLE, 0.0)
        slower = approach(n, rate, peak / LOWER, decays=True)
        runs |= {
            DECAYING: (decayed, STABLE, replay),
            STEADY: (approach(n, rate, peak, decays=False), STABLE, replay),
            SLOWER: (slower, STABLE, replay),
            LONG: (longer, STABLE, replay),
        }
    # Whoever has a base of unknown pre-training has no other of its kind.
    if not frame.spec.law.unknown_base:
        if frame.spec.law.continual:
            runs[REWARMED] = (approach(n, 0.0, peak, decays=True), ANNEALED, replay)
        runs |= {
            PT_STEADY: (base, None, 0.0),
            PT_ANNEALED: (annealed(base), None, 0.0),
            PT_LONG: (constant(LONGER * base.steps, base.peak), None, 0.0),
        }
    sizes = dict(
        zip(map(OTHER_SIZE.format, _further_sizes(frame)), _further_sizes(frame), strict=True)
    )
    runs |= {name: (annealed(base), None, 0.0) for name in sizes}
    plan, residuals = plan_of(frame, runs, measured=True, sizes=sizes), frame.spec.residuals

    def checkpoints(run: Run, _: str) -> list[int]:
        skipped = first_step(plan, run, residuals) if run.phase == "pt" else 0.0
        return _checkpoints(run.schedule.steps, skipped)

    return frame.curves(plan, checkpoints)


def _further_sizes(frame: BoundModel) -> tuple[float, ...]:
    """Return model sizes that runs could have beside those of the study; none where the law has no size."""
    if not frame.spec.law.model_size:
        return ()
    return tuple(share * frame.reference.model_size for share in SMALLER)


def with_further_sizes(frame: BoundModel) -> BoundModel:
    """Return the frame with `_further_sizes` among those that the law knows.

    Parameters
    ----------
    frame : BoundModel
    """
    return replace(frame, sizes=tuple(dict.fromkeys((*frame.sizes, *_further_sizes(frame)))))


def _checkpoints(steps: int, skipped: float) -> list[int]:
    share = np.linspace(0.0, 1.0, POINTS + 1)[1:] ** 2
    return [int(step) for step in np.unique(np.ceil(share * steps)) if step > skipped]
