"""Runs of the OLMo ladder (Bhagia et al. 2024, github.com/allenai/OLMo-ladder; Apache-2.0).

A CSV file per run, named by size and multiple of Chinchilla (``190M-5xC.csv``), with the columns ``_step``,
``eval/NAME-validation/CrossEntropyLoss``, ``learning_rate_peak`` and ``batch_size_in_tokens``. All runs
warm up over as many tokens as the model has parameters, and decay by a cosine to a tenth of the peak at
their last step.
"""

from pathlib import Path

import pandas as pd

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import cosine, linear
from bayes_cpt.study.study import Study
from published.study_of import Row, study_of

# Non-embedding parameters by the size in a file's name.
PARAMETERS = {"190M": 190_354_176, "370M": 371_262_464, "760M": 758_220_288, "1B": 1_279_395_840}
COLUMN = "eval/{}-validation/CrossEntropyLoss"
NEEDED = ("_step", "learning_rate_peak", "batch_size_in_tokens")
FINAL_SHARE = 0.1


def convert(files: list[Path], name: str, validation: str = "c4_en") -> Study:
    """Return the study of some files."""
    runs: list[Run] = []
    rows: list[Row] = []
    column = COLUMN.format(validation)
    for file in files:
        table = pd.read_csv(file)
        size = file.stem.split("-")[0]
        missing = [own for own in (*NEEDED, column) if own not in table.columns]
        if missing or size not in PARAMETERS:
            what = (
                f"there is no column {missing[0]}" if missing else f"the size {size} is not known"
            )
            fix = f"give files such as 190M-1xC.csv, of {', '.join(PARAMETERS)}"
            raise StudyError.at(str(file), what, fix)
        table = table.dropna(subset=[column])
        batch, peak = (
            int(table["batch_size_in_tokens"].iloc[0]),
            float(table["learning_rate_peak"].iloc[0]),
        )
        last, warmup = int(table["_step"].max()), PARAMETERS[size] // batch
        schedule = linear(warmup, 0.0, peak) + cosine(last - warmup, peak, FINAL_SHARE * peak)
        millions = PARAMETERS[size] // 1_000_000
        runs.append(Run(file.stem, "pt", schedule, model_size=millions, batch_tokens=batch))
        rows += [
            (file.stem, int(step), validation, float(loss))
            for step, loss in zip(table["_step"], table[column], strict=True)
        ]
    described = "allenai/OLMo-ladder (Bhagia et al. 2024)"
    return study_of(name, runs, rows, general=validation, description=described)
