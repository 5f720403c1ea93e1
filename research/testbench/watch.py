"""How often `watch` cries wolf, and how soon it sees what is wrong: simulated runs of known truth.

    python -m testbench.watch FIT [--runs 200] [--run r25_lin05] [--measured STUDY...]

Runs on track are drawn from the posterior predictive distribution, each from another draw of the fit; the
faulty ones are drawn with the fault planted, while the watcher expects the run as planned. A fault that is
planted half-way sets in at half the steps.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt import load, read_study
from bayes_cpt.forecast.plans import planned_curves, with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.simulate import simulate
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.watch.watcher import Watcher

type Floats = NDArray[np.float64]

EVALUATIONS = 40
# What corrupted data add to the loss of the target, nats, from half-way on.
CORRUPTION = 0.05


def curves_of(
    posterior: Posterior, run: Run, steps: Sequence[int], count: int, seed: int
) -> Floats:
    """Return drawn losses of a run that was not fitted, shape (count, domains, steps)."""
    study = posterior.study.without_losses()
    plan = replace(study, runs=(run,), losses=study.losses.iloc[:0])
    plan = with_base_losses(posterior.study, posterior.frame.domains, plan)
    at = pd.MultiIndex.from_product(
        [[run.name], posterior.frame.domains, steps], names=["run", "domain", "step"]
    ).to_frame(index=False)
    _, curves = planned_curves(posterior, plan, at=at, runs=[run.name])
    generator = np.random.default_rng(seed)
    parameters = posterior.parameters()
    available = len(next(iter(parameters.values())))
    chosen = generator.choice(available, count, replace=count > available)
    taken = {name: values[chosen] for name, values in parameters.items()}
    losses = simulate(posterior.frame, taken, curves, None, generator).loss
    return losses.reshape(count, len(posterior.frame.domains), len(steps))


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


def first_alarms(
    watcher: Watcher,
    start: dict[str, Any],
    losses: Floats,
    steps: Sequence[int],
    level: float,
) -> list[int | None]:
    """Return the step of the first alarm of each curve, None where there is none."""
    found: list[int | None] = []
    for curve in losses:
        watcher.restore(start)
        found.append(None)
        for place, step in enumerate(steps):
            told = dict(zip(watcher.posterior.frame.domains, curve[:, place].tolist(), strict=True))
            if watcher.update(step, told).probability < level:
                found[-1] = step
                break
    return found


def report(
    posterior: Posterior, name: str, count: int, level: float = 0.05, seed: int = 0
) -> pd.DataFrame:
    """Return a row for runs on track and for each fault: share of alarms and the median delay."""
    run = replace(posterior.study.run(name), name="watched")
    shares = np.linspace(0.0, 1.0, EVALUATIONS + 1)[1:] ** 2
    steps = sorted({max(1, round(run.schedule.steps * share)) for share in shares})
    study = posterior.study.without_losses()
    plan = replace(study, runs=(run,), losses=study.losses.iloc[:0])
    watcher = Watcher(posterior, "watched", plan, level=level)
    watcher.expect(steps)
    cases = {"on track": curves_of(posterior, run, steps, count, seed)}
    for fault, wrong in planted(run).items():
        cases[fault] = curves_of(posterior, wrong, steps, count, seed)
    corrupted = curves_of(posterior, run, steps, count, seed)
    late = np.asarray(steps) > run.schedule.steps / 2
    corrupted[:, -1, late] += CORRUPTION
    cases[f"data corrupted half-way, +{CORRUPTION:g} on the target"] = corrupted
    rows, start = [], watcher.state()
    for case, losses in cases.items():
        alarms = first_alarms(watcher, start, losses, steps, level)
        rows.append(_row(case, alarms, run.schedule.steps))
    return pd.DataFrame(rows)


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
    """Return a row for each CPT run of a study: the lowest probability of being on track, and the alarm."""
    rows = []
    for run in study.continual_runs:
        watcher = Watcher(posterior, run.name, study.without_losses(), level=level)
        told: dict[int, dict[str, float]] = {}
        for domain in posterior.frame.domains:
            for step, loss in zip(*study.curve(run.name, domain), strict=True):
                told.setdefault(int(step), {})[domain] = float(loss)
        watcher.expect([step for step in sorted(told) if step > 0])
        found = [watcher.update(step, told[step]) for step in sorted(told) if step > 0]
        lowest = min(status.probability for status in found)
        rows.append({"run": run.name, "lowest": lowest, "alarm": found[-1].off_since})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fit")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--run", default="r25_lin05")
    parser.add_argument("--measured", nargs="*", default=[], help="studies of real runs to watch")
    given = parser.parse_args()
    posterior = load(given.fit)
    print(report(posterior, given.run, given.runs).to_string(index=False))  # noqa: T201
    for folder in given.measured:
        print(measured(posterior, read_study(folder)).to_string(index=False))  # noqa: T201


if __name__ == "__main__":
    main()
