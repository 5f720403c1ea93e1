"""Choose the run of a Delphi scale that ends lowest, from fits that did not see it.

From the repository's root::

    PYTHONPATH=research python -m testbench.delphi_choice data/public/delphi -o OUT

Of the twelve runs of a scale the best is left out, or all but four runs are. Each method says what every
run ends at, also those that it was fitted to, and takes the lowest; a parabola and the nearest run have the
measured ends of these. Regret: what the chosen run measured at its end, less the lowest of the twelve.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import bayes_cpt
from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.decision import TOLERANCE
from bayes_cpt.study.study import Study
from testbench.choosers import our_plug_in, plug_in
from testbench.delphi import FOUR, MNAT, last_losses, nearest, through
from testbench.real_choice import measured_ends
from testbench.report import markdown_table, public_options

OURS = "bayes_cpt"


def predictions(
    fitted: Study, whole: Study, seed: int
) -> Iterator[tuple[str, Floats, Floats | None]]:
    """Yield of each method its name, what it says of all runs, and draws of that where it has some."""
    plan, runs, seen = whole.without_losses(), whole.runs, last_losses(fitted)
    posterior = bayes_cpt.fit(fitted, seed=seed)
    draws = measured_ends(posterior, plan, runs, seed)[0]
    yield OURS, draws.mean(axis=0), draws
    for name, predict in (("point estimate, our law", our_plug_in), ("paper's", plug_in)):
        yield name, predict(fitted, plan, runs, seed)[0], None
    curve = [seen.get(run.name, through(fitted.runs, seen, run, "peak")) for run in runs]
    yield "parabola", np.nan_to_num(curve, nan=np.inf), None
    yield "nearest run", np.array([nearest(fitted.runs, seen, run) for run in runs]), None


def choices(study: Study, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what each method chooses of a scale, and what that was worth."""
    ends = last_losses(study)
    names = [run.name for run in study.runs]
    best = min(ends, key=ends.__getitem__)
    for question, kept in (("the best left out", set(names) - {best}), ("from four", set(FOUR))):
        for method, expected, draws in predictions(study.subset(kept), study, seed):
            chosen = int(np.argmin(expected))
            row: dict[str, Any] = {
                "scale": study.name,
                "question": question,
                "best": best,
                "method": method,
            }
            row |= {"chosen": names[chosen], "regret": MNAT * (ends[names[chosen]] - ends[best])}
            if draws is not None:
                regret = draws[:, chosen] - draws.min(axis=1)
                row |= {"stated": MNAT * regret.mean(), "within 5": (regret < TOLERANCE).mean()}
            yield row


def main() -> None:
    """Choose at all scales, and print a row for each question and method."""
    asked = public_options("delphi_choice", __doc__).parse_args()
    warnings.simplefilter("ignore")
    folders = [path for path in sorted(asked.folder.iterdir()) if path.is_dir()]
    asked.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for path in folders:
        rows += choices(bayes_cpt.read_study(path), asked.seed)
        found = pd.DataFrame(rows)
        found.round(4).to_csv(asked.out / "choices.csv", index=False)
    sys.stdout.write(markdown_table(found.round(2).fillna("").astype(str)) + "\n")


if __name__ == "__main__":
    main()
