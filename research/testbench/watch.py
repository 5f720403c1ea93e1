"""How often `watch` cries wolf, and how soon it sees what is wrong: simulated runs of known truth.

    python -m testbench.watch FIT [--runs 200] [--run r25_lin05] [--measured STUDY...]
    python -m testbench.watch --unseen watched.csv

Healthy runs are drawn from the posterior predictive distribution, each from another draw of the fit; also
so that they depart from the forecast `INFLATION` times as far, as real runs may: of these alarms have the
level. Faulty ones are drawn with a fault planted, while the watcher expects the run as planned. One
planted half-way sets in at half the steps.

``--unseen`` watches every real CPT run by a fit that did not see it: each of ``data/cpt-lab`` and of
``tests/data/cpt-lab-strong`` left out of its own study, and ``tests/data/cpt-lab-practice`` by a fit of the
first. A fit takes minutes of a core; runs are kept as they come, and it goes on where it ended.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from bayes_cpt import bundled_study, load, read_spec, read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.watch.expected import INFLATION, Expected, drawn_curves, rows_at
from bayes_cpt.watch.watcher import Watcher
from testbench.one_decision import fitted

MODEL = "cpt-replay"
TESTS = Path(__file__).parents[2] / "tests" / "data"
EVALUATIONS = 40
# What corrupted data add to the loss of the target, nats, from half-way on.
CORRUPTION = 0.05
AS_REAL = "on track, departing as real runs do"


@dataclass(frozen=True, eq=False)
class Watched:
    """A simulated run, as the watcher sees it.

    Parameters
    ----------
    posterior : Posterior
    run : Run
    plan : Study
        Where the run is, with its base's losses.
    steps : list of int
        At which it is evaluated.
    """

    posterior: Posterior
    run: Run
    plan: Study
    steps: list[int]

    @classmethod
    def of(cls, posterior: Posterior, name: str) -> Self:
        """Return a new run that is trained like one of the study."""
        run = replace(posterior.study.run(name), name="watched")
        study = posterior.study.without_losses()
        plan = replace(study, runs=(run,), losses=study.losses.iloc[:0])
        plan = with_base_losses(posterior.study, posterior.frame.domains, plan)
        shares = np.linspace(0.0, 1.0, EVALUATIONS + 1)[1:] ** 2
        steps = sorted({max(1, round(run.schedule.steps * share)) for share in shares})
        return cls(posterior, run, plan, steps)

    def drawn(self, truth: Run, count: int, seed: int) -> Floats:
        """Return drawn losses of what is trained in truth, shape (count, rows), in time."""
        rows = rows_at(self.posterior.frame.domains, self.steps)
        return drawn_curves(self.posterior, self.plan, truth, rows, count, seed)[0]

    def expected(self) -> tuple[Expected, ...]:
        """Return what the watcher expects."""
        several = len(self.posterior.frame.domains) > 2
        return tuple(
            Expected.of(self.posterior, self.run, self.plan, self.steps, apart=apart)
            for apart in ((False, True) if several else (False,))
        )

    def first_alarms(
        self,
        expected: Sequence[Expected],
        losses: Floats,
        level: float,
        inflation: float = INFLATION,
    ) -> list[int | None]:
        """Return the step of the first alarm of each curve, None where there is none."""
        found: list[int | None] = []
        for curve in losses:
            courses = [own.departures(curve, inflation).course for own in expected]
            alarms = np.flatnonzero(np.max(courses, axis=0) < level)
            found.append(self.steps[alarms[0]] if alarms.size else None)
        return found


def planted(run: Run) -> dict[str, Run]:
    """Return the run with each fault that a schedule or mix can have."""
    rates = run.schedule.learning_rates()
    held = Schedule.from_log(np.arange(1, rates.size + 1), np.maximum.accumulate(rates))
    wrong = 0.0 if run.replay and run.replay > 0.1 else 0.5
    return {
        "peak learning rate twice as high": replace(run, schedule=run.schedule.scaled(2.0)),
        f"replay ratio {wrong:g}": replace(run, replay=wrong),
        "learning rate does not decay": replace(run, schedule=held),
    }


def report(
    posterior: Posterior, name: str, count: int, level: float = 0.05, seed: int = 1
) -> pd.DataFrame:
    """Return a row for healthy runs and for each fault: share of alarms and the median delay.

    The seed is another than the watcher's: what it holds for usual is not what it is shown.
    """
    watched = Watched.of(posterior, name)
    expected = watched.expected()
    healthy = watched.drawn(watched.run, count, seed)
    middle = expected[0].mean
    cases = {"on track": healthy, AS_REAL: middle + INFLATION * (healthy - middle)}
    for number, (fault, wrong) in enumerate(planted(watched.run).items(), start=1):
        cases[fault] = watched.drawn(wrong, count, seed + number)
    corrupted = watched.drawn(watched.run, count, seed + len(cases))
    target = posterior.frame.domains[-1]
    half = watched.run.schedule.steps / 2
    late = [row.step > half and row.domain == target for row in expected[0].rows]
    corrupted[:, late] += CORRUPTION
    cases[f"data corrupted half-way, +{CORRUPTION:g} on the target"] = corrupted
    return pd.DataFrame(
        [
            _row(case, watched.first_alarms(expected, losses, level), watched.run.schedule.steps)
            for case, losses in cases.items()
        ]
    )


def _row(case: str, alarms: list[int | None], steps: int) -> dict[str, float | str]:
    given = [alarm for alarm in alarms if alarm is not None]
    count, share = len(alarms), len(given) / len(alarms)
    begins = steps / 2 if "half-way" in case else 0.0
    delay = float(np.median(given)) - begins if given else np.nan
    return {
        "case": case,
        "runs": count,
        "alarms": share,
        "standard error": float(np.sqrt(share * (1.0 - share) / count)),
        "median delay": delay,
        "share of the run": delay / steps,
    }


def measured(posterior: Posterior, study: Study, level: float = 0.05) -> pd.DataFrame:
    """Return a row for each run of a study: the lowest probability that it is healthy, and the alarm.

    Column ``drawn`` is that probability if real runs departed as drawn ones do, of which the inflation is
    learnt.
    """
    rows = []
    for run in study.continual_runs or study.pretraining_runs:
        told: dict[int, dict[str, float]] = {}
        for domain in posterior.frame.domains:
            for step, loss in zip(*study.curve(run.name, domain), strict=True):
                told.setdefault(int(step), {})[domain] = float(loss)
        steps = [step for step in sorted(told) if step > 0]
        row: dict[str, object] = {"run": run.name}
        for column, inflation in (("drawn", 1.0), ("lowest", INFLATION)):
            plan = study.without_losses()
            watcher = Watcher(posterior, run.name, plan, level=level, inflation=inflation)
            watcher.expect(steps)
            found = [watcher.update(step, told[step]) for step in steps]
            row[column] = min(status.probability for status in found)
            row["alarm"] = found[-1].off_since
        rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class Fold:
    """Runs of a study, and a study without them to fit.

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


