"""`bayes-cpt learn-priors`: a model whose priors come from a team's earlier studies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command
from bayes_cpt.cli.output import Answer, Output, OutputFile, Part, Results
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study


@command
def learn_priors(
    written: Output,
    studies: list[Path],
    *,
    output: Path,
    model: str = "cpt-replay",
    wider: Annotated[float, typer.Option(min=1.0)] = 1.5,
    records: Path | None = None,
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

    Whether it helps: learn from all but one study, and forecast that one's runs under the priors of the
    others by validate forecast --model.

    \b
    Example:
    bayes-cpt learn-priors studies/a studies/b studies/c -o ours.toml --records learning
    bayes-cpt fit data/cpt-lab --model ours.toml -o fit.nc

    \b
    Exit codes:
    0  done
    1  done, but a fit falls short of its diagnostics (and is left out), or prior curves end below 0
    2  bad input: nothing is written

    Parameters
    ----------
    studies : STUDY...
        Study folders, three at least.
    output : OUT
        Model to write: NAME.toml.
    wider
        How many times as wide as the model's own the priors of the fits are.
    records : FOLDER
        Folder for what is done: stopped, the same command goes on there.
    draws
        Draws kept in each of the four chains of a fit [default: 1000].
    """
    from bayes_cpt.history.evidence import fit_studies, labels_of, widened
    from bayes_cpt.history.learnt import learnt_model, learnt_text
    from bayes_cpt.history.population import learn_population
    from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO, expected_ends, frame_of
    from bayes_cpt.report.forecasts import learnt_verdict, together
    from bayes_cpt.report.words import paragraphs
    from bayes_cpt.validate.tasks import Pool, Records, described

    file = OutputFile(output, (".toml",), model)
    spec = bayes_cpt.read_spec(model)
    named = _read(studies, spec)
    digests = {name: study.digest() for name, study in named.items()}
    settings = described([spec], seed, wider=wider, draws=draws, studies=digests)
    # Fits with other settings are refused.
    folder = Records.open(Results(records).folder, settings, ()).folder
    with written.progress() as tell:
        evidence = fit_studies(
            tuple(named.values()),
            widened(spec, wider),
            seed,
            draws=draws,
            pool=Pool(jobs, dask),
            folder=folder,
            progress=tell,
        )
        skipped = {fit.study: fit.problems for fit in evidence if fit.problems}
        kept = [fit for fit in evidence if not fit.problems]
        tell("learning the population", 0.0)
        population = learn_population(kept, tuple(labels_of(spec)), wider, seed)
        learnt = learnt_model(spec, population, output.stem, seed)
        tell("learning the population", 1.0)
    below = {
        name: expected_ends(frame_of(learnt.spec, study), study, seed=seed)["below_zero"].max()
        for name, study in named.items()
    }
    file.write(learnt_text(learnt, _extended(model, output), digests, seed))
    bayes_cpt.read_spec(output)
    facts = {"population": learnt.population.problems, "most": MOST_BELOW_ZERO}
    facts |= {"skipped": skipped, "below": below}
    problems = paragraphs("learn_priors.txt", "problems", facts)
    said, table = learnt_verdict(learnt, output.name, trustworthy=not problems), learnt.table()
    content = {
        "model": learnt.spec.name,
        "from": spec.name,
        "studies": list(learnt.population.studies),
        "left_out": {name: list(said) for name, said in skipped.items()},
        "priors": table,
        "correlations": [asdict(pair) for pair in learnt.population.pairs],
        "below_zero": below,
        "problems": problems,
        "trustworthy": not problems,
    }
    wrong = [f"Not trustworthy: {problem}." for problem in problems]
    least = f"Prior curves end below 0 nats/token in {100 * max(below.values()):.1f} % at most."
    parts: list[Part] = [
        Table.of("learnt", table if verbose else table[table["learnt"]], model=spec.name),
        together(learnt),
        Text(least, "dim"),
    ]
    return Answer(content, said, parts, wrong, written=[file])


def _extended(model: str, target: Path) -> str:
    """Return what a model's file says that it extends: a shipped model's name, or a path seen from it."""
    from bayes_cpt.model.spec import shipped_models

    if model in shipped_models():
        return model
    return str(Path(model).resolve().relative_to(target.parent.resolve(), walk_up=True))


def _read(folders: list[Path], spec: "ModelSpec") -> "dict[str, Study]":
    """Return the studies by name; what cannot be fitted is said before the long fits."""
    from bayes_cpt.history.population import FEWEST
    from bayes_cpt.validate.folds import fittable

    if len(folders) < FEWEST:
        raise typer.BadParameter(
            f"it takes {FEWEST} studies to learn from, and {len(folders)} are named."
        )
    named: dict[str, Study] = {}
    for folder in folders:
        study = bayes_cpt.read_study(folder)
        fittable(spec, study)
        if study.name in named:
            raise typer.BadParameter(
                f"two studies are called {study.name}: give each its own name in [study]."
            )
        named[study.name] = study
    return named
