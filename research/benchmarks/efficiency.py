"""Least bulk ESS per second and per gradient on the bundled study, beside other ways to sample the law.

The others sample the coefficients of the printed equation themselves (`benchmarks.natural`), with the same
law, likelihood and priors on the residuals, from a start in the middle of the posterior, which they would
have to find. For them only what comes after tuning counts, for the package also tuning and whitening.
Compilation counts for none. Seconds are those of a core.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import density_of
from bayes_cpt.inference.sampling import Sample, sample
from bayes_cpt.model.build import model_of
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.spec import read_spec
from benchmarks.natural import ess, known_values, priors
from benchmarks.report import Row, core_seconds

SEED = 1
# Module, what it needs, tuning and kept draws of its one chain, and what must be reached against it.
OTHERS = {
    "natural parameters, PyMC": ("natural_pymc", "pymc", 300, 200, 500.0),
    "natural parameters, NumPyro, dense mass": ("natural_numpyro", "numpyro", 100, 50, 1.0),
    "natural parameters, Stan": ("natural_stan", "stan", 100, 50, 1.0),
}
PER_GRADIENT = 0.1


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Yield ESS per second and per gradient of the package, and beside each of the others."""
    setup = build_setup(read_spec("cpt-replay"), lab())
    density = density_of(model_of(setup))
    # The first, short run compiles.
    sample(density, SEED, draws=20, efforts=_efforts()[:1])
    found, seconds = core_seconds(lambda: sample(density, SEED, draws=200 if quick else None))
    drawn = _natural(setup, found)
    size = ess(drawn)
    rate, gradients = size / seconds, int(found.statistics["n_steps"].sum())
    yield Row("seconds of a core: whitening, tuning, draws", seconds, "s")
    yield Row("least bulk ESS", size, "draws")
    yield Row("least bulk ESS a gradient, after tuning", size / gradients, "", "", None,
              f">= {PER_GRADIENT}", size / gradients >= PER_GRADIENT)  # fmt: skip
    start = {name: np.median(values, axis=(0, 1)) for name, values in drawn.items()}
    for name, (module, needs, tune, draws, target) in OTHERS.items():
        if find_spec(needs) is None:
            yield Row(f"ESS a second beside {name}: {needs} is not installed", rate, "1/s")
            continue
        own = import_module(f"benchmarks.{module}").sample
        share = 10 if quick else 1
        yield from _beside(name, own, setup, start, (tune // share, draws // share), rate, target)


def _efforts() -> Any:
    from bayes_cpt.inference.sampling import EFFORTS

    return EFFORTS


def _natural(setup: Setup, found: Sample) -> dict[str, Floats]:
    """Return the draws as those of the coefficients and residual parameters that the others sample."""
    frame = setup.frame
    own = known_values(found.values | frame.law.coefficients(found.values, np))
    return own | {name: found.values[name] for name in priors(setup) if name not in own}


def _beside(
    name: str,
    own: Callable[..., Any],
    setup: Setup,
    start: dict[str, Floats],
    length: tuple[int, int],
    rate: float,
    target: float,
) -> list[Row]:
    sys.stderr.write(f"  {name} ...\n")
    drawn, seconds, gradients = own(setup, start, *length, SEED)
    size = ess(drawn)
    other = size / seconds
    note = f"{name}, {length[0]} + {length[1]} draws"
    return [
        Row("least bulk ESS a second of a core", rate, "1/s", note, other,
            f">= {target:g}x", rate >= target * other),
        Row(f"gradients a draw: {name}", gradients / length[1], ""),
        Row(f"a gradient: {name}", 1e3 * seconds / gradients, "ms"),
        Row(f"least bulk ESS a gradient: {name}", size / gradients, ""),
    ]  # fmt: skip
