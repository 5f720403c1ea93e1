"""Forecast a scale of the Delphi sweep from the others: differences between its runs, and its best run.

From the repository's root::

    PYTHONPATH=research python -m testbench.fourth_scale data/public/delphi -o OUT --held 2e20

Four runs of each other scale are fitted by `cpt-replay-sizes`; of the held-out scale its base is known.
The level of a scale is not comparable with that of another (its validation set holds near-duplicates of
training documents), so the mean error over its runs is told apart from what is left.
"""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd

import bayes_cpt
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from testbench.delphi import FOUR, MNAT
from testbench.report import markdown_table, public_options

MODEL = "cpt-replay-sizes"


def part(folder: Path, names: tuple[str, ...] | None) -> tuple[Base, list[Run], pd.DataFrame]:
    """Return base, runs and losses of a scale, or of some of its runs, named after it."""
    study = bayes_cpt.read_study(folder)
    runs = [run for run in study.runs if names is None or run.name in names]
    kept = study.losses["run"].isin([run.name for run in runs])
    losses = study.losses[kept & (study.losses["domain"] == study.target)]
    named = [replace(run, name=f"{folder.name}_{run.name}") for run in runs]
    return study.bases[0], named, losses.assign(run=folder.name + "_" + losses["run"])


def main() -> None:
    """Fit three scales, and print the errors on the fourth."""
    parser = public_options("fourth_scale", __doc__)
    parser.add_argument("--held", default="2e20", help="the scale to forecast")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    scales = [path for path in sorted(asked.folder.iterdir()) if path.is_dir()]
    parts = [part(path, FOUR) for path in scales if path.name != asked.held]
    bases, runs = tuple(own[0] for own in parts), tuple(run for own in parts for run in own[1])
    losses = pd.concat([own[2] for own in parts], ignore_index=True)
    posterior = bayes_cpt.fit(
        Study("three scales", None, "math", bases, runs, losses), MODEL, asked.seed
    )
    base, planned, measured = part(asked.folder / asked.held, None)
    starts = measured[measured["step"] == 0]
    plan = Study("the fourth", None, "math", (base,), tuple(planned), starts, is_plan=True)
    at = pd.DataFrame([(r.name, "math", r.schedule.steps) for r in planned])
    at.columns = ["run", "domain", "step"]
    ends = bayes_cpt.bands(posterior, plan, at=at)
    ends["truth"] = ends["run"].map(measured.groupby("run")["loss"].last())
    error = MNAT * (ends["mean"] - ends["truth"])
    chosen = ends.loc[ends["mean"].idxmin()]
    found = pd.DataFrame(
        {
            "held out": [asked.held],
            "trusted": [posterior.trustworthy],
            "level, mnat": [error.mean()],
            "level in its band": [ends["truth"].between(ends["lower"], ends["upper"]).mean()],
            "differences, mnat": [(error - error.mean()).abs().mean()],
            "chosen": [chosen["run"]],
            "regret, mnat": [MNAT * (chosen["truth"] - ends["truth"].min())],
        }
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    ends.to_csv(asked.out / f"{asked.held}.csv", index=False)
    found.to_csv(asked.out / f"{asked.held}-summary.csv", index=False)
    sys.stdout.write(markdown_table(found) + "\n")


if __name__ == "__main__":
    main()
