"""The list of runs: one TOML that says what is trained, from what, on what, and when it is measured.

[study]       name, general, target, description
[model]       layers, width, heads, vocabulary, context
[training]    sequences (per step), seed, precision, weight_decay, clip
[validation]  domains, sequences (per set), measurements (evenly spaced in a run), early (steps of a run
              from a base), every_pretraining (steps between those of PT runs, in place of evenly)
[bases.NAME]  run, step        a checkpoint of a PT run, counted as that run counts its steps
[runs.NAME]   phase, schedule; of a CPT run also base and replay; of a PT run that branches off: base
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayes_cpt.errors import StudyError
from bayes_cpt.study.schedules import Schedule, Segment
from lab.errors import LabError

PRECISIONS = ("bfloat16", "float32")
# Keys that a table must have, and those that it may have.
TABLES = {
    "study": ({"name", "general", "target"}, {"description"}),
    "model": ({"layers", "width", "heads", "vocabulary", "context"}, set[str]()),
    "training": ({"sequences"}, {"seed", "precision", "weight_decay", "clip"}),
    "validation": ({"domains", "sequences", "measurements"}, {"early", "every_pretraining"}),
}
# No raw learning rate is higher.
HIGHEST_RATE = 0.1


@dataclass(frozen=True)
class ModelSize:
    """Size of a decoder-only transformer: SwiGLU of 8/3 of the width, tied embedding."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    context: int

    @property
    def feed_forward(self) -> int:
        """Width of the feed-forward layer, a multiple of 64 where the model is wide enough for one."""
        multiple = 64 if self.width >= 256 else 8
        return multiple * round(8 * self.width / 3 / multiple)

    @property
    def non_embedding_parameters(self) -> int:
        """Number of parameters but those of the embedding: matrices and norms."""
        matrices = 4 * self.width**2 + 3 * self.width * self.feed_forward
        return self.layers * (matrices + 2 * self.width) + self.width

    @property
    def parameters(self) -> int:
        """Number of parameters; the embedding is also the output layer and counts once."""
        return self.non_embedding_parameters + self.vocabulary * self.width


@dataclass(frozen=True)
class Training:
    """What all runs share: sequences per optimiser step, seed, and AdamW with beta .9 and .95."""

    sequences: int
    seed: int = 0
    precision: str = "bfloat16"
    weight_decay: float = 0.1
    clip: float = 1.0


@dataclass(frozen=True)
class Validation:
    """Which sets are measured, on how many sequences each, and after which steps."""

    domains: tuple[str, ...]
    sequences: int
    measurements: int
    early: tuple[int, ...] = ()
    every_pretraining: int | None = None


@dataclass(frozen=True)
class Run:
    """One training run. `base` is where it starts from: needed for CPT, a branching point for PT."""

    name: str
    phase: str
    schedule: Schedule
    base: str | None = None
    replay: float | None = None

    @property
    def steps(self) -> int:
        """Steps that the run itself trains."""
        return self.schedule.steps


@dataclass(frozen=True)
class RunList:
    """All runs of a study, in the order they are trained."""

    name: str
    general: str
    target: str
    description: str
    model: ModelSize
    training: Training
    validation: Validation
    runs: dict[str, Run]
    bases: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one optimiser step learns from."""
        return self.training.sequences * self.model.context

    def start(self, run: Run) -> int:
        """Return the PT step that a PT run starts at: 0, or where it branches off."""
        return self.bases[run.base][1] if run.phase == "pt" and run.base is not None else 0

    def full_schedule(self, run: Run) -> Schedule:
        """Return a PT run's schedule from step 1, that of the run it branches off included."""
        if run.phase == "cpt" or run.base is None:
            return run.schedule
        return self.base_schedule(run.base) + run.schedule

    def base_schedule(self, base: str) -> Schedule:
        """Return the schedule behind a base."""
        run, step = self.bases[base]
        whole = self.full_schedule(self.runs[run])
        rates, kept, done = whole.learning_rates(), list[Segment](), 0
        for segment in whole.segments:
            assert isinstance(segment, Segment)
            taken = min(step - done, segment.steps)
            if taken <= 0:
                break
            if taken < segment.steps and segment.shape not in ("constant", "linear"):
                raise LabError(
                    f"base {base}",
                    f"step {step} lies inside a {segment.shape} segment of run {run}",
                    "save a base at the end of a segment, or inside a constant or linear one",
                )
            done += taken
            kept.append(replace(segment, steps=taken, end=float(rates[done - 1])))
        return Schedule(tuple(kept))

    def saved_steps(self, run: str) -> dict[int, list[str]]:
        """Return the bases that are saved from a run, by the step they are saved after."""
        saved: dict[int, list[str]] = {}
        for base, (source, step) in self.bases.items():
            if source == run:
                saved.setdefault(step, []).append(base)
        return saved

    def measured_steps(self, run: Run) -> Iterator[int]:
        """Yield the steps of a run, as it counts them, after which its losses are measured.

        Evenly, where a base is saved, and at the end; a run from a base also at its start and after the
        early steps.
        """
        start, count, every = self.start(run), self.validation.measurements, None
        if run.phase == "pt":
            every = self.validation.every_pretraining
        if every is None:
            steps = {start + round(run.steps * part / count) for part in range(1, count + 1)}
        else:
            steps = {step for step in range(start + 1, start + run.steps) if step % every == 0}
        steps |= {start + run.steps, *self.saved_steps(run.name)}
        if run.base is not None:
            steps |= {start + step for step in (0, *self.validation.early) if step < run.steps}
        yield from sorted(steps)


