"""Choose the replay ratio of runs that were really trained, where truth is interpolated between them.

From the repository's root, with the extra `check` installed; minutes a study on one core, kept as they
come::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.interpolated -o OUT \
        data/cpt-lab tests/data/cpt-lab-strong PYTHIA-STUDY

No truth has anybody's form. Some CPT runs of each study differ in replay alone: what these measured at
their last step, and a monotone cubic (PCHIP) over the replay ratio between them, is the truth. A method
sees either none of these runs, but the study's others (and in further tasks one less of the others), or
the first part of all CPT runs; it then chooses among eleven replay ratios.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from bayes_cpt import read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import OWN_SHARE
from bayes_cpt.model.points import Curve
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.parallel import task_seed
from testbench.long_loop import Tables, kept_tables
from testbench.one_decision import OBJECTIVES, OURS, RULE, TOLERANCE, Outcome, fitted, quality
from testbench.real_choice import PREDICTORS, RULE_REPLAY, SCALE, last_losses
from testbench.report import markdown_table
from testbench.short_studies import MODEL

TABLES = ("choices", "fits")
CHOICES = 11
# Replay ratios that an interpolation needs.
FEWEST = 3
# Of its steps, where a method sees the first part of every CPT run.
PART = 1 / 3
# CPT runs that a fit needs beside those that are hidden.
FEWEST_SEEN = 3


@dataclass(frozen=True)
class Task:
    """A study, and what of it a method sees.

    Parameters
    ----------
    path : Path
        Folder of the study.
    alike : tuple of str
        CPT runs that differ in replay alone.
    hidden : tuple of str
        Runs that are not seen; none where the first part of every CPT run is.
    seed : int
    """

    path: Path
    alike: tuple[str, ...]
    hidden: tuple[str, ...]
    seed: int

    @property
    def label(self) -> str:
        """Its place in the tables."""
        further = [name for name in self.hidden if name not in self.alike]
        seen = "other runs" if self.hidden else "first part"
        return f"{self.path.name}: {', '.join([seen, *further])}"

    def seen(self, study: Study) -> Study:
        """Return what a method sees.

        Parameters
        ----------
        study : Study
        """
        if self.hidden:
            return study.subset(run.name for run in study.runs if run.name not in self.hidden)
        parts = {run.name: round(PART * run.schedule.steps) for run in study.continual_runs}
        return study.truncated(parts)


def alike_in_all_but_replay(study: Study) -> tuple[str, ...]:
    """Return the largest group of CPT runs that differ in replay alone, by their replay.

    Parameters
    ----------
    study : Study
    """
    groups: dict[Any, list[Run]] = defaultdict(list)
    for run in study.continual_runs:
        if last_losses(study, run) is not None:
            groups[run.base, run.schedule].append(run)
    largest = max(groups.values(), key=len, default=[])
    return tuple(run.name for run in sorted(largest, key=lambda run: run.replay or 0.0))


def tasks(path: Path, seed: int) -> list[Task]:
    """Return the tasks of a study.

    Parameters
    ----------
    path : Path
        Its folder.
    seed : int

    Raises
    ------
    ValueError
        If too few of its runs differ in replay alone.
    """
    study = read_study(path)
    alike = alike_in_all_but_replay(study)
    if len(alike) < FEWEST:
        raise ValueError(f"{path}: only {len(alike)} CPT runs differ in replay alone")
    others = [run.name for run in study.continual_runs if run.name not in alike]
    hidden: list[tuple[str, ...]] = [()]
    if len({study.run(name).replay for name in others}) >= FEWEST_SEEN:
        hidden += [alike, *((*alike, name) for name in others)]
    return [
        Task(path, alike, own, task_seed(seed, f"{path.name} {' '.join(own)}")) for own in hidden
    ]


def one_task(task: Task) -> Outcome:
    """Return what each method chooses, what that was worth, and what we say of it.

    Parameters
    ----------
    task : Task
    """
    study = read_study(task.path)
    domains = (study.general, str(study.target))
    seen = task.seen(study)
    pattern = study.run(task.alike[0])
    known = np.array([study.run(name).replay for name in task.alike], float)
    ends = np.stack([last_losses(study, study.run(name)) for name in task.alike], axis=-1)
    replay = np.linspace(known[0], known[-1], CHOICES)
    truth = np.asarray(PchipInterpolator(known, ends, axis=-1)(replay))
    runs = tuple(
        replace(pattern, name=f"replay {share:.3f}", replay=float(share)) for share in replay
    )
    plan = replace(study, runs=runs, losses=study.losses.iloc[:0], is_plan=True)
    plan = with_base_losses(study, domains, plan)
    draws, log = _forecast(seen, plan, runs, task.seed)
    predictions = {OURS: draws.mean(axis=1)}
    for name, predict in PREDICTORS.items():
        try:
            predictions[name] = predict(seen, plan, runs, task.seed)
        except BayesCPTError as error:
            sys.stderr.write(f"{task.label}, {name}: {error}\n")
    rows: list[dict[str, Any]] = []
    for objective, goal in OBJECTIVES.items():
        weights = goal.combination(domains)
        value, drawn = weights @ truth, np.tensordot(weights, draws, axes=1)
        places = {name: int((weights @ own).argmin()) for name, own in predictions.items()}
        places[RULE] = int(np.abs(replay - RULE_REPLAY).argmin())
        for name, place in places.items():
            regret = float(value[place] - value.min())
            row: dict[str, Any] = {"objective": objective, "method": name, "regret": regret}
            row |= {"replay": replay[place], "best": replay[value.argmin()]}
            if name == OURS:
                near = risk.probability_best(drawn, tolerance=TOLERANCE)
                row["stated"] = float(risk.expected_regret(drawn)[place])
                row |= {"stated_near": float(near[place]), "near": regret <= TOLERANCE}
            rows.append(row)
    tables = {"choices": pd.DataFrame(rows), "fits": pd.DataFrame([log])}
    kind = "first part" if not task.hidden else "other runs"
    place = {"study": study.name, "seen": kind}
    return Outcome(task.label, {name: own.assign(**place) for name, own in tables.items()})


def _forecast(
    study: Study, plan: Study, runs: tuple[Run, ...], seed: int
) -> tuple[Floats, dict[str, Any]]:
    """Return draws of the losses that runs are expected to end at, and the log of the fit."""
    posterior, diagnostics = fitted(study, read_spec(MODEL), seed)
    return expected_ends(posterior, plan, runs, seed), quality(diagnostics)


def expected_ends(posterior: Posterior, plan: Study, runs: tuple[Run, ...], seed: int) -> Floats:
    """Return draws of the expected last losses of runs, with what like runs are missed by alike.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
        Has the runs and the losses of their bases.
    runs : tuple of Run
    seed : int

    Returns
    -------
    ndarray, shape (domains, draws, runs)
    """
    model, frame = FinalLosses.of(posterior, seed=seed), posterior.frame
    found = []
    for run in runs:
        base = plan.base(str(run.base))

        def shared(curve: Curve, knots: int, run: Run = run, base: Any = base) -> Floats:
            whole = np.sqrt(1.0 - OWN_SHARE) * model.innovations(base, run, knots)
            return np.asarray(whole[frame.domains.index(curve.domain)])

        curves = frame.curves(plan, lambda own, _: [own.schedule.steps], [run])
        # The same numbers for each run: what is left to chance hangs on no replay ratio.
        generator = np.random.default_rng(seed)
        ends = simulate(frame, model.parameters, curves, None, generator, model.correlation, shared)
        found.append(ends.slow.T)
    return np.stack(found, axis=-1)


def summary(choices: pd.DataFrame) -> pd.DataFrame:
    """Return mean regret of each method in 0.001 nats, beside what we stated.

    Parameters
    ----------
    choices : DataFrame
    """
    rows = []
    for (study, seen, objective), own in choices.groupby(
        ["study", "seen", "objective"], sort=False
    ):
        row = {"study": study, "seen": seen, "objective": objective, "fits": own["task"].nunique()}
        for method, part in own.groupby("method", sort=False):
            row[str(method)] = f"{SCALE * part['regret'].mean():.1f}"
        ours = own[own["method"] == OURS]
        row["stated"] = f"{SCALE * ours['stated'].mean():.1f}"
        row["within 5, stated"] = f"{ours['stated_near'].mean():.0%}"
        row["within 5"] = f"{ours['near'].astype(bool).mean():.0%}"
        rows.append(row)
    return pd.DataFrame(rows)


def choose_all(paths: Sequence[Path], seed: int, jobs: int, folder: Path | None) -> Tables:
    """Return the tables of all tasks; those that a folder has already are not done again.

    Parameters
    ----------
    paths : sequence of Path
        Folders of studies.
    seed, jobs, folder
        Of the command.
    """
    wanted = [task for path in paths for task in tasks(path, seed)]
    return kept_tables(one_task, wanted, TABLES, seed, jobs, folder, "task")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.interpolated", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, help="folder for tables and report.md")
    options = parser.parse_args(arguments)
    tables = choose_all(options.studies, options.seed, options.jobs, options.out)
    fits = tables["fits"]
    report = markdown_table(summary(tables["choices"])) + "\n"
    report += f"\n{len(fits)} fits, {fits['trustworthy'].mean():.0%} meet the contract.\n"
    sys.stdout.write(report)
    if options.out:
        (options.out / "report.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
