"""Advice before any run: what priors learnt from other studies expect of replay and peak learning rate.

The long run is planned at several replay ratios and peaks, and forecast under the priors of `cpt-replay`.
Short runs are then chosen one after the other, each the one that together with those before it would take
away most of the variance of what these forecasts say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from bayes_cpt.arrays import Floats, central
from bayes_cpt.decisions.sample_information import information
from bayes_cpt.errors import StudyError
from bayes_cpt.identify.prior_predictive import draw_ends, frame_of
from bayes_cpt.model.priors import Prior
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.resources import Size
from bayes_cpt.study.runs import HIGHEST_LEARNING_RATE, Base, Run
from bayes_cpt.study.schedules import cosine
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread
from bayes_cpt.toml_files import packaged

GENERAL, TARGET, BASE = "general", "target", "base"
REPLAYS = (0.0, 0.1, 0.25, 0.5)
# Shares of the peak learning rate of pre-training; the verdict is of the second.
PEAKS = (0.1, 0.33, 0.67, 1.0)
MIDDLE = float(np.exp(np.median(np.log(PEAKS))))
# Short runs to choose from: replay ratios, peaks, and their share of the long run.
SHORT_REPLAYS, SHORT_PEAKS, SHORT = (0.0, 0.25, 0.5), (0.1, 0.33, 1.0), 0.1
SHORTEST, WARMUP, CHECKPOINTS, FEW = 200, 0.02, 16, 3
# Of the priors, and of these for what short runs tell.
DRAWS, TELLING = 4000, 1500
# What words and sizes stand for.
ASSUMED = packaged("decisions", "advice.toml")


class Asked(Strict):
    """What is asked about (see `advise`)."""

    size: Size = Field(ge=1e4)  # not 7 for 7B
    tokens: Size
    batch: Size | None
    peak: Annotated[Size, Field(le=HIGHEST_LEARNING_RATE)] | None
    base: Literal["annealed", "stable", "unknown"]
    target: Literal["far", "near"]
    losses: dict[Literal["general", "target"], Size]


@dataclass(frozen=True, eq=False)
class Advice:
    """What to expect of a long run, and which short runs would tell most."""

    # Size (parameters), tokens, steps, batch (tokens), peak (learning rate of pre-training), base, target
    # and interval
    about: dict[str, Any]
    # One row per replay ratio, peak (as a share of pre-training's) and set: change of the loss over the
    # run, nats/token: lower, median, upper, and ``falls``, the probability that it falls
    ends: pd.DataFrame
    plan: Study  # the short runs, those that tell most first
    # Columns run, replay, peak, steps, and ``narrowed``: the share of the variance of the forecasts that
    # this run and those above it take away
    told: pd.DataFrame

    def verdict(self) -> list[str]:
        """Return what to expect, how sure that is, and what to train first."""
        from bayes_cpt.report.forecasts import advice_verdict

        return advice_verdict(self)


@one_thread("blas")
def advise(
    size: float,
    tokens: float,
    *,
    base: str = "unknown",
    target: str = "far",
    batch: float | None = None,
    peak: float | None = None,
    losses: Mapping[str, float] | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Advice:
    """Return what to expect of continual pre-training before any run, and which short runs to begin with.

    Parameters
    ----------
    size : float
        Parameters of the model. Sets batch and peak where they are not given; the priors are about shares
        of the run and hold for all sizes that they were learnt from, 0.4 million to 1.4 billion.
    tokens : float
        Of the long run.
    base : {"unknown", "annealed", "stable"}
        Whether the learning rate of the base had fallen at its last step.
    target : {"far", "near"}
        Whether the base has hardly seen data like the target's, as a language or a proof assistant, or
        knows them well, as more code or web text.
    batch : float, optional
        Tokens of a step; as models of the size were trained unless given.
    peak : float, optional
        Peak learning rate of pre-training.
    losses : mapping of str to float, optional
        Loss of the base on ``general`` and on ``target`` data, nats/token.
    interval : float
        Mass of the central intervals.
    seed : int

    Raises
    ------
    StudyError
        Naming what is no size, share or word.

    Examples
    --------
    >>> found = advise(7e9, 20e9, base="annealed", target="far")
    >>> found.ends.columns.tolist()
    ['replay', 'peak', 'domain', 'lower', 'median', 'upper', 'falls']
    """
    given: dict[str, Any] = {"size": size, "tokens": tokens, "base": base, "target": target}
    rest = {"batch": batch, "peak": peak, "losses": dict(losses or {})}
    checked(Asked, given | rest, "advise", "see bayes-cpt advise --help")
    batch = batch or next(own for most, own in ASSUMED["batch"].items() if size < float(most))
    usual = ASSUMED["peak"]
    peak = peak or usual["rate"] * (size / usual["at"]) ** usual["power"]
    steps = round(tokens / batch)
    if steps < SHORTEST:
        problem = f"{tokens:g} tokens are {steps} steps of {batch:g} tokens"
        fix = f"give more tokens or a smaller batch: {SHORTEST} steps at least"
        raise StudyError.at("key tokens", problem, fix)
    settings = _settings(PEAKS, REPLAYS)
    long = _plan(settings, steps, peak)
    frame = frame_of(spec_of(base, target, losses or {}), long)
    ends = draw_ends(frame, long, DRAWS, seed)
    rows = [(*settings[curve.run], curve.domain) for curve in ends.curves.curves]
    table = pd.DataFrame(rows, columns=["replay", "peak", "domain"])
    bounds = central(ends.values.T, interval)
    found = {name: bounds[name] for name in ("lower", "median", "upper")}
    table = table.assign(**found, falls=(ends.values < 0).mean(axis=0))
    short = max(SHORTEST, round(SHORT * steps))
    plan, told = _short_runs(frame, ends.parameters, ends.values, short, peak, seed)
    about = given | {"steps": steps, "batch": batch, "peak": peak, "interval": interval}
    return Advice(about, table, plan, told)


def spec_of(
    base: str, target: str, losses: Mapping[str, float], middle: float = MIDDLE
) -> ModelSpec:
    """Return `cpt-replay` with the priors that words and losses stand for.

    A fit counts learning rates in the middle peak of its runs, which is given over that of pre-training.
    """
    spec = read_spec("cpt-replay")
    priors, unknown = dict(spec.priors), dict(spec.unknown_base)
    shares = {"reason": f"A {target} target.", **ASSUMED["targets"][target]}
    priors["shift_share"] = Prior.model_validate(shares)
    potential = ASSUMED["bases"][base]
    ends = {"median", "lower", "upper"} & potential.keys()
    counted = {key: potential[key] / middle for key in ends}
    said = {"reason": f"The base is {base}.", "every": potential | counted}
    unknown["base_potential"] = Prior.model_validate(said)
    level = priors["reference_loss"]
    of_role = {role: level.of(role).model_dump() for role in (GENERAL, TARGET)}
    for role, loss in losses.items():
        of_role[role] = {"distribution": "lognormal", "median": loss, "sigma": 0.1}
    priors["reference_loss"] = Prior.model_validate({"reason": level.reason, **of_role})
    return spec.model_copy(update={"priors": priors, "unknown_base": unknown})


def _settings(peaks: Sequence[float], replays: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Return replay ratio and peak, as a share of pre-training's, by the name of their run."""
    return {
        f"replay{100 * replay:.0f}_peak{100 * share:.0f}": (replay, share)
        for share in peaks
        for replay in replays
    }