def read_run_list(path: Path) -> RunList:
    """Read a list of runs."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LabError(str(path), f"it cannot be read: {error}", "give a TOML file") from error
    place = str(path)
    study, model, training, validation = (
        _keys(f"{place}, table {name}", tables.get(name), needed, optional)
        for name, (needed, optional) in TABLES.items()
    )
    runs = {
        name: _read_run(f"{place}, run {name}", name, table)
        for name, table in tables.get("runs", {}).items()
    }
    bases = {}
    for name, table in tables.get("bases", {}).items():
        keys = _keys(f"{place}, base {name}", table, {"run", "step"}, set())
        bases[name] = (keys["run"], keys["step"])
    measured: dict[str, Any] = {
        name: tuple(own) if isinstance(own, list) else own for name, own in validation.items()
    }
    listed = RunList(
        **{"description": "", **study},
        model=ModelSize(**model),
        training=Training(**training),
        validation=Validation(**measured),
        runs=runs,
        bases=bases,
    )
    _check(place, listed)
    return listed


def _keys(place: str, table: Any, needed: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise LabError(place, "it is missing", f"give it the keys {', '.join(sorted(needed))}")
    if missing := sorted(needed - set(table)):
        raise LabError(place, f"{missing[0]} is missing", "add it")
    if unknown := sorted(set(table) - needed - optional):
        allowed = ", ".join(sorted(needed | optional))
        raise LabError(place, f"{unknown[0]} is not a key", f"use {allowed}")
    return dict(table)


def _read_run(place: str, name: str, table: Any) -> Run:
    keys = _keys(place, table, {"phase", "schedule"}, {"base", "replay"})
    try:
        schedule = Schedule.from_toml(keys["schedule"])
    except StudyError as error:
        raise error.within(place) from None
    if schedule.peak > HIGHEST_RATE:
        problem = f"the peak learning rate is {schedule.peak:g}"
        raise LabError(place, problem, "write raw learning rates, 2e-4 and not 2.0")
    if keys["phase"] == "cpt":
        replay = keys.get("replay")
        if "base" not in keys or not isinstance(replay, int | float) or not 0 <= replay <= 1:
            raise LabError(
                place,
                f"base is {keys.get('base')!r} and replay is {replay!r}",
                "give a CPT run a base, and the share of general data in its batches as 0 to 1",
            )
        return Run(name, "cpt", schedule, keys["base"], float(replay))
    if keys["phase"] != "pt" or "replay" in keys:
        raise LabError(
            place, "it is neither PT nor CPT", 'write phase = "cpt", or "pt" and no replay'
        )
    return Run(name, "pt", schedule, keys.get("base"))


def _check(place: str, listed: RunList) -> None:
    if listed.training.precision not in PRECISIONS:
        raise LabError(
            f"{place}, table training",
            f"precision is {listed.training.precision!r}",
            f"write one of {', '.join(PRECISIONS)}",
        )
    if listed.model.width % (2 * listed.model.heads):
        raise LabError(
            f"{place}, table model",
            "a head has no even width",
            "make width a multiple of twice the heads",
        )
    if listed.model.vocabulary > 2**16:
        raise LabError(
            f"{place}, table model", "tokens do not fit 16 bits", "take at most 65,536 of them"
        )
    missing = {listed.general, listed.target} - set(listed.validation.domains)
    if missing:
        raise LabError(
            f"{place}, table validation", f"{min(missing)} is not measured", "add it to the domains"
        )
    trained: set[str] = set()
    for name, run in listed.runs.items():
        if run.base is not None:
            if run.base not in listed.bases:
                raise LabError(
                    f"{place}, run {name}", f"there is no base {run.base}", "add [bases.NAME]"
                )
            if listed.bases[run.base][0] not in trained:
                raise LabError(
                    f"{place}, run {name}",
                    f"its base {run.base} is of a run that is not trained before it",
                    "list PT runs before the runs that start from them",
                )
        trained.add(name)
    for base, (source, step) in listed.bases.items():
        run_of = listed.runs.get(source)
        if run_of is None or run_of.phase != "pt":
            raise LabError(
                f"{place}, base {base}", f"{source} is no PT run of the list", "name one"
            )
        start = listed.start(run_of)
        if not start < step <= start + run_of.steps:
            raise LabError(
                f"{place}, base {base}",
                f"run {source} trains steps {start + 1} to {start + run_of.steps}, not {step}",
                "save the base after one of them",
            )
        listed.base_schedule(base)
