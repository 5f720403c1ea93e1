"""Score forecasts of runs that no fit has seen, also by a method that the package does not ship.

From the repository's root::

    PYTHONPATH=tests python -m testbench.held_out data/cpt-lab tests/data/cpt-lab-practice
    PYTHONPATH=tests python -m testbench.held_out --leave-run-out data/cpt-lab --methods paper

Folds, scores and the other methods are those of `bayes-cpt validate forecast`. A further method is one more
entry of `METHODS`.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from bayes_cpt.readers.folder import read_study
from bayes_cpt.spec import read_spec
from bayes_cpt.validate.folds import Question, leave_run_out, other_study
from bayes_cpt.validate.held_out import (
    OURS,
    PAPER,
    Answer,
    Method,
    package_method,
    paper_answer,
    score_folds,
)
from bayes_cpt.validate.parallel import Pool
from bayes_cpt.validate.scores import summarize
from testbench import independent_errors
from testbench.report import draw_bands, markdown_report

SPEC = read_spec("cpt-replay")


def independent_answer(question: Question, seed: int) -> Answer:
    """Answer by the printed law with independent Gaussian errors."""
    study, plan, points = question.study, question.plan, question.points
    return Answer(independent_errors.predict(study, plan, points, seed=seed))


METHODS: dict[str, Method] = {
    PAPER: paper_answer,
    "independent": independent_answer,
    OURS: partial(package_method, spec=SPEC),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.held_out", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fit_study", type=Path, help="study folder to fit")
    parser.add_argument("held_out_study", type=Path, nargs="?", help="study folder to predict")
    parser.add_argument("--leave-run-out", action="store_true", help="predict each CPT run in turn")
    parser.add_argument("--methods", default=",".join(METHODS), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for CSV tables and figures")
    options = parser.parse_args(arguments)
    names = options.methods.split(",")
    if unknown := sorted(set(names) - set(METHODS)):
        parser.error(f"unknown methods {', '.join(unknown)}: choose from {', '.join(METHODS)}")
    if options.leave_run_out == (options.held_out_study is not None):
        parser.error("give either HELD_OUT_STUDY or --leave-run-out")

    fit_study = read_study(options.fit_study)
    folds = (
        leave_run_out(fit_study, SPEC)
        if options.leave_run_out
        else other_study(fit_study, read_study(options.held_out_study), SPEC)
    )
    methods = {name: METHODS[name] for name in names}
    scored, refits = score_folds(folds, methods, options.seed, pool=Pool(options.jobs))
    by_method = {name: summarize(rows) for name, rows in scored.groupby("method", sort=False)}
    summary = pd.concat([table.assign(method=name) for name, table in by_method.items()])
    seconds = refits.groupby("method", sort=False)["seconds"].sum()
    sys.stdout.write(markdown_report(summary, seconds.to_dict(), ours=OURS) + "\n")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        scored.to_csv(options.out / "points.csv", index=False)
        summary.to_csv(options.out / "summary.csv", index=False)
        for domain, rows in scored.groupby("domain", sort=False):
            draw_bands(rows).savefig(options.out / f"bands-{domain}.png", dpi=80)


if __name__ == "__main__":
    main()
