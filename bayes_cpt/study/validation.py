"""The parts of a study: whether they fit together, and their losses are plausible and can be fitted.

Every problem names its file, run and step and the fix; what is only suspicious is a warning.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bayes_cpt.checks import Check, counted, suggestion, unknown
from bayes_cpt.errors import Problem
from bayes_cpt.study.resources import Compute, Resources, UniqueTokens, check_counted, note_epochs
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.suspicions import Suspicion, suspicions
from bayes_cpt.study.tables import LOSS_COLUMNS, TableCheck
from bayes_cpt.toml_files import toml_key

SAME_RATE = 1e-6
RING = "the runs branch off each other in a ring"
RING_FIX = "give the run that was trained first its whole schedule and no branch"
# ln of 268,000: more than guessing uniformly among the tokens of any vocabulary in use.
UNIFORM_GUESS = 12.5
# Losses that differ by less are one number with rounding errors: one evaluation alone varies more (nats).
SAME_NUMBER = 1e-5
# So many equal losses are no accident, even if they are rounded to two digits.
FLAT = 5
# Two measurements of one checkpoint differ by rounding and evaluation batches, not by more (nats).
SAME_LOSS = 0.005
# A PT run and the CPT runs from it may be evaluated on slightly different sequences (nats); a shift of
# so many times the median bend of curves is no noise.
SIMILAR_LOSS, CLEARLY = 0.05, 1.5
# Runs that it takes to tell. So many measurements do not agree by chance, even if they are rounded.
FEWEST = 3


@dataclass(frozen=True)
class Origin:
    """What messages call the parts of a study: files, when it was read from a folder."""

    settings: str = "study"
    losses: str = "losses"
    rates: str = "learning rates"


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a study, checked or not: see `bayes_cpt.study.study.Study`."""

    name: str
    general: str | None
    target: str | tuple[str, ...] | None
    bases: tuple[Base, ...]
    runs: tuple[Run, ...]
    losses: pd.DataFrame
    description: str = ""
    tokens_per_step: float | None = None
    unique_tokens: UniqueTokens | None = None
    compute: Compute | None = None
    is_plan: bool = False
    origin: Origin = field(default=Origin(), repr=False)

    @property
    def targets(self) -> tuple[str, ...]:
        """The validation sets of the targets: none, one or several."""
        if self.target is None:
            return ()
        several = isinstance(self.target, list | tuple)
        return tuple(self.target) if several else (self.target,)  # type: ignore[return-value]


def examine(
    parts: Parts, malformed: Collection[str] = (), *, rows_are_checked: bool = False
) -> tuple[pd.DataFrame, list[Problem], list[Problem]]:
    """Check the parts of a study against each other: return the losses, clean, problems and cautions.

    `malformed` names runs and bases that could not be built: no second problem is made of them. Losses that
    are rows of a study, in their order (`rows_are_checked`), are not looked at again.
    """
    origin, losses = parts.origin, parts.losses
    if losses.index.nlevels > 1 or not losses.index.is_unique:
        # Tables put together without renumbering: a label would name several rows.
        losses = losses.reset_index(drop=True)
    table = TableCheck(losses, origin.losses)
    check = Check()
    check.name("name", parts.name)
    _check_sets(check, parts)
    per_step = parts.tokens_per_step
    if per_step is not None and not check.positive("tokens_per_step", per_step, "tokens"):
        per_step = None
    if not parts.runs and not malformed:
        check.add("table runs", "there is no run", "add a table [runs.NAME] for each run")
    _check_runs(check, parts, malformed)
    if parts.tokens_per_step is None and not malformed:
        check_counted(check, parts.unique_tokens, parts.runs)
    resources = Resources(per_step, parts.unique_tokens)
    note_epochs(table.cautions, resources, parts.runs, origin.settings)
    for run in parts.runs:
        if left := run.schedule.interpolated_steps:
            problem = f"{left} of {run.schedule.steps} learning rates are interpolated linearly"
            fix = "log every step if the learning rate changes between the logged ones"
            table.cautions.add(f"{origin.rates}, run {run.name}", problem, fix)
    check.problems = [problem.within(origin.settings) for problem in check.problems]
    table.columns(LOSS_COLUMNS)
    if table.problems:
        return losses, check.problems + table.problems, table.cautions.problems
    clean = losses if rows_are_checked else table.cells()
    if parts.is_plan:
        clean = clean[clean["step"] == 0]
    if not (rows_are_checked or (parts.is_plan and clean.empty)):
        clean = _checked_rows(table, clean, parts, malformed)
    if clean.empty and not (parts.is_plan or table.problems or malformed):
        table.add(table.file, "there is no loss", "add one row per validation measurement")
    clean = clean[list(LOSS_COLUMNS)].reset_index(drop=True)
    return clean, check.problems + table.problems, table.cautions.problems


