"""A study of three targets: two with runs, and one with a single run."""

from size_family import blank_losses, simulated

from bayes_cpt import Base, Run, Study
from bayes_cpt.study.schedules import constant, cosine, linear

PEAK = 2e-3
TRUNK = linear(100, 0.0, PEAK) + constant(3900, PEAK)
BASE = Base("base", 4000, TRUNK, run="trunk")
TARGETS = ("code", "law", "news")
MIXED = {"code": 0.6, "law": 0.4}
POINTS = 12

__all__ = ["BASE", "TARGETS", "continued", "several", "simulated"]


def continued(
    name: str, targets: str | dict[str, float] | None, replay: float = 0.0, steps: int = 1000
) -> Run:
    """Return a CPT run from the base."""
    return Run(name, "cpt", cosine(steps, PEAK), "base", replay, targets=targets)


RUNS = (
    Run("trunk", "pt", TRUNK),
    Run("annealed", "pt", TRUNK + linear(1000, PEAK, 0.0)),
    *(continued(f"code_{r:g}", "code", r) for r in (0.0, 0.3, 0.6)),
    *(continued(f"law_{r:g}", "law", r) for r in (0.0, 0.3, 0.6)),
    continued("mixed", MIXED, 0.2),
    continued("news_0.2", "news", 0.2),
)


def several(
    targets: tuple[str, ...] = TARGETS, runs: tuple[Run, ...] = RUNS, measured: int = POINTS
) -> Study:
    """Return the study; its losses mean nothing (see `simulated`), only where they were measured."""
    kept = tuple(run for run in runs if set(run.mixture) <= set(targets))
    losses = blank_losses(kept, ("web", *targets), measured)
    return Study("several", "web", targets, (BASE,), kept, losses)
