"""Compare pre-training laws, and the stack of them, on every public study: runs that no fit saw.

From the repository's root; half an hour of a core, kept study by study::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.compare_suite ../shared/data/public -o OUT

Each law is fitted to the part of a study that `testbench.public` fits, and predicts each run of the rest:
its log score, by which laws are stacked as `bayes_cpt.compare` does, and CRPS. Each run is one observation.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt import fit
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.held_out import MIXTURE_TABLES, Answer, answer_by, score_folds
from bayes_cpt.validate.law_scores import CRPS, LOG_SCORE, STACK, LawScores
from bayes_cpt.validate.tasks import Pool, Records
from testbench.public import Models, suite
from testbench.report import markdown_table

HERE = Path(__file__).parent
LAWS = ("pretrain", str(HERE / "pretrain-without-peak.toml"), str(HERE / "pretrain-printed.toml"))
# Of studies with more runs to predict, some that are evenly spread over their names.
MOST_RUNS = 12
KEYS = ["run", "domain", "step"]


def of_each_run(fold: Fold) -> list[Fold]:
    """Return a fold for each run of a fold of many, for some of them where they are very many."""
    names = sorted(fold.measured["run"].unique())
    places = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_RUNS)).astype(int))
    asked, found = fold.question, []
    for name in (names[place] for place in places):
        measured = fold.measured[fold.measured["run"] == name]
        plan = asked.plan.subset([name])
        found.append(Fold(name, 0.0, Question(asked.study, plan, measured[KEYS]), measured))
    return found


def common_folds(by_law: Sequence[Sequence[Fold]]) -> list[Fold]:
    """Return the folds of a study at the points that all laws count, one fold for each run."""
    (first,), *others = by_law
    measured = first.measured
    for (other,) in others:
        measured = measured.merge(other.measured[KEYS], on=KEYS)
    asked = first.question
    whole = Question(asked.study, asked.plan, measured[KEYS])
    return of_each_run(Fold(first.label, 0.0, whole, measured))


class FittedOnce:
    """A method that fits each study once, whichever of its runs are asked for.

    Parameters
    ----------
    spec : ModelSpec
    seed : int
        Of the fit.
    """

    def __init__(self, spec: ModelSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._fits: dict[str, Posterior] = {}

    def __call__(self, question: Question, seed: int) -> Answer:
        """Answer by the fit of the question's study."""
        digest = question.study.digest()
        if digest not in self._fits:
            self._fits[digest] = fit(question.study, self._spec, self._seed, cores=1)
        return answer_by(self._fits[digest], question, seed)


def scores_of(folds: list[Fold], specs: Mapping[str, ModelSpec], seed: int) -> LawScores:
    """Return what laws fitted to one study score on further runs."""
    methods = {name: FittedOnce(spec, seed) for name, spec in specs.items()}
    records = Records.open(None, {}, MIXTURE_TABLES)
    quantiles, log_scores, refits = score_folds(folds, methods, seed, pool=Pool(1), records=records)
    return LawScores.of(folds, quantiles, log_scores, refits, tuple(specs))


def report(table: pd.DataFrame) -> str:
    """Return the tables of all studies and of all laws, as Markdown."""
    shown = []
    laws = [method for method in dict.fromkeys(table["method"]) if method != STACK]
    for study, own in table.groupby("study", sort=False):
        rows = own.set_index("method")
        cells = {"study": study, "runs": int(rows["runs"].iloc[0])}
        for law in laws:
            cells[f"weight of {law}"] = f"{100 * rows.loc[law, 'weight']:.0f} %"
        for name in (*laws, STACK):
            cells[name] = _difference(rows.loc[name])
        for name in (*laws, STACK):
            cells[f"CRPS {name}"] = f"{1000 * rows.loc[name, CRPS]:.1f}"
        shown.append(cells)
    crps = table.pivot(index="study", columns="method", values=CRPS)
    best = crps[laws].min(axis=1)
    lines = [markdown_table(pd.DataFrame(shown)), ""]
    for name in (*laws, STACK):
        ratio = float(np.exp(np.log(crps[name] / best).mean()))
        wins = int((table["best"] & (table["method"] == name)).sum())
        lines.append(f"{name}: best of {wins}, CRPS {ratio:.2f} of each study's best law")
    return "\n".join(lines) + "\n"


def _difference(row: pd.Series) -> str:
    value, error = (float(row[f"{LOG_SCORE}_{part}"]) for part in ("difference", "error"))
    return f"{value:+.1f} ± {error:.1f}" if value or error else "best"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.compare_suite", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the table")
    parser.add_argument("--studies", help="some of them only, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    specs = {spec.name: spec for spec in map(read_spec, LAWS)}
    continual = read_spec("cpt-replay")
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "compared.csv"
    tables = [pd.read_csv(kept)] if kept.is_file() else []
    done = {name for table in tables for name in table["study"]}
    chosen = options.studies.split(",") if options.studies else None
    for name, folds_by in suite(options.folder).items():
        if name in done or (chosen is not None and name not in chosen):
            continue
        by_law = [folds_by(Models(spec, continual)) for spec in specs.values()]
        if len(by_law[0]) != 1 or by_law[0][0].question.study.continual_runs:
            continue
        folds = common_folds(by_law)
        if len(folds) > 1:
            scores = scores_of(folds, specs, options.seed)
            table = scores.table().assign(study=name, trustworthy=not scores.problems)
            tables.append(table.assign(best=table["method"] == scores.best))
            pd.concat(tables).to_csv(kept, index=False)
            sys.stderr.write(f"{name}: {len(folds)} runs\n")
    text = report(pd.concat(tables, ignore_index=True))
    (options.out / "compared.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