def unseen(target: Path, level: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Return `measured` of all lab runs, each by a fit that did not see it."""
    tables = [pd.read_csv(target)] if target.exists() else []
    for fold in folds():
        names = [run.name for run in fold.runs]
        if any(((own["study"] == fold.name) & own["run"].isin(names)).any() for own in tables):
            continue
        posterior, diagnostics = fitted(fold.study, read_spec(MODEL), seed)
        found = measured(posterior, fold.whole.subset(names), level)
        found.insert(0, "study", fold.name)
        tables.append(found.assign(trustworthy=diagnostics.trustworthy))
        pd.concat(tables).to_csv(target, index=False)
    return pd.concat(tables, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.watch", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fit", nargs="?", help="file of a fit: of it runs are simulated")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--run", default="r25_lin05")
    parser.add_argument("--measured", nargs="*", default=[], help="studies of real runs to watch")
    parser.add_argument("--unseen", type=Path, metavar="CSV", help="watch all lab runs, left out")
    given = parser.parse_args(arguments)
    if (given.fit is None) == (given.unseen is None):
        parser.error("name a fit, or a file with --unseen")
    if given.unseen is not None:
        print(unseen(given.unseen).to_string(index=False))  # noqa: T201
        return
    posterior = load(given.fit)
    print(report(posterior, given.run, given.runs).to_string(index=False))  # noqa: T201
    for folder in given.measured:
        print(measured(posterior, read_study(folder)).to_string(index=False))  # noqa: T201


if __name__ == "__main__":
    main()
