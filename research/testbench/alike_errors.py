"""How alike the errors of like runs are: what the law misses of whole runs that no fit saw.

From the repository's root; minutes a run on one core, kept as they come::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.alike_errors -o research/testbench/errors.csv

Each CPT run of ``data/cpt-lab`` and of ``tests/data/cpt-lab-strong`` is left out in turn; those of
``tests/data/cpt-lab-practice`` are predicted from all runs of the first. The error of a run is the mean of
measured less expected loss over its last quarter. `testbench.alike` asks how alike these are.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt import bundled_study, read_study
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from testbench.one_decision import fitted

MODEL = "cpt-replay"
TESTS = Path(__file__).parents[2] / "tests" / "data"
# Where a run's error is measured: this share of its steps on.
LATE = 0.75
KEYS = ["study", "run"]


@dataclass(frozen=True, eq=False)
class Fold:
    """Runs that a study which does not hold them is asked for.

    Parameters
    ----------
    name : str
        Of the set that the runs belong to.
    study : Study
        To fit.
    whole : Study
        Has the runs with their losses.
    runs : tuple of Run
    """

    name: str
    study: Study
    whole: Study
    runs: tuple[Run, ...]


def folds() -> Iterator[Fold]:
    """Yield the practice runs, then each run left out of its own study."""
    lab, practice = read_study(bundled_study()), read_study(TESTS / "cpt-lab-practice")
    yield Fold("cpt-lab-practice", lab, practice, practice.continual_runs)
    for study in (lab, read_study(TESTS / "cpt-lab-strong")):
        for run in study.continual_runs:
            others = [other.name for other in study.runs if other.name != run.name]
            yield Fold(study.name, study.subset(others), study, (run,))


def late_errors(posterior: Posterior, fold: Fold) -> pd.DataFrame:
    """Return the error of each run on each validation set, and of what size it was expected.

    Returns
    -------
    DataFrame
        study, run, role; error, the mean of measured less expected loss over the last quarter; law,
        misfit, fluctuation: standard deviations of that mean by each, nats/token.
    """
    frame = posterior.frame
    parameters = posterior.parameters(500)
    coefficients = frame.law.coefficients(parameters, np)
    target = with_base_losses(posterior.study, frame.domains, fold.whole)

    def late(run: Run, domain: str) -> list[int]:
        steps, _ = fold.whole.curve(run.name, domain)
        return [int(step) for step in steps if step >= LATE * run.schedule.steps]

    curves = frame.curves(target, late, fold.runs)
    expected = expected_loss(frame, parameters, curves)
    design = frame.residual_design(curves)
    scales = frame.residual_scales(curves.points, design.pretraining, parameters, coefficients, np)
    rows = []
    for index, curve in enumerate(curves.curves):
        here = np.flatnonzero(curves.points.curve_index == index)
        steps = curves.points.steps[here]
        means = expected[:, here].mean(axis=1)
        apart = np.abs(steps[:, None] - steps)
        lasting = np.exp(-apart / scales.memory[:, here, None])
        sizes = scales.fluctuation[:, here]
        wander = np.einsum("di,dij,dj->d", sizes, lasting, sizes) / here.size**2
        misfit = scales.misfit[:, here] @ design.ramps[here] / here.size
        rows.append(
            {
                "study": fold.name,
                "run": curve.run,
                "role": frame.roles[frame.domains.index(curve.domain)],
                "error": float(curves.points.loss[here].mean() - means.mean()),
                "law": float(means.std()),
                "misfit": float(np.sqrt((misfit**2).sum(axis=1).mean())),
                "fluctuation": float(np.sqrt(wander.mean())),
            }
        )
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.alike_errors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True, help="CSV, continued if it exists")
    options = parser.parse_args(arguments)
    tables = [pd.read_csv(options.out)] if options.out.exists() else []
    done = {tuple(row) for table in tables for row in table[KEYS].to_numpy()}
    for fold in folds():
        if all((fold.name, run.name) in done for run in fold.runs):
            continue
        posterior, _ = fitted(fold.study, read_spec(MODEL), options.seed)
        tables.append(late_errors(posterior, fold))
        pd.concat(tables).to_csv(options.out, index=False, float_format="%.5f")


if __name__ == "__main__":
    main()
