"""What may be wrong with a run, of what the law can foretell."""

from dataclasses import replace

import numpy as np

from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule


def faulty(run: Run) -> dict[str, Run]:
    """Return the run with something wrong with it, by what is wrong: what the law can foretell.

    Parameters
    ----------
    run : Run
        As it was planned.
    """
    faults = {
        "a peak learning rate twice as high": replace(run, schedule=run.schedule.scaled(2.0)),
        "a peak learning rate half as high": replace(run, schedule=run.schedule.scaled(0.5)),
    }
    if run.replay is not None:
        less, more = 0.5 * run.replay, run.replay + 0.5 * (1.0 - run.replay)
        faults[f"a replay ratio near {more:.2g} in place of {run.replay:.2g}"] = replace(
            run, replay=more
        )
        if run.replay > 0:
            faults[f"a replay ratio near {less:.2g} in place of {run.replay:.2g}"] = replace(
                run, replay=less
            )
    rates = run.schedule.learning_rates()
    top = int(rates.argmax())
    if rates[-1] < 0.9 * rates[top]:
        held = np.maximum.accumulate(rates)
        steps = np.arange(1, rates.size + 1)
        faults["a learning rate that does not decay"] = replace(
            run, schedule=Schedule.from_log(steps, held)
        )
    return faults
