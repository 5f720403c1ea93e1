"""What is to be minimised: weights on validation losses, costs, and chance constraints.

The balance of the paper's Eq. 5, ``lambda1·ΔL_Dpt + lambda2·ΔL_Dcpt``, with any number of further
validation sets through Eq. 6, ``L_ood = w1·L_pt + w2·L_cpt``: all of it is linear in the law's two losses.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import unknown
from bayes_cpt.errors import SpecError
from bayes_cpt.model.spec import ROLES
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.resources import Limits, Resources, unknown_resource
from bayes_cpt.toml_files import read_toml, toml_key

FIX = "correct the value; bayes-cpt decide --help shows the form"
PRESETS: dict[str, dict[str, Any]] = {
    # How good on the target can it get, if general ability counts for little?
    "domain-focus": {"weights": {"general": 0.1, "target": 0.9}},
    # What is best if a nat on general data counts as much as one on target data?
    "balanced": {"weights": {"general": 0.5, "target": 0.5}},
    # What can be learnt of the target with little loss of general ability?
    "general-preserving": {"weights": {"general": 0.8, "target": 0.2}},
}


type Weight = Annotated[float, Field(ge=0)]


class Mixture(Strict):
    """A third validation set, ``L = general·L_pt + target·L_cpt`` (Eq. 6).

    Weights that the paper prints are in docs/law.md, "Printed coefficients".

    Parameters
    ----------
    general, target : float
        w1 and w2; they belong to the data set and may be negative.
    """

    general: float
    target: float


class Chance(Strict):
    """What may happen with at most some probability.

    Parameters
    ----------
    probability : float
        Highest probability of it.
    kind : {"new_run", "expected"}
        Whose loss or score: what a new run would show, its fluctuation and the law's misfit included, or
        what the law expects.
    """

    probability: float = Field(gt=0, lt=1)
    kind: Literal["new_run", "expected"] = "new_run"
    # A threshold from the reference base or one by itself: what each is, what then may happen, and that in
    # short.
    THRESHOLDS: ClassVar[dict[str, tuple[str, str, str]]]

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if sum(getattr(self, name) is not None for name in self.THRESHOLDS) != 1:
            ways = (f"{name}, {what}" for name, (what, *_) in self.THRESHOLDS.items())
            raise ValueError(f"give either {', or '.join(ways)}")
        return self

    @property
    def event(self) -> str:
        """What may happen with at most that probability."""
        return self._threshold[1].format_map(vars(self))

    @property
    def relative(self) -> bool:
        """Whether the threshold is counted from the reference base."""
        return vars(self)[next(iter(self.THRESHOLDS))] is not None

    @property
    def heading(self) -> str:
        """The probability of that, as a column is headed."""
        return f"P({self._threshold[2].format_map(vars(self))})"

    @property
    def _threshold(self) -> tuple[str, str, str]:
        (threshold,) = (own for key, own in self.THRESHOLDS.items() if vars(self)[key] is not None)
        return threshold

    def __str__(self) -> str:
        """Return the constraint as it is read aloud."""
        return f"P({self.event}) <= {self.probability:g}"


class Constraint(Chance):
    """A chance constraint: a loss may exceed a threshold with at most this probability.

    Parameters
    ----------
    domain : str
        ``general``, ``target``, a validation set of the study, third ones too, or a mixture of the
        objective.
    rise : float, optional
        Threshold above the loss of the reference base, nats/token.
    limit : float, optional
        Threshold as a loss, nats/token. Give either `rise` or `limit`.
    """

    domain: str = Field(min_length=1)
    rise: float | None = None
    limit: float | None = None
    THRESHOLDS: ClassVar = {
        "rise": (
            "nats above the base",
            "{domain} loss rises by more than {rise:g}",
            "{domain}\n> {rise:+g}",
        ),
        "limit": ("a loss", "{domain} loss above {limit:g}", "{domain}\n> {limit:g}"),
    }


class ScoreConstraint(Chance):
    """A chance constraint on a benchmark's score (docs/scores.md).

    Parameters
    ----------
    benchmark : str
        Of the table of losses and scores.
    fall : float, optional
        Threshold below the score of the reference base, as a share: 0.01 is a point.
    least : float, optional
        Threshold as a score. Give either `fall` or `least`.
    """

    benchmark: str = Field(min_length=1)
    fall: float | None = Field(default=None, ge=0, lt=1)
    least: float | None = Field(default=None, gt=0, lt=1)
    THRESHOLDS: ClassVar = {
        "fall": (
            "a share below the base",
            "{benchmark} score falls by more than {fall:g}",
            "{benchmark}\n< −{fall:g}",
        ),
        "least": ("a score", "{benchmark} score below {least:g}", "{benchmark}\n< {least:g}"),
    }


class Objective(Strict):
    """What is to be minimised.

    Parameters
    ----------
    weights : dict of str to float
        By validation set: ``general``, ``target`` (the mean of several), the study's name of one, a
        mixture, or a third set that the study was measured on. Not negative; they are divided by their sum
        (lambda1 + lambda2 = 1 in Eq. 5).
    name : str
        For tables.
    mixtures : dict of str to Mixture
        Further validation sets (Eq. 6) with weights that are known; those of a set that the study was
        measured on have a posterior (`bayes_cpt.forecast.third_sets`) and need no mixture.
    reference : str, optional
        The base that changes and rises are counted from; unless given, the base of the space with the
        lowest general loss, which is what one has if nothing is trained. ``"own"`` counts each
        configuration from its own base, which favours bases that are bad to begin with.
    cost_per_1000_steps, cost_per_billion_tokens, cost_per_1000_gpu_hours, cost_per_1000_spent : float
        Nats of the objective that training must gain to be worth its price; the last is of 1000 in the
        currency of the price of a GPU-hour.
    limits : Limits
        What a run may take at most.
    constraints : tuple of Constraint
    score_constraints : tuple of ScoreConstraint
        On scores of benchmarks, whose losses and scores a decision is then given.

    Examples
    --------
    >>> objective = Objective(weights={"general": 1, "target": 3})
    >>> objective.combination(("general", "kernel")).tolist()
    [0.25, 0.75]
    """

    weights: dict[str, Weight] = Field(min_length=1)
    name: str = "objective"
    mixtures: dict[str, Mixture] = Field(default_factory=dict)
    reference: str | None = None
    cost_per_1000_steps: float = Field(default=0.0, ge=0)
    cost_per_billion_tokens: float = Field(default=0.0, ge=0)
    cost_per_1000_gpu_hours: float = Field(default=0.0, ge=0)
    cost_per_1000_spent: float = Field(default=0.0, ge=0)
    limits: Limits = Limits()
    constraints: tuple[Constraint, ...] = ()
    score_constraints: tuple[ScoreConstraint, ...] = ()

    @model_validator(mode="after")
    def _weights_can_be_shares(self) -> Self:
        if not sum(self.weights.values()) > 0:
            raise ValueError("weights: all are 0, so that nothing is to be minimised")
        for name in self.mixtures:
            if name in ROLES:
                raise ValueError(f"mixtures.{name}: the name is taken by a set of the law")
        return self

    @property
    def chances(self) -> "tuple[Constraint | ScoreConstraint, ...]":
        """All chance constraints, those of losses first."""
        return (*self.constraints, *self.score_constraints)

    @property
    def shares(self) -> dict[str, float]:
        """The weights, divided by their sum."""
        total = sum(self.weights.values())
        return {name: weight / total for name, weight in self.weights.items()}

    def of_measured(self, domains: Sequence[str], roles: Sequence[str]) -> Self:
        """Return the objective without the weight on a role that nobody measured."""
        missing = [role for role in ROLES if role not in roles]
        known = {name: weight for name, weight in self.weights.items() if name not in missing}
        bound = [own.domain for own in self.constraints if own.domain in missing]
        if bound or not sum(known.values()) > 0:
            problem = f"the study measured {' and '.join(domains)} alone, and {missing[0]} data not"
            fix = f"leave {missing[0]} out of weights and constraints, or measure it"
            raise SpecError.at(f"objective {self.name}", problem, fix)
        return self.model_copy(update={"weights": known})

    def share(self, name: str, domains: Sequence[str], roles: Sequence[str] = ()) -> Floats:
        """Return how the loss of a validation set adds up from the law's, shape (domains,).

        Unless roles are given, the first domain is general and the others are targets.
        """
        shares = np.eye(len(domains))
        roles = roles or (ROLES[0], *(ROLES[1] for _ in domains[1:]))
        rows = {role: [i for i, own in enumerate(roles) if own == role] for role in ROLES}
        of_role = {role: shares[own].mean(axis=0) for role, own in rows.items() if own}
        mixture = self.mixtures.get(name)
        if mixture is not None and len(of_role) == len(ROLES):
            return np.asarray(sum(getattr(mixture, role) * own for role, own in of_role.items()))
        known = {**of_role, **dict(zip(domains, shares, strict=True)), **of_role}
        if name in known:
            return np.asarray(known[name])
        problem, fix = unknown("validation set", name, [*known, *self.mixtures])
        fix = f"{fix}, or add [mixtures.{toml_key(name)}] with its weights of Eq. 6"
        raise SpecError.at(f"objective {self.name}", problem, fix)

    def combination(self, domains: Sequence[str], roles: Sequence[str] = ()) -> Floats:
        """Return the objective's weights on the law's losses, shape (domains,) (see `share`)."""
        rows = [share * self.share(name, domains, roles) for name, share in self.shares.items()]
        return np.asarray(np.sum(rows, axis=0))

    def cost(self, steps: ArrayLike, resources: Resources) -> Floats:
        """Return what training costs, in nats of the objective, shape of `steps`."""
        count = np.asarray(steps, dtype=np.float64)
        place, per_step = f"objective {self.name}", resources.tokens_per_step
        if self.cost_per_billion_tokens and per_step is None:
            problem = "tokens have a price, but neither study nor space says how many a step takes"
            fix = "add tokens_per_step to the space, or use cost_per_1000_steps"
            raise SpecError.at(f"{place}, key cost_per_billion_tokens", problem, fix)
        taken = {"steps": count, "tokens": count * (per_step or 0.0), **resources.costs(count)}
        prices = {
            "steps": self.cost_per_1000_steps / 1e3,
            "tokens": self.cost_per_billion_tokens / 1e9,
            "gpu_hours": self.cost_per_1000_gpu_hours / 1e3,
            "money": self.cost_per_1000_spent / 1e3,
        }
        charged = {name: price for name, price in prices.items() if price}
        if missing := [unknown_resource(place, name) for name in charged if name not in taken]:
            raise SpecError(missing)
        parts = (price * taken[name] for name, price in charged.items())
        return np.asarray(sum(parts, np.zeros_like(count)))


def read_objective(source: "str | Path | dict[str, Any] | Objective") -> Objective:
    """Return an objective: a preset by name, a TOML file by path, or a table.

    A table or file may start from a preset, ``preset = "balanced"``, and name what differs.

    Examples
    --------
    >>> read_objective("domain-focus").weights
    {'general': 0.1, 'target': 0.9}
    """
    if isinstance(source, Objective):
        return source
    place, table = "objective", source if isinstance(source, dict) else {"preset": source}
    if not isinstance(source, dict) and Path(source).suffix == ".toml":
        path = Path(source)
        place, table = str(path), {"name": path.stem} | read_toml(path, SpecError)
    preset = table.get("preset")
    if preset is not None and str(preset) not in PRESETS:
        problem, fix = unknown("preset", preset, PRESETS)
        raise SpecError.at(f"{place}, key preset", problem, f"{fix}, or the path of a .toml file")
    chosen = {key: own for key, own in table.items() if key != "preset"}
    name = {"name": str(preset or "objective")}
    return checked(Objective, name | PRESETS.get(str(preset), {}) | chosen, place, FIX)
