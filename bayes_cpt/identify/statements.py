"""Statements that priors are elicited from: what somebody believes of a parameter, or of a loss."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.strict import Strict, said
from bayes_cpt.toml_files import read_toml

type Pair = tuple[float, float]

OF_LOSSES = ("falls_by", "rises_by", "changes_by")
MASS = 0.9


class Statement(Strict):
    """A central interval of a parameter, or of the change of a loss over a run.

    Parameters
    ----------
    parameter : str, optional
        Of the model, with `between`; `on` says which validation set, every one unless given.
    loss : str, optional
        Validation set whose loss changes, with one of `falls_by`, `rises_by` and `changes_by` (signed),
        nats/token from the start to the end of a run.
    on : str, optional
        A validation set by name, or ``general`` or ``target``; so is `loss`.
    run : str, optional
        A run of the plan; a typical run of the study unless given.
    replay : float, optional
        Of the typical run; that of the study unless given.
    steps : int, optional
        Of the typical run; those of the study unless given.
    between, falls_by, rises_by, changes_by : pair of float, optional
        Lower and upper end.
    mass : float
        Probability between the ends, half of the rest on each side.
    reason : str
        Why; it becomes the reason of the prior.
    """

    parameter: str | None = None
    loss: str | None = None
    on: str | None = None
    run: str | None = None
    replay: float | None = Field(default=None, ge=0, le=1)
    steps: int | None = Field(default=None, ge=1, le=10_000_000)
    between: Pair | None = None
    falls_by: Pair | None = None
    rises_by: Pair | None = None
    changes_by: Pair | None = None
    mass: float = Field(default=MASS, gt=0, lt=1)
    reason: str = Field(min_length=1)

    @model_validator(mode="after")
    def _is_about_one_thing(self) -> Self:
        given = [key for key in ("between", *OF_LOSSES) if getattr(self, key) is not None]
        if (self.parameter is None) == (self.loss is None):
            raise ValueError("give either parameter or loss")
        if self.parameter is not None:
            extra = [key for key in ("run", "replay", "steps") if getattr(self, key) is not None]
            if extra:
                raise ValueError(f"a parameter has no {extra[0]}")
            if given != ["between"]:
                raise ValueError("give between = [lower, upper]")
        else:
            if self.on is not None:
                raise ValueError("loss names the validation set already: leave on out")
            if len(given) != 1 or given[0] not in OF_LOSSES:
                raise ValueError(f"give one of {', '.join(OF_LOSSES)}, as [lower, upper]")
            if self.run is not None and (self.replay is not None or self.steps is not None):
                raise ValueError("a run has its own replay and steps: leave them out")
        if not self.interval[0] < self.interval[1]:
            raise ValueError("the lower end comes first, and the two differ")
        return self

    @property
    def interval(self) -> Pair:
        """Lower and upper end; of a loss the signed change."""
        if self.falls_by is not None:
            return -self.falls_by[1], -self.falls_by[0]
        for pair in (self.between, self.rises_by, self.changes_by):
            if pair is not None:
                return pair
        raise AssertionError

    @property
    def tails(self) -> Pair:
        """Probabilities below the two ends."""
        return 0.5 - self.mass / 2.0, 0.5 + self.mass / 2.0

    @property
    def words(self) -> str:
        """The statement in one line."""
        low, high = self.interval
        chance = f"({100 * self.mass:g} %)"
        if self.parameter is not None:
            on = f" on {self.on}" if self.on else ""
            return f"{self.parameter}{on} between {low:g} and {high:g} {chance}"
        about = f"run {self.run}" if self.run else "a typical run"
        about += f" at replay {self.replay:g}" if self.replay is not None else ""
        about += f" of {self.steps} steps" if self.steps is not None else ""
        return f"loss on {self.loss} over {about} changes by {low:g} to {high:g} {chance}"


class _Statements(Strict):
    """The TOML file."""

    name: str = Field(default="elicited", min_length=1)
    statements: tuple[Statement, ...]

    @model_validator(mode="after")
    def _states_something(self) -> Self:
        # Not by a least length: Pydantic would say it of a list whose only statement is wrong, too.
        if not self.statements:
            raise ValueError("there is no statement")
        return self


def read_statements(path: str | Path) -> tuple[str, tuple[Statement, ...]]:
    """Return the name of the model to be made, and the statements, of a TOML file.

    Parameters
    ----------
    path : path
        A TOML file.

    Raises
    ------
    SpecError
        Naming file, statement and key, and the fix.
    """
    place = Path(path)
    table = read_toml(place, SpecError)
    try:
        checked = _Statements.model_validate(table)
    except ValidationError as error:
        raise SpecError([_problem(detail, place) for detail in error.errors()]) from None
    return checked.name, checked.statements


def _problem(detail: Any, place: Path) -> Problem:
    where = [
        f"statement {part + 1}" if isinstance(part, int) else str(part) for part in detail["loc"]
    ]
    parts = [part for part in where if part != "statements"] or ["statements"]
    message, fix = said(
        _Statements, detail, "correct the statement, as bayes-cpt prior --help shows"
    )
    if where in ([], ["statements"]):
        fix += "; write a table [[statements]] for each"
    return Problem(f"{place}, {', '.join(parts)}", message, fix)
