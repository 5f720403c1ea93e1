"""Scores of benchmarks, forecast from validation losses (docs/scores.md).

A monotone link goes from a validation loss to a score: the four-parameter logistic of model ladders (Bhagia
et al. 2024, arXiv 2412.04403, Eq. 2), its lower end at the chance level:

    score = c + (1 - c)·T / (1 + exp(slope·(loss - loss*) - level))

with c the score of a guess, T the share of the rest that the best of losses gives, and the scatter of
checkpoints about it normal. loss* is the mean loss of the pairs: there level and slope are well determined.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from bayes_cpt.arrays import Floats, summary
from bayes_cpt.checks import Check, unknown
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.forecast.plans import PlanError
from bayes_cpt.inference.diagnostics import sampled
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import HIGHEST_LOSS, LOWEST_LOSS, read_table, row_word

if TYPE_CHECKING:
    import pymc as pm

# A level, a slope, an upper end and a scatter are determined by no fewer pairs.
FEWEST = 5
# Of the link.
NAMES = ("level", "slope", "top", "scatter")
# Priors: the level and the log odds of T are normal, slope (per nat) and scatter log-normal. Published
# ladders have slopes of 1 to 10 per nat and scatters of half a point to three points.
LEVEL_SD = 1.5
SLOPE_MEDIAN, SLOPE_SIGMA = 2.5, 0.8
TOP_MEDIAN, TOP_SIGMA = 0.8, 1.2
SCATTER_MEDIAN, SCATTER_SIGMA = 0.01, 0.8
# Level and T lie on a hyperbola where no pair comes near the top: small steps, and many draws.
TUNE, DRAWS, TARGET_ACCEPT = 1000, 4000, 0.98


class Pair(Strict):
    """A row of a table of pairs (see `read_pairs`)."""

    benchmark: str = Field(min_length=1)
    domain: str = Field(min_length=1)
    loss: float = Field(ge=LOWEST_LOSS, le=HIGHEST_LOSS)
    score: float = Field(ge=0, le=1)
    chance: float = Field(default=0.0, ge=0, le=0.99)


FIX = "give names, losses in nats/token, and scores and chance as shares, 0.35 for 35 %"


@dataclass(frozen=True, eq=False)
class ScorePairs:
    """What checkpoints showed on one benchmark."""

    benchmark: str
    domain: str  # validation set whose loss the score goes with
    losses: Floats  # nats/token, (checkpoints,)
    scores: Floats  # shares of what can be got, 0...1, (checkpoints,)
    chance: float = 0.0  # score of who guesses


def read_pairs(
    source: str | Path | pd.DataFrame, domains: Sequence[str] = ()
) -> tuple[ScorePairs, ...]:
    """Return the pairs of every benchmark of a table, whose domains are among those given.

    Columns benchmark, domain, loss (nats/token), score (0...1), and optionally chance; a row per checkpoint
    and benchmark.
    """
    if isinstance(source, pd.DataFrame):
        table, place, word = source, "scores", "row"
    else:
        table, place, word = read_table(Path(source)), str(source), row_word(Path(source))
    needed = [key for key, own in Pair.model_fields.items() if own.is_required()]
    lacking = [f"column {name}" for name in needed if name not in table]
    if lacking or table.empty:
        fix = f"give the columns {', '.join(needed)}, one row per checkpoint and benchmark"
        raise StudyError.at(place, f"there is no {[*lacking, 'pair'][0]}", fix)
    check, listed = Check(), []
    for label, row in table[table.columns.intersection(list(Pair.model_fields))].iterrows():
        where = f"{place}, {word} {label}"
        pair = check.run("", checked, Pair, row.to_dict(), where, FIX)
        listed.append(pair)
        if pair and domains and pair.domain not in domains:
            check.add(f"{where}, key domain", *unknown("validation set", pair.domain, domains))
    check.raise_problems()
    pairs = []
    known = pd.DataFrame([pair.model_dump() for pair in listed if pair])
    for name, rows in known.groupby("benchmark", sort=False):
        where = f"{place}, benchmark {name}"
        for key in ("domain", "chance"):
            if rows[key].nunique() > 1:
                several = ", ".join(map(str, rows[key].unique()))
                problem = f"it has several values of {key}: {several}"
                check.add(where, problem, "give it the same in all rows")
        losses, scores = rows["loss"].to_numpy(), rows["score"].to_numpy()
        if len(rows) < FEWEST:
            problem = f"there are {len(rows)} pairs, and its link has four parameters"
            check.add(where, problem, f"give {FEWEST} checkpoints or more")
        elif np.ptp(losses) == 0:
            check.add(where, "all losses are the same", "give checkpoints of different losses")
        domain, chance = rows[["domain", "chance"]].iloc[0]
        pairs.append(ScorePairs(str(name), domain, losses, scores, float(chance)))
    check.raise_problems()
    return tuple(pairs)


def pairs_of(pairs: Sequence[ScorePairs], name: str) -> ScorePairs:
    """Return the pairs of a benchmark."""
    known = {paired.benchmark: paired for paired in pairs}
    if name in known:
        return known[name]
    problem, fix = unknown("benchmark with scores", name, known)
    table = "a table of losses and scores: scores=... or --scores FILE"
    fix = f"{fix}, or add it to the table" if known else f"give {table}"
    raise StudyError.at(f"benchmark {name}", problem, fix)


@dataclass(frozen=True, eq=False)
class ScoreLink:
    """The link of one benchmark in posterior draws."""

    pairs: ScorePairs  # what it was fitted to
    # As in the module; slope per nat, of shape (draws,)
    level: Floats
    slope: Floats
    top: Floats
    scatter: Floats

    @cached_property
    def middle(self) -> float:
        """The loss that level belongs to, nats/token."""
        return float(self.pairs.losses.mean())

    def scores(self, losses: NDArray[np.floating]) -> Floats:
        """Return the expected score at losses, of their shape."""
        from scipy.special import expit

        chance = self.pairs.chance
        reached = expit(self.level - self.slope * (losses - self.middle))
        return np.asarray(chance + (1.0 - chance) * self.top * reached)

    def losses(self, scores: Floats) -> Floats:
        """Return the loss at which a score is expected, of the shape of `scores`.

        Infinite where the score is the chance level or lower, which no loss falls below; minus infinity
        where no loss reaches it.
        """
        from scipy.special import logit

        chance = self.pairs.chance
        share = np.clip((scores - chance) / ((1.0 - chance) * self.top), 0.0, 1.0)
        return np.asarray(self.middle + (self.level - logit(share)) / self.slope)

    def drawn(self, losses: Floats, generator: np.random.Generator) -> Floats:
        """Return scores that single evaluations may show, scatter included, of the shape of `losses`."""
        noise = self.scatter * generator.standard_normal(losses.shape)
        return np.asarray(np.clip(self.scores(losses) + noise, 0.0, 1.0))

    def resampled(self, draws: int, seed: int) -> "ScoreLink":
        """Return the link in as many draws as a law has."""
        generator = np.random.default_rng(seed)
        rows = generator.choice(self.level.size, draws, replace=draws > self.level.size)
        return ScoreLink(self.pairs, *(getattr(self, name)[rows] for name in NAMES))


@dataclass(frozen=True, eq=False)
class ScoreFit:
    """Links of benchmarks, fitted."""

    links: dict[str, ScoreLink]  # by benchmark
    # What falls short of the contract (docs/contract.md, "Diagnostics"), the benchmark named first; empty
    # where the links can be trusted
    problems: tuple[str, ...]


def build_link(pairs: ScorePairs) -> "pm.Model":
    """Return the model of the link of one benchmark."""
    import pymc as pm

    with pm.Model() as model:
        distance = pm.Data("distance", pairs.losses - pairs.losses.mean())
        measured = pm.Data("measured", pairs.scores)
        chance = pm.Data("chance", pairs.chance)
        level = pm.Normal("level", 0.0, LEVEL_SD)
        slope = pm.LogNormal("slope", np.log(SLOPE_MEDIAN), SLOPE_SIGMA)
        odds = pm.Normal("odds", np.log(TOP_MEDIAN / (1.0 - TOP_MEDIAN)), TOP_SIGMA)
        top = pm.Deterministic("top", pm.math.invlogit(odds))
        scatter = pm.LogNormal("scatter", np.log(SCATTER_MEDIAN), SCATTER_SIGMA)
        reached = pm.math.invlogit(level - slope * distance)
        pm.Normal("score", chance + (1.0 - chance) * top * reached, scatter, observed=measured)
    return model


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Return the compiled model, which every benchmark gives its own data."""
    import nutpie

    anything = ScorePairs("", "", np.linspace(2.0, 3.0, FEWEST), np.linspace(0.5, 0.4, FEWEST))
    return nutpie.compile_pymc_model(build_link(anything))


