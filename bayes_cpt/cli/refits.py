"""`bayes-cpt validate`, `compare` and `learn-priors`: what takes many fits."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command, listed, read_shares
from bayes_cpt.cli.output import Answer, Output, OutputFile, Part, Results, heading, in_words
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study


@command
def validate(
    written: Output,
    study: Path,
    *,
    model: str = "cpt-replay",
    runs: str | None = None,
    whole: bool = True,
    tails: str = "0.25,0.5,0.75",
    held_out: Path | None = None,
    draws: ChainDraws = None,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    output: Path | None = None,
) -> Answer:
    r"""Score forecasts of held-out runs.

    Leaves each run out in turn and predicts it from the others; then fits all runs, one of them only up to
    a share of its steps, and predicts its tail. Says how many points lie in the bands, the CRPS, the mean
    error and the bias of the median, and the width of the 90 % bands: per run, validation set and horizon.
    With --model stack.nc, of bayes-cpt compare, each law is fitted anew and has its weight in the forecast.
    Every refit takes as long as a fit. Numbers do not depend on --jobs and --dask.

    FOLDER gets points.csv (every point, with its PIT), refits.csv, scores.csv, horizons.csv and figures
    of coverage and PIT.

    \b
    Example:
    bayes-cpt validate data/cpt-lab -o validation

    \b
    Exit codes:
    0  done; the first line says whether to trust the bands
    1  done, but a refit fails its diagnostics
    2  bad input: what is wrong, where, and the fix are on stderr

    Parameters
    ----------
    whole
        Leave each run out in turn.
    held_out : STUDY
        Predict the runs of this other study in place of all that.
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt.report.forecasts import held_out_verdict
    from bayes_cpt.report.page import pooled
    from bayes_cpt.report.results import scores_table
    from bayes_cpt.validate import held_out as scored
    from bayes_cpt.validate.folds import check_folds, held_out_folds, other_study
    from bayes_cpt.validate.scores import ALL_RUNS, EQUAL_RUNS
    from bayes_cpt.validate.tasks import Pool, Records, described

    shares = read_shares(tails)
    if Path(model).suffix == ".nc":
        stack = bayes_cpt.load(model)
        specs, weights = [law.frame.spec for law in stack.laws], stack.weights
    else:
        specs, weights = [bayes_cpt.read_spec(model)], (1.0,)
    loaded = bayes_cpt.read_study(study)
    other = bayes_cpt.read_study(held_out) if held_out else None
    if other is not None:
        folds = other_study(loaded, other, specs[0])
    else:
        after = (0.0, *shares) if whole else shares
        folds = held_out_folds(loaded, specs[0], listed(runs) or None, after)
    check_folds(folds, specs[0])
    results = Results(output)
    settings = described(specs, seed, study=loaded.digest(), draws=draws)
    settings["held-out"] = None if other is None else other.digest()
    name = settings["model"]
    if len(specs) > 1:
        settings["weights"] = [round(weight, 6) for weight in weights]
        name = f"a stack of {name}"
    pool = Pool(jobs, dask)
    cores = pool.cores(len(folds))
    method = partial(scored.package_method, specs=specs, weights=weights, draws=draws, cores=cores)
    with written.progress() as tell:
        points, refits = scored.score_folds(
            folds,
            {scored.OURS: method},
            seed,
            pool=pool,
            records=Records.open(results.folder, settings, scored.TABLES),
            progress=tell,
        )
    bad = refits[~refits["trustworthy"].astype(bool)]
    content: dict[str, Any] = {
        "study": loaded.name,
        "model": settings["model"],
        "trustworthy": bad.empty,
        "refits": refits,
    }
    verdict: list[str] = []
    parts: list[Part] = [
        heading(f"Forecasts of held-out runs: {name} on {loaded.name}"),
        f"{len(refits)} refits, {refits['seconds'].sum():.0f} s; {len(bad)} fail their diagnostics.",
    ]
    if len(points):
        scores, horizons = scored.score_table(points), scored.horizon_table(points)
        verdict = held_out_verdict(pooled(scores), refits)
        results.there("points.csv", "refits.csv")
        results.tables({"scores": scores, "horizons": horizons})
        draw, untouched = bayes_cpt.plots.coverage, points["seen"].eq(0)
        if untouched.any():
            results.figures({"coverage-runs": partial(draw, points[untouched], "share")})
        if not untouched.all():
            results.figures({"coverage-tails": partial(draw, points[~untouched], "ratio")})
        content |= {"scores": scores, "horizons": horizons}
        by_place = "By the place in the run, and the step over the last one fitted"
        by_run = scores[~scores["run"].isin([ALL_RUNS, EQUAL_RUNS]) & (scores["seen"] == 0)]
        parts += [
            scores_table(pooled(scores)),
            scores_table(by_run, "run", "Run by run, each left out as a whole"),
            scores_table(horizons, "horizon", by_place),
        ]
    said = zip(bad["fold"], bad["problems"], strict=True)
    problems = [f"Not trustworthy: {fold}: {problem}" for fold, problem in said]
    return Answer(content, verdict, parts, problems, written=[results])


