"""Score advice without any run: the change of each loss over real runs against the priors alone.

From the repository's root::

    PYTHONPATH=research python -m testbench.no_run data/public -o OUT

Of each CPT run the base's losses, replay ratio and learning rates are given, and what `bayes-cpt advise`
calls its base and target; no loss of any run is.
"""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.bundled import bundled_study
from bayes_cpt.decisions.advice import DRAWS, spec_of
from bayes_cpt.forecast.derived import last_points, start_loss
from bayes_cpt.identify.prior_predictive import above_zero, frame_of
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from testbench.public import LAB_TESTS
from testbench.report import markdown_table, public_options

# Runs on a language model's own language or on more of what it knows are near.
NEAR = ("pythia-python",)
ANNEALED = 0.15


def scored(name: str, study: Study, seed: int) -> pd.DataFrame:
    """Return the change of each run's losses, and its interval under the priors."""
    rows = []
    for base in study.bases:
        runs = [run for run in study.continual_runs if run.base == base.name]
        losses = {
            role: loss
            for role, domain in (("general", study.general), ("target", study.target))
            if domain and (loss := study.base_loss(base.name, str(domain))) is not None
        }
        if not runs or not losses:
            continue
        potential = base.loss_potential
        word = "unknown" if potential is None else "stable" if potential > ANNEALED else "annealed"
        middle = float(np.exp(np.median([np.log(run.peak) for run in runs])))
        before = base.schedule.peak if base.schedule else middle
        spec = spec_of(word, "near" if name in NEAR else "far", losses, middle / before)
        none = study.losses.iloc[:0]
        own = Study(
            "plan",
            study.general,
            study.target,
            (type(base)(base.name, known=False),),
            tuple(replace(run, branch=None, targets=None) for run in runs),
            none,
            is_plan=True,
        )
        frame = frame_of(spec, own)
        parameters = draw_priors(frame, DRAWS, seed)
        curves = last_points(frame, own, own.runs)
        with np.errstate(over="ignore", invalid="ignore"):
            ends = expected_loss(frame, parameters, curves)
            changes = (ends - start_loss(frame, parameters, curves))[above_zero(ends)]
        for place, curve in enumerate(curves.curves):
            steps, measured = study.curve(curve.run, curve.domain)
            start = study.base_loss(base.name, curve.domain)
            if steps.size < 2 or start is None:
                continue
            low, middle, high = np.quantile(changes[:, place], [0.05, 0.5, 0.95])
            change = float(measured[-1]) - start
            rows.append((name, curve.run, curve.domain, change, low, middle, high))
    columns = ["study", "run", "domain", "change", "lower", "median", "upper"]
    return pd.DataFrame(rows, columns=columns)


def _name(folder: Path) -> str:
    return f"{folder.parent.name}, {folder.name}" if "cpt-100m" in folder.parts else folder.name


def main() -> None:
    """Score the priors on all studies with CPT runs."""
    asked = public_options("no_run", __doc__).parse_args()
    folders = [*sorted((asked.folder / "delphi").iterdir()), asked.folder / "pythia-python"]
    folders += [*sorted(LAB_TESTS.glob("*/study.toml")), Path(bundled_study())]
    folders += [asked.folder.parent / "cpt-100m" / part for part in ("fit", "predict")]
    parts = []
    for path in folders:
        folder = path.parent if path.name == "study.toml" else path
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts.append(scored(_name(folder), read_study(folder), asked.seed))
    rows = pd.concat(parts, ignore_index=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    rows["inside"] = rows["change"].between(rows["lower"], rows["upper"])
    rows["error"] = (rows["median"] - rows["change"]).abs()
    found = rows.groupby(["study", "domain"], sort=False).agg(
        {"run": "size", "inside": "mean", "change": "mean", "error": "mean"}
    )
    found["inside"] = (100 * found["inside"]).round().astype(int)
    found = found.round(2).reset_index()
    found.columns = ["study", "set", "runs", "in 90 %", "change", "error of the median"]
    found.to_csv(asked.out / "no-run.csv", index=False)
    sys.stdout.write(markdown_table(found.astype(str)) + "\n")


if __name__ == "__main__":
    main()
