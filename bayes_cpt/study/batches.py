"""The batch of a run, tokens per step in sequences of some length, and for how many steps its data last."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.study.resources import Resources
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study


@dataclass(frozen=True)
class Batch:
    """Batch size and sequence length; None where it is not given.

    Examples
    --------
    >>> Batch(524288.0, 4096).words, Batch(2097152.0).words
    ('batch of 524288 tokens in sequences of 4096', 'batch of 2097152 tokens')
    """

    tokens: float | None = None  # per optimiser step
    sequence_length: int | None = None  # tokens

    @property
    def numbers(self) -> tuple[float, float]:
        """Tokens and sequence length, 0 where they are not given."""
        return (self.tokens or 0.0, float(self.sequence_length or 0))

    @property
    def keys(self) -> dict[str, Any]:
        """What a `Run` says of it."""
        return {"batch_tokens": self.tokens, "sequence_length": self.sequence_length}

    @property
    def label(self) -> str:
        """Its numbers alone, as files of fits know it."""
        tokens = self.tokens
        parts = [] if tokens is None else [f"{tokens:.{10 if tokens < 1e6 else 4}g}"]
        parts += [] if self.sequence_length is None else [f"x{self.sequence_length}"]
        return " ".join(parts)

    @property
    def words(self) -> str:
        """What it is, in a sentence."""
        tokens = "batch" if self.tokens is None else f"batch of {self.tokens:.10g} tokens"
        length = self.sequence_length
        return tokens if length is None else f"{tokens} in sequences of {length}"


# Nobody said anything.
UNSAID = Batch()


def batch_of(study: "Study", run: Run) -> Batch:
    """Return the batch of a run: what it says itself, else the tokens per step of its study."""
    tokens = study.tokens_per_step if run.batch_tokens is None else run.batch_tokens
    return Batch(None if tokens is None else float(tokens), run.sequence_length)


def batches_of(study: "Study") -> tuple[Batch, ...]:
    """Return the different batches of the CPT runs of a study, those of most runs first."""
    counts = Counter(batch_of(study, run) for run in study.continual_runs)
    return tuple(sorted(counts, key=lambda batch: (-counts[batch], *batch.numbers)))


ALIKE = 1e-9


def unique_steps(study: "Study") -> float:
    """Return the steps on target data alone that go through the study's target data once.

    Refused where the study does not say how many unique target tokens there are and how many tokens a step
    takes, or its CPT runs differ in that.
    """
    place = "table study, key unique_tokens"
    target = None if study.unique_tokens is None else study.unique_tokens.target
    if target is None:
        problem = "the law discounts repeated tokens, and nothing says how many unique ones exist"
        fix = "add unique_tokens = { target = ... } and tokens_per_step, or use --model cpt-replay"
        raise StudyError.at(place, problem, fix)
    sizes = sorted({batch.tokens for batch in batches_of(study) if batch.tokens is not None})
    if study.tokens_per_step is not None and not sizes:
        sizes = [study.tokens_per_step]
    if not sizes or not np.isclose(sizes[0], sizes[-1], rtol=ALIKE):
        said = f"{sizes[0]:g} to {sizes[-1]:g}" if sizes else "an unknown number of"
        problem = f"the law discounts repeated tokens, and steps of CPT runs take {said} tokens"
        raise StudyError.at(place, problem, "keep runs of one batch, and say tokens_per_step")
    return target / sizes[0]


def check_same_data(study: "Study", plan: "Study") -> None:
    """Check that a plan has the target data that a law with repeated tokens was fitted to.

    Refused if it says that there are more or fewer of them, or a step takes another share of them.
    """
    if plan.unique_tokens is None and plan.tokens_per_step is None:
        return
    _check_alike("table study", unique_steps(study), unique_steps(plan))


def check_same_steps(steps: float, resources: Resources) -> None:
    """Check that a decision is about the target data that a law with repeated tokens was fitted to."""
    unique, per_step = resources.unique_tokens, resources.tokens_per_step
    if unique is None or unique.target is None or per_step is None:
        return
    _check_alike("space", steps, unique.target / per_step)


def _check_alike(place: str, fitted: float, steps: float) -> None:
    if not np.isclose(fitted, steps, rtol=1e-6):
        problem = f"its target data last {steps:.6g} steps, and those of the fit {fitted:.6g}: "
        problem += "the law with repeated tokens knows the data that it was fitted to"
        fix = "leave unique_tokens, tokens_per_step and batch_tokens out, or fit with --model cpt-replay"
        raise SpecError.at(f"{place}, key unique_tokens", problem, fix)
