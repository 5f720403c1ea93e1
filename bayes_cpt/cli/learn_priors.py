"""`bayes-cpt learn-priors`: a model whose priors come from a team's earlier studies."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.options import (
    Json,
    Quiet,
    RefitDraws,
    Seed,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.output import (
    Output,
    OutputFile,
    check_target,
    columns,
    extended,
    make_folder,
    number,
    writing,
)
from bayes_cpt.cli.validate import Dask, Jobs, Model, settings

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.history.learnt import Learnt
    from bayes_cpt.history.leave_one_out import Case
    from bayes_cpt.history.population import Population
    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study
    from bayes_cpt.validate.tasks import Pool

SCORES = ("coverage_90", "crps", "mae", "bias", "width_90")


def learn_priors(
    studies: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY...",
            help="Study folders, three at least. One that holds fit/ and predict/ is learnt from by the "
            "first, and the second is predicted with --leave-one-out.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, output_option("OUT", "Model to write: NAME.toml.")],
    model: Model = "cpt-replay",
    wider: Annotated[
        float,
        typer.Option(
            min=1.0, help="How many times as wide as the model's own the priors of the fits are."
        ),
    ] = 1.5,
    records: Annotated[
        Path | None,
        option("FOLDER", "Folder for what is done: stopped, the same command goes on there."),
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out",
            help="Score forecasts of each study under priors from all others; refits take long.",
        ),
    ] = False,
    draws: RefitDraws = None,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Learn the priors of a model from earlier studies, and write them as a model of your own.

    Fits each study under priors wider than the model's own, and learns from all fits together how each
    parameter is distributed over studies: fluctuation, misfit and offsets as well as the law's. The model
    written, to be given to --model, has for each parameter that three studies determine what a further
    such study is expected to have; its reason names the studies. All others keep their priors. Parameters
    that surely go together from study to study (probability .95) get a correlation.

    With --leave-one-out each study's held-out runs (else each of its runs in turn) are forecast under
    priors from all other studies, and under the model's own; FOLDER then holds these models too, as
    without-STUDY.toml.

    \b
    Example:
    bayes-cpt learn-priors studies/a studies/b studies/c -o ours.toml --records learning
    bayes-cpt fit data/cpt-lab --model ours.toml -o fit.nc

    \b
    Exit codes:
    0  done
    1  done, but a fit falls short of its diagnostics (and is left out), or prior curves reach below 0
    2  bad input: nothing is written
    """
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.words.learning import verdict
    from bayes_cpt.validate.tasks import Pool

    written = Output(quiet, json)
    inputs = (Path(model),) if Path(model).suffix else ()
    check_target(output, (".toml",), inputs=inputs)
    spec = read_spec(model)
    with written.cautions():
        cases = _read(studies, spec)
    if records is not None:
        make_folder(records)
    pool = Pool(jobs, dask)
    learning = _Learning(written, spec, model, cases, wider, seed, draws, pool, records)
    learnt, skipped = learning.learn(output)
    below = learning.below_zero(learnt)
    file = OutputFile(output)
    with file.partial() as partial:
        partial.write_text(learning.text(learnt, output), encoding="utf-8")
    read_spec(output)
    scores = learning.left_out() if leave_one_out else None
    problems = _problems(skipped, learnt.population, below)
    said = verdict(learnt, output.name, scores, trustworthy=not problems)
    for problem in problems:
        written.error(f"Not trustworthy: {problem}.")
    written.verdict(said)
    _show(written, learnt, below, scores, verbose=verbose)
    file.say(written)
    written.result(
        {
            "model": learnt.spec.name,
            "from": spec.name,
            "studies": list(learnt.population.studies),
            "left_out": {name: list(said) for name, said in skipped.items()},
            "seed": seed,
            "wider": wider,
            "verdict": said,
            "priors": learnt.table().to_dict("records"),
            "correlations": [asdict(pair) for pair in learnt.population.pairs],
            "below_zero": below,
            "problems": problems,
            "trustworthy": not problems,
            "leave_one_out": None if scores is None else scores.to_dict("records"),
            "file": str(output),
        }
    )
    return 1 if problems else 0


def _read(folders: list[Path], spec: "ModelSpec") -> "list[Case]":
    """Return the studies; what cannot be fitted is said before the long fits."""
    from bayes_cpt.history.leave_one_out import read_case
    from bayes_cpt.model.setup import build_setup
    from bayes_cpt.study.ranges import check_evidence

    cases = [read_case(folder) for folder in folders]
    for case in cases:
        build_setup(spec, case.study)
        check_evidence(case.study, continual=spec.law.continual)
    names = [case.study.name for case in cases]
    if twice := {name for name in names if names.count(name) > 1}:
        raise typer.BadParameter(
            f"two studies are called {sorted(twice)[0]}: give each its own name in [study]."
        )
    return cases