def fit_scores(pairs: Sequence[ScorePairs], seed: int = 0) -> ScoreFit:
    """Fit the link of every benchmark, as from `read_pairs`, by NUTS."""
    links, problems = {}, []
    for own in pairs:
        model = _compiled().with_data(
            distance=own.losses - own.losses.mean(), measured=own.scores, chance=own.chance
        )
        values, said = sampled(
            model, NAMES, draws=DRAWS, tune=TUNE, target_accept=TARGET_ACCEPT, seed=seed
        )
        links[own.benchmark] = ScoreLink(own, **values)
        problems += [f"{own.benchmark}: {problem}" for problem in said]
    return ScoreFit(links, tuple(problems))


def fitted_scores(
    source: "str | Path | pd.DataFrame | ScoreFit", study: Study, seed: int = 0
) -> ScoreFit:
    """Return the links of the benchmarks of a table (see `read_pairs`), fitted unless they are already.

    Scores go with the validation sets of the fitted study.
    """
    if isinstance(source, ScoreFit):
        return source
    fitted = fit_scores(read_pairs(source, study.domains), seed)
    for problem in fitted.problems:
        warnings.warn(f"scores: {problem}", StudyWarning, stacklevel=3)
    return fitted


def score_table(
    dataset: xr.Dataset, fit: ScoreFit, interval: float = 0.9, seed: int = 0
) -> pd.DataFrame:
    """Return bands of the scores of a forecast (`bayes_cpt.forecast.predict.predict`), shares 0...1.

    The seed says which draws of link and law go together, and the scatter, which is left out of the kind
    ``expected``. Outside has, in words, where the losses leave those of the pairs or the run what was
    fitted.
    """
    kind = str(dataset.attrs["kind"])
    known = dataset["domain"].to_numpy().tolist()
    variable = "expected" if kind == "expected" else "loss"
    draws = dataset.sizes["chain"] * dataset.sizes["draw"]
    parts = []
    for place, (name, link) in enumerate(fit.links.items()):
        if (domain := link.pairs.domain) not in known:
            problem = f"its scores go with {domain}, which is not forecast"
            raise PlanError.at(f"benchmark {name}", problem, f"ask for it too: --sets {domain}")
        resampled = link.resampled(draws, seed + place)
        curves = dataset[variable].sel(domain=domain)
        points = curves.stack(sample=("chain", "draw"), point=("run", "step")).dropna("point")
        losses = points.transpose("point", "sample").to_numpy()
        scores = resampled.scores(losses)
        if kind != "expected":
            scores = resampled.drawn(losses, np.random.default_rng([seed, place]))
        rows = points["point"].to_index().to_frame(index=False)
        notes = dataset["outside"].to_series().loc[rows["run"]]
        outside = _outside(np.median(losses, axis=1), link.pairs.losses, notes)
        rows = rows.assign(benchmark=name, domain=domain, **summary(scores, interval))
        parts.append(rows.assign(kind=kind, outside=outside))
    table = pd.concat(parts, ignore_index=True)
    table.attrs["interval"] = interval
    return table


def _outside(losses: Floats, paired: Floats, notes: Iterable[str]) -> list[str]:
    """Return for each loss what is said of its run, and whether no score was measured so far out."""
    low, high = float(paired.min()), float(paired.max())
    beyond = [
        "" if low <= loss <= high else f"loss {loss:.3g}, scores from {low:.3g} to {high:.3g}"
        for loss in losses
    ]
    return ["; ".join(filter(None, both)) for both in zip(notes, beyond, strict=True)]
