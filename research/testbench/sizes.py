"""Forecast the largest model of a family from the smaller ones, against that model alone and a power law.

From the repository's root, with the public studies beside it::

    PYTHONPATH=research python -m testbench.sizes ../shared/data/public -o OUT
    PYTHONPATH=research python -m testbench.sizes ../shared/data/public -o OUT --family slimpajama

All runs of the smaller models of a family, those of `fit/` and of `predict/`, make one study. The runs of
the largest in its `predict/` are forecast: from the smaller models alone; from the largest one's own short
runs in `fit/`, or the first fifth of these, with the smaller models and without; and (their last losses) by
``E + F·N^-a + D·T^-b`` through the last losses of all runs that decay.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.predict import draws_at, predict
from bayes_cpt.inference.fitting import fit
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.scores import mean_scores, score_points
from testbench.report import markdown_table

# Studies of one family and one data set, the smallest model first.
FAMILIES = {
    "slimpajama": ("size-8x6", "size-8x8", "size-10x8", "size-12x10", "size-16x12"),
    "ladder": ("ladder-190m", "ladder-370m"),
}
SIZES, ALONE, POWER_LAW = "smaller models", "largest alone", "power law of last losses"
BOTH = "smaller models and its short runs"
EARLY, EARLY_ALONE = "smaller models and the first fifth of these", "first fifth of these alone"
FIRST = 0.2
SIZED, ONE_SIZE = "pretrain-sizes", "pretrain"
# A run that ends below this share of its peak has decayed.
DECAYED = 0.2
COLUMNS = ["run", "domain", "step", "loss"]


@dataclass(frozen=True)
class Family:
    """Studies of the smaller models, and the largest one's short and long runs."""

    smaller: Study
    short: Study
    long: Study

    @property
    def early(self) -> Study:
        """The first fifth of the largest one's short runs."""
        last = {run.name: int(FIRST * run.schedule.steps) for run in self.short.runs}
        return self.short.truncated(last)

    def with_smaller(self, own: Study) -> Study:
        """Return the smaller models together with runs of the largest."""
        return joined([self.smaller, own])


def read_family(folder: Path, names: Sequence[str]) -> Family:
    """Return the studies of a family, the last of which is the largest's."""
    smaller = [
        read_study(folder / name / part) for name in names[:-1] for part in ("fit", "predict")
    ]
    short, long = (read_study(folder / names[-1] / part) for part in ("fit", "predict"))
    return Family(joined(smaller), joined([short]), joined([long]))


def joined(studies: Sequence[Study]) -> Study:
    """Return PT studies of one validation set as one, each run named by its size too."""
    runs, tables = [], []
    for study in studies:
        names = {run.name: _named(run.name, float(run.model_size or 0.0)) for run in study.runs}
        runs += [replace(run, name=names[run.name]) for run in study.runs]
        tables.append(study.losses.assign(run=study.losses["run"].map(names)))
    first = studies[0]
    return Study(
        "family", first.general, None, (), tuple(runs), pd.concat(tables, ignore_index=True)
    )


def _named(name: str, size: float) -> str:
    prefix = f"{size:g}M_"
    return name if name.startswith(prefix) else prefix + name


def forecast(fitted: Study, model: str, asked: Study, seed: int, draws: int) -> pd.DataFrame:
    """Return the scores of a fit's forecast at all measured points (see `measured`, `score_points`)."""
    posterior = fit(fitted, model, seed, draws=draws)
    points = measured(asked)
    found = predict(posterior, asked.without_losses(), at=points[COLUMNS[:3]], seed=seed)
    for problem in posterior.problems:
        sys.stderr.write(f"{model}: {problem}\n")
    return score_points(points, draws_at(found["loss"], points))


def measured(study: Study) -> pd.DataFrame:
    """Return the losses of runs after a tenth of their steps, where the power law holds."""
    steps = study.losses["run"].map({run.name: run.schedule.steps for run in study.runs})
    kept = study.losses[study.losses["step"] > 0.1 * steps]
    return kept[COLUMNS].reset_index(drop=True)


def last_losses(study: Study) -> pd.DataFrame:
    """Return the last loss of every run that decays, with its size and steps."""
    rows = []
    for run in study.runs:
        steps, losses = study.curve(run.name, study.general)
        if (
            run.schedule.final <= DECAYED * run.schedule.peak
            and steps[-1] >= 0.98 * run.schedule.steps
        ):
            row = (run.name, study.general, int(steps[-1]), float(losses[-1]))
            rows.append((*row, study.model_size(run), run.schedule.steps))
    return pd.DataFrame(rows, columns=[*COLUMNS, "size", "length"])


def power_law(fitted: Study, asked: Study) -> pd.DataFrame:
    """Return the scores of ``E + F·N^-a + D·T^-b`` by least squares, with errors of the fitted losses."""
    told, points = last_losses(fitted), last_losses(asked)
    scales = np.log([told["size"].mean(), told["length"].mean()])

    def at(values: Floats, table: pd.DataFrame) -> Floats:
        size, length = (np.log(table[name].to_numpy()) for name in ("size", "length"))
        floor, per_size, exponent, per_length, other = values
        of_size = np.exp(per_size - np.exp(exponent) * (size - scales[0]))
        return np.asarray(
            floor + of_size + np.exp(per_length - np.exp(other) * (length - scales[1]))
        )

    start = np.array([told["loss"].min() - 1.0, -0.7, -1.0, -0.7, -1.0])
    found = least_squares(lambda values: at(values, told) - told["loss"].to_numpy(), start)
    freedom = max(len(told) - start.size, 1)
    sd = float(np.sqrt(2.0 * found.cost / freedom))
    normals = np.random.default_rng(0).standard_normal((1000, len(points)))
    return score_points(points[COLUMNS], at(found.x, points) + sd * normals)


def compare(
    family: Family, seed: int, draws: int, methods: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return mean scores by method: at all points of the long runs, and at their last losses.

    Parameters
    ----------
    family : Family
    seed : int
    draws : int
    methods : sequence of str
        Some of the fits; all unless given.
    """
    asked = family.long
    fits = {
        SIZES: (family.smaller, SIZED),
        EARLY: (family.with_smaller(family.early), SIZED),
        BOTH: (family.with_smaller(family.short), SIZED),
        EARLY_ALONE: (family.early, ONE_SIZE),
        ALONE: (family.short, ONE_SIZE),
    }
    kept = {name: fits[name] for name in (methods or fits)}
    scored = {
        name: forecast(study, model, asked, seed, draws) for name, (study, model) in kept.items()
    }
    everywhere = pd.concat([own.assign(method=name) for name, own in scored.items()])
    ends = last_losses(asked)[["run", "step"]]
    last = [own.merge(ends, on=["run", "step"]).assign(method=name) for name, own in scored.items()]
    last.append(power_law(family.smaller, asked).assign(method=POWER_LAW))
    return mean_scores(everywhere, ["method"]), mean_scores(pd.concat(last), ["method"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.sizes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1000, help="of each chain")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.family or FAMILIES:
        family = read_family(options.folder, FAMILIES[name])
        tables = compare(family, options.seed, options.draws)
        for what, table in zip(("points", "last losses"), tables, strict=True):
            table.to_csv(options.out / f"{name}-{what.replace(' ', '-')}.csv", index=False)
            sys.stdout.write(f"{name}, {what}\n{markdown_table(table)}\n\n")


if __name__ == "__main__":
    main()