class _Learning:
    """The parts of the verb that share what was asked for."""

    def __init__(
        self,
        written: Output,
        spec: "ModelSpec",
        model: str,
        cases: "list[Case]",
        wider: float,
        seed: int,
        draws: int | None,
        pool: "Pool",
        folder: Path | None,
    ) -> None:
        self.written, self.spec, self.model, self.cases = written, spec, model, cases
        self.wider, self.seed, self.draws = wider, seed, draws
        self.pool, self.folder = pool, folder

    @property
    def studies(self) -> "list[Study]":
        """The studies to learn from."""
        return [case.study for case in self.cases]

    def learn(self, output: Path) -> "tuple[Learnt, dict[str, tuple[str, ...]]]":
        """Return the model, and the studies that are left out of it with what is wrong."""
        from bayes_cpt.history.evidence import TABLES, fit_studies, labels_of, untrusted, widened
        from bayes_cpt.history.learnt import learnt_model
        from bayes_cpt.history.population import Hierarchy
        from bayes_cpt.validate.tasks import Records

        digests = {study.name: study.digest() for study in self.studies}
        described = settings([self.spec], self.seed, wider=self.wider, draws=self.draws)
        records = Records.open(self.folder, described | {"studies": digests}, TABLES)
        with self.written.progress() as tell:
            evidence = fit_studies(
                self.studies,
                widened(self.spec, self.wider),
                self.seed,
                draws=self.draws,
                pool=self.pool,
                records=records,
                progress=tell,
            )
            skipped = dict(untrusted(evidence))
            kept = [of_case for of_case in evidence if not of_case.problems]
            tell("learning the population", 0.0)
            self.hierarchy = Hierarchy(kept, tuple(labels_of(self.spec)), self.wider)
            population = self.hierarchy.learn(self.seed)
            tell("learning the population", 1.0)
        return learnt_model(self.spec, population, output.stem, self.seed), skipped

    def below_zero(self, learnt: "Learnt") -> dict[str, float]:
        """Return the share of prior curves that reach below 0, by study."""
        from bayes_cpt.history.learnt import shares_below_zero

        return shares_below_zero(learnt.spec, self.studies, seed=self.seed)

    def text(self, learnt: "Learnt", target: Path) -> str:
        """Return the model's file."""
        from bayes_cpt.history.learnt import learnt_text

        digests = {study.name: study.digest() for study in self.studies}
        return learnt_text(learnt, extended(self.model, target), digests, self.seed)

    def left_out(self) -> "pd.DataFrame":
        """Return the scores of each study under priors from all others; their models are kept."""
        from bayes_cpt.history.learnt import learnt_model
        from bayes_cpt.history.leave_one_out import score_left_out
        from bayes_cpt.validate.held_out import TABLES
        from bayes_cpt.validate.tasks import Records

        without = {}
        for study in self.studies:
            population = self.hierarchy.learn(self.seed, without=study.name)
            name = f"without-{_file_name(study.name)}"
            without[study.name] = learnt_model(self.spec, population, name, self.seed)
            if self.folder is not None:
                target = self.folder / f"{name}.toml"
                with writing(target) as partial:
                    partial.write_text(self.text(without[study.name], target), encoding="utf-8")

        def kept(case: "Case", prior: "Learnt") -> Records:
            folder = None if self.folder is None else self.folder / prior.spec.name
            described = settings(
                [prior.spec], self.seed, study=case.study.digest(), draws=self.draws
            )
            return Records.open(folder, described, TABLES)

        with self.written.progress() as tell:
            return score_left_out(
                self.cases,
                without,
                self.seed,
                draws=self.draws,
                pool=self.pool,
                records=kept,
                progress=tell,
            )


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _problems(
    skipped: dict[str, tuple[str, ...]], population: "Population", below: dict[str, float]
) -> list[str]:
    from bayes_cpt.history.learnt import MOST_BELOW_ZERO

    problems = [
        f"the fit of {name} falls short of its diagnostics and is left out: {said[0]}"
        for name, said in skipped.items()
    ]
    problems += [f"of the population {problem}" for problem in population.problems]
    problems += [
        f"{100 * share:.1f} % of the prior curves of {name} reach below 0 nats/token, and at most "
        f"{100 * MOST_BELOW_ZERO:g} % should"
        for name, share in below.items()
        if share > MOST_BELOW_ZERO
    ]
    return problems


def _show(
    written: Output,
    learnt: "Learnt",
    below: dict[str, float],
    scores: "pd.DataFrame | None",
    *,
    verbose: bool,
) -> None:
    from bayes_cpt.report.words.learning import together

    table = learnt.table()
    written.heading(f"Central 90 % intervals of the priors of {learnt.before.name}")
    shown = columns("parameter", "on", "studies", "was", "is", numbers=3)
    for row in (table if verbose else table[table["learnt"]]).to_dict("records"):
        was, now = (
            f"{number(row[f'{time}lower'], 2)} to {number(row[f'{time}upper'], 2)}"
            for time in ("was_", "")
        )
        shown.add_row(
            row["parameter"], row["on"], str(row["studies"]), was, now if row["learnt"] else "stays"
        )
    written.table(shown)
    written.text(together(learnt))
    written.text(
        f"Prior curves reach below 0 nats/token in {100 * max(below.values()):.1f} % at most.",
        "dim",
    )
    if scores is not None:
        _show_scores(written, scores)


def _show_scores(written: Output, scores: "pd.DataFrame") -> None:
    from bayes_cpt.history.leave_one_out import crps_ratio

    written.heading(
        "Each study left out: forecasts under priors from all others, each run counting alike"
    )
    if scores.empty:
        written.text("There is nothing to predict: no study has a second run or a folder predict/.")
        return
    table = columns("study", "priors", "runs", "in 90 %", "CRPS", "MAE", "bias", "width", numbers=6)
    for row in scores.to_dict("records"):
        cells = (f"{100 * row['coverage_90']:.0f}", *(f"{row[name]:.4f}" for name in SCORES[1:]))
        table.add_row(row["study"], row["method"], str(row["runs"]), *cells)
    written.table(table)
    written.text(
        f"CRPS under learnt priors over that under the model's own: {crps_ratio(scores):.2f} "
        "(geometric mean over studies)."
    )
    short = int(scores["short"].sum())
    if short:
        written.note(f"{short} refits fall short of their diagnostics; their forecasts count.")