def _checked_rows(
    table: TableCheck, losses: pd.DataFrame, parts: Parts, malformed: Collection[str]
) -> pd.DataFrame:
    """Return the losses that can be used, sorted; note what is wrong with the others, or odd."""
    losses = table.duplicates(losses, ["run", "step", "domain"])
    if parts.runs or malformed:
        losses = _of_known_runs(table, losses, parts.runs, malformed)
    ordered = losses.assign(order=pd.factorize(losses["run"])[0])
    ordered = ordered.sort_values(["order", "domain", "step"], kind="stable")
    _check_scale(table, losses)
    if not parts.is_plan:
        if len(losses):
            _check_measured(table, losses, parts)
        told = parts.bases, parts.runs, parts.general, parts.targets, parts.origin.settings
        # Runs of one name are refused, and nothing is told of what they share.
        if len({run.name for run in parts.runs}) == len(parts.runs):
            table.cautions.problems += suspicions(ordered, *told)
    _note_disorder(table, losses)
    _note_flat_curves(table, losses)
    _note_base_losses(table, ordered, parts.bases, parts.runs)
    return ordered


def _check_sets(check: Check, parts: Parts) -> None:
    """Check the names of the validation sets, and that runs say which targets they train on."""
    general, names = parts.general, parts.targets
    if general is not None:
        check.name("general", general)
    elif parts.target is None:
        fix = 'write general = "<set of the PT data>", target = "<set of the CPT data>", or both'
        check.add("key general", "the study names neither a general nor a target set", fix)
    unnamed = [name for name in names if not check.name("target", name)]
    if parts.target is not None and not unnamed and len(set(names)) < max(len(names), 1):
        fix = "name one validation set or several, each once"
        check.add("key target", f"target is {list(names)!r}", fix)
    if unnamed or not names:
        return
    if general is None and len(names) > 1:
        problem = f"the study has {len(names)} targets and no general set"
        fix = "name the general set and measure it, or keep to the runs of one target"
        check.add("key general", problem, fix)
    if general in names:
        fix = "name two validation sets, or leave target out of a study of PT runs"
        check.add("key target", f"general and target are both {general!r}", fix)
    for run in parts.runs:
        place = f"run {run.name}, key targets"
        for name in (own for own in run.mixture if own not in names):
            problem = f"the run trains on {name!r}, which is not a target of the study"
            fix = f"name some of {', '.join(names)}, or add it to target in [study]"
            check.add(place, problem + suggestion(name, names), fix)
        if run.phase == "cpt" and len(names) > 1 and run.targets is None and run.replay != 1:
            problem = f"of {len(names)} targets nothing says which the run trains on"
            shares = f"{{ {names[0]} = 0.7, {names[1]} = 0.3 }}"
            check.add(place, problem, f'write targets = "{names[0]}", or shares as in {shares}')


