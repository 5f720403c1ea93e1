"""`bayes-cpt learn-priors`: a model whose priors come from a team's earlier studies."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command
from bayes_cpt.cli.output import Answer, Output, OutputFile, Part, Results, heading, write
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.history.learnt import Learnt
    from bayes_cpt.history.leave_one_out import Case
    from bayes_cpt.model.spec import ModelSpec

PRIORS = "parameter | on | studies | was=was_median:wide | is=median:wide | learnt"
SCORES = (
    "study | priors=method | runs | in 90 %=coverage_90:% | CRPS=crps:.4f | MAE=mae:.4f | bias:.4f | "
    "width=width_90:.4f"
)


@command
def learn_priors(
    written: Output,
    studies: list[Path],
    *,
    output: Path,
    model: str = "cpt-replay",
    wider: Annotated[float, typer.Option(min=1.0)] = 1.5,
    records: Path | None = None,
    leave_one_out: bool = False,
    draws: ChainDraws = None,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Answer:
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

    Parameters
    ----------
    studies : STUDY...
        Study folders, three at least. One that holds fit/ and predict/ is learnt from by the first, and
        the second is predicted with --leave-one-out.
    output : OUT
        Model to write: NAME.toml.
    wider
        How many times as wide as the model's own the priors of the fits are.
    records : FOLDER
        Folder for what is done: stopped, the same command goes on there.
    leave_one_out
        Score forecasts of each study under priors from all others; refits take long.
    draws
        Draws kept in each of the four chains of a fit [default: 1000].
    """
    from bayes_cpt.history.evidence import TABLES, fit_studies, labels_of, widened
    from bayes_cpt.history.learnt import learnt_model, learnt_text, share_below_zero
    from bayes_cpt.history.leave_one_out import score_left_out
    from bayes_cpt.history.population import Hierarchy
    from bayes_cpt.report.forecasts import learnt_verdict
    from bayes_cpt.validate import held_out
    from bayes_cpt.validate.tasks import Pool, Records, described

    file = OutputFile(output, (".toml",), model)
    spec = bayes_cpt.read_spec(model)
    cases = _read(studies, spec)
    folder, pool = Results(records), Pool(jobs, dask)
    named = {case.study.name: case.study for case in cases}
    digests = {name: study.digest() for name, study in named.items()}
    settings = described([spec], seed, wider=wider, draws=draws, studies=digests)
    with written.progress() as tell:
        evidence = fit_studies(
            tuple(named.values()),
            widened(spec, wider),
            seed,
            draws=draws,
            pool=pool,
            records=Records.open(folder.folder, settings, TABLES),
            progress=tell,
        )
        skipped = {fit.study: fit.problems for fit in evidence if fit.problems}
        kept = [fit for fit in evidence if not fit.problems]
        tell("learning the population", 0.0)
        hierarchy = Hierarchy(kept, tuple(labels_of(spec)), wider)
        learnt = learnt_model(spec, hierarchy.learn(seed), output.stem, seed)
        tell("learning the population", 1.0)
    below = {name: share_below_zero(learnt.spec, study, seed=seed) for name, study in named.items()}

    def save(found: "Learnt", target: Path) -> None:
        write(target, learnt_text(found, _extended(model, target), digests, seed))

    def recorded(case: "Case", prior: "Learnt") -> Records:
        place = None if records is None else records / prior.spec.name
        settings = described([prior.spec], seed, study=case.study.digest(), draws=draws)
        return Records.open(place, settings, held_out.TABLES)

    save(learnt, output)
    bayes_cpt.read_spec(output)
    scores = None
    if leave_one_out:
        without = {}
        for name in named:
            file_name = f"without-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"
            population = hierarchy.learn(seed, without=name)
            without[name] = learnt_model(spec, population, file_name, seed)
            if records is not None:
                save(without[name], records / f"{file_name}.toml")
        with written.progress() as tell:
            scores = score_left_out(
                cases, without, seed, draws=draws, pool=pool, records=recorded, progress=tell
            )
    problems = _problems(skipped, learnt.population.problems, below)
    said = learnt_verdict(learnt, output.name, scores, trustworthy=not problems)
    content = {
        "model": learnt.spec.name,
        "from": spec.name,
        "studies": list(learnt.population.studies),
        "left_out": {name: list(said) for name, said in skipped.items()},
        "priors": learnt.table(),
        "correlations": [asdict(pair) for pair in learnt.population.pairs],
        "below_zero": below,
        "problems": problems,
        "trustworthy": not problems,
        "leave_one_out": scores,
    }
    parts = _shown(learnt, scores, below, verbose=verbose)
    wrong = [f"Not trustworthy: {problem}." for problem in problems]
    short = 0 if scores is None or scores.empty else int(scores["short"].sum())
    notes = [f"{short} refits fall short of their diagnostics; their forecasts count."]
    return Answer(content, said, parts, wrong, notes if short else [], [file])


def _extended(model: str, target: Path) -> str:
    """Return what a model's file says that it extends: a shipped model's name, or a path seen from it."""
    from bayes_cpt.model.spec import shipped_models

    if model in shipped_models():
        return model
    return str(Path(model).resolve().relative_to(target.parent.resolve(), walk_up=True))


def _read(folders: list[Path], spec: "ModelSpec") -> "list[Case]":
    """Return the studies; what cannot be fitted is said before the long fits."""
    from bayes_cpt.history.leave_one_out import read_case
    from bayes_cpt.validate.folds import fittable

    cases = [read_case(folder) for folder in folders]
    for case in cases:
        fittable(spec, case.study)
    names = [case.study.name for case in cases]
    if twice := {name for name in names if names.count(name) > 1}:
        raise typer.BadParameter(
            f"two studies are called {sorted(twice)[0]}: give each its own name in [study]."
        )
    return cases


def _problems(
    skipped: dict[str, tuple[str, ...]], population: Sequence[str], below: dict[str, float]
) -> list[str]:
    from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO

    problems = [
        f"the fit of {name} falls short of its diagnostics and is left out: {said[0]}"
        for name, said in skipped.items()
    ]
    problems += [f"of the population {problem}" for problem in population]
    problems += [
        f"{100 * share:.1f} % of the prior curves of {name} reach below 0 nats/token, and at most "
        f"{100 * MOST_BELOW_ZERO:g} % should"
        for name, share in below.items()
        if share > MOST_BELOW_ZERO
    ]
    return problems


def _shown(
    learnt: "Learnt", scores: "pd.DataFrame | None", below: dict[str, float], *, verbose: bool
) -> list[Part]:
    """Return the priors before and after, and how they score on studies that were left out."""
    from bayes_cpt.history.leave_one_out import crps_ratio
    from bayes_cpt.report.forecasts import together

    table = learnt.table()
    title = f"Priors of {learnt.before.name}, with central 90 % intervals"
    least = f"Prior curves reach below 0 nats/token in {100 * max(below.values()):.1f} % at most."
    parts: list[Part] = [
        Table(title, table if verbose else table[table["learnt"]], PRIORS),
        together(learnt),
        Text(least, "dim"),
    ]
    title = "Each study left out: forecasts under priors from all others, each run counting alike"
    if scores is not None and scores.empty:
        nothing = "There is nothing to predict: no study has a second run or a folder predict/."
        parts += [heading(title), nothing]
    elif scores is not None:
        ratio = f"{crps_ratio(scores):.2f} (geometric mean over studies)."
        parts.append(Table(title, scores, SCORES))
        parts.append(f"CRPS under learnt priors over that under the model's own: {ratio}")
    return parts
