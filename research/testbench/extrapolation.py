"""Do errors grow beyond the steps that were fitted, and do bands know it? From the points of a suite.

From the repository's root, after ``python -m testbench.public STUDIES -o OUT``::

    PYTHONPATH=research python -m testbench.extrapolation OUT/records/points.csv

Points are sorted by their step over the longest run that was fitted. Each run of a study counts alike, and
each study.
"""

import argparse
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

# Ends of the ranges of steps over the longest fitted run.
EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, np.inf)
# Sds of a normal that its central 90 % interval is wide.
SDS = 2.0 * NormalDist().inv_cdf(0.95)
APART = ": "


def errors_by_steps(points: pd.DataFrame) -> pd.DataFrame:
    """Return errors beside what was stated of them, one row per range of steps.

    Parameters
    ----------
    points : DataFrame
        One row per forecast point of one method, as `testbench.public` keeps them.

    Returns
    -------
    DataFrame
        Columns steps (over the longest fitted run), studies, runs, error (root of the mean square,
        nats/token), stated (the same of the sd by the 90 % bands), ratio (root of the mean square of errors
        over their sds: 1 where bands state what comes), covered (share in 90 % bands).
    """
    sd = points["width_90"] / SDS
    table = pd.DataFrame(
        {
            # The words before are the method, those after the fold.
            "study": points["task"].str.split(APART).str[1],
            "run": points["run"],
            # A last step may lie a rounding beyond that of the run it is compared with.
            "steps": pd.cut(points["ratio"].round(3), EDGES),
            "error": points["error"] ** 2,
            "stated": sd**2,
            "ratio": (points["error"] / sd) ** 2,
            "covered": points["covered_90"],
        }
    )
    by_run = table.groupby(["steps", "study", "run"], observed=True).mean()
    by_study = by_run.groupby(["steps", "study"], observed=True).mean()
    means = by_study.groupby("steps", observed=True).mean()
    means[["error", "stated", "ratio"]] **= 0.5
    means.insert(0, "runs", by_run.groupby("steps", observed=True).size())
    means.insert(0, "studies", by_study.groupby("steps", observed=True).size())
    return means.reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m testbench.extrapolation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("points", type=Path, help="records/points.csv of a suite")
    parser.add_argument("--method", default="bayes_cpt")
    parser.add_argument("--without", default="", help="studies to leave out, separated by commas")
    options = parser.parse_args()
    points = pd.read_csv(options.points)
    study = points["task"].str.split(APART).str[1]
    left_out = list(filter(None, options.without.split(",")))
    unknown = set(left_out) - set(study)
    if unknown or options.method not in set(points["method"]):
        parser.error(f"{options.points} has no {', '.join(sorted(unknown)) or options.method}")
    chosen = points[(points["method"] == options.method) & ~study.isin(left_out)]
    sys.stdout.write(errors_by_steps(chosen).round(4).to_string(index=False) + "\n")


if __name__ == "__main__":
    main()
