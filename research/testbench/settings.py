"""Which settings that are no parameters forecast best, by what studies of other families say.

From the repository's root::

    PYTHONPATH=research python -m testbench.settings data/public -o OUT --jobs 2
    PYTHONPATH=research python -m testbench.settings data/public -o OUT --model cpt-replay

Settings are changed one at a time: which first steps of a run are left out, how fast the misfit forgets,
and how the memory fades with the learning rate. Each study of pre-training is fitted as
`testbench.public` fits it, under the priors of `vague.toml`, which no study had a part in; its further runs
are forecast at the points that every rule of first steps leaves in. The best value of a setting has the
least CRPS, as a geometric mean over studies. For each family of studies it is chosen among the studies of
the others. One more column has the CRPS with the earlier points, which some rules leave in: what a rule
gains later it could lose there. Of a model of CPT the studies are the lab's and Pythia's, under its own
priors. Stopped, the same command goes on.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.validate.folds import Fold
from bayes_cpt.validate.held_out import TABLES, Method, package_method
from bayes_cpt.validate.tasks import Pool, Records
from testbench.beyond import NOTHING
from testbench.families import VAGUE
from testbench.public import (
    Models,
    continual_suite,
    family,
    pretraining_suite,
    score_suite,
    study_table,
)
from testbench.report import markdown_table, public_options

# Of models of pre-training and of CPT.
VALUES: dict[str, tuple[float, ...]] = {
    "skip_warmups": (6.0, 12.0, 24.0),
    "skip_pretraining": (0.05, 0.1, 0.15),
    "skip_longest": (0.1, 0.2, 0.3, 0.4),
    "misfit_memory_pt": (0.0, 0.2, 0.5, 0.8),
    "memory_clock": (0.0, 0.35, 0.7, 1.0, 1.4),
}
CONTINUAL_VALUES: dict[str, tuple[float, ...]] = {
    "misfit_memory": (0.3, 0.6, 0.85),
    "misfit_memory_pt": (0.0, 0.8),
    "memory_clock": (0.7, 1.0),
}
SKIPS = ("skip_warmups", "skip_pretraining", "skip_longest")
# What stands under [law] of a model's TOML; the others under [residuals].
OF_LAW = ("memory_clock",)
EQUALS = " = "
LATER, EARLIER = "later", "earlier"


def values_of(spec: ModelSpec) -> dict[str, tuple[float, ...]]:
    """Return the values that are tried of each setting of a model."""
    return CONTINUAL_VALUES if spec.law.continual else VALUES


def with_settings(spec: ModelSpec, values: dict[str, float]) -> ModelSpec:
    """Return a model with other values of some settings."""
    residuals = {name: value for name, value in values.items() if name not in OF_LAW}
    law = {name: value for name, value in values.items() if name in OF_LAW}
    return spec.model_copy(
        update={
            "residuals": spec.residuals.model_copy(update=residuals),
            "law": spec.law.model_copy(update=law),
        }
    )


def settings_of(spec: ModelSpec) -> dict[str, float]:
    """Return the values that a model has of all settings."""
    tables = {name: spec.law if name in OF_LAW else spec.residuals for name in values_of(spec)}
    return {name: float(getattr(table, name)) for name, table in tables.items()}


def label(setting: str, value: float) -> str:
    """Return what a candidate is called."""
    return f"{setting}{EQUALS}{value:g}"


def candidates(spec: ModelSpec) -> dict[str, ModelSpec]:
    """Return every model that is tried, by setting and value; the model itself is one for each setting."""
    return {
        label(name, value): with_settings(spec, {name: value})
        for name, values in values_of(spec).items()
        for value in sorted({*values, settings_of(spec)[name]})
    }


def suite_folds(folder: Path, spec: ModelSpec) -> dict[str, list[Fold]]:
    """Return the folds of every study of a model's kind, by what it takes for the first steps."""
    studies = continual_suite(folder) if spec.law.continual else pretraining_suite(folder)
    return {name: folds(Models(spec, spec)) for name, folds in studies.items()}


def later_points(points: pd.DataFrame, folds: Mapping[str, Sequence[Fold]]) -> pd.DataFrame:
    """Return those of some scored points that are asked for in some folds, too."""
    columns = ["study", "run", "domain", "step"]
    asked = [
        fold.measured[columns[1:]].assign(study=study)
        for study, of_study in folds.items()
        for fold in of_study
    ]
    return points.merge(pd.concat(asked)[columns].drop_duplicates(), on=columns)


