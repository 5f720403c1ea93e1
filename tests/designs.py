"""Studies built to lack one thing each; their losses mean nothing, only where they were measured."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from synthetic import CHAINS, as_posterior

from bayes_cpt import Base, Posterior, Run, Study, read_spec
from bayes_cpt.identify.determination import FreeParameters, information
from bayes_cpt.model.setup import build_setup
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear

PEAK, LOW = 2e-3, 6e-4
STEPS = 3000
# The share of a CPT run at its start that is measured as closely as all of it.
FIRST = 0.05
WARM = linear(300, 0.0, PEAK)
STABLE = WARM + constant(11_700, PEAK)
EARLY = WARM + constant(5_700, PEAK)
ANNEALED = STABLE + linear(2_000, PEAK, 0.0)
BASES = {"stable": STABLE, "early": EARLY, "annealed": ANNEALED}

type Plan = Mapping[str, tuple[str, float, Schedule]]

FULL: Plan = {
    "pure": ("stable", 0.0, cosine(STEPS, PEAK)),
    "steady": ("stable", 0.0, constant(STEPS, PEAK)),
    "few": ("stable", 0.03, cosine(STEPS, PEAK)),
    "some": ("stable", 0.1, cosine(STEPS, PEAK)),
    "quarter": ("stable", 0.25, cosine(STEPS, PEAK)),
    "half": ("stable", 0.5, cosine(STEPS, PEAK)),
    "most": ("stable", 0.75, cosine(STEPS, PEAK)),
    "slow": ("stable", 0.25, linear(100, PEAK, LOW) + cosine(STEPS - 100, LOW)),
    "early": ("early", 0.0, cosine(STEPS, PEAK)),
    "rewarmed": ("annealed", 0.25, linear(150, 0.0, PEAK) + cosine(STEPS - 150, PEAK)),
    "long": ("stable", 0.0, cosine(4 * STEPS, PEAK)),
}


def design(runs: Plan, *, anneals: bool = True, seen: float = 1.0) -> Study:
    """Return a study of CPT runs and the PT runs of their bases, measured up to a share of each CPT run."""
    names = [name for name in BASES if anneals or name != "annealed"]
    bases = tuple(Base(name, BASES[name].steps, BASES[name], run=f"pt_{name}") for name in names)
    built = [Run(f"pt_{name}", "pt", BASES[name]) for name in names]
    built += [Run(name, "cpt", schedule, base, r) for name, (base, r, schedule) in runs.items()]
    # Losses that were the very same would say that one run is a branch of another, or given twice.
    apart = {"pt": 1e-4, "cpt": 1e-6}
    rows = [
        (run.name, step, domain, 3.0 + apart[run.phase] * place - 1e-4 * np.log1p(step))
        for place, run in enumerate(built)
        for domain in ("general", "target")
        for step in _steps(run, seen)
    ]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study("design", "general", "target", bases, tuple(built), losses)


def _steps(run: Run, seen: float) -> list[int]:
    steps = run.schedule.steps
    if run.phase == "pt":
        return list(range(200, steps + 1, 200))
    whole = np.linspace(0.0, 1.0, 39) ** 2
    shares = np.concatenate([whole, FIRST * whole])
    return sorted({int(np.ceil(share * steps)) for share in shares[shares <= seen]})


DESIGNS: dict[str, Callable[[], Study]] = {
    # It lacks nothing.
    "full": lambda: design(FULL),
    # No PT run or base anneals.
    "without anneals": lambda: design(
        {name: own for name, own in FULL.items() if own[0] != "annealed"}, anneals=False
    ),
    "one rate": lambda: design({name: own for name, own in FULL.items() if name != "slow"}),
    "one replay": lambda: design({name: (own[0], 0.25, own[2]) for name, own in FULL.items()}),
    "all annealed": lambda: design(
        {name: ("annealed", own[1], FULL["rewarmed"][2]) for name, own in FULL.items()}
    ),
    # Of every CPT run the first steps alone.
    "too short": lambda: design(FULL, seen=FIRST),
}


def laplace_posterior(study: Study, draws: int = 100, seed: int = 0) -> Posterior:
    """Return the posterior that cpt-replay would have if all losses were as its priors' medians say.

    Normal in the free parameters, with the information of the study's points: what a fit comes near to.
    """
    setup = build_setup(read_spec("cpt-replay"), study)
    free = FreeParameters(setup.frame)
    middle = np.zeros(len(free.elements))
    told = np.eye(middle.size)
    for one in information(free, setup.curves, middle).values():
        told = told + one
    noise = np.random.default_rng(seed).standard_normal((middle.size, CHAINS * draws))
    # The inverse of a root of the precision is a root of the covariance.
    places = np.linalg.solve(np.linalg.cholesky(told).T, noise).T
    values = {
        name: value.reshape(CHAINS, draws, *value.shape[1:])
        for name, value in free.values(places).items()
    }
    return as_posterior(setup.frame, study, values)
