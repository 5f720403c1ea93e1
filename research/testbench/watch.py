"""How often `watch` cries wolf, and how soon it sees what is wrong: simulated runs of known truth.

    python -m testbench.watch FIT [--runs 200] [--run r25_lin05] [--measured STUDY...]
    python -m testbench.watch --unseen watched.csv

Runs on track are drawn from the posterior predictive distribution, each from another draw of the fit and
with sizes of its residuals of its own; also so that they depart from the forecast by as much more as real
runs do, which is what the watcher takes runs to be: of these alarms have the level. Faulty ones are drawn
with a fault planted, while the watcher expects the run as planned. One planted half-way sets in at half the
steps. Of several targets, runs on track are also drawn with validation sets that err independently, and
alike.

``--unseen`` watches every real CPT run by a fit that did not see it: each of ``data/cpt-lab`` and of
``tests/data/cpt-lab-strong`` left out of its own study, and ``tests/data/cpt-lab-practice`` by a fit of the
first. A fit takes minutes of a core; runs are kept as they come, and it goes on where it ended.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from bayes_cpt import load, read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.watch.drawn import drawn_parts, factors_by_row, in_time
from bayes_cpt.watch.learnt.experience import Experience
from bayes_cpt.watch.predictive import Predictive
from bayes_cpt.watch.watcher import Watcher
from testbench.alike_errors import MODEL, folds
from testbench.one_decision import fitted

EVALUATIONS = 40
# What corrupted data add to the loss of the target, nats, from half-way on.
CORRUPTION = 0.05
AS_REAL = "on track, departing as real runs do"
LIKENESSES = {
    "independently": ErrorCorrelation(0.0, 0.0),
    "alike": ErrorCorrelation(0.95, 0.9),
}


@dataclass(frozen=True, eq=False)
class Watched:
    """A run that is simulated, as the watcher sees it.

    Parameters
    ----------
    posterior : Posterior
    run : Run
    plan : Study
        Where the run is, with its base's losses.
    steps : list of int
        At which it is evaluated.
    experience : Experience
        How unlike real runs are to drawn ones.
    """

    posterior: Posterior
    run: Run
    plan: Study
    steps: list[int]
    experience: Experience

    @classmethod
    def of(cls, posterior: Posterior, name: str) -> Self:
        """Return a new run that is trained like one of the study."""
        run = replace(posterior.study.run(name), name="watched")
        study = posterior.study.without_losses()
        plan = replace(study, runs=(run,), losses=study.losses.iloc[:0])
        plan = with_base_losses(posterior.study, posterior.frame.domains, plan)
        shares = np.linspace(0.0, 1.0, EVALUATIONS + 1)[1:] ** 2
        steps = sorted({max(1, round(run.schedule.steps * share)) for share in shares})
        return cls(posterior, run, plan, steps, Experience.of(posterior, continual=True))

    def drawn(
        self, truth: Run, count: int, seed: int, alike: ErrorCorrelation | None = None
    ) -> Floats:
        """Return drawn losses of what is trained in truth, shape (count, rows), in time.

        Its validation sets err alike as the fit tells, unless that is given.
        """
        domains = self.posterior.frame.domains
        generator = np.random.default_rng(seed)
        order, rows = in_time(domains, self.steps)
        parts = drawn_parts(
            self.posterior, self.plan, truth, self.steps, count, generator, (alike,)
        )
        of_row = np.array([domains.index(row.domain) for row in rows])
        factors = factors_by_row(self.experience.sizes, count, len(domains), generator, of_row)
        return parts.at(order).curves(factors)

    def departing(self, losses: Floats, seed: int) -> Floats:
        """Return drawn losses that depart as much further as real ones do, of the same shape.

        Each curve departs by a factor of its own, drawn as `Experience` has it; as it is where no real run
        was watched.
        """
        known, middle = self.experience, losses.mean(axis=0)
        if not known.runs:
            return losses
        inverse = np.random.default_rng(seed).gamma(
            known.runs, 1.0 / known.surprise, (len(losses), 1)
        )
        return np.asarray(middle + (losses - middle) / np.sqrt(inverse))

    def expected(self) -> Predictive:
        """Return what the watcher expects."""
        sizes = self.experience.sizes
        return Predictive.of(self.posterior, self.run, self.plan, self.steps, sizes)

    def first_alarms(self, expected: Predictive, losses: Floats, level: float) -> list[int | None]:
        """Return the step of the first alarm of each curve, None where there is none."""
        every = range(len(expected.rows))
        found: list[int | None] = []
        for curve in losses:
            departures = expected.departures(every, curve)
            alarms = np.flatnonzero(self.experience.share(departures.course()) < level)
            ends = departures.usual.ends
            found.append(expected.rows[ends[alarms[0]] - 1].step if alarms.size else None)
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
    """Return a row for runs on track and for each fault: share of alarms and the median delay.

    The seed is another than the watcher's: what it holds for usual is not what it is shown.
    """
    watched = Watched.of(posterior, name)
    expected = watched.expected()
    cases = {"on track": watched.drawn(watched.run, count, seed)}
    cases[AS_REAL] = watched.departing(cases["on track"], seed)
    if len(posterior.frame.domains) > 2:
        for name, alike in LIKENESSES.items():
            cases[f"on track, sets that err {name}"] = watched.drawn(
                watched.run, count, seed, alike
            )
    for number, (fault, wrong) in enumerate(planted(watched.run).items(), start=1):
        cases[fault] = watched.drawn(wrong, count, seed + number)
    corrupted = watched.drawn(watched.run, count, seed + len(cases))
    target = posterior.frame.domains[-1]
    half = watched.run.schedule.steps / 2
    late = [row.step > half and row.domain == target for row in expected.rows]
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
    """Return a row for each run of a study: the lowest probability of being on track, and the alarm.

    Column ``drawn`` is the least share of drawn runs that depart as far, of which `Experience` is learnt.
    """
    rows = []
    experience = Experience.of(posterior, continual=bool(study.continual_runs))
    for run in study.continual_runs or study.pretraining_runs:
        watcher = Watcher(
            posterior, run.name, study.without_losses(), level=level, experience=experience
        )
        told: dict[int, dict[str, float]] = {}
        for domain in posterior.frame.domains:
            for step, loss in zip(*study.curve(run.name, domain), strict=True):
                told.setdefault(int(step), {})[domain] = float(loss)
        watcher.expect([step for step in sorted(told) if step > 0])
        found = [watcher.update(step, told[step]) for step in sorted(told) if step > 0]
        lowest = min(status.probability for status in found)
        drawn = experience.drawn(lowest)
        row = {"run": run.name, "drawn": drawn, "lowest": lowest, "alarm": found[-1].off_since}
        rows.append(row)
    return pd.DataFrame(rows)


def unseen(target: Path, level: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Return `measured` of all lab runs, each by a fit that did not see it.

    Parameters
    ----------
    target : Path
        CSV, continued if it exists.
    level : float
        Share of runs on track for which an alarm is given.
    seed : int
        Of the fits.
    """
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
