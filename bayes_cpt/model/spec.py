"""The model specification: one TOML per model, with its law, residuals and priors.

A specification names law terms, says which parameters are free, and states every prior with its reason.
A user's own file may start from a shipped one with ``extends`` and change only what it names.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from bayes_cpt.bundled import models_folder
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.laws import (
    Adaptation,
    Annealing,
    BaseOffset,
    Law,
    ModelSize,
    Parameter,
    PeakLevel,
    Power,
    Reference,
    Shift,
    Term,
    shift_signs,
)
from bayes_cpt.laws.ranges import HIGHEST_POWER, LOWEST_POWER
from bayes_cpt.model.priors.tables import Prior, prior_ends
from bayes_cpt.strict import Strict
from bayes_cpt.toml_files import read_toml

ROLES = ("general", "target")
MEMORIES = ("memory", "slow_memory")
# What areas are tabulated over: least and greatest value, and what it is.
TABULATED = {
    **dict.fromkeys(MEMORIES, (2.0, 1e7, "a memory in steps")),
    "forward_power": (LOWEST_POWER, HIGHEST_POWER, "a power"),
}
# Sampled for a base of unknown pre-training alone.
UNKNOWN_BASE = ("base_forward_area", "base_potential")
TermName = Literal["power", "annealing", "peak", "shift", "adaptation"]


class ReplayFactor(Strict):
    """Which replay factor h each role has (docs/law.md, "Replay factors")."""

    general: Literal["none", "exponential", "saturating", "power"] = "none"
    target: Literal["none", "exponential", "saturating", "power"] = "none"


class LawTable(Strict):
    """The law: its terms and their options. What is not named is as printed.

    Parameters
    ----------
    terms : tuple of str
    replay_factor : ReplayFactor
    replay_gain, replay_rate : bool
        Whether replay changes the annealing gain (a1) and the pace of the shift (omega).
    base_offset : bool
        Whether CPT curves keep the distance of their measured base from the law.
    carry_memory : bool
        Whether the memory of the annealing is carried across the transfer.
    slow_annealing : bool
        Whether a share of the annealing comes at a second, slow pace.
    forward_power, level_power : bool
        Whether rho, the power of the learning rate in S1, and zeta, that of its level in S2, are
        parameters.
    peak_power : bool
        Whether xi, the power of PT's peak learning rate that the level is divided by, is a parameter; it
        needs `count_warmup`.
    count_warmup : bool
        Whether the rise of the learning rate in a PT warm-up counts in S2_pt, as it does in CPT.
    memory_clock : float
        nu: the memory fades with the learning rate to this power; 0 counts steps.
    shift_power : float
        Power of the learning rate in the forward area of the shift.
    shift_saturation : str
        ``power``, as printed, or ``exponential``, without beta.
    model_size : bool
        Whether the size of the model is a part of the law; runs then say theirs (docs/sizes.md).
    unknown_base : bool
        Set by a fit whose base has ``known = false`` (see `bayes_cpt.model.unknown_base`).
    """

    terms: tuple[TermName, ...] = Field(min_length=1)
    replay_factor: ReplayFactor = ReplayFactor()
    replay_gain: bool = False
    replay_rate: bool = False
    base_offset: bool = False
    carry_memory: bool = False
    slow_annealing: bool = False
    forward_power: bool = False
    level_power: bool = False
    peak_power: bool = False
    count_warmup: bool = False
    memory_clock: float = Field(default=0.0, ge=0, le=2)
    shift_power: float = Field(default=1.0, ge=0, le=2)
    shift_saturation: Literal["power", "exponential"] = "power"
    model_size: bool = False
    unknown_base: bool = False

    @model_validator(mode="after")
    def _losses_have_a_level(self) -> Self:
        if "power" not in self.terms:
            raise ValueError(
                "there is no term power, and the others change a level that it alone gives; add the term"
            )
        return self

    @model_validator(mode="after")
    def _schedules_act_by_annealing(self) -> Self:
        if "annealing" not in self.terms:
            raise ValueError(
                "there is no term annealing, whose memory every schedule is reduced by; add the term, and "
                "fix annealing_gain at 0 to do without its gain"
            )
        return self

    @model_validator(mode="after")
    def _peaks_differ_from_the_reference(self) -> Self:
        if self.peak_power and not self.count_warmup:
            raise ValueError(
                "peak_power compares levels with the reference learning rate, and without count_warmup "
                "they count from each run's own peak; set count_warmup = true"
            )
        return self

    @model_validator(mode="after")
    def _adaptation_goes_with_a_shift(self) -> Self:
        if "adaptation" in self.terms and "shift" not in self.terms:
            raise ValueError("the term adaptation is a share of the shift; name shift too")
        return self

    @property
    def continual(self) -> bool:
        """Whether the law knows a CPT phase."""
        return "shift" in self.terms

    @property
    def uses_replay(self) -> bool:
        """Whether the law depends on the replay ratio."""
        factor = self.replay_factor
        return factor.general != "none" or factor.target != "none"

    def build(self, roles: tuple[str, ...], reference: Reference) -> Law:
        """Return the law for validation sets of these roles."""
        terms: dict[str, Term] = {
            "power": Power(self.unknown_base, self.forward_power),
            "annealing": Annealing(
                continual=self.continual,
                replay=self.replay_gain,
                slow=self.slow_annealing,
                unknown_base=self.unknown_base,
                level_power=self.level_power,
                carried=self.carry_memory,
                peak_power=self.peak_power,
            ),
            "peak": PeakLevel(),
            "shift": Shift(
                shift_signs(roles),
                tuple(getattr(self.replay_factor, role) for role in roles),
                self.replay_rate,
                "adaptation" in self.terms,
                self.unknown_base,
                self.shift_saturation == "exponential",
            ),
            "adaptation": Adaptation(shift_signs(roles)),
        }
        chosen = tuple(terms[name] for name in self.terms)
        if self.model_size:
            chosen += (ModelSize(self.continual),)
        return Law(chosen, reference, BaseOffset() if self.base_offset else None)


class ResidualTable(Strict):
    """The residuals: ``curve`` (autocorrelated, with misfit) or ``independent``.

    Parameters
    ----------
    kind : str
    skip_pretraining : float
        Share of each PT run, from its start, that does not enter the fit.
    skip_warmups, skip_longest : float
        How many times the longest PT warm-up of the study does not enter either, and the share of its
        longest PT run that is left out so at most (see `bayes_cpt.model.points.first_step`).
    misfit_memory, misfit_memory_pt : float
        Share of the misfit that is carried over an e-fold of steps, in CPT and in PT; 1 is a random walk.
    extrapolation_pt : float
        Sd of the law's error in PT beyond the last step that was measured, per e-fold of steps, as a share
        of `reference_slope`, whatever the kind.
    """

    kind: Literal["curve", "independent"] = "curve"
    skip_pretraining: float = Field(default=0.0, ge=0, lt=1)
    skip_warmups: float = Field(default=0.0, ge=0)
    skip_longest: float = Field(default=0.2, ge=0, lt=1)
    misfit_memory: float = Field(default=0.5, ge=0, le=1)
    misfit_memory_pt: float = Field(default=0.5, ge=0, le=1)
    extrapolation_pt: float = Field(default=0.0, ge=0)

    def parameters(self, law: LawTable) -> dict[str, Parameter]:
        """Return what is sampled for the residuals of a law, by name."""
        if self.kind == "independent":
            return {"error": Parameter("sd of independent errors", "nats/token")}
        found = {
            "fluctuation_floor": Parameter("share of the fluctuation left at learning rate 0"),
            "fluctuation_memory": Parameter(
                "correlation time of the fluctuation, as a share of the reference steps"
            ),
        }
        if not law.unknown_base:
            found |= {
                "fluctuation_pt": Parameter(
                    "sd of PT fluctuations at the reference LR", "nats/token"
                ),
                "misfit_pt": Parameter("misfit of the law in PT per e-fold of steps", "nats/token"),
                "offset_pt": Parameter(
                    "sd of the level of a curve with no measured start", "nats/token"
                ),
            }
        if law.continual:
            found |= {
                "fluctuation_cpt": Parameter(
                    "sd of CPT fluctuations at the reference LR", "nats/token"
                ),
                "misfit_cpt": Parameter(
                    "misfit of the law in CPT at replay 0 per e-fold of steps", "nats/token"
                ),
            }
        if law.uses_replay:
            found["misfit_replay"] = Parameter("share of its variance that replay takes away")
        return found


class ModelSpec(Strict):
    """A model: law, residuals and priors.

    Parameters
    ----------
    name, summary : str
        For tables and `--help`.
    law : LawTable
    residuals : ResidualTable
    priors : dict of str to Prior
        Just those of the parameters that the law and the residuals have.
    unknown_base : dict of str to Prior
        Of `UNKNOWN_BASE`, sampled beside these where the base has ``known = false``; without it such
        bases are refused.

    Raises
    ------
    SpecError
        From `read_spec`, naming file, key and fix.
    """

    name: str = Field(min_length=1)
    summary: str = ""
    law: LawTable
    residuals: ResidualTable = ResidualTable()
    priors: dict[str, Prior]
    unknown_base: dict[str, Prior] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _priors_match_parameters(self) -> Self:
        names = parameter_names(self.law, self.residuals)
        for name in names - set(self.priors):
            raise ValueError(f"priors.{name}: the parameter has no prior; add [priors.{name}]")
        for name in set(self.priors) - names:
            close = get_close_matches(name, names, 1)
            hint = f"; did you mean {close[0]}?" if close else "; take the table out"
            raise ValueError(f"priors.{name}: this model has no such parameter{hint}")
        return self

    @model_validator(mode="after")
    def _unknown_base_has_its_parameters(self) -> Self:
        if self.unknown_base and set(self.unknown_base) != set(UNKNOWN_BASE):
            raise ValueError(
                f"unknown_base: give the priors of {' and '.join(UNKNOWN_BASE)}, or none"
            )
        return self

    @model_validator(mode="after")
    def _tables_have_ends(self) -> Self:
        """Areas are tabulated over memories and forward powers: a range without end has no table."""
        for name, (least, most, what) in TABULATED.items():
            ends = prior_ends(self.priors[name].every) if name in self.priors else None
            if ends and not least <= ends[0] <= ends[1] <= most:
                raise ValueError(
                    f"priors.{name}: {what} of {ends[0]:g} to {ends[1]:g} is asked for; "
                    f"keep it within {least:g} to {most:g}"
                )
        return self


def parameter_names(law: LawTable, residuals: ResidualTable) -> set[str]:
    """Return the names of all parameters that law and residuals sample."""
    built = law.build(ROLES, Reference(1.0, 1.0, 1.0, 1.0))
    return set(built.parameters()) | set(residuals.parameters(law))


def shipped_models() -> dict[str, Path]:
    """Return the TOML files of the shipped models, by name."""
    return {path.stem: path for path in sorted(models_folder().glob("*.toml"))}


def read_spec(model: str | Path) -> ModelSpec:
    """Read a shipped model by name, or a TOML file by path.

    Parameters
    ----------
    model : str or Path
        ``"cpt-replay"``, or the path of a file ending in ``.toml``.

    Raises
    ------
    SpecError
        Naming file, key and fix.

    Examples
    --------
    >>> read_spec("cpt-replay").law.replay_factor.general
    'power'
    """
    place = _locate(model)
    chain = [(place, _table(place))]
    while "extends" in chain[-1][1]:
        path, table = chain[-1]
        parent = _locate(table.pop("extends"), place=str(path), folder=path.parent)
        if parent.resolve() in {seen.resolve() for seen, _ in chain}:
            raise SpecError(
                [Problem(str(path), f"extends leads back to {parent}", "name another model")]
            )
        chain.append((parent, _table(parent)))
    _, merged = chain.pop()
    while chain:
        path, table = chain.pop()
        merged = _merged(merged, table, str(path))
    return parse_spec(merged, place=str(place))


def parse_spec(table: dict[str, Any], place: str) -> ModelSpec:
    """Return the specification a table describes; `place` is named in errors."""
    return _validated(ModelSpec, table, place)


def _validated[Table: Strict](
    kind: type[Table], table: dict[str, Any], place: str, within: tuple[str, ...] = ()
) -> Table:
    """Return the table as its kind; `within` leads to it from the top of the file."""
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        problems = [_problem(detail, place, within) for detail in error.errors()]
    raise SpecError(problems)


def _locate(model: str | Path, place: str = "model", folder: Path = Path()) -> Path:
    """Return the file of a shipped model, or a path, taken from `folder` where it is relative."""
    shipped = shipped_models()
    if str(model) in shipped:
        return shipped[str(model)]
    path = folder / str(model)
    if path.suffix == ".toml" and path.is_file():
        return path
    close = get_close_matches(str(model), shipped, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise SpecError(
        [
            Problem(
                place,
                f"there is no model {str(model)!r}",
                f"{hint}name one of {', '.join(shipped)}, or the path of a .toml file",
            )
        ]
    )


def _table(path: Path) -> dict[str, Any]:
    found = read_toml(path, SpecError)
    problems = [
        Problem(f"{path}, key {key}", f"{key} is {found[key]!r}", f"make it a table, [{key}]")
        for key in ("law", "residuals", "priors", "unknown_base")
        if not isinstance(found.get(key, {}), dict)
    ]
    if problems:
        raise SpecError(problems)
    return found


def _merged(parent: dict[str, Any], child: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the parent with what the child names; inherited priors it has no use for are left out."""
    result = parent | child
    for key in ("law", "residuals", "unknown_base"):
        result[key] = parent.get(key, {}) | child.get(key, {})
    names = parameter_names(
        _validated(LawTable, result["law"], place, ("law",)),
        _validated(ResidualTable, result["residuals"], place, ("residuals",)),
    )
    inherited = {name: own for name, own in parent.get("priors", {}).items() if name in names}
    result["priors"] = inherited | child.get("priors", {})
    return result


def _problem(detail: Any, place: str, within: tuple[str, ...]) -> Problem:
    key = ".".join(str(part) for part in (*within, *detail["loc"]))
    message = detail["msg"].removeprefix("Value error, ")
    fixes = {
        "extra_forbidden": "take the key out or correct its name",
        "missing": "add the key",
    }
    fix = fixes.get(detail["type"], "correct the value; models/cpt-replay.toml shows the form")
    return Problem(f"{place}{', key ' + key if key else ''}", message, fix)
