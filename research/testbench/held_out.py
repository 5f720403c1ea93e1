"""Score forecasts of held-out runs, also by methods that the package does not ship.

From the repository's root::

    PYTHONPATH=research python -m testbench.held_out data/cpt-lab tests/data/cpt-lab-practice
    PYTHONPATH=research python -m testbench.held_out --leave-run-out data/cpt-lab --methods paper
    PYTHONPATH=research python -m testbench.held_out --leave-run-out data/cpt-lab --last \
        --methods bayes_cpt,d-cpt,data-mixing
    PYTHONPATH=research python -m testbench.held_out data/public/mpl-25m --model pretrain \
        --fit-runs cosine_24000,constant_24000,wsdcon_9

Folds and scores are those of `bayes-cpt validate`. A further method is one more entry of
`METHODS`.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.validate.folds import Fold, held_out_folds, other_study
from bayes_cpt.validate.held_out import OURS, Method, package_method, score_folds
from bayes_cpt.validate.scores import summarize
from bayes_cpt.validate.tasks import Pool
from testbench.baselines import FINAL_LOSS_ANSWERS, PAPER, paper_answer
from testbench.report import draw_bands, markdown_report, options_of

METHODS: dict[str, Method] = {PAPER: paper_answer, **FINAL_LOSS_ANSWERS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = options_of("held_out", __doc__)
    parser.add_argument("fit_study", type=Path, help="study folder to fit")
    parser.add_argument("held_out_study", type=Path, nargs="?", help="study folder to predict")
    parser.add_argument("--leave-run-out", action="store_true", help="predict each run in turn")
    parser.add_argument("--fit-runs", help="fit these runs of the study, predict its others")
    parser.add_argument("--model", default="cpt-replay", help="of the package's own method")
    known = [*METHODS, OURS]
    default = ",".join(name for name in known if name not in FINAL_LOSS_ANSWERS)
    parser.add_argument(
        "--methods", default=default, help=f"of {', '.join(known)}; default: %(default)s"
    )
    parser.add_argument("--last", action="store_true", help="score the last loss of each run alone")
    parser.add_argument("--out", type=Path, help="folder for CSV tables and figures")
    options = parser.parse_args(arguments)
    names = options.methods.split(",")
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown methods {', '.join(unknown)}: choose from {', '.join(known)}")
    spec = read_spec(options.model)
    own = {OURS: partial(package_method, specs=[spec])} | METHODS
    methods = {name: own[name] for name in names}
    folds = _folds(parser, options, spec)
    if options.last:
        folds = [fold.at(fold.measured[fold.measured["share"] == 1.0]) for fold in folds]
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


def _folds(
    parser: argparse.ArgumentParser, options: argparse.Namespace, spec: ModelSpec
) -> list[Fold]:
    ways = (options.held_out_study, options.leave_run_out or None, options.fit_runs)
    if sum(way is not None for way in ways) != 1:
        parser.error("give one of HELD_OUT_STUDY, --leave-run-out, --fit-runs")
    study = read_study(options.fit_study)
    if options.leave_run_out:
        return held_out_folds(study, spec)
    if options.held_out_study:
        return other_study(study, read_study(options.held_out_study), spec)
    fitted = options.fit_runs.split(",")
    others = [run.name for run in study.runs if run.name not in fitted]
    return other_study(study.subset(fitted), study.subset(others), spec)


if __name__ == "__main__":
    main()
