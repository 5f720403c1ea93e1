"""Tokens, epochs, batches, GPU time and money of runs, and how much there is (docs/data-and-cost.md)."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, is_number
from bayes_cpt.errors import Problem, SpecError, StudyError
from bayes_cpt.strict import Strict
from bayes_cpt.study.runs import Run

if TYPE_CHECKING:
    from bayes_cpt.study.study import Study

ROLES = ("general", "target")
# Up to four epochs repeated tokens are worth nearly as much as new ones (Muennighoff et al. 2023,
# arXiv 2305.16264, abstract); beyond, less and less.
MANY_EPOCHS = 4.0
SECONDS_PER_HOUR = 3600.0


def _read[T](kind: type[T], table: object, required: Collection[str]) -> T:
    """Return what a table of a study.toml describes, all its problems at once."""
    check = Check()
    known = [part.name for part in fields(kind)]  # type: ignore[arg-type]
    keys = check.keys(table, allowed=known, required=required)
    values: dict[str, Any] = {key: value for key, value in keys.items() if key in known}
    if set(required) <= set(values) and isinstance(table, dict) and (values or not keys):
        resource = check.run("", kind, **values)
        if resource is not None and not check.problems:
            return resource
    raise StudyError(check.problems)


@dataclass(frozen=True)
class UniqueTokens:
    """How many different tokens there are to train on.

    Parameters
    ----------
    general, target : float, optional
        Tokens of the general and of the target data; None where nobody counted them.

    Raises
    ------
    StudyError
        If one is no positive number, or none is given.

    Examples
    --------
    >>> UniqueTokens(target=2e9).of("target")
    2000000000.0
    """

    general: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        check = Check()
        given = [role for role in ROLES if getattr(self, role) is not None]
        if not given:
            check.add("", "neither general nor target is given", "add target = ..., or take it out")
        for role in given:
            check.positive(role, getattr(self, role), f"unique tokens of {role} data")
        check.raise_problems()
        for role in given:
            object.__setattr__(self, role, float(getattr(self, role)))

    @classmethod
    def read(cls, table: object) -> Self:
        """Return what the key ``unique_tokens`` of a study.toml holds.

        Parameters
        ----------
        table : object
            As it was read.

        Raises
        ------
        StudyError
            With every problem of the table.
        """
        return _read(cls, table, ())

    def of(self, role: str) -> float | None:
        """Return the unique tokens of a role, None where they are not known.

        Parameters
        ----------
        role : str
            ``general`` or ``target``.
        """
        tokens = getattr(self, role)
        return None if tokens is None else float(tokens)


@dataclass(frozen=True)
class Compute:
    """What a step costs.

    Parameters
    ----------
    seconds_per_step : float
        Measured, of the whole job.
    gpus : float
        How many work at it.
    price : float, optional
        Of a GPU-hour, in the currency of your choice.

    Raises
    ------
    StudyError
        If one is no positive number.

    Examples
    --------
    >>> Compute(seconds_per_step=1.8, gpus=64, price=2.5).gpu_hours(1000)
    32.0
    """

    seconds_per_step: float
    gpus: float = 1.0
    price: float | None = None

    def __post_init__(self) -> None:
        check = Check()
        check.positive("seconds_per_step", self.seconds_per_step, "seconds")
        check.positive("gpus", self.gpus, "GPUs")
        if self.price is not None:
            check.positive("price", self.price, "money for a GPU-hour")
        check.raise_problems()
        for part in fields(self):
            if getattr(self, part.name) is not None:
                object.__setattr__(self, part.name, float(getattr(self, part.name)))

    @classmethod
    def read(cls, table: object) -> Self:
        """Return what the key ``compute`` of a study.toml holds.

        Parameters
        ----------
        table : object
            As it was read.

        Raises
        ------
        StudyError
            With every problem of the table.
        """
        return _read(cls, table, ("seconds_per_step",))

    def gpu_hours(self, steps: Any) -> Any:
        """Return the GPU-hours of some numbers of steps, of their shape.

        Parameters
        ----------
        steps : float or ndarray
        """
        return steps * (self.seconds_per_step * self.gpus / SECONDS_PER_HOUR)


@dataclass(frozen=True)
class Resources:
    """What is known of the tokens and the cost of steps.

    Parameters
    ----------
    tokens_per_step : float, optional
    unique_tokens : UniqueTokens, optional
    compute : Compute, optional

    Examples
    --------
    >>> known = Resources(1e6, UniqueTokens(target=1e9), Compute(2.0, 8, 3.0))
    >>> {role: float(own) for role, own in known.epochs(4000, 0.25).items()}
    {'target': 3.0}
    >>> {name: round(float(own), 2) for name, own in known.costs(4000).items()}
    {'gpu_hours': 17.78, 'money': 53.33}
    """

    tokens_per_step: float | None = None
    unique_tokens: UniqueTokens | None = None
    compute: Compute | None = None

    def of_run(self, run: Run) -> Self:
        """Return the same with the tokens per step that a run says it takes.

        Parameters
        ----------
        run : Run
        """
        return self if run.batch_tokens is None else replace(self, tokens_per_step=run.batch_tokens)

    def epochs(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return how often a run goes through each kind of data whose size is known, by role.

        Target tokens are steps · tokens per step · (1 - replay), general tokens the rest. What a base saw
        before is not counted.

        Parameters
        ----------
        steps : array_like
        replay : array_like
            Share of general data; 1 in PT.
        """
        if self.tokens_per_step is None or self.unique_tokens is None:
            return {}
        tokens = np.asarray(steps, dtype=np.float64) * self.tokens_per_step
        general = np.asarray(replay, dtype=np.float64)
        shares = {"general": general, "target": 1.0 - general}
        sizes = {role: self.unique_tokens.of(role) for role in ROLES}
        return {
            role: tokens * share / size
            for role, share in shares.items()
            if (size := sizes[role]) is not None
        }

    def costs(self, steps: ArrayLike) -> dict[str, Floats]:
        """Return ``gpu_hours`` of some numbers of steps and, where a price is known, ``money``.

        Parameters
        ----------
        steps : array_like
        """
        if self.compute is None:
            return {}
        hours = self.compute.gpu_hours(np.asarray(steps, dtype=np.float64))
        if self.compute.price is None:
            return {"gpu_hours": hours}
        return {"gpu_hours": hours, "money": hours * self.compute.price}

    def told(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return the columns that a table has of some runs: ``general_epochs`` ... and costs.

        Parameters
        ----------
        steps, replay : array_like
        """
        epochs = {f"{role}_epochs": count for role, count in self.epochs(steps, replay).items()}
        return epochs | self.costs(steps)

    def of_one(self, run: Run) -> dict[str, float]:
        """Return `told` of one run.

        Parameters
        ----------
        run : Run
        """
        replay = 1.0 if run.replay is None else run.replay
        taken = self.of_run(run).told(run.schedule.steps, replay)
        return {name: float(value) for name, value in taken.items()}


COUNT = "add tokens_per_step = ... to [study], the tokens of one optimiser step"


def check_counted(
    check: Check, tokens_per_step: object, unique_tokens: UniqueTokens | None, runs: Sequence[Run]
) -> None:
    """Note runs whose epochs cannot be counted though their data are.

    Parameters
    ----------
    check : Check
        Where problems go.
    tokens_per_step : object
        Of the study, as it was given.
    unique_tokens : UniqueTokens or None
    runs : sequence of Run
    """
    if unique_tokens is None or tokens_per_step is not None:
        return
    unknown = [run.name for run in runs if run.batch_tokens is None]
    if unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        check.add(
            "table study, key unique_tokens",
            f"epochs cannot be counted: nothing says how many tokens a step of run {unknown[0]}{others} "
            "takes",
            COUNT,
        )


def note_epochs(
    cautions: Check,
    tokens_per_step: object,
    unique_tokens: UniqueTokens | None,
    runs: Sequence[Run],
    place: str,
) -> None:
    """Note runs that go through their data more often than is known to be worth it.

    Parameters
    ----------
    cautions : Check
        Where warnings go.
    tokens_per_step : object
        Of the study, as it was given.
    unique_tokens : UniqueTokens or None
    runs : sequence of Run
    place : str
        What messages call the settings.
    """
    per_step = float(tokens_per_step) if is_number(tokens_per_step) else None  # type: ignore[arg-type]
    known = Resources(per_step, unique_tokens)
    for role in ROLES:
        epochs = {run.name: known.of_one(run).get(f"{role}_epochs", 0.0) for run in runs}
        many = {name: count for name, count in epochs.items() if count > MANY_EPOCHS}
        if many:
            most = max(many, key=lambda name: many[name])
            cautions.add(
                f"{place}, run {most}",
                epochs_words(role, many[most])
                + (f" ({len(many)} runs do so)" if len(many) > 1 else ""),
                "train on more unique tokens or for fewer steps, or fit with --model cpt-replay-repeats",
            )


def epochs_words(role: str, epochs: float) -> str:
    """Return in words that a run repeats its data too often.

    Parameters
    ----------
    role : str
        ``general`` or ``target``.
    epochs : float
        Above `MANY_EPOCHS`.

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
    "gpu_hours": "GPU-hours",
    "money": "of money",
}


