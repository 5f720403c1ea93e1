"""Score forecasts within each scale of the Delphi sweep of continual pre-training, beside simple rivals.

From the repository's root::

    PYTHONPATH=research python -m testbench.delphi data/public/delphi -o OUT --jobs 2
    PYTHONPATH=research python -m testbench.delphi data/public/delphi -o OUT --priors LEARNT

Each scale has twelve runs: three replay ratios at four peak learning rates. One peak is held out, or one
replay ratio, or all but four runs, or the second halves of those runs, or of every run. With ``--priors``
each scale NAME is fitted under ``without-NAME.toml`` of a folder, priors that the scale had no part in.
Rivals: least squares on the model's law, from four starts; and what has last losses alone, a parabola in
the log of the peak, or a line in the replay ratio, through the runs of the same replay or peak; the nearest
run; the last value. Stopped, the same command goes on.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Run, Study
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.held_out import OURS, TABLES, Method, package_method, score_folds
from bayes_cpt.validate.tasks import Pool, Records
from testbench.baselines import PAPER, paper_answer
from testbench.our_areas import OurLaw
from testbench.report import markdown_table, public_options

# Of the runs of a scale those that are fitted where four are: both ends of replay and most of the peaks.
FOUR = ("p33m67_lr33", "p33m67_lr67", "p50m50_lr67", "p67m33_lr50")
SPLITS = ("peak", "replay", "four", "peak-half", "replay-half", "four-half", "half")
MNAT = 1e3
STARTS = 4  # of least squares


def fold_of(study: Study, split: str) -> Fold:
    """Return what is held out of a scale, and asked for; the second halves of CPT runs of any study."""
    runs = study.continual_runs
    names = [run.name for run in runs]
    held = {
        "peak": [name for name in names if name.endswith("_lr83")],
        "replay": [name for name in names if name.startswith("p67")],
        "four": [name for name in names if name not in FOUR],
        "half": names,
    }[split.removesuffix("-half")]
    halves = {run.name: run.schedule.steps // 2 for run in runs if run.name in held}
    if not split.endswith("half"):
        halves = {}
    fitted = study.truncated(halves) if halves else study.subset(set(names) - set(held))
    asked = study.subset(held)
    measured = asked.losses[asked.losses["domain"].isin(study.trained_domains)]
    after = measured["run"].map(lambda run: halves.get(run, 0))
    measured = measured[measured["step"] > after].reset_index(drop=True)
    steps = measured["run"].map({run.name: run.schedule.steps for run in runs})
    measured = measured.assign(share=measured["step"] / steps, ratio=1.0)
    points = measured[["run", "domain", "step"]]
    question = Question(fitted, asked.without_losses(), points, known=bool(halves))
    return Fold(f"{study.name} {split}", 0.5 if halves else 0.0, question, measured)


def last_losses(study: Study) -> dict[str, float]:
    """Return the last measured loss of each run."""
    (domain,) = study.trained_domains
    return {run.name: float(study.curve(run.name, domain)[1][-1]) for run in study.runs}


def through(fitted: Sequence[Run], losses: dict[str, float], run: Run, split: str) -> float:
    """Return the last loss that a curve through like runs gives; NaN where too few are like."""
    if split == "replay":
        like = [other for other in fitted if np.isclose(other.schedule.peak, run.schedule.peak)]
        places, degree = [one.replay or 0.0 for one in (*like, run)], 1
    else:
        like = [other for other in fitted if other.replay == run.replay]
        places, degree = [float(np.log(one.schedule.peak)) for one in (*like, run)], 2
    if split.endswith("half") or len(like) <= degree:
        return float("nan")
    curve = np.polyfit(places[:-1], [losses[one.name] for one in like], degree)
    return float(np.polyval(curve, places[-1]))


def nearest(fitted: Sequence[Run], losses: dict[str, float], run: Run) -> float:
    """Return the last loss of the run that is nearest in replay and log peak; its own where it was seen."""

    def distance(other: Run) -> float:
        ratio = np.log(other.schedule.peak / run.schedule.peak)
        return float(np.hypot(ratio, (other.replay or 0.0) - (run.replay or 0.0)))

    return losses[min(fitted, key=distance).name]


def rivals(fold: Fold, split: str, spec: ModelSpec, seed: int) -> pd.DataFrame:
    """Return the errors of other answers about last losses, nats/token: one row a run."""
    study, runs = fold.question.study, fold.question.plan.runs
    losses = last_losses(study)
    law = OurLaw.of(spec, study, *study.trained_domains)
    best = law.best(np.random.default_rng(seed), STARTS)
    answers = {
        "curve": [through(study.runs, losses, run, split) for run in runs],
        "nearest": [nearest(study.runs, losses, run) for run in runs],
        "squares": law.last_losses(best, fold.question.plan, runs),
    }
    ends = fold.measured.groupby("run")["loss"].last()
    return pd.DataFrame(answers).sub(ends[[run.name for run in runs]].to_numpy(), axis=0)


def summary(
    points: pd.DataFrame, refits: pd.DataFrame, others: dict[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return one row for each fold, by label with its `rivals`: errors in mnat, coverage in per cent."""
    rows = []
    for label, errors in others.items():
        own = points[points["fold"] == label]
        row: dict[str, object] = {"fold": label}
        for method in own["method"].unique():
            scored = own[own["method"] == method]
            ends = scored.loc[scored.groupby("run")["step"].idxmax()]
            row[f"last {method}"] = float(MNAT * ends["error"].abs().mean())
            if method == OURS:
                row["bias"] = float(MNAT * ends["error"].mean())
                row["CRPS"] = float(MNAT * scored["crps"].mean())
                row["in 90 %"] = f"{100 * scored['covered_90'].mean():.0f}"
                row["in 50 %"] = f"{100 * scored['covered_50'].mean():.0f}"
        row |= (MNAT * errors.abs().mean()).add_prefix("last ").to_dict()
        fit = refits[(refits["fold"] == label) & (refits["method"] == OURS)].iloc[0]
        row |= {"trusted": bool(fit["trustworthy"]), "attempts": int(fit["attempts"])}
        rows.append(row | {"seconds": round(float(fit["seconds"]))})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = public_options("delphi", __doc__)
    parser.add_argument("--model", default="cpt-replay", help="default: %(default)s")
    parser.add_argument("--priors", type=Path, help="folder of without-NAME.toml")
    parser.add_argument("--splits", default=",".join(SPLITS), help="default: %(default)s")
    parser.add_argument("--methods", default=f"{OURS},{PAPER}", help="default: %(default)s")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    pool, tables = Pool(options.jobs), []
    others: dict[str, pd.DataFrame] = {}
    for folder in sorted(path.parent for path in options.folder.glob("*/study.toml")):
        study = read_study(folder)
        name = options.priors / f"without-{study.name}.toml" if options.priors else options.model
        spec: ModelSpec = read_spec(name)
        known: dict[str, Method] = {
            OURS: partial(package_method, specs=[spec]),
            PAPER: paper_answer,
        }
        methods = {method: known[method] for method in options.methods.split(",")}
        folds = {split: fold_of(study, split) for split in options.splits.split(",")}
        settings = {"seed": options.seed, "model": spec.model_dump(mode="json")}
        records = Records.open(options.out / folder.name, settings, TABLES)
        asked = list(folds.values())
        tables.append(score_folds(asked, methods, options.seed, pool=pool, records=records))
        others |= {
            fold.label: rivals(fold, split, spec, options.seed) for split, fold in folds.items()
        }
        points, refits = (
            pd.concat(parts, ignore_index=True) for parts in zip(*tables, strict=True)
        )
        table = markdown_table(summary(points, refits, others))
        (options.out / "delphi.md").write_text(f"{table}\n", encoding="utf-8")
        sys.stdout.write(table + "\n")


if __name__ == "__main__":
    main()