def _plan(settings: dict[str, tuple[float, float]], steps: int, peak: float) -> Study:
    warmup = max(1, round(WARMUP * steps))
    runs = tuple(
        Run(name, "cpt", cosine(steps, share * peak, warmup_steps=warmup), BASE, replay)
        for name, (replay, share) in settings.items()
    )
    none = pd.DataFrame(columns=["run", "step", "domain", "loss"])
    bases = (Base(BASE, known=False),)
    return Study("advice", GENERAL, TARGET, bases, runs, none, is_plan=True)


def _short_runs(
    frame: BoundModel,
    parameters: dict[str, Floats],
    changes: Floats,
    steps: int,
    peak: float,
    seed: int,
) -> tuple[Study, pd.DataFrame]:
    """Return the short runs that tell most of changes, shape (draws, ends), and what they tell."""
    settings = _settings(SHORT_PEAKS, SHORT_REPLAYS)
    plan = _plan(settings, steps, peak)
    at = np.unique(np.geomspace(max(2, steps // 50), steps, CHECKPOINTS).astype(int)).tolist()
    generator = np.random.default_rng(seed)
    parameters = {name: values[:TELLING] for name, values in parameters.items()}
    data = {}
    for run in plan.runs:
        curves = frame.curves(plan, lambda *_: [0, *at], [run])
        data[run.name] = simulate(frame, parameters, curves, None, generator).loss

    def told(*names: str) -> float:
        """Return the share of the variance that some runs take away together."""
        curves = np.hstack([data[name] for name in names])
        return float(information(changes[:TELLING], curves).share.mean())

    narrowed: dict[str, float] = {}
    for _ in range(FEW):
        shares = {name: told(*narrowed, name) for name in data if name not in narrowed}
        best = max(shares, key=shares.__getitem__)
        narrowed[best] = shares[best]
    rows = [(name, *settings[name], steps, share) for name, share in narrowed.items()]
    table = pd.DataFrame(rows, columns=["run", "replay", "peak", "steps", "narrowed"])
    return replace(plan, runs=tuple(map(plan.run, narrowed))), table
