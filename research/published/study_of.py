"""What all converters share: a study of PT runs from schedules and tables, and a check of schedules."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

type Row = tuple[str, int, str, float]

# A logged learning rate may differ from that of the schedule by this share of the peak: logs are read one
# step before or after.
CLOSE = 0.01


def study_of(
    name: str,
    runs: Iterable[Run],
    rows: Iterable[Row],
    *,
    general: str,
    target: str | None = None,
    bases: tuple[Base, ...] = (),
    description: str = "",
) -> Study:
    """Return a study of runs and rows of run, step, validation set and loss."""
    losses = pd.DataFrame(list(rows), columns=["run", "step", "domain", "loss"])
    return Study(name, general, target, bases, tuple(runs), losses, description=description)


def check_rates(place: str, schedule: Schedule, steps: ArrayLike, logged: ArrayLike) -> None:
    """Check a schedule against logged learning rates."""
    rates, places = schedule.learning_rates(), np.asarray(steps, dtype=np.int64)
    wanted = np.asarray(logged, dtype=np.float64)
    near = [rates[np.clip(places - 1 + shift, 0, rates.size - 1)] for shift in (-1, 0, 1)]
    apart = np.abs(np.stack(near) - wanted).min(axis=0)
    if apart.size and apart.max() > CLOSE * schedule.peak:
        worst = int(apart.argmax())
        raise StudyError.at(
            f"{place}, step {places[worst]}",
            f"the log has a learning rate of {wanted[worst]:g}, and the schedule in its settings "
            f"{near[1][worst]:g}",
            "the file is of another kind than this converter knows: leave it out",
        )
