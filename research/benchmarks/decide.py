"""Time the losses of 100,000 configurations in 1,000 posterior draws on two validation sets.

Printed beside it are the exponentials and logarithms that the law needs, evaluated by NumPy in single
precision on arrays that stay in the cache. No loss can be had without three of them: one exponential for
the power of the forward area, a logarithm and an exponential for the progress of the shift.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from synthetic import CHAINS, lab, prior_as_posterior

from bayes_cpt.decisions.final_losses import Block, FinalLosses
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.decisions.space import read_space
from benchmarks.report import Row, peak_memory

# Everything in ranges: hardly two candidates share a replay ratio and a length.
SPACE = {
    "replay": {"low": 0.0, "high": 0.8},
    "relative_peak": {"low": 0.1, "high": 1.0},
    "steps": {"low": 1000, "high": 12_000},
    "decay_shape": ["cosine", "linear"],
    "decay_share": 1.0,
    "relative_final": 0.1,
}
NEEDED = (np.exp, np.log1p, np.expm1)
REPEATS = 3
CANDIDATES, LONGEST = 100_000, 6.0


def timed(function: Callable[[], Any]) -> float:
    """Return the shortest of some times, seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def raw_cost(evaluations: int, cores: int) -> float:
    """Return the seconds that NumPy needs for as many of each function needed."""
    values = np.random.default_rng(0).random(2**15, dtype=np.float32)

    def work(count: int) -> None:
        found = np.empty_like(values)
        for _ in range(count):
            for function in NEEDED:
                function(values, out=found)

    share = evaluations // values.size // cores
    with ThreadPoolExecutor(cores) as pool:
        return timed(lambda: list(pool.map(work, [share] * cores)))


def summarise(block: Block) -> tuple[Any, Any, Any]:
    """Return what a decision keeps of a block: means, each draw's best, and which it is."""
    value = block.losses.mean(axis=0)
    best = value.min(axis=0)
    return block.losses.mean(axis=2), best, (value == best).argmax(axis=0)


def measure(*, quick: bool = False) -> list[Row]:
    """Return the rows of the table of all benchmarks."""
    return rows_of(candidates=2000 if quick else CANDIDATES, draws=1000, cores=2)


def rows_of(candidates: int, draws: int, cores: int) -> list[Row]:
    """Return what so many candidates and draws cost."""
    posterior = prior_as_posterior(lab(), draws=draws // CHAINS)
    model = FinalLosses.of(posterior, draws)
    space = SearchSpace.of(read_space(SPACE), posterior.study)
    some = space.sample(candidates, seed=0).take(np.arange(candidates))
    evaluations = len(model.domains) * len(some) * model.draws
    before = peak_memory()
    busy = time.process_time()
    seconds = timed(lambda: model.map(some, summarise, cores=cores))
    busy = (time.process_time() - busy) / REPEATS
    memory = peak_memory()
    raw = raw_cost(evaluations, cores)
    size = f"{len(some):,} candidates x {model.draws:,} draws x {len(model.domains)} sets, {cores} cores"
    return [
        Row(
            size,
            seconds,
            "s",
            "exp, log1p and expm1 of NumPy alone",
            raw,
            f"<= {LONGEST:g} s",
            seconds <= LONGEST if candidates >= CANDIDATES else None,
        ),
        Row("the same, of a core", busy, "s"),
        Row("a loss", 1e9 * seconds / evaluations, "ns"),
        Row("peak memory", memory, "MiB", "before", before),
    ]
