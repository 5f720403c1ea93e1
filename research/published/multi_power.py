"""Runs of the Multi-Power-Law repository (Luo et al., ICLR 2025, arXiv 2503.12811; MIT).

Its folders ``loss_curve_repo/csv_25``, ``csv_100`` and ``csv_400`` hold a CSV file per schedule with the
columns step, lr and loss. Files start after a warm-up of 2,160 steps; the learning rate is read as a log,
and what lies between logged steps is interpolated.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import LoggedSegment, Schedule
from bayes_cpt.study.study import Study
from published.study_of import Row, study_of

DOMAIN = "validation"
WARMUP = 2160
NEEDED = ("step", "lr", "loss")


def convert(files: list[Path], name: str, model_size: float) -> Study:
    """Return the study of some files."""
    runs: list[Run] = []
    rows: list[Row] = []
    for file in files:
        table = pd.read_csv(file)
        missing = [own for own in NEEDED if own not in table.columns]
        if missing:
            problem = f"there is no column {missing[0]}"
            fix = "give the CSV files of loss_curve_repo"
            raise StudyError.at(str(file), problem, fix)
        table = table[table["step"] > WARMUP].dropna(subset=["loss"])
        steps, rates = table["step"].to_numpy(), table["lr"].to_numpy(dtype=np.float64)
        # A log of the whole run: the warm-up, which the file leaves out, rises to the first rate.
        places = (1, WARMUP, *(int(step) for step in steps))
        logged = (float(rates[0]) / WARMUP, float(rates[0]), *rates.tolist())
        schedule = Schedule((LoggedSegment(places[-1], places, logged),))
        runs.append(Run(file.stem, "pt", schedule, model_size=model_size))
        rows += [
            (file.stem, int(step), DOMAIN, float(loss))
            for step, loss in zip(steps, table["loss"], strict=True)
        ]
    described = "Multi-Power-Law repository (Luo et al., ICLR 2025)"
    return study_of(name, runs, rows, general=DOMAIN, description=described)
