"""How much is enough: forecasts and decisions from 1 to 8 short runs of 500 to 3,000 steps.

From the repository's root::

    OMP_NUM_THREADS=1 PYTHONPATH=tests python -m testbench.few_runs -n 12 --jobs 2 --seed 0 -o OUT

Truths, noise and the long run to choose are those of `testbench.decisions`; each truth is seen through
every number of runs and every length. Forecasts are of long runs that nobody trained, at every point where
these are then measured. A command that was stopped goes on where it was.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.posterior import Posterior
from bayes_cpt.runs import Run
from bayes_cpt.schedules import cosine
from bayes_cpt.validate.parallel import Pool, task_seed
from bayes_cpt.validate.records import Records
from bayes_cpt.validate.scores import mean_scores, score_points
from testbench.few_runs_report import figure, markdown
from testbench.one_decision import (
    OURS,
    SHIFTS,
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
    NOISES,
    PEAK,
    RUNS,
    measured_losses,
    plan_of,
    rewarmed,
)

NUMBERS, LENGTHS = (1, 2, 3, 5, 8), (500, 1000, 2000, 3000)
TABLES = ("regrets", "scores", "fits")
KINDS = tuple(itertools.product(SHIFTS, NOISES))
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
    posterior, diagnostics = fitted(world.study, world.frame.spec, seed)
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
    loss = (
        dataset["loss"].stack(sample=("chain", "draw")).transpose("sample", "run", "domain", "step")
    )
    places = (
        dataset.indexes[name].get_indexer(measured[name]) for name in ("run", "domain", "step")
    )
    scored = score_points(measured, loss.to_numpy()[:, *places])
    return mean_scores(scored, ["domain"])


def cells(truths: int, seed: int) -> list[Cell]:
    """Return all cells, truth by truth, all kinds of truth and noise in turn."""
    found = []
    for number in range(truths):
        shift, noise = KINDS[number % len(KINDS)]
        world = Task(str(number), shift, noise, task_seed(seed, f"truth {number}"))
        found += [Cell(world, *place) for place in itertools.product(NUMBERS, LENGTHS)]
    return found


def learn_all(
    truths: int, seed: int, jobs: int, folder: Path | None = None
) -> dict[str, pd.DataFrame]:
    """Return the tables of so many truths; cells that a folder has already are not run again."""
    records = Records.open(folder, {"seed": seed}, TABLES)
    wanted = cells(truths, seed)
    left = [cell for cell in wanted if cell.label not in records.done]
    for number, done in enumerate(
        Pool(jobs).run(one_cell, left), start=len(wanted) - len(left) + 1
    ):
        records.add(done.task, done.tables)
        sys.stderr.write(f"fit {number} of {len(wanted)}\n")
    labels = {cell.label for cell in wanted}
    return {name: own[own["task"].isin(labels)] for name, own in records.tables.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.few_runs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", "--truths", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, help="folder for tables, report.md and a figure")
    options = parser.parse_args(arguments)
    tables = learn_all(options.truths, options.seed, options.jobs, options.out)
    report = markdown(tables)
    sys.stdout.write(report)
    if options.out:
        (options.out / "report.md").write_text(report, encoding="utf-8")
        figure(tables).savefig(options.out / "few-runs.png", dpi=110)


if __name__ == "__main__":
    main()
