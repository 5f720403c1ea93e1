"""Score forecasts on every public study, and on the lab's: one table, each run counting alike.

From the repository's root::

    PYTHONPATH=research python -m testbench.public data/public -o OUT --jobs 2
    PYTHONPATH=research python -m testbench.public data/public -o OUT --studies mpl-25m
    PYTHONPATH=research python -m testbench.public data/public -o OUT --questions
    PYTHONPATH=research python -m testbench.public data/public -o OUT --forecasts mine=mine.csv

A folder in the one given that has `fit/` and `predict/` is a study: the first is fitted, the second
predicted. Of `mpl-*` three schedules are fitted; of `pythia-python` each run is left out in turn; of
each scale in `delphi` the runs at the highest peak are. The lab's own sets come too.
Stopped, the same command goes on. docs/benchmark.md says how to score a law of your own, or a CSV of
forecasts.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold, Question, held_out_folds, other_study
from bayes_cpt.validate.held_out import OURS, TABLES, Answer, Method, package_method, score_folds
from bayes_cpt.validate.scores import ALL_DOMAINS, EQUAL_RUNS, summarize
from bayes_cpt.validate.tasks import Pool, Records
from testbench import our_areas, submitted
from testbench.baselines import FINAL_LOSS_ANSWERS
from testbench.held_out import METHODS
from testbench.report import markdown_table, public_options

LAB_TESTS = Path(__file__).parents[2] / "tests" / "data"
# How names of studies start, by the repository that their runs come from.
FAMILIES = {
    "lr": "124m",
    "horizon": "124m",
    "ladder": "ladder",
    "size": "sizes",
    "web": "sizes",
    "mpl": "mpl",
}
# The same of studies with CPT runs; the lab's far target is a study of its own.
CONTINUAL_FAMILIES = {
    "pythia-python": "pythia",
    "lab-longer": "lab",
    "lab-each-run": "lab",
    "lab-strong": "strong",
}
DELPHI = "delphi"
# What the multi-power repository fits; its six other schedules are predicted.
MULTI_POWER_FITTED = ("cosine_24000", "constant_24000", "wsdcon_9")
MODELS = ("pretrain", "cpt-replay")
APART = ": "
SHARES = {"coverage_50": "in 50 %", "coverage_90": "in 90 %"}
SCORES = {"crps": "CRPS", "mae": "MAE", "bias": "bias", "width_90": "width of 90 %"}

# Of a study's name: with which others it is left out.
type Group = Callable[[str], str]
type Folds = Callable[[Models], list[Fold]]


@dataclass(frozen=True)
class Models:
    """The package's models: one for pre-training studies, one for those with CPT runs."""

    pretraining: ModelSpec
    continual: ModelSpec

    def of(self, study: Study) -> ModelSpec:
        """Return the model of a study."""
        return self.continual if study.continual_runs else self.pretraining

    def answer(self, question: Question, seed: int, *, cores: int | None = None) -> Answer:
        """Answer by a fit of the study's model."""
        return package_method(question, seed, specs=[self.of(question.study)], cores=cores)

    def methods(self, names: Sequence[str], cores: int | None) -> dict[str, Method]:
        """Return methods by their names, of all that there are."""
        known: dict[str, Method] = {
            OURS: partial(self.answer, cores=cores),
            our_areas.OUR_AREAS: self.law_alone,
        }
        return {name: (known | METHODS)[name] for name in names}

    def law_alone(self, question: Question, seed: int) -> Answer:
        """Answer by the paper's method given the law of the study's model."""
        return our_areas.answer(question, seed, spec=self.of(question.study))


def family(study: str) -> str:
    """Return the family of a study, by its name."""
    return CONTINUAL_FAMILIES.get(study) or FAMILIES[study.split("-")[0]]


def suite(folder: Path) -> dict[str, Folds]:
    """Return every study that is there, by its name: what gives its folds for some models."""
    found: dict[str, Folds] = {
        path.name: partial(_other, path / "fit", path / "predict")
        for path in sorted(folder.iterdir())
        if (path / "fit").is_dir() and (path / "predict").is_dir()
    }
    found |= {path.name: partial(_other_runs, path) for path in sorted(folder.glob("mpl-*"))}
    if (path := folder / "pythia-python").is_dir():
        found[path.name] = partial(_each_run, path)
    for path in sorted((folder / DELPHI).glob("*/study.toml")):
        found[f"{DELPHI}-{path.parent.name}"] = partial(_highest_peak, path.parent)
    found["lab-longer"] = partial(_other, bundled_study(), LAB_TESTS / "cpt-lab-practice")
    found["lab-strong"] = partial(_each_run, LAB_TESTS / "cpt-lab-strong")
    found["lab-each-run"] = partial(_each_run, bundled_study())
    return found


def pretraining_suite(folder: Path) -> dict[str, Folds]:
    """Return the studies of pre-training among those of `suite`."""
    return {name: folds for name, folds in suite(folder).items() if name.split("-")[0] in FAMILIES}