def _check_runs(check: Check, parts: Parts, malformed: Collection[str]) -> None:
    for kind, items in (("base", parts.bases), ("run", parts.runs)):
        names = [item.name for item in items]
        for twice in dict.fromkeys(name for name in names if names.count(name) > 1):
            problem = f"two {kind}s are named {twice!r}"
            check.add(f"{kind} {twice}", problem, "give each its own name")
    bases = {base.name: base for base in parts.bases}
    for run in parts.runs:
        tokens, length = run.batch_tokens or parts.tokens_per_step, run.sequence_length
        if tokens and length and length > tokens:
            problem = f"a sequence has {length} tokens, and a whole batch {tokens:.10g}"
            fix = "give the tokens of one sequence, and as batch_tokens those of one optimiser step"
            check.add(f"run {run.name}, key sequence_length", problem, fix)
        if run.base is None or run.base in malformed:
            continue
        if run.base not in bases:
            problem = f"the base {run.base!r} is unknown{suggestion(run.base, bases)}"
            fix = f"name one of {', '.join(bases) or 'none'}, or add [bases.{toml_key(run.base)}]"
            check.add(f"run {run.name}, key base", problem, fix)
            continue
        size = bases[run.base].model_size
        if run.model_size is not None and size is not None and run.model_size != size:
            problem = f"model_size is {run.model_size:g} but its base has {size:g}"
            fix = "give both the same number of millions of parameters"
            check.add(f"run {run.name}, key model_size", problem, fix)
    _check_branches(check, {run.name: run for run in parts.runs})
    pretraining = {run.name: run for run in parts.runs if run.phase == "pt"}
    for base in parts.bases:
        place, own = f"base {base.name}, key run", base.schedule
        if base.run in pretraining:
            if own is not None:
                _check_shared(check, place, pretraining[base.run], own, own.steps)
        elif base.run and pretraining and not parts.is_plan and base.run not in malformed:
            problem, fix = unknown("PT run", base.run, pretraining)
            check.add(place, problem, f"{fix}, or leave the key out")


def _check_branches(check: Check, runs: dict[str, Run]) -> None:
    for run in runs.values():
        trunk = runs.get(run.branch.run) if run.branch else None
        if run.branch is None or trunk is None:
            continue
        place, step = f"run {run.name}, key branch", run.branch.step
        above = trunk
        for _ in runs:
            above = runs.get(above.branch.run, above) if above.branch else above
        if above.branch is not None and above.branch.run in runs:
            check.add(place, RING, RING_FIX)
        elif (trunk.phase, trunk.base) != (run.phase, run.base):
            problem = f"the run {trunk.name} is of another phase or base"
            check.add(place, problem, "branch off a run of the same phase and base")
        else:
            _check_shared(check, place, trunk, run.schedule, step)


def _check_shared(check: Check, place: str, run: Run, part: Schedule, steps: int) -> None:
    """Check that a schedule has the learning rates of a run in its first steps."""
    if steps > (length := run.schedule.steps):
        problem = f"it lies at step {steps} of the run {run.name}, which has only {length}"
        check.add(place, problem, "name the run that it comes from, or correct the steps")
    elif differ := first_difference(run.schedule, part, steps):
        problem = f"up to there its learning rates are not those of the run {run.name}: {differ}"
        fix = f"make the first {steps} steps of the two schedules the same, or name no run"
        check.add(place, problem, fix)


def first_difference(wanted: Schedule, found: Schedule, steps: int) -> str:
    """Return in words where the first steps of two schedules differ first, empty where nowhere."""
    mine, theirs = (schedule.learning_rates()[:steps] for schedule in (found, wanted))
    off = np.flatnonzero(np.abs(mine - theirs) > SAME_RATE * wanted.peak)
    return f"at step {off[0] + 1} {mine[off[0]]:g} and {theirs[off[0]]:g}" if off.size else ""


def _of_known_runs(
    table: TableCheck, losses: pd.DataFrame, runs: Sequence[Run], malformed: Collection[str]
) -> pd.DataFrame:
    """Note rows of unknown runs and impossible steps; return the others, by run."""
    names, steps = [run.name for run in runs], losses["step"].to_numpy()
    found, rows_of = pd.unique(losses["run"]).tolist(), losses.groupby("run").indices
    for name in (own for own in found if own not in {*names, *malformed}):
        rows = rows_of[name]
        problem = f"the run {name!r} is unknown{suggestion(name, names)} ({len(rows)} rows)"
        fix = f"add [runs.{toml_key(name)}] to the settings, or correct the name"
        table.add(table.place(losses.index[rows[0]]), problem, fix)
    kept = []
    for run in (run for run in runs if run.name in rows_of):
        rows, length = rows_of[run.name], run.schedule.steps
        late, early = steps[rows] > length, steps[rows] < (run.phase == "pt")
        if late.any():
            first = rows[late][0]
            problem = f"step {steps[first]} lies beyond the {length} steps of the "
            problem += f"schedule ({late.sum()} rows of {run.name})"
            fix = "lengthen the schedule, or count steps from 1 inside the phase"
            table.add(table.place(losses.index[first]), problem, fix)
        for label in losses.index[rows[early]]:
            fix = "remove the row: steps count from 1, and step 0 is only for a CPT run's base"
            table.add(table.place(label), "a PT run has no step 0", fix)
        kept.append(rows[~late & ~early])
    return losses.iloc[np.concatenate([np.empty(0, dtype=int), *kept])]


