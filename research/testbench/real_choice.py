"""Choose between runs that were really trained, from fits that saw neither.

From the repository's root, with the extra `check` installed; minutes a pair on one core, kept as they come,
so that a command that was stopped goes on where it was::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.real_choice data/cpt-lab -o OUT

Every pair of a study's CPT runs of one length is left out; each method sees the others and says which of
the two ends lower. Regret: what the chosen run measured at its last step less the lower of the two. Nothing
is simulated, and no truth has anybody's form. Pairs share runs: errors are those of a jackknife over runs.
"""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt import read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import task_seed
from testbench.choosers import PREDICTORS, RULE_REPLAY
from testbench.long_loop import Tables, kept_tables
from testbench.one_decision import OBJECTIVES, OURS, RULE, Outcome, fitted, quality
from testbench.report import markdown_table, options_of
from testbench.short_studies import MODEL

TABLES = ("choices", "fits")
SCALE = 1000.0


@dataclass(frozen=True)
class Pair:
    """Two runs of a study to choose between.

    Parameters
    ----------
    path : Path
        Folder of the study.
    names : tuple of str
    seed : int
    """

    path: Path
    names: tuple[str, str]
    seed: int

    @property
    def label(self) -> str:
        """Its place in the tables."""
        return f"{self.path.name}: {self.names[0]} or {self.names[1]}"


def pairs(path: Path, seed: int) -> list[Pair]:
    """Return all pairs of a study's CPT runs that were measured at the same last step."""
    study = read_study(path)
    runs = [run for run in study.continual_runs if _measured(study, run) is not None]
    return [
        Pair(path, (one.name, two.name), task_seed(seed, f"{path.name} {one.name} {two.name}"))
        for one, two in itertools.combinations(runs, 2)
        if one.schedule.steps == two.schedule.steps
    ]


def _measured(study: Study, run: Run) -> Floats | None:
    """Return the losses of a run at its last step, None where they were not measured."""
    ends = []
    for domain in (str(study.general), str(study.target)):
        steps, losses = study.curve(run.name, domain)
        if not steps.size or steps[-1] != run.schedule.steps:
            return None
        ends.append(losses[-1])
    return np.array(ends)


def one_pair(pair: Pair) -> Outcome:
    """Return what each method chooses of a pair, what that was worth, and what we say of it."""
    study = read_study(pair.path)
    held = tuple(study.run(name) for name in pair.names)
    seen = study.subset(run.name for run in study.runs if run.name not in pair.names)
    ends = np.stack([own for run in held if (own := _measured(study, run)) is not None], axis=1)
    plan = replace(study, runs=held, losses=study.losses.iloc[:0], is_plan=True)
    plan = with_base_losses(study, (str(study.general), str(study.target)), plan)
    draws, log = _forecast(seen, plan, held, pair.seed)
    predictions = {OURS: draws.mean(axis=1)}
    for name, predict in PREDICTORS.items():
        try:
            predictions[name] = predict(seen, plan, held, pair.seed)
        except BayesCPTError as error:
            sys.stderr.write(f"{pair.label}, {name}: {error}\n")
    rows: list[dict[str, Any]] = []
    for objective, goal in OBJECTIVES.items():
        weights = goal.combination((str(study.general), str(study.target)))
        value, drawn = weights @ ends, np.tensordot(weights, draws, axes=1)
        places = {name: int((weights @ own).argmin()) for name, own in predictions.items()}
        for name, place in {**places, RULE: _rule(study, held)}.items():
            row: dict[str, Any] = {"objective": objective, "method": name}
            row["chosen"] = held[place].name
            row["regret"] = float(value[place] - value.min())
            if name == OURS:
                row["stated"] = float((drawn[:, place] - drawn.min(axis=1)).mean())
                row["stated_best"] = float((drawn[:, place] <= drawn.min(axis=1)).mean())
            rows.append(row | {"first": pair.names[0], "second": pair.names[1]})
    tables = {"choices": pd.DataFrame(rows), "fits": pd.DataFrame([log])}
    return Outcome(pair.label, {n: own.assign(study=study.name) for n, own in tables.items()})


def _forecast(
    study: Study, plan: Study, held: tuple[Run, ...], seed: int
) -> tuple[Floats, dict[str, Any]]:
    """Return draws of what runs would measure at their ends, shape (domains, draws, runs)."""
    posterior, diagnostics = fitted(study, read_spec(MODEL), seed)
    return measured_ends(posterior, plan, held, seed), quality(diagnostics)


def measured_ends(posterior: Posterior, plan: Study, runs: tuple[Run, ...], seed: int) -> Floats:
    """Return draws of the last losses of runs, which like runs miss alike, (domains, draws, runs)."""
    model = FinalLosses.of(posterior, seed=seed)
    generator = np.random.default_rng(seed)
    ends = [model.simulated(plan, run, [run.schedule.steps], generator).T for run in runs]
    return np.stack(ends, axis=-1)


def _rule(study: Study, runs: tuple[Run, ...]) -> int:
    """Return the run that is nearest to a quarter of replay at the highest peak of the study."""
    peak = max(run.schedule.peak for run in study.runs)
    apart = [
        abs((run.replay or 0.0) - RULE_REPLAY) + abs(float(np.log(run.schedule.peak / peak)))
        for run in runs
    ]
    return int(np.argmin(apart))


def summary(choices: pd.DataFrame) -> pd.DataFrame:
    """Return regret of each method, beside what we stated; errors by a jackknife over runs."""
    rows = []
    for (study, objective, method), own in choices.groupby(
        ["study", "objective", "method"], sort=False
    ):
        row = {
            "study": study,
            "objective": objective,
            "method": method,
            "pairs": len(own),
            "regret": _with_error(own, "regret"),
            "right": f"{(own['regret'] <= 0).mean():.0%}",
        }
        ours = method == OURS
        row["stated"] = f"{SCALE * own['stated'].mean():.1f}" if ours else ""
        row["right, stated"] = f"{own['stated_best'].mean():.0%}" if ours else ""
        rows.append(row)
    return pd.DataFrame(rows)


def _with_error(own: pd.DataFrame, column: str) -> str:
    names = sorted({*own["first"], *own["second"]})
    without = np.array(
        [own.loc[(own["first"] != n) & (own["second"] != n), column].mean() for n in names]
    )
    without = without[np.isfinite(without)]
    spread = without - without.mean() if without.size else without
    error = np.sqrt(max(without.size - 1, 0) / max(without.size, 1) * (spread**2).sum())
    return f"{SCALE * own[column].mean():.1f} ± {SCALE * error:.1f}"


def choose_all(paths: Sequence[Path], seed: int, jobs: int, folder: Path | None) -> Tables:
    """Return the tables of all pairs; those that a folder has already are not fitted again."""
    wanted = [pair for path in paths for pair in pairs(path, seed)]
    return kept_tables(one_pair, wanted, TABLES, seed, jobs, folder, "pair")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = options_of("real_choice", __doc__)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path, help="folder for tables and report.md")
    options = parser.parse_args(arguments)
    tables = choose_all(options.studies, options.seed, options.jobs, options.out)
    report = markdown_table(summary(tables["choices"])) + "\n"
    fits = tables["fits"]
    report += (
        f"\n{len(fits)} fits, {fits['trustworthy'].mean():.0%} meet the contract. Regret in mnat.\n"
    )
    sys.stdout.write(report)
    if options.out:
        (options.out / "report.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
