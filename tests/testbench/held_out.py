"""Score forecasts of runs that no fit has seen.

From the repository's root::

    PYTHONPATH=tests python -m testbench.held_out data/cpt-lab tests/data/cpt-lab-practice
    PYTHONPATH=tests python -m testbench.held_out --leave-run-out data/cpt-lab --methods paper

A further method is one more entry of `METHODS`.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from bayes_cpt.readers.folder import read_study
from bayes_cpt.study import Study
from bayes_cpt.validate import paper_method
from bayes_cpt.validate.printed_law import Floats
from bayes_cpt.validate.scores import score_points, summarize
from testbench import independent_errors, package_method
from testbench.report import draw_bands, markdown_report


class Method(Protocol):
    """A way to forecast: fits a study and returns draws of the losses of a plan."""

    def __call__(
        self, fit_study: Study, plan: Study, points: pd.DataFrame, *, seed: int = 0
    ) -> Floats:
        """Return draws, shape (draws, points), for points with the columns run, domain, step.

        The plan holds no losses but those of its bases, at step 0.
        """
        ...


METHODS: dict[str, Method] = {
    "paper": paper_method.predict,
    "independent": independent_errors.predict,
    "bayes_cpt": package_method.predict,
}


@dataclass(frozen=True, eq=False)
class Task:
    """A study to fit, runs to predict, and their measured losses to score against.

    Parameters
    ----------
    fit_study, plan : Study
    measured : DataFrame
        Columns run, domain, step (> 0) and loss, of the general and the target validation set.
    """

    fit_study: Study
    plan: Study
    measured: pd.DataFrame


def held_out_task(fit_study: Study, held_out: Study) -> Task:
    """Return the task to predict all CPT runs of another study."""
    runs = [run.name for run in held_out.continual_runs]
    rows = held_out.losses
    chosen = (
        rows["run"].isin(runs)
        & rows["domain"].isin([fit_study.general, fit_study.target])
        & (rows["step"] > 0)
    )
    measured = rows.loc[chosen, ["run", "domain", "step", "loss"]].reset_index(drop=True)
    return Task(fit_study, held_out.subset(runs).without_losses(), measured)


def leave_run_out_tasks(study: Study) -> Iterator[Task]:
    """Yield one task per CPT run: predict it from all other runs."""
    for run in study.continual_runs:
        others = study.subset(other.name for other in study.runs if other.name != run.name)
        yield held_out_task(others, study.subset([run.name]))


def score_methods(
    tasks: Sequence[Task], methods: Mapping[str, Method], seed: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the scores of every point, with a column method, and the seconds each method took."""
    scored, seconds = [], {}
    for name, method in methods.items():
        began = time.perf_counter()
        for task in tasks:
            # Methods get no losses, so none can look at them.
            points = task.measured[["run", "domain", "step"]]
            draws = method(task.fit_study, task.plan, points, seed=seed)
            scored.append(score_points(task.measured, draws).assign(method=name))
        seconds[name] = time.perf_counter() - began
    return pd.concat(scored, ignore_index=True), seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.held_out", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fit_study", type=Path, help="study folder to fit")
    parser.add_argument("held_out_study", type=Path, nargs="?", help="study folder to predict")
    parser.add_argument("--leave-run-out", action="store_true", help="predict each CPT run in turn")
    parser.add_argument("--methods", default=",".join(METHODS), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for CSV tables and figures")
    options = parser.parse_args(arguments)
    names = options.methods.split(",")
    if unknown := sorted(set(names) - set(METHODS)):
        parser.error(f"unknown methods {', '.join(unknown)}: choose from {', '.join(METHODS)}")
    if options.leave_run_out == (options.held_out_study is not None):
        parser.error("give either HELD_OUT_STUDY or --leave-run-out")

    fit_study = read_study(options.fit_study)
    tasks = (
        list(leave_run_out_tasks(fit_study))
        if options.leave_run_out
        else [held_out_task(fit_study, read_study(options.held_out_study))]
    )
    scored, seconds = score_methods(tasks, {name: METHODS[name] for name in names}, options.seed)
    by_method = {name: summarize(rows) for name, rows in scored.groupby("method", sort=False)}
    summary = pd.concat([table.assign(method=name) for name, table in by_method.items()])
    sys.stdout.write(markdown_report(summary, seconds, ours="bayes_cpt") + "\n")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        scored.to_csv(options.out / "points.csv", index=False)
        summary.to_csv(options.out / "summary.csv", index=False)
        for domain, rows in scored.groupby("domain", sort=False):
            draw_bands(rows).savefig(options.out / f"bands-{domain}.png", dpi=80)


if __name__ == "__main__":
    main()