def _check_measured(table: TableCheck, losses: pd.DataFrame, parts: Parts) -> None:
    """Check that the validation sets of the study, and note whether its runs, have losses."""
    measured = sorted(losses["domain"].unique().tolist())
    named = [("general", parts.general), *(("target", name) for name in parts.targets)]
    for key, name in named:
        if name in measured or not isinstance(name, str):
            continue
        hint = suggestion(name, measured)
        if key == "target" and len(parts.targets) > 1:
            problem = f"no row has the target {name!r}{hint}: it is forecast by the other targets"
            fix = "add its losses, at step 0 at least, or leave it so"
            table.cautions.add(f"{table.file}, domain {name}", problem, fix)
        else:
            fix = f"set {key} in [study] to one of {', '.join(measured)}, or add its losses"
            table.add(table.file, f"no row has the {key} validation set {name!r}{hint}", fix)
    others = [domain for domain in measured if domain not in [name for _, name in named]]
    for role in ("general", "target"):
        # An objective that names it would be about another set than meant.
        own = [name for key, name in named if key == role and isinstance(name, str)]
        if own and own != [role] and role in (measured if len(own) > 1 else others):
            meant = own[0] if len(own) == 1 else "all targets"
            problem = f"a validation set is called {role}, and the {role} set of the study is "
            fix = f"give it another name: objectives mean {meant} by {role}"
            table.add(f"{table.file}, domain {role}", problem + ", ".join(own), fix)
    key, data = ("general", "PT") if parts.general is None else ("target", "CPT")
    continual = any(run.phase == "cpt" for run in parts.runs)
    if None in (parts.general, parts.target) and others and continual:
        problem = f"the study names no {key} set, so that {', '.join(others)} count as third sets"
        fix = f"add {key} = ... if one of them is of the {data} data"
        table.cautions.add(f"{parts.origin.settings}, key {key}", problem, fix)
    sets_of = losses.groupby("run")["domain"].unique().to_dict()
    sets = [name for _, name in named if isinstance(name, str)]
    for run in parts.runs:
        place, fix = f"{table.file}, run {run.name}", "add its losses, or leave the run to a plan"
        if run.name not in sets_of:
            table.cautions.add(place, "the run has no losses and tells the fit nothing", fix)
        elif not {*sets} & {*sets_of[run.name]}:
            theirs, wanted = ", ".join(sets_of[run.name]), " or ".join(sets)
            problem = f"the run {run.name} has losses of {theirs} and none of {wanted}: it tells "
            problem += "the fit nothing"
            fix = "if these are the same sets call them alike; else leave the run to a plan"
            table.cautions.problems.append(Suspicion(place, problem, fix, misleads=False))


