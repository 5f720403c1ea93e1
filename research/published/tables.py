"""PT runs of which tables alone were published: a CSV file typed from them, all runs of a study in one.

Columns: ``run``; ``steps``, ``warmup`` and ``decay`` (how long the run, its linear warm-up from 0 and its
decay at the end are); ``peak``; ``shape`` (``cosine`` or ``linear``, of the decay); ``final`` (the last
learning rate, as a share of the peak); ``step`` and ``loss``. A row per measured loss; what belongs to a
run is the same in all its rows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study
from published.study_of import Row, study_of

DOMAIN = "validation"
OF_A_RUN = ("steps", "warmup", "decay", "peak", "shape", "final")
SHAPES: dict[str, Callable[[int, float, float], Schedule]] = {"cosine": cosine, "linear": linear}


def convert(files: list[Path], name: str) -> Study:
    """Return the study of a table."""
    runs: list[Run] = []
    rows: list[Row] = []
    for file in files:
        table = pd.read_csv(file)
        if missing := [own for own in ("run", *OF_A_RUN, "step", "loss") if own not in table]:
            fix = f"give a table with the columns run, {', '.join(OF_A_RUN)}, step and loss"
            raise StudyError.at(str(file), f"there is no column {missing[0]}", fix)
        for run, points in table.groupby("run", sort=False):
            if differ := [own for own in OF_A_RUN if points[own].nunique() > 1]:
                what, fix = f"{differ[0]} differs between its rows", "give runs names of their own"
                raise StudyError.at(f"{file}, run {run}", what, fix)
            runs.append(Run(str(run), "pt", _schedule(points.iloc[0], f"{file}, run {run}")))
            rows += [
                (str(run), int(step), DOMAIN, float(loss))
                for step, loss in zip(points["step"], points["loss"], strict=True)
            ]
    return study_of(name, runs, rows, general=DOMAIN, description="typed from published tables")


def _schedule(run: Any, place: str) -> Schedule:
    if run["shape"] not in SHAPES:
        fix = f"give {' or '.join(SHAPES)}"
        raise StudyError.at(place, f"its decay is {run['shape']}, which is not known", fix)
    peak, warmup, decay = float(run["peak"]), int(run["warmup"]), int(run["decay"])
    plateau = int(run["steps"]) - warmup - decay
    if plateau < 0:
        what = f"its warm-up and decay take {warmup + decay} steps, and the run has {run['steps']}"
        raise StudyError.at(place, what, "give the steps of the decay alone, at the end of the run")
    schedule = linear(warmup, 0.0, peak)
    if plateau:
        schedule += constant(plateau, peak)
    return schedule + SHAPES[run["shape"]](decay, peak, float(run["final"]) * peak)
