"""The most that a run may take of data, time and money."""

from dataclasses import dataclass

from pydantic import Field

from bayes_cpt.errors import Problem
from bayes_cpt.strict import Strict

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
        A column of `bayes_cpt.study.resources.resources.Resources.told`.
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
