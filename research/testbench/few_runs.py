"""How much is enough: forecasts and decisions from 1 to 8 short runs of 500 to 3,000 steps.

From the repository's root::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.few_runs -n 12 --jobs 2 --seed 0 -o OUT

Truths, noise and the long run to choose are those of `testbench.decisions`; each truth is seen through
every number of runs and every length. Forecasts are of long runs that nobody trained, at every point where
these are then measured. A command that was stopped goes on where it was.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.forecast.predict import draws_at
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import cosine
from bayes_cpt.validate.scores import mean_scores, score_points
from testbench.few_runs_report import figure, markdown
from testbench.long_loop import Command, Tables, kept_tables, worlds
from testbench.one_decision import (
    OURS,
    Forecast,
    Outcome,
    Task,
    World,
    choice_rows,
    fitted,
    quality,
)
from testbench.short_studies import (
    FINAL_SHARE,
    LONG,
    MODEL,
    NOISES,
    PEAK,
    RUNS,
    measured_losses,
    plan_of,
    rewarmed,
)

NUMBERS, LENGTHS = (1, 2, 3, 5, 8), (500, 1000, 2000, 3000)
TABLES = ("regrets", "scores", "fits")
DRAWS = 1000
# Replay and peak over PT peak of runs from the annealed base, in the order in which they are trained; None
# starts before the anneal. What differs most from what there is comes next.
ORDER = (
    (0.25, 1.0),
    (0.0, 1.0),
    (0.5, 0.4),
    (0.0, 0.4),
    (0.25, None),
    (0.1, 1.0),
    (0.25, 0.4),
    (0.75, 1.0),
)
LONG_RUNS = tuple(
    Run(f"long {replay:g}", "cpt", rewarmed(LONG, peak), base="annealed", replay=replay)
    for replay, peak in ((0.05, 0.5), (0.15, 1.0), (0.35, 0.7))
)


@dataclass(frozen=True)
class Cell:
    """A truth seen through so many runs of one length.

    Parameters
    ----------
    world : Task
        The truth and its noise.
    number, steps : int
        Of the short runs.
    """

    world: Task
    number: int
    steps: int

    @property
    def label(self) -> str:
        """Its place in the tables."""
        return f"{self.world.label} {self.number} x {self.steps}"


def short_runs(number: int, steps: int) -> tuple[Run, ...]:
    """Return the PT run and the first of the short runs."""
    found = []
    for place, (replay, peak) in enumerate(ORDER[:number], start=1):
        name = f"short {place}"
        if peak is None:
            schedule = cosine(steps, PEAK, FINAL_SHARE * PEAK)
            found.append(Run(name, "cpt", schedule, base="stable", replay=replay))
        else:
            schedule = rewarmed(steps, peak)
            found.append(Run(name, "cpt", schedule, base="annealed", replay=replay))
    return (RUNS[0], *found)


def one_cell(cell: Cell) -> Outcome:
    """Simulate and fit a study, score its forecasts of long runs, and take the regret of its choice."""
    world = World.of(cell.world, short_runs(cell.number, cell.steps))
    seed = int(
        np.random.SeedSequence([cell.world.seed, cell.number, cell.steps]).generate_state(1)[0]
    )
    posterior, diagnostics = fitted(world.study, read_spec(MODEL), seed)
    forecast = Forecast.of(posterior, world.choices)
    tables = {
        "regrets": pd.DataFrame(choice_rows(world, {OURS: forecast.losses.mean(axis=1)})),
        "scores": long_run_scores(world, posterior, seed),
        "fits": pd.DataFrame([quality(diagnostics)]),
    }
    place = {"truth": cell.world.label, "number": cell.number, "steps": cell.steps}
    kind = {"shift": cell.world.shift, "noise": cell.world.noise}
    return Outcome(cell.label, {name: own.assign(**place, **kind) for name, own in tables.items()})


def long_run_scores(world: World, posterior: Posterior, seed: int) -> pd.DataFrame:
    """Return the mean scores of forecasts of long runs, a row per validation set."""
    generator = np.random.default_rng(world.seed_of_ends)
    noise = NOISES[world.noise]
    measured = measured_losses(world.frame, world.truth, noise, world.study, LONG_RUNS, generator)
    points = measured.drop(columns="loss")
    dataset = posterior.predict(plan_of(world.study, LONG_RUNS), at=points, draws=DRAWS, seed=seed)
    scored = score_points(measured, draws_at(dataset["loss"], points))
    return mean_scores(scored, ["domain"])


def cells(truths: int, seed: int) -> list[Cell]:
    """Return all cells, truth by truth, all kinds of truth and noise in turn."""
    sizes = tuple(itertools.product(NUMBERS, LENGTHS))
    return [Cell(world, *size) for world in worlds(truths, seed, "truth") for size in sizes]


def learn_all(truths: int, seed: int, jobs: int, folder: Path | None = None) -> Tables:
    """Return the tables of so many truths; cells that a folder has already are not run again."""
    return kept_tables(one_cell, cells(truths, seed), TABLES, seed, jobs, folder, "fit")


main = Command(
    "testbench.few_runs", __doc__, "truths", 12, learn_all, markdown, figure, "few-runs.png"
)

if __name__ == "__main__":
    main()