# Problems that are named one by one.
NAMED = 4


@command
def compare(
    written: Output,
    study: Path,
    *,
    models: str,
    quick: bool = False,
    runs: str | None = None,
    tails: str = "0.5",
    draws: ChainDraws = None,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    output: Path | None = None,
) -> Answer:
    r"""Compare laws on a study, and stack them.

    First each law is fitted once, and curves are left out by importance sampling: an answer within
    minutes, with its diagnostics. Then each run is left out in turn and predicted from the others, and so
    is the tail of each run: two fits a run, for each law. Log score, CRPS and coverage,
    with the standard errors of their differences, each run one observation. The weights of the stack are
    those that score best on the runs left out.

    FOLDER gets stack.nc, a fit in which every law has its share of the draws, for predict, decide,
    landmarks, summary, watch and validate --model; NAME.nc, the fit of each law; scores.csv,
    runs.csv, points.csv, comparison.png and words.txt.

    \b
    Example:
    bayes-cpt compare data/cpt-lab --models cpt-replay,cpt-replay-printed -o comparison
    bayes-cpt compare data/cpt-lab --models cpt-replay,my-model.toml --quick

    \b
    Exit codes:
    0  done
    1  done, but a fit fails its diagnostics, or --quick cannot tell
    2  bad input: what is wrong, where, and the fix are on stderr

    Parameters
    ----------
    models : NAMES
        Models to compare, separated by commas: names, or .toml files of your own.
    quick
        Only the first answer: from one fit of each, no refits.
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt.report import numbers
    from bayes_cpt.report.comparison import comparison_words
    from bayes_cpt.report.words import sentence
    from bayes_cpt.validate.comparison import STACK_FILE
    from bayes_cpt.validate.tasks import fit_name

    def tell_first(loo: Any) -> None:
        facts = {"loo": loo, "reason": isinstance(loo, str)}
        written.note(sentence("compare.txt", "first", facts))

    results = Results(output)
    loaded = bayes_cpt.read_study(study)
    with written.progress() as tell:
        result = bayes_cpt.compare(
            loaded,
            listed(models),
            runs=listed(runs) or None,
            tails=read_shares(tails),
            quick=quick,
            draws=draws,
            seed=seed,
            jobs=jobs,
            dask=dask,
            folder=output,
            progress=tell,
            first=None if quick else tell_first,
        )
    scores, loo = result.scores, result.curve_loo
    rows = None if scores is None else result.table()
    without_refits = {"reason": loo} if isinstance(loo, str) else loo.table()
    words = comparison_words(result, rows)
    parts: list[Part] = []
    results.there(*(fit_name(law) for law in result.fits))
    if result.stack is not None:
        results.write(STACK_FILE, result.stack.save)
    if scores is not None and rows is not None:
        results.tables({"scores": rows, "runs": scores.log_scores, "points": scores.points})
        results.figures({"comparison": result.plot})
        what = rows["seen"].map(numbers.left_out)
        parts.append(Table.of("law_scores", rows.assign(what=what), best=scores.best))
    if not isinstance(loo, str):
        parts.append(Table.of("curve_loo", without_refits))
    results.words(words.verdict, words.sentences)
    content = {
        "study": loaded.name,
        "models": list(result.fits),
        "trustworthy": not result.problems,
        "problems": result.problems,
        "weights": result.weights,
        "best": scores.best if scores is not None else None,
        "scores": [] if rows is None else rows,
        "without_refits": without_refits,
        "sentences": words.sentences,
    }
    named = numbers.listed(result.problems, NAMED)
    problems = [f"Not trustworthy: {named}"] if named else []
    told = [*parts, *in_words(words.sentences)]
    return Answer(content, words.verdict, told, problems, written=[results])


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
    that go together from study to study with probability .95 get a correlation.

    Whether it helps: learn from all but one study, and forecast that one's runs under the priors of the
    others by validate --model.

    \b
    Example:
    bayes-cpt learn-priors studies/a studies/b studies/c -o ours.toml --records learning
    bayes-cpt fit data/cpt-lab --model ours.toml -o fit.nc

    \b
    Exit codes:
    0  done
    1  done, but a fit falls short of its diagnostics (and is left out), or prior curves end below 0; or
       fewer than three fits are left, and nothing is written
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
        Folder for the fits: stopped, or with other studies, the same command goes on there. With --draws
        it makes those again that fall short.
    """
    from bayes_cpt.history.evidence import fit_studies, labels_of, widened
    from bayes_cpt.history.learnt import learnt_model, learnt_text
    from bayes_cpt.history.population import FEWEST, learn_population
    from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO, expected_ends, frame_of
    from bayes_cpt.report.forecasts import learnt_words
    from bayes_cpt.report.words import paragraphs
    from bayes_cpt.validate.tasks import Pool, Records, described

    file = OutputFile(output, (".toml",), model)
    spec = bayes_cpt.read_spec(model)
    named = _read(studies, spec)
    digests = {name: study.digest() for name, study in named.items()}
    # Fits with other settings are refused.
    settings = described([spec], seed, wider=wider)
    folder = Records.open(Results(records, "--records").folder, settings, ()).folder
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
        if len(kept) < FEWEST:
            told = {"kept": kept, "skipped": skipped, "fewest": FEWEST}
            verdict = paragraphs("learn_priors.txt", "too_few", told)
            nothing = {"left_out": skipped, "trustworthy": False}
            return Answer(nothing, verdict, problems=verdict[:1])
        tell("learning the population", 0.0)
        population = learn_population(kept, tuple(labels_of(spec)), wider, seed)
        learnt = learnt_model(spec, population, output.stem, seed)
        tell("learning the population", 1.0)
    below = {
        name: expected_ends(frame_of(learnt.spec, study), study, seed=seed)["below_zero"].max()
        for name, study in named.items()
    }
    facts = {"population": learnt.population.problems, "most": MOST_BELOW_ZERO}
    facts |= {"skipped": skipped, "below": below}
    problems = paragraphs("learn_priors.txt", "problems", facts)
    wrong = [f"Not trustworthy: {problem}." for problem in problems]
    file.write(learnt_text(learnt, _extended(model, output), digests, seed, problems))
    said, table = learnt_words(learnt, output.name, skipped, below), learnt.table()
    content = {
        "model": learnt.spec.name,
        "from": spec.name,
        "studies": learnt.population.studies,
        "left_out": skipped,
        "priors": table,
        "correlations": learnt.population.pairs,
        "below_zero": below,
        "problems": problems,
        "trustworthy": not problems,
    }
    least = f"Prior curves end below 0 nats/token in {100 * max(below.values()):.2f} % at most."
    parts: list[Part] = [
        Table.of("learnt", table if verbose else table[table["learnt"]], model=spec.name),
        *said.sentences,
        Text(least, "dim"),
    ]
    return Answer(content, said.verdict, parts, wrong, written=[file])


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
        more = FEWEST - len(folders)
        raise typer.BadParameter(f"it takes {FEWEST} studies to learn from: name {more} more.")
    named: dict[str, Study] = {}
    found: dict[str, Path] = {}
    for folder in folders:
        study = bayes_cpt.read_study(folder)
        fittable(spec, study)
        if (other := found.setdefault(study.digest(), folder)) is not folder:
            both = f"{other} and {folder} hold the same runs"
            raise typer.BadParameter(f"{both}: leave one of them out.")
        if study.name in named:
            both = f"two studies are called {study.name}"
            raise typer.BadParameter(f"{both}: give each its own name in [study].")
        named[study.name] = study
    return named
