"""Base, replay ratio and mixture of a schedule where the user names none: the best of what was tried."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases.unknown_base import fitted_bases

# Configurations that are looked at, at least: all combinations of a usual study.
CANDIDATES = 1024


def best_tried(
    posterior: Posterior,
    base: str | None,
    replay: float | None,
    mixture: Mapping[str, float] | None,
    steps: int,
    objective: "str | Path | dict[str, Any] | Objective",
    draws: int,
) -> tuple[str, float, Mapping[str, float]]:
    """Return the base, replay ratio and mixture with the lowest expected objective among those tried.

    What was tried are the bases that CPT runs of the study start from, and the replay ratios, mixtures of
    several targets and peaks of those runs: a default must not leave what was fitted.

    Parameters
    ----------
    posterior : Posterior
    base : str or None
        Kept where it is given.
    replay : float or None
        Kept where it is given.
    mixture : mapping of str to float, or None
        Kept where it is given; an empty one is that of a study of one target.
    steps : int
        Length of the run.
    objective : str, path, dict or Objective
    draws : int
        Posterior draws.

    Raises
    ------
    SpecError
        If objective, base or replay ratio are none.
    """
    runs = posterior.study.continual_runs
    used = {run.base for run in runs}
    bases = [fitted.name for fitted in fitted_bases(posterior.study) if fitted.name in used]
    replays = sorted({run.replay or 0.0 for run in runs})
    peaks = sorted({run.schedule.peak for run in runs})
    mixtures = [dict(own) for own in dict.fromkeys(tuple(run.mixture.items()) for run in runs)]
    space: dict[str, Any] = {
        "bases": bases if base is None else base,
        "replay": replays if replay is None else replay,
        "peak": peaks,
        "steps": steps,
    }
    combinations = len(bases) * len(replays) * len(peaks)
    if len(posterior.study.targets) > 1:
        space["targets"] = mixtures if mixture is None else [dict(mixture)]
        combinations *= len(mixtures)
    decision = decide(
        posterior, objective, space, draws=draws, candidates=max(CANDIDATES, combinations)
    )
    chosen = decision.contenders.candidates
    best = chosen.mixtures[chosen.mixture[0]]
    return chosen.bases[chosen.base[0]].name, float(chosen.replay[0]), best
