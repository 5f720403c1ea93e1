"""Continual runs of the data-mixing-laws repository (Ye et al. 2024, github.com/yegcjs/mixinglaws).

``data/ct/70M.txt`` has a line per measurement: checkpoint, validation file and loss, with tabs between. A
checkpoint is the base (``.../pythia_70m_step20000``) or a run and its step
(``.../70M_ct_1-0.25-0.75/2000``: number, share of the Pile, share of Python). Files are of 22 parts of the
Pile, whose unweighted mean is the general loss, and of Python. The learning rates of these runs are not
published: a schedule has to be assumed.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import cosine, linear
from bayes_cpt.study.study import Study
from published.study_of import Row, study_of

GENERAL, TARGET = "pile", "python"
BASE, BASE_SIZE = "pythia-70m-20k", 18.9
WARMUP, FINAL_SHARE = 100, 0.1


def convert(files: list[Path], name: str, peak: float = 1e-3) -> Study:
    """Return the study of the file of continual runs."""
    parts: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    shares: dict[str, float] = {}
    base: dict[str, list[float]] = defaultdict(list)
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                checkpoint, validation, loss = line.split("\t")
                domain = TARGET if validation.endswith("python.valid.bin") else GENERAL
                if "_ct_" not in checkpoint:
                    base[domain].append(float(loss))
                    continue
                run, step = checkpoint.rstrip("/").split("/")[-2:]
                share = float(run.split("-")[1])
                label = f"pile_{round(1000 * share):03d}"
                parts[label, int(step), domain].append(float(loss))
            except (ValueError, IndexError):
                problem = "the line is not checkpoint, validation file and loss"
                fix = "give data/ct/70M.txt of the repository"
                raise StudyError.at(f"{file}, line {number}", problem, fix) from None
            shares[label] = share
    lengths = {
        label: max(step for other, step, _ in parts if other == label) for label in sorted(shares)
    }
    runs = [
        Run(
            label,
            "cpt",
            linear(WARMUP, 0.0, peak) + cosine(steps - WARMUP, peak, FINAL_SHARE * peak),
            base=BASE,
            replay=shares[label],
        )
        for label, steps in lengths.items()
    ]
    rows: list[Row] = [
        (label, 0, domain, float(np.mean(losses)))
        for label in lengths
        for domain, losses in base.items()
    ]
    rows += [
        (label, step, domain, float(np.mean(losses)))
        for (label, step, domain), losses in sorted(parts.items())
    ]
    return study_of(
        name,
        runs,
        rows,
        general=GENERAL,
        target=TARGET,
        bases=(Base(BASE, model_size=BASE_SIZE, known=False),),
        description="yegcjs/mixinglaws, continual pre-training; learning rates are assumed",
    )