def continual_suite(folder: Path) -> dict[str, Folds]:
    """Return the studies with CPT runs among those of `suite`."""
    return {name: folds for name, folds in suite(folder).items() if name in CONTINUAL_FAMILIES}


def _other(fitted: Path, predicted: Path, models: Models) -> list[Fold]:
    study = read_study(fitted)
    return other_study(study, read_study(predicted), models.of(study))


def _other_runs(folder: Path, models: Models) -> list[Fold]:
    study = read_study(folder)
    others = [run.name for run in study.runs if run.name not in MULTI_POWER_FITTED]
    return _two_parts(study, others, models)


def _highest_peak(folder: Path, models: Models) -> list[Fold]:
    study = read_study(folder)
    highest = max(run.schedule.peak for run in study.runs)
    held_out = [run.name for run in study.runs if run.schedule.peak == highest]
    return _two_parts(study, held_out, models)


def _two_parts(study: Study, predicted: Sequence[str], models: Models) -> list[Fold]:
    fitted = [run.name for run in study.runs if run.name not in predicted]
    return other_study(study.subset(fitted), study.subset(predicted), models.of(study))


def _each_run(folder: Path, models: Models) -> list[Fold]:
    study = read_study(folder)
    return held_out_folds(study, models.of(study))


def score_suite(
    studies: Mapping[str, Sequence[Fold]],
    methods: Mapping[str, Method],
    seed: int,
    pool: Pool,
    records: Records,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `bayes_cpt.validate.held_out.score_folds` of all studies, with a column study."""
    folds = [
        replace(fold, label=name + APART + fold.label)
        for name, own in studies.items()
        for fold in own
    ]
    tables: tuple[list[pd.DataFrame], ...] = ([], [])
    for name, method in methods.items():
        scored = score_folds(folds, {name: method}, seed, pool=pool, records=records)
        for parts, table in zip(tables, scored, strict=True):
            # Of a method that answers nothing there is no row.
            studies_of = [label.partition(APART)[0] for label in table["fold"]]
            parts.append(table.assign(study=studies_of))
    points, refits = (pd.concat(parts, ignore_index=True) for parts in tables)
    return points, refits


def score_groups(
    groups: Mapping[str, tuple[Models, Mapping[str, Sequence[Fold]]]],
    names: Sequence[str],
    seed: int,
    pool: Pool,
    out: Path,
) -> pd.DataFrame:
    """Return `study_table` of groups of studies, each with models and a folder of its own."""
    tables = []
    for group, (models, studies) in groups.items():
        settings = {"seed": seed, "model": models.pretraining.model_dump(mode="json")}
        records = Records.open(out / group, settings, TABLES)
        methods = models.methods(names, pool.cores(sum(map(len, studies.values()))))
        tables.append(score_suite(studies, methods, seed, pool, records))
    points, refits = (pd.concat(parts, ignore_index=True) for parts in zip(*tables, strict=True))
    return study_table(points, refits)


def study_table(points: pd.DataFrame, refits: pd.DataFrame) -> pd.DataFrame:
    """Return one row per study and method, and one per method for all runs of all studies.

    Returns
    -------
    DataFrame
        Columns study, method, runs, the scores of `bayes_cpt.validate.scores.summarize` with each run
        counting alike, seconds (of all refits), attempts (the most that one refit took) and short (how
        many refits fall short of their diagnostics). Standard errors of the coverage of all runs take it
        that runs of a study are off together (`clustered_errors`).
    """
    rows = []
    everything = points.assign(run=points["study"] + APART + points["run"], study="all runs")
    for table in (points, everything):
        for (study, method), own in table.groupby(["study", "method"], sort=False):
            means = summarize(own).set_index(["run", "domain"]).loc[(EQUAL_RUNS, ALL_DOMAINS)]
            spent = refits[refits["method"] == method]
            if table is points:
                spent = spent[spent["study"] == study]
            apart = clustered_errors(own) if table is everything else {}
            rows.append(
                {"study": study, "method": method, "runs": own["run"].nunique()}
                | means.drop("runs").to_dict()
                | apart
                | {
                    "seconds": spent["seconds"].sum(),
                    "attempts": spent["attempts"].max(),
                    "short": int((~spent["trustworthy"].astype(bool)).sum()),
                }
            )
    return pd.DataFrame(rows)


def clustered_errors(points: pd.DataFrame) -> dict[str, float]:
    """Return standard errors of the shares of points that lie in bands, studies being independent.

    Each run counts alike, so a study of many runs weighs as many: off together, these are one observation.
    With studies of equally many runs it is the standard error of the mean over studies. Of one study there
    are none.
    """
    studies = points["run"].str.partition(APART)[0]
    found = {}
    for name in SHARES:
        covered = points[f"covered_{name.rpartition('_')[2]}"].astype(float)
        of_runs = covered.groupby([studies.rename("study"), points["run"]]).mean()
        off = (of_runs - of_runs.mean()).groupby(level="study").sum()
        if (count := len(off)) > 1:
            error = np.sqrt(count / (count - 1) * np.sum(off**2)) / len(of_runs)
            found[f"{name}_error"] = float(error)
    return found


def ratio_means(table: pd.DataFrame) -> dict[str, tuple[float, str, float]]:
    """Return, by other method, the geometric mean over studies of our CRPS over its, and the worst one."""
    of_studies = table[table["study"] != "all runs"]
    crps = of_studies.pivot(index="study", columns="method", values="crps")
    found = {}
    for other in crps.columns.drop(OURS, errors="ignore") if OURS in crps else ():
        ratios = (crps[OURS] / crps[other]).dropna()
        if len(ratios):
            mean = float(np.exp(np.log(ratios).mean()))
            found[other] = (mean, str(ratios.idxmax()), float(ratios.max()))
    return found


def markdown(table: pd.DataFrame) -> str:
    """Return the table of `study_table` and the ratios of `ratio_means`, as Markdown."""
    shown = table[["study", "method", "runs"]].copy()
    for name, words in SHARES.items():
        errors = (100 * table[f"{name}_error"]).map("{:.0f}".format)
        shown[words] = (100 * table[name]).map("{:.0f} ± ".format) + errors + " %"
    for name, words in SCORES.items():
        shown[words] = table[name]
    shown["seconds"] = table["seconds"].round().astype(int)
    shown["attempts"], shown["fall short"] = table["attempts"].astype(int), table["short"]
    order = {study: place for place, study in enumerate(dict.fromkeys(table["study"]))}
    shown = shown.sort_values("study", key=lambda names: names.map(order), kind="stable")
    lines = [markdown_table(shown), ""]
    for other, (mean, study, most) in ratio_means(table).items():
        lines.append(
            f"CRPS {OURS} / {other}, geometric mean over studies: {mean:.2f}; worst {study}, {most:.2f}"
        )
    return "\n".join(lines)


def write(table: pd.DataFrame, out: Path) -> None:
    """Write the table of `study_table` as table.csv and table.md into a folder, and print it."""
    table.to_csv(out / "table.csv", index=False)
    text = markdown(table)
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


def _models(parser: argparse.ArgumentParser, names: Sequence[str]) -> Models:
    """Return the default models, those of some names in place of the defaults of their kinds."""
    specs = [read_spec(name) for name in names]
    kinds = [spec.law.continual for spec in specs]
    if len(set(kinds)) < len(kinds):
        parser.error("two models are of one kind: give one for pre-training and one for CPT")
    found = {spec.law.continual: spec for spec in [*map(read_spec, MODELS), *specs]}
    return Models(found[False], found[True])


def _submitted(parser: argparse.ArgumentParser, given: Sequence[str]) -> dict[str, Method]:
    """Return methods that answer from files of forecasts, by their names."""
    found: dict[str, Method] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            parser.error(f"--forecasts {text}: give NAME=FILE")
        try:
            found[name] = submitted.read_forecasts(Path(file))
        except (OSError, BayesCPTError) as error:
            parser.error(str(error))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = public_options("public", __doc__)
    parser.add_argument("--studies", help="some of them only, separated by commas")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        help="in place of the default of its kind; twice for both",
    )
    known = [*METHODS, our_areas.OUR_AREAS, OURS]
    default = ",".join(name for name in known if name not in FINAL_LOSS_ANSWERS)
    parser.add_argument("--methods", default=default, help="default: %(default)s")
    parser.add_argument(
        "--forecasts",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="score a CSV of forecasts beside the methods; once for each file",
    )
    parser.add_argument(
        "--questions",
        action="store_true",
        help="write questions.csv, all points that are to be forecast, and stop",
    )
    options = parser.parse_args(arguments)
    submitted_files = _submitted(parser, options.forecasts)
    names = [name for name in options.methods.split(",") if name]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown methods {', '.join(unknown)}: choose from {', '.join(known)}")
    models = _models(parser, options.model)
    known_studies = suite(options.folder)
    wanted = options.studies.split(",") if options.studies else list(known_studies)
    if unknown := sorted(set(wanted) - set(known_studies)):
        parser.error(
            f"unknown studies {', '.join(unknown)}: choose from {', '.join(known_studies)}"
        )
    studies = {name: known_studies[name](models) for name in wanted}
    options.out.mkdir(parents=True, exist_ok=True)
    if options.questions:
        submitted.questions(studies).to_csv(options.out / "questions.csv", index=False)
        return
    pool = Pool(options.jobs)
    tasks = sum(map(len, studies.values()))
    settings = {
        "seed": options.seed,
        "models": [
            models.pretraining.model_dump(mode="json"),
            models.continual.model_dump(mode="json"),
        ],
    }
    records = Records.open(options.out / "records", settings, TABLES)
    methods = models.methods(names, pool.cores(tasks)) | submitted_files
    points, refits = score_suite(studies, methods, options.seed, pool, records)
    write(study_table(points, refits), options.out)


if __name__ == "__main__":
    main()