def _note_base_losses(
    table: TableCheck, losses: pd.DataFrame, bases: Sequence[Base], runs: Sequence[Run]
) -> None:
    """Note measurements of one base that disagree, and that all CPT runs seem measured unlike PT."""
    base_of = {run.name: run.base for run in runs if run.base is not None}
    known = {base.name: base for base in bases}
    starts = losses[(losses["step"] == 0) & losses["run"].isin(base_of)]
    ends = losses[losses["step"].isin({base.steps for base in bases})]
    ended = ends.set_index(["run", "step", "domain"])["loss"].to_dict()
    shifts, notes = list[float](), list[Problem]()
    names, values = (starts[column].to_numpy() for column in ("run", "loss"))
    groups = starts.groupby([starts["run"].map(base_of), "domain"]).indices
    for (name, domain), rows in sorted(groups.items()):
        apart = np.abs(np.subtract.outer(values[rows], values[rows])) > SAME_LOSS
        common = rows[apart.sum(axis=1).argmin()]  # agrees with most
        first_run, first = names[common], values[common]
        far = rows[np.abs(values[rows] - first) > SAME_LOSS]
        if far.size:
            other = values[far[0]]
            problem = f"the loss {other:g} of the base {name} is {first:g} in run {first_run}"
            fix = "step 0 is the base itself: give every run from it the same loss there"
            table.cautions.add(table.place(starts.index[far[0]]), problem, fix)
        run, step = (known[name].run, known[name].steps) if name in known else (None, None)
        if (there := ended.get((run, step, domain))) is None:
            continue
        bits = abs(abs(math.log(first / there)) - abs(math.log(math.log(2)))) < 0.02
        scaled = f"one is in bits: multiply it by {math.log(2):.4f}"
        fix = scaled if bits else "measure both on the same sequences with the same code"
        problem = f"the base {name} has loss {first:g} here, {there:g} at step {step} of {run}"
        notes.append(Problem(table.place(starts.index[common]), problem, fix))
        shifts.append(first - there)
    trained = losses[losses["run"].isin({base.run for base in bases})].groupby(["run", "domain"])
    bend = trained["loss"].transform(lambda own: own.diff().diff().abs()).median()
    shift = float(np.median(shifts or [0.0]))
    one_way = len(shifts) > 1 and min(own * np.sign(shift) for own in shifts) > SAME_LOSS
    if one_way and abs(shift) > CLEARLY * bend:
        way = f"{'above' if shift > 0 else 'below'} those of PT runs at the same checkpoints"
        problem = f"all {len(notes)} losses at step 0 of CPT runs lie {way}, by {abs(shift):.3g}"
        fix = f"{notes[0].fix}, or correct the steps of the bases if the runs started from others"
        misleads, shifts = abs(shift) > SIMILAR_LOSS, [math.inf]
        notes = [Suspicion(notes[0].place, f"{problem}: {notes[0].problem}", fix, misleads)]
    found = zip(notes, shifts, strict=True)
    table.cautions.problems += [note for note, own in found if abs(own) > SIMILAR_LOSS]


def _check_scale(table: TableCheck, losses: pd.DataFrame) -> None:
    """Refuse curves most of whose losses are higher than any guess costs; note single losses.

    No law of losses fits what is in another unit.
    """
    counts = losses.groupby(["run", "domain"]).size()
    for own, high in losses[losses["loss"] > UNIFORM_GUESS].groupby(["run", "domain"], sort=False):
        (_, domain), count, first = own, counts[own], high["loss"].iloc[0]
        most = 2 * len(high) > count
        problem = f"the loss is {first:g}; {len(high)} of the run's {count} losses of {domain} are "
        problem += f"above {UNIFORM_GUESS:g}, more than a uniform guess costs in any vocabulary"
        problem += ": these look like perplexities" if most else ""
        fix = f"give nats/token: the natural logarithm of perplexity ({math.log(first):.4g} for {first:g})"
        fix += f", bits times {math.log(2):.4f}; or leave out a run that diverged"
        (table if most else table.cautions).add(table.place(high.index[0]), problem, fix)


def _note_disorder(table: TableCheck, losses: pd.DataFrame) -> None:
    """Note curves whose rows, as given, are not in rising order: often a log of a restarted run."""
    falls = losses[losses.groupby(["run", "domain"], sort=False)["step"].diff() < 0]
    firsts = falls.index[~falls.duplicated(["run", "domain"])].tolist()
    if firsts:
        curves = counted(len(firsts), "curve")
        problem = f"its step is below an earlier row's; {curves} sorted by step"
        fix = "check that each log is of one run without a restart, and sort the rows"
        table.cautions.add(table.place(firsts[0]), problem, fix)


def _note_flat_curves(table: TableCheck, losses: pd.DataFrame) -> None:
    """Note curves that never move: often the last loss of a run, repeated by an export."""
    curves = losses.groupby(["run", "domain"], sort=False)["loss"]
    sizes = curves.transform("size")
    flat = (sizes >= FLAT) & (curves.transform("max") - curves.transform("min") <= SAME_NUMBER)
    firsts = losses.index[flat & ~losses.duplicated(["run", "domain"])]
    if len(firsts):
        first, more = firsts[0], len(firsts) - 1
        problem = f"all {sizes[first]} losses of this curve are {losses.at[first, 'loss']:g}"
        problem += f"; so it is in {more} more curves" if more else ""
        fix = "give the validation loss that was measured at each step, not one value repeated"
        table.cautions.add(table.place(first), problem, fix)
