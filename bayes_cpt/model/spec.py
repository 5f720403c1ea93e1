"""The model specification: one TOML per model, with its law, residuals and priors.

A specification names law terms and states every prior with its reason: a parameter with a prior is free,
one without stands at its printed value. A user's own file may start from a shipped one with ``extends`` and
change only what it names.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from bayes_cpt.bundled import models_folder
from bayes_cpt.checks import suggestion
from bayes_cpt.errors import Problem, SpecError, StudyWarning
from bayes_cpt.laws.law import Law
from bayes_cpt.laws.series import HIGHEST_POWER, LOWEST_POWER
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.law_table import REPLAY_FACTORS, SET_BY_FIT, LawTable, ResidualTable
from bayes_cpt.model.priors import (
    Correlation,
    Fixed,
    Prior,
    correlation_matrix,
    is_correlation,
    prior_ends,
)
from bayes_cpt.strict import Strict, checked
from bayes_cpt.toml_files import read_toml

ROLES = ("general", "target")
# What areas are tabulated over: least and greatest value, and what it is.
TABULATED = {
    "memory": (2.0, 1e7, "a memory in steps"),
    "slow_memory": (0.01, 100.0, "a memory as a share of a run"),
    **dict.fromkeys(("forward_power", "shift_power"), (LOWEST_POWER, HIGHEST_POWER, "a power")),
}
# Sampled for a base of unknown pre-training alone.
UNKNOWN_BASE = ("base_forward_area", "base_potential")
# Takes the place of the prior of base_potential where no run of a study warms up; may be left out.
WITHOUT_WARMUP = "base_potential_without_warmup"
# Said in place of an inherited prior that a model does without.
PRINTED = "printed"
FIX = "correct the value; models/cpt-replay.toml shows the form"
# Sampled where a study has several targets.
SEVERAL_TARGETS = ("target_transfer", "forgetting_factor", "target_spread")
# What CPT changes at once where it alone was measured: with another prior, or in a term of its own.
LONE_BASES = ("size_slope", "jump")
TABLES = {"unknown_base": UNKNOWN_BASE, "targets": SEVERAL_TARGETS, "lone_bases": LONE_BASES}


class ModelSpec(Strict):
    """A model: law, residuals and priors.

    Raises
    ------
    SpecError
        From `read_spec`, naming file, key and fix.
    """

    # For tables and `--help`
    name: str = Field(min_length=1)
    summary: str = ""
    # Why its priors are not to be trusted, which is told when it is read; no part of what is fitted
    problems: tuple[str, ...] = Field(default=(), exclude=True)
    law: LawTable
    residuals: ResidualTable = ResidualTable()
    # Just those of the parameters that the law and the residuals have. What is not among them stands at its
    # printed value (`bayes_cpt.laws.term.Parameter`); what has none must be.
    priors: dict[str, Prior]
    # Of `UNKNOWN_BASE`, sampled beside these where the base has ``known = false``; without it such bases
    # are refused. `WITHOUT_WARMUP` may be among them.
    unknown_base: dict[str, Prior] = Field(default_factory=dict)
    # Of `SEVERAL_TARGETS`, sampled beside these where a study has several targets; without it such studies
    # are refused
    targets: dict[str, Prior] = Field(default_factory=dict)
    # Of `LONE_BASES`, beside these or in their place in a study without a curve of pre-training
    lone_bases: dict[str, Prior] = Field(default_factory=dict)
    # Of parameters whose priors depend on each other; all others are independent
    correlations: tuple[Correlation, ...] = ()

    @model_validator(mode="after")
    def _priors_match_parameters(self) -> Self:
        names = parameter_names(self.law, self.residuals, self.priors)
        for name in sorted(names - set(self.priors)):
            raise ValueError(f"priors.{name}: the parameter has no prior; add [priors.{name}]")
        known = _built(self.law).known() | self.residuals.parameters(self.law)
        for name in sorted(set(self.priors) - names):
            if name in known:
                fix = f"give {known[name].beside} a prior, or take this one out"
                raise ValueError(f"priors.{name}: {fix}")
            hint = suggestion(name, known) or "; take the table out"
            raise ValueError(f"priors.{name}: this model has no such parameter{hint}")
        for name, own in self.priors.items():
            if known[name].dims in (None, "pooled") and own.given != [own.every]:
                problem = "a shared parameter has one prior; give every alone"
                raise ValueError(f"priors.{name}: {problem}")
        if "peak_power" in self.priors and not self.law.count_warmup:
            raise ValueError(
                "priors.peak_power: it compares levels with the reference learning rate, and without "
                "count_warmup they count from each run's own peak; set count_warmup = true"
            )
        return self

    @model_validator(mode="after")
    def _tables_aside_have_their_parameters(self) -> Self:
        for table, names in TABLES.items():
            given = set(getattr(self, table)) - {WITHOUT_WARMUP}
            for name in sorted(given - set(names)):
                hint = suggestion(name, names) or "; take the table out"
                raise ValueError(f"{table}.{name}: there is no such parameter{hint}")
            if given and given != set(names) and table != "lone_bases":
                raise ValueError(f"{table}: give the priors of {' and '.join(names)}, or none")
        return self

    @model_validator(mode="after")
    def _spreads_are_sampled(self) -> Self:
        """Members of a group are pooled by a spread that the sampler takes among its values."""
        for place, own in (
            ("priors.batch_spread", self.priors.get("batch_spread")),
            ("targets.target_spread", self.targets.get("target_spread")),
        ):
            if own and any(isinstance(distribution, Fixed) for distribution in own.given):
                raise ValueError(f"{place}: a spread is learnt; give it a prior that is not fixed")
        return self

    @model_validator(mode="after")
    def _tables_have_ends(self) -> Self:
        """Areas are tabulated over memories and forward powers: a range without end has no table."""
        for name, (least, most, what) in TABULATED.items():
            own = self.priors.get(name)
            for distribution in own.given if own else ():
                ends = prior_ends(distribution)
                if ends and not least <= ends[0] <= ends[1] <= most:
                    asked = f"{what} of {ends[0]:g} to {ends[1]:g} is asked for"
                    fix = f"keep it within {least:g} to {most:g}"
                    raise ValueError(f"priors.{name}: {asked}; {fix}")
        return self

    @model_validator(mode="after")
    def _correlations_make_a_distribution(self) -> Self:
        labels = sampled_labels(self)
        apart = np.eye(len(labels))
        for place, correlation in enumerate(self.correlations, start=1):
            first, second = correlation.between
            tied = correlation_matrix(labels, [correlation]) != apart
            if first == second or not tied.any():
                raise ValueError(
                    f"correlations: {first} and {second} are not two different parameters sampled on one "
                    "validation set; name two, as in forward_power or exponent/general"
                )
            if (correlation_matrix(labels, self.correlations[place:]) != apart)[tied].all():
                raise ValueError(f"correlations: {first} and {second} come again; keep one pair")
        if not is_correlation(correlation_matrix(labels, self.correlations)):
            problem = "no distribution has all of them at once; bring their values nearer to 0"
            raise ValueError(f"correlations: {problem}")
        return self

    def with_law(self, **options: Any) -> Self:
        """Return the specification with other options of its law, without the priors that it then lacks."""
        law = self.law.model_copy(update=options)
        names = parameter_names(law, self.residuals, self.priors)
        priors = {name: prior for name, prior in self.priors.items() if name in names}
        return self.model_copy(update={"law": law, "priors": priors})


def sampled_labels(spec: ModelSpec) -> list[tuple[str, str | None]]:
    """Return parameter and role of all that a model samples; None where validation sets share it."""
    infos = _built(spec.law, spec.priors).parameters() | spec.residuals.parameters(spec.law)
    of_factors = {f"{name}_domain" for name in REPLAY_FACTORS}
    own = {role: f"{getattr(spec.law.replay_factor, role)}_domain" for role in ROLES}
    return [
        (name, role)
        for name, info in infos.items()
        for role in (ROLES if info.dims else (None,))
        if (info.dims not in of_factors or info.dims == own.get(role or ""))
        and not isinstance(spec.priors[name].of(role), Fixed)
    ]


def parameter_names(law: LawTable, residuals: ResidualTable, priors: Iterable[str]) -> set[str]:
    """Return the names of all parameters that law and residuals sample where these have priors."""
    return {*_built(law, priors).parameters(), *residuals.parameters(law)}


def _built(law: LawTable, priors: Iterable[str] = ()) -> Law:
    return law.build(ROLES, Reference(1.0, 1.0, 1.0, 1.0), priors)


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
            raise SpecError.at(str(path), f"extends leads back to {parent}", "name another model")
        chain.append((parent, _table(parent)))
    first, root = chain.pop()
    merged = root
    for path, table in reversed(chain):
        merged = _merged(merged, {"name": path.stem} | table, str(path))
    spec = parse_spec(merged, place=str(place))
    # A value may be fixed where the shipped model that it extends allows one, as a share between 0 and 1.
    shipped = parse_spec(root, str(first)) if first in shipped_models().values() else spec
    for name in shipped.priors.keys() & spec.priors.keys():
        lows, highs = zip(*(own.SUPPORT for own in shipped.priors[name].given), strict=True)
        for own in spec.priors[name].given:
            if isinstance(own, Fixed) and not max(lows) <= own.value <= min(highs):
                fix = f"fix it within {max(lows):g} to {min(highs):g}"
                raise SpecError.at(f"{place}, key priors.{name}", f"it is {own.words}", fix)
    if spec.problems:
        told = f"{place}: its priors are not to be trusted: {'; '.join(spec.problems)}"
        warnings.warn(told, StudyWarning, stacklevel=2)
    return spec


def parse_spec(table: dict[str, Any], place: str) -> ModelSpec:
    """Return the specification a table describes; `place` is named in errors."""
    return checked(ModelSpec, table, place, FIX)


def _locate(model: str | Path, place: str = "model", folder: Path = Path()) -> Path:
    """Return the file of a shipped model, or a path, taken from `folder` where it is relative."""
    shipped = shipped_models()
    if str(model) in shipped:
        return shipped[str(model)]
    path = folder / str(model)
    if path.suffix.lower() == ".toml" and path.is_file():
        return path
    problem = f"there is no model {str(model)!r}{suggestion(model, shipped)}"
    fix = f"name one of {', '.join(shipped)}, or the path of a .toml file"
    raise SpecError.at(place, problem, fix)


def _table(path: Path) -> dict[str, Any]:
    table = read_toml(path, SpecError)
    problems = [
        Problem(f"{path}, key {key}", f"{key} is {table[key]!r}", f"make it a table, [{key}]")
        for key in ("law", "residuals", "priors", *TABLES)
        if not isinstance(table.get(key, {}), dict)
    ]
    if not isinstance(table.get("correlations", []), list):
        place, fix = f"{path}, key correlations", "write [[correlations]] above each pair"
        problems.append(Problem(place, "expected a list of pairs", fix))
    if problems:
        raise SpecError(problems)
    for key in SET_BY_FIT & table.get("law", {}).keys():
        problem = "a fit sets it, from its study"
        raise SpecError.at(f"{path}, key law.{key}", problem, "take the key out")
    return table


def _merged(parent: dict[str, Any], child: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the parent with what the child names; inherited priors it has no use for are left out."""
    result = parent | child
    for key in ("law", "residuals", *TABLES):
        result[key] = parent.get(key, {}) | child.get(key, {})
    for key, inner in child.get("law", {}).items():
        before = parent.get("law", {}).get(key)
        if isinstance(inner, dict) and isinstance(before, dict):
            result["law"][key] = before | inner
    # What a child says of a base holds for all runs.
    own = child.get("unknown_base", {})
    if "base_potential" in own and WITHOUT_WARMUP not in own:
        result["unknown_base"].pop(WITHOUT_WARMUP, None)
    law = checked(LawTable, result["law"], place, FIX, ("law",))
    residuals = checked(ResidualTable, result["residuals"], place, FIX, ("residuals",))
    own = child.get("priors", {})
    with_printed = [name for name, info in _built(law).known().items() if info.printed is not None]
    printed = [name for name, prior in own.items() if prior == PRINTED]
    for name in printed:
        if name not in with_printed:
            problem = f"no parameter {name!r} has a printed value{suggestion(name, with_printed)}"
            fix = f"name one of {', '.join(with_printed)}"
            raise SpecError.at(f"{place}, key priors.{name}", problem, fix)
    priors = {n: p for n, p in (parent.get("priors", {}) | own).items() if n not in printed}
    names = parameter_names(law, residuals, priors)
    result["priors"] = {n: p for n, p in priors.items() if n in names or n in own}
    if "correlations" not in child and isinstance(of_parent := parent.get("correlations"), list):
        result["correlations"] = [pair for pair in of_parent if _parameters_of(pair) <= names]
    return result


def _parameters_of(pair: Any) -> set[str]:
    """Return the parameters of a correlation in a table, none of one that is no correlation."""
    between = pair.get("between") if isinstance(pair, dict) else None
    return {str(end).split("/")[0] for end in between} if isinstance(between, list) else set()
