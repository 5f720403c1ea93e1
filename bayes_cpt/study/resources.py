"""Tokens, epochs, GPU time and money of runs, and how much there is (docs/data-and-cost.md)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.strict import Strict
from bayes_cpt.study.runs import Run

ROLES = ("general", "target")
# Up to four epochs repeated tokens are worth nearly as much as new ones (Muennighoff et al. 2023,
# arXiv 2305.16264, abstract); beyond, less and less.
MANY_EPOCHS = 4.0
SECONDS_PER_HOUR = 3600.0

type Size = Annotated[float, Field(gt=0, strict=True)]


class UniqueTokens(Strict):
    """How many different tokens there are to train on."""

    # Tokens of the general and of the target data; None where they are not known
    general: Size | None = None
    target: Size | None = None

    @model_validator(mode="after")
    def _is_some(self) -> Self:
        if self.general is None and self.target is None:
            raise ValueError("neither general nor target is given: add target = ...")
        return self


class Compute(Strict):
    """What a step costs."""

    seconds_per_step: Size  # measured, of the whole job
    gpus: Size = 1.0  # how many work at it
    price: Size | None = None  # of a GPU-hour, in the currency of your choice


# Tables inside [study] and a space.
RESOURCES: dict[str, type[Strict]] = {"unique_tokens": UniqueTokens, "compute": Compute}


@dataclass(frozen=True)
class Resources:
    """What is known of the tokens and the cost of steps.

    Examples
    --------
    >>> compute = Compute(seconds_per_step=2.0, gpus=8, price=3.0)
    >>> known = Resources(1e6, UniqueTokens(target=1e9), compute)
    >>> {role: float(own) for role, own in known.epochs(4000, 0.25).items()}
    {'target': 3.0}
    >>> {name: round(float(own), 2) for name, own in known.costs(4000).items()}
    {'gpu_hours': 17.78, 'money': 53.33}
    """

    tokens_per_step: float | None = None
    unique_tokens: UniqueTokens | None = None
    compute: Compute | None = None

    def epochs(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return how often a run goes through each kind of data whose size is known, by role.

        Target tokens are steps · tokens per step · (1 - replay), general tokens the rest. What a base saw
        before is not counted.
        """
        if self.tokens_per_step is None or self.unique_tokens is None:
            return {}
        tokens = np.asarray(steps, dtype=np.float64) * self.tokens_per_step
        general = np.asarray(replay, dtype=np.float64)
        shares = {"general": general, "target": 1.0 - general}
        return {role: tokens * shares[role] / own for role, own in self.unique_tokens if own}

    def costs(self, steps: ArrayLike) -> dict[str, Floats]:
        """Return ``gpu_hours`` of some numbers of steps and, where a price is known, ``money``."""
        if self.compute is None:
            return {}
        per_step = self.compute.seconds_per_step * self.compute.gpus / SECONDS_PER_HOUR
        hours = np.asarray(steps, dtype=np.float64) * per_step
        if self.compute.price is None:
            return {"gpu_hours": hours}
        return {"gpu_hours": hours, "money": hours * self.compute.price}

    def step(self, place: str, name: str, least: float) -> float:
        """Return how many ``tokens`` or ``gpu_hours``, or how much ``money``, a step takes.

        Refused, as of some place, where that is not known or `least` does not pay for a step.
        """
        taken = {"tokens": self.tokens_per_step, **self.costs(1.0)}.get(name)
        if taken is None:
            raise SpecError([unknown_resource(place, name)])
        if least < taken:
            words = RESOURCE_WORDS[name]
            problem = f"a step takes {taken:,.8g} {words}, and there are {least:,.8g}"
            raise SpecError.at(f"{place}, key {name}", problem, "give more")
        return float(taken)

    def told(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return the columns that a table has of some runs: ``general_epochs`` ... and costs."""
        epochs = {f"{role}_epochs": count for role, count in self.epochs(steps, replay).items()}
        return epochs | self.costs(steps)

    def in_batch(self, tokens: float | None) -> Self:
        """Return what is known of steps of so many tokens, where given: they take time in proportion."""
        if tokens is None:
            return self
        compute = self.compute
        if compute and self.tokens_per_step:
            seconds = compute.seconds_per_step * tokens / self.tokens_per_step
            compute = compute.model_copy(update={"seconds_per_step": seconds})
        return replace(self, tokens_per_step=tokens, compute=compute)

    def of_one(self, run: Run) -> dict[str, float]:
        """Return `told` of one run, in steps of the tokens that it says it takes."""
        known = self.in_batch(run.batch_tokens)
        taken = known.told(run.schedule.steps, 1.0 if run.replay is None else run.replay)
        return {name: float(value) for name, value in taken.items()}


def check_counted(check: Check, unique_tokens: UniqueTokens | None, runs: Sequence[Run]) -> None:
    """Note runs whose epochs cannot be counted though their data are."""
    unknown = [run.name for run in runs if run.batch_tokens is None]
    if unique_tokens is not None and unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        step = f"a step of run {unknown[0]}{others}"
        problem = f"epochs cannot be counted: nothing says how many tokens {step} takes"
        fix = "add tokens_per_step = ... to [study], the tokens of one optimiser step"
        check.add("table study, key unique_tokens", problem, fix)


def note_epochs(cautions: Check, resources: Resources, runs: Sequence[Run], place: str) -> None:
    """Note CPT runs that go through their data more often than is known to be worth it."""
    taken = {run.name: resources.of_one(run) for run in runs if run.phase == "cpt"}
    for role in ROLES:
        epochs = {name: own.get(f"{role}_epochs", 0.0) for name, own in taken.items()}
        many = [name for name in epochs if epochs[name] > MANY_EPOCHS]
        if many:
            most = max(many, key=epochs.__getitem__)
            problem = epochs_words(role, epochs[most])
            problem += f" ({len(many)} runs do so)" if many[1:] else ""
            # The law of a plan is not known here: said so that it holds of each.
            law = "; the law of cpt-replay-repeats discounts them" if role == "target" else ""
            fix = f"train on more unique tokens or for fewer steps{law}"
            cautions.add(f"{place}, run {most}", problem, fix)


def epochs_words(role: str, epochs: float) -> str:
    """Return in words that a run repeats its data too often.

    Examples
    --------
    >>> epochs_words("target", 6.25)
    'it makes 6.2 epochs over the target data, and beyond 4 repeated tokens are worth less and less'
    """
    return (
        f"it makes {epochs:.1f} epochs over the {role} data, and beyond {MANY_EPOCHS:g} repeated tokens "
        "are worth less and less"
    )


RESOURCE_WORDS = {
    "general_epochs": "epochs over general data",
    "target_epochs": "epochs over target data",
    "tokens": "tokens",
    "gpu_hours": "GPU-hours",
    "money": "of money",
}


class Limits(Strict):
    """What a run may take at most; what is left out is not limited.

    Examples
    --------
    >>> Limits(target_epochs=4, gpu_hours=500).given
    {'target_epochs': 4.0, 'gpu_hours': 500.0}
    """

    # Epochs over the general and over the target data
    general_epochs: Size | None = None
    target_epochs: Size | None = None
    # Cost of the run, in GPU-hours and in the currency of their price
    gpu_hours: Size | None = None
    money: Size | None = None

    @property
    def given(self) -> dict[str, float]:
        """Those that are given, by the columns of `Resources.told`."""
        return {name: most for name, most in self if most is not None}


def unknown_resource(place: str, name: str) -> Problem:
    """Return the problem that what a step takes is not known."""
    price = ", price = ..." if name == "money" else ""
    fix = f"compute = {{ seconds_per_step = ..., gpus = ...{price} }}"
    if name == "tokens":
        fix = "tokens_per_step = ..."
    if name.endswith("_epochs"):
        fix = f"unique_tokens = {{ {name.removesuffix('_epochs')} = ... }} and tokens_per_step"
    return Problem(
        f"{place}, {RESOURCE_WORDS[name]}",
        "neither study nor space says how much of it a step takes",
        f"add {fix} to the space, or to [study]",
    )