class Limits(Strict):
    """What a run may take at most; what is left out is not limited.

    Parameters
    ----------
    general_epochs, target_epochs : float, optional
        Epochs over the general and over the target data.
    gpu_hours, money : float, optional
        Cost of the run, in GPU-hours and in the currency of their price.

    Examples
    --------
    >>> [str(own) for own in Limits(target_epochs=4, gpu_hours=500).given]
    ['epochs over target data <= 4', 'GPU-hours <= 500']
    """

    general_epochs: float | None = Field(default=None, gt=0)
    target_epochs: float | None = Field(default=None, gt=0)
    gpu_hours: float | None = Field(default=None, gt=0)
    money: float | None = Field(default=None, gt=0)

    @property
    def given(self) -> "tuple[Limit, ...]":
        """Those that are given."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return tuple(Limit(name, most) for name, most in values.items() if most is not None)


@dataclass(frozen=True)
class Limit:
    """The most that a run may take of something.

    Parameters
    ----------
    name : str
        A column of `bayes_cpt.study.resources.Resources.told`.
    most : float
    """

    name: str
    most: float

    def __str__(self) -> str:
        """Return the limit as it is read aloud."""
        return f"{RESOURCE_WORDS[self.name]} <= {self.most:g}"


def unknown_resource(place: str, name: str) -> Problem:
    """Return the problem that nobody knows how much of something a step takes.

    Parameters
    ----------
    place : str
        What asks for it.
    name : str
        Of `RESOURCE_WORDS`.
    """
    fixes = {
        "gpu_hours": "compute = { seconds_per_step = ..., gpus = ... }",
        "money": "compute = { seconds_per_step = ..., gpus = ..., price = ... }",
    }
    role = name.removesuffix("_epochs")
    fix = fixes.get(name, f"unique_tokens = {{ {role} = ... }} and tokens_per_step")
    return Problem(
        f"{place}, {RESOURCE_WORDS[name]}",
        "neither study nor space says how much of it a step takes",
        f"add {fix} to the space, or to [study]",
    )


@dataclass(frozen=True)
class Batch:
    """Batch size and sequence length; None is what nobody said.

    Parameters
    ----------
    tokens : float or None
        Per optimiser step.
    sequence_length : int or None
        Tokens.

    Examples
    --------
    >>> Batch(524288.0, 4096).words, Batch(1e6).words
    ('batch of 524288 tokens in sequences of 4096', 'batch of 1e+06 tokens')
    """

    tokens: float | None = None
    sequence_length: int | None = None

    @property
    def numbers(self) -> tuple[float, float]:
        """Tokens and sequence length, 0 where nobody said them."""
        return (self.tokens or 0.0, float(self.sequence_length or 0))

    @property
    def label(self) -> str:
        """Its numbers alone."""
        parts = [] if self.tokens is None else [_number(self.tokens)]
        parts += [] if self.sequence_length is None else [f"x{self.sequence_length}"]
        return " ".join(parts)

    @property
    def words(self) -> str:
        """What it is, in a sentence."""
        tokens = "batch" if self.tokens is None else f"batch of {_number(self.tokens)} tokens"
        length = self.sequence_length
        return tokens if length is None else f"{tokens} in sequences of {length}"


# Nobody said anything.
UNSAID = Batch()


def batch_of(study: "Study", run: Run) -> Batch:
    """Return the batch of a run: what it says itself, else the tokens per step of its study.

    Parameters
    ----------
    study : Study
        Of the run.
    run : Run
    """
    tokens = study.tokens_per_step if run.batch_tokens is None else run.batch_tokens
    return Batch(None if tokens is None else float(tokens), run.sequence_length)


def batches_of(study: "Study") -> tuple[Batch, ...]:
    """Return the different batches of the CPT runs of a study, those of most runs first.

    Parameters
    ----------
    study : Study
    """
    counts = Counter(batch_of(study, run) for run in study.continual_runs)
    return tuple(sorted(counts, key=lambda batch: (-counts[batch], *batch.numbers)))


def _number(tokens: float) -> str:
    return f"{tokens:.10g}" if tokens < 1e6 else f"{tokens:.4g}"


ALIKE = 1e-9


def unique_steps(study: "Study") -> float:
    """Return the steps on target data alone that go through the study's target data once.

    Parameters
    ----------
    study : Study

    Raises
    ------
    StudyError
        If the study does not say how many unique target tokens there are and how many tokens a step takes,
        or its CPT runs differ in that.
    """
    place = "table study, key unique_tokens"
    target = None if study.unique_tokens is None else study.unique_tokens.target
    if target is None:
        problem = (
            "the law discounts repeated tokens, and nothing says how many different ones there are"
        )
        fix = "add unique_tokens = { target = ... } and tokens_per_step, or use --model cpt-replay"
        raise StudyError.at(place, problem, fix)
    tokens = {run.name: study.resources.of_run(run).tokens_per_step for run in study.continual_runs}
    sizes = sorted({float(count) for count in tokens.values() if count is not None})
    if study.tokens_per_step is not None and not sizes:
        sizes = [study.tokens_per_step]
    if not sizes or not np.isclose(sizes[0], sizes[-1], rtol=ALIKE):
        said = f"{sizes[0]:g} to {sizes[-1]:g}" if sizes else "an unknown number of"
        problem = f"the law discounts repeated tokens, and steps of CPT runs take {said} tokens"
        raise StudyError.at(place, problem, "keep runs of one batch, and say tokens_per_step")
    return target / sizes[0]


def check_same_data(study: "Study", plan: "Study") -> None:
    """Check that a plan has the target data that a law with repeated tokens was fitted to.

    Parameters
    ----------
    study : Study
        The fitted one.
    plan : Study

    Raises
    ------
    StudyError
        If the plan says that there are more or fewer of them, or a step takes another share of them.
    """
    if plan.unique_tokens is None and plan.tokens_per_step is None:
        return
    mine, theirs = unique_steps(study), unique_steps(plan)
    if not np.isclose(mine, theirs, rtol=1e-6):
        problem = (
            f"a step on target data goes through 1/{theirs:.6g} of them, and in the fitted study through "
            f"1/{mine:.6g}: the law with repeated tokens knows the data that it was fitted to"
        )
        fix = "leave unique_tokens, tokens_per_step and batch_tokens as in the study"
        raise StudyError.at("table study, key unique_tokens", problem, fix)


def check_same_steps(steps: float, resources: Resources) -> None:
    """Check that a decision is about the target data that a law with repeated tokens was fitted to.

    Parameters
    ----------
    steps : float
        That the target data of the fit last.
    resources : Resources
        Of the decision.

    Raises
    ------
    SpecError
        If they last for another number of steps.
    """
    unique, per_step = resources.unique_tokens, resources.tokens_per_step
    if unique is None or unique.target is None or per_step is None:
        return
    theirs = unique.target / per_step
    if not np.isclose(steps, theirs, rtol=1e-6):
        problem = f"its target data last {theirs:.6g} steps, and those of the fit {steps:.6g}"
        fix = "leave unique_tokens and tokens_per_step out, or use a fit of --model cpt-replay"
        raise SpecError.at("space, key unique_tokens", problem, fix)
