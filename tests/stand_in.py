"""Fits and forecasts that cost no sampling: draws about the prior, or what knows the truth."""

import json
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from command_line import STAGES
from synthetic import CHAINS, as_posterior, prior_as_posterior

from bayes_cpt import Posterior, Study, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer, Method
from bayes_cpt.validate.scores import score_points


class Fits(NamedTuple):
    """What fits were asked for, and the problems that those to come are to have."""

    asked: list[dict[str, Any]]
    problems: list[str]


def stand_in(
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., Posterior] = prior_as_posterior,
    at: str = "bayes_cpt.inference.fitting.fit",
    **options: Any,
) -> Fits:
    """Make posteriors of a study and a specification in place of `fit`, and tell of stages as it does."""
    fits = Fits([], [])

    def fit(
        study: Study,
        spec: ModelSpec,
        seed: int,
        *,
        progress: Callable[..., None] = lambda *_: None,
        **given: Any,
    ) -> Posterior:
        for stage in (*STAGES, STAGES[-1]):
            progress(stage, 0.5)
        fits.asked.append({"study": study, "spec": spec, "seed": seed} | given)
        posterior = make(study, spec, **options)
        posterior.tree.attrs |= {"problems": json.dumps(fits.problems), "seed": seed}
        return posterior

    monkeypatch.setattr(at, fit)
    return fits


def guess(
    level: float,
    spread: float,
    asked: list[str] | None = None,
    attempts: int = 1,
    problems: tuple[str, ...] = (),
) -> Method:
    """Return a method that draws around one level, and notes for which runs it was asked."""

    def method(question: Question, seed: int, **_: object) -> Answer:
        assert list(question.points.columns) == ["run", "domain", "step"]
        if asked is not None:
            asked.extend(question.points["run"].unique())
        draws = np.random.default_rng(seed).normal(level, spread, (50, len(question.points)))
        return Answer(draws, problems, attempts)

    return method


def held_out_points(
    runs: Sequence[str], domains: Sequence[str], spread: float = 1.0
) -> pd.DataFrame:
    """Return scored points of forecasts that are so many times as wide as the scatter of the losses."""
    generator = np.random.default_rng(2)
    parts = []
    for run, domain in product(runs, domains):
        step = np.linspace(30, 3000, 40).astype(int)
        table = pd.DataFrame({"run": run, "domain": domain, "step": step})
        table = table.assign(share=step / 3000, ratio=step / 750)
        table["loss"] = 3.0 + generator.standard_normal(step.size)
        draws = 3.0 + spread * generator.standard_normal((200, step.size))
        parts.append(score_points(table, draws))
    return pd.concat(parts, ignore_index=True)


def medians(model: str, study: Study) -> dict[str, Floats]:
    """Return one parameter vector of a law, the medians of its prior, shape (1, ...)."""
    drawn = draw_priors(build_setup(read_spec(model), study).frame, 400, seed=2)
    return {name: np.median(values, axis=0)[None] for name, values in drawn.items()}


def knowing(study: Study, spec: ModelSpec, truth: Callable[[str], dict[str, Floats]]) -> Posterior:
    """Return a posterior whose draws are all the truth of the law."""
    values = {
        name: np.broadcast_to(value, (CHAINS, 10, *value.shape[1:])).copy()
        for name, value in truth(spec.name).items()
    }
    return as_posterior(build_setup(spec, study).frame, study, values)