def scored(
    folder: Path, spec: ModelSpec, pool: Pool, records: Records, seed: int
) -> dict[str, pd.DataFrame]:
    """Return the CRPS of every candidate on every study of its kind, each run counting alike.

    Returns
    -------
    dict of str to DataFrame
        Under `LATER` at the points that every rule of first steps leaves in, under `EARLIER` at those that
        one of them leaves in. One row per study, one column per key of `candidates`; nats/token.
    """
    skips = {name: values for name, values in values_of(spec).items() if name in SKIPS}
    loosest, strictest = (
        with_settings(spec, {name: extreme(values) for name, values in skips.items()})
        for extreme in (min, max)
    )
    studies = suite_folds(folder, loosest)
    tried = candidates(spec)
    # The model itself stands under every setting, and is fitted once.
    first = {model.model_dump_json(): name for name, model in reversed(tried.items())}
    methods: dict[str, Method] = {
        name: partial(package_method, specs=[tried[name]], cores=pool.cores(len(studies)))
        for name in first.values()
    }
    points, refits = score_suite(studies, methods, seed, pool, records)
    later = later_points(points, suite_folds(folder, strictest))
    columns = [first[model.model_dump_json()] for model in tried.values()]
    found = {}
    for name, of_name in {LATER: later, EARLIER: points}.items():
        table = study_table(of_name, refits)
        table = table[table["study"] != "all runs"]
        crps = table.pivot(index="study", columns="method", values="crps")
        found[name] = pd.DataFrame(
            {candidate: crps[column] for candidate, column in zip(tried, columns, strict=True)}
        )
    return found


def ratios(crps: pd.DataFrame, spec: ModelSpec, left_out: str = NOTHING) -> pd.Series:
    """Return the geometric mean over studies of each candidate's CRPS over that of the model itself."""
    kept = crps[[family(study) != left_out for study in crps.index]]
    unchanged = {name: kept[label(name, value)] for name, value in settings_of(spec).items()}
    return pd.Series(
        {
            column: float(np.exp(np.log(kept[column] / unchanged[setting]).mean()))
            for column in crps.columns
            for setting in [column.split(EQUALS)[0]]
        }
    )


def best_settings(crps: pd.DataFrame, spec: ModelSpec, left_out: str = NOTHING) -> dict[str, float]:
    """Return the value of each setting that forecasts best, changed alone; the model's own among equals."""
    all_ratios = ratios(crps, spec, left_out)
    chosen = settings_of(spec)
    for name in values_of(spec):
        of_setting = all_ratios[[column.split(EQUALS)[0] == name for column in all_ratios.index]]
        if of_setting.min() < 1.0:
            chosen[name] = float(str(of_setting.idxmin()).split(EQUALS)[1])
    return chosen


def report(scores: Mapping[str, pd.DataFrame], spec: ModelSpec) -> str:
    """Return the ratios of all studies and without each family, as Markdown; what is best is bold."""
    crps = scores[LATER]
    columns: dict[str, pd.Series] = {}
    for left_out in (NOTHING, *dict.fromkeys(map(family, crps.index))):
        best = [label(*setting) for setting in best_settings(crps, spec, left_out).items()]
        shown = ratios(crps, spec, left_out)
        heading = "all studies" if left_out == NOTHING else f"without {left_out}"
        columns[heading] = pd.Series(
            {
                name: f"**{value:.3f}**" if name in best else f"{value:.3f}"
                for name, value in shown.items()
            }
        )
    columns["earlier points, too"] = ratios(scores[EARLIER], spec).map("{:.3f}".format)
    return markdown_table(pd.DataFrame(columns).rename_axis("setting").reset_index())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = public_options("settings", __doc__)
    parser.add_argument("--model", default=str(VAGUE), help="default: %(default)s")
    options = parser.parse_args(arguments)
    spec = read_spec(options.model)
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {"seed": options.seed, "model": spec.model_dump(mode="json")}
    records = Records.open(options.out / "records", settings, TABLES)
    scores = scored(options.folder, spec, Pool(options.jobs), records, options.seed)
    for name, crps in scores.items():
        crps.to_csv(options.out / f"{name}.csv")
    text = report(scores, spec)
    (options.out / "settings.md").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
