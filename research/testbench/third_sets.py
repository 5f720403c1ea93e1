"""Forecasts of third validation sets (Eq. 6) on runs that no fit saw, set by set.

From the repository's root::

    PYTHONPATH=research python -m testbench.third_sets data/cpt-lab -o OUT
    PYTHONPATH=research python -m testbench.third_sets data/cpt-lab tests/data/cpt-lab-practice -o OUT

With one study each CPT run is left out in turn, with two the runs of the second are predicted. Stopped, the
same command goes on. What is predicted is scored beside the base's own loss, which is what one would say
of a set that nothing was known of.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.errors import StudyWarning
from bayes_cpt.forecast.predict import draws_at
from bayes_cpt.forecast.third_sets import third_names, weight_table
from bayes_cpt.inference.fitting import fit
from bayes_cpt.inference.posterior import Posterior, load
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold, leave_run_out, other_study
from bayes_cpt.validate.scores import EQUAL_RUNS, score_points, summarize
from bayes_cpt.validate.tasks import task_seed
from testbench.report import markdown_table

SCORES = {"crps": "CRPS", "mae": "MAE", "bias": "bias", "width_90": "width of 90 %"}
SHARES = {"coverage_50": "in 50 %", "coverage_90": "in 90 %"}


def measured_points(study: Study, fold: Fold, names: Sequence[str]) -> pd.DataFrame:
    """Return what was measured of third sets on the runs of a fold: run, domain, step, loss, start."""
    rows = study.losses[study.losses["domain"].isin(names) & (study.losses["step"] > 0)]
    kept = rows[rows["run"].isin([run.name for run in fold.question.plan.continual_runs])]
    starts = [
        study.base_loss(str(study.run(run).base), domain)
        for run, domain in zip(kept["run"], kept["domain"], strict=True)
    ]
    return kept.assign(start=starts).reset_index(drop=True)


def scored(posterior: Posterior, fold: Fold, points: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return `score_points` of the forecast of a fold, with the error of the base's own loss."""
    names = tuple(dict.fromkeys(points["domain"]))
    forecast = posterior.predict(
        fold.question.plan, kind="new_run", at=points, seed=seed, sets=names
    )
    found = score_points(points, draws_at(forecast["loss"], points))
    return found.assign(no_change=np.abs(found["loss"] - found["start"]))


def set_table(points: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
    """Return one row per set: scores with each run counting alike, and its weights."""
    rows = []
    for name, own in points.groupby("domain", sort=False):
        means = summarize(own)
        chosen = means[(means["run"] == EQUAL_RUNS) & (means["domain"] == name)].iloc[0]
        weight = weights.set_index("domain").loc[name]
        shares = {words: f"{100 * chosen[key]:.0f} %" for key, words in SHARES.items()}
        rows.append(
            {
                "set": name,
                "w of general": _interval(weight, "general"),
                "w of target": _interval(weight, "target"),
                "explained": f"{100 * weight['explained']:.0f} %",
                "runs": own["run"].nunique(),
                **shares,
                **{words: float(chosen[key]) for key, words in SCORES.items()},
                "MAE of the base's loss": float(own.groupby("run")["no_change"].mean().mean()),
            }
        )
    return pd.DataFrame(rows)


def _interval(row: pd.Series, name: str) -> str:
    return f"{row[name]:.2f} ({row[f'{name}_lower']:.2f} to {row[f'{name}_upper']:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.third_sets", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fit_study", type=Path, help="study folder to fit")
    parser.add_argument("held_out_study", type=Path, nargs="?", help="study folder to predict")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--fit", type=Path, help="a saved fit of the whole study, to spare that one"
    )
    parser.add_argument("--model", default="cpt-replay")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", StudyWarning)
    spec, study = read_spec(options.model), read_study(options.fit_study)
    whole = load(options.fit) if options.fit else fit(study, spec, options.seed)
    names, measured = third_names(study), study
    if options.held_out_study:
        measured = read_study(options.held_out_study)
        folds = other_study(study, measured, spec)
    else:
        folds = leave_run_out(study, spec)
    options.out.mkdir(parents=True, exist_ok=True)
    parts = []
    for fold in folds:
        path = options.out / f"{fold.label}.csv"
        if not path.exists():
            seed = task_seed(options.seed, fold.label)
            posterior = whole if measured is not study else fit(fold.question.study, spec, seed)
            points = measured_points(measured, fold, names)
            scored(posterior, fold, points, seed).to_csv(path, index=False)
        parts.append(pd.read_csv(path))
    table = set_table(pd.concat(parts, ignore_index=True), weight_table(whole))
    table.to_csv(options.out / "table.csv", index=False)
    sys.stdout.write(markdown_table(table) + "\n")


if __name__ == "__main__":
    main()
