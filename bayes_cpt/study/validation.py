"""Checks that need more than one part of a study: runs against bases, losses against runs."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.errors import Problem
from bayes_cpt.study.plausibility import (
    check_scale,
    note_base_losses,
    note_disorder,
    note_flat_curves,
    note_high_losses,
    note_mix_ups,
    note_unmeasured_targets,
)
from bayes_cpt.study.resources.limits import check_counted, note_epochs
from bayes_cpt.study.resources.resources import UniqueTokens
from bayes_cpt.study.tables import LOSS_COLUMNS, TableCheck

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.runs import Base, Run

SAME_RATE = 1e-6


@dataclass(frozen=True)
class Origin:
    """What messages call the parts of a study: files, when it was read from a folder."""

    settings: str = "study"
    losses: str = "losses"
    rates: str = "learning rates"
    row: str = "row"


@dataclass
class Findings:
    """What `examine` found: problems (errors), cautions (warnings), and the losses, clean."""

    losses: "pd.DataFrame"
    problems: list[Problem] = field(default_factory=list)
    cautions: list[Problem] = field(default_factory=list)


def examine(
    *,
    name: object,
    general: object,
    target: object,
    tokens_per_step: object,
    unique_tokens: UniqueTokens | None = None,
    bases: "Sequence[Base]",
    runs: "Sequence[Run]",
    losses: "pd.DataFrame",
    is_plan: bool,
    origin: Origin,
    malformed: Collection[str] = (),
    rows_are_checked: bool = False,
) -> Findings:
    """Check the parts of a study against each other.

    Parameters
    ----------
    name, general, target, tokens_per_step, unique_tokens, bases, runs, losses, is_plan, origin
        As in `Study`.
    malformed : collection of str
        Names of runs and bases that could not be built: no second problem is made of them.
    rows_are_checked : bool
        Whether the losses are rows of a study, in their order: these are not looked at again.

    Returns
    -------
    Findings
    """
    check = Check()
    cautions = Check()
    _check_settings(check, name, general, target, tokens_per_step, runs)
    _check_runs(check, bases, runs, is_plan, malformed)
    if not malformed:
        check_counted(check, tokens_per_step, unique_tokens, runs)
    note_epochs(cautions, tokens_per_step, unique_tokens, runs, origin.settings)
    _note_interpolation(cautions, runs, origin)
    check.problems = [problem.within(origin.settings) for problem in check.problems]
    if not losses.index.is_unique:
        # Tables put together without renumbering: a label would name several rows.
        losses = losses.reset_index(drop=True)
    table = TableCheck(losses, origin.losses, origin.row)
    table.columns(LOSS_COLUMNS)
    if table.problems:
        return Findings(losses, check.problems + table.problems, cautions.problems)
    clean = losses if rows_are_checked else table.cells()
    if is_plan:
        clean = clean[clean["step"] == 0]
    rows_are_checked |= is_plan and clean.empty
    if not rows_are_checked:
        clean = table.duplicates(clean, ["run", "step", "domain"])
        if runs or malformed:
            clean = _check_rows(table, clean, runs, malformed)
        check_scale(table, clean)
    if not is_plan:
        _check_domains(table, clean, general, target)
        note_unmeasured_targets(cautions, clean, target, origin.losses)
        _note_unmeasured_runs(cautions, clean, runs, origin)
    if rows_are_checked:
        clean = clean[list(LOSS_COLUMNS)].reset_index(drop=True)
        return Findings(clean, check.problems + table.problems, cautions.problems)
    if not is_plan and isinstance(general, str) and isinstance(target, str):
        note_mix_ups(cautions, clean, runs, general, target, origin.settings)
    caution_table = TableCheck(losses, origin.losses, origin.row)
    note_disorder(caution_table, clean)
    note_high_losses(caution_table, clean)
    note_flat_curves(caution_table, clean)
    note_base_losses(caution_table, clean, bases, runs)
    return Findings(
        _ordered(clean, runs),
        check.problems + table.problems,
        cautions.problems + caution_table.problems,
    )


def _check_settings(
    check: Check,
    name: object,
    general: object,
    target: object,
    tokens_per_step: object,
    runs: "Sequence[Run]",
) -> None:
    check.name("name", name)
    check.name("general", general)
    if target is not None:
        _check_targets(check, general, target, runs)
    elif any(run.phase == "cpt" for run in runs):
        check.add(
            "key target",
            "the study has CPT runs but no target",
            'add target = "<validation set of the CPT data>"',
        )
    if tokens_per_step is not None:
        check.positive("tokens_per_step", tokens_per_step, "tokens")
    if not runs:
        check.add("table runs", "there is no run", "add a table [runs.NAME] for each run")


def _check_targets(check: Check, general: object, target: object, runs: "Sequence[Run]") -> None:
    """Check the names of the targets, and that runs say which of them they train on."""
    names: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
    if not names:
        check.add("key target", "target is an empty list", "name one validation set or several")
    known = len(check.problems)
    for name in names:
        check.name("target", name)
    if len(check.problems) > known:
        return
    for name, times in Counter(names).items():
        if times > 1:
            check.add("key target", f"target names {name!r} twice", "name each once")
    if general in names:
        check.add(
            "key target",
            f"general and target are both {general!r}",
            "name two validation sets, or leave target out of a study of PT runs",
        )
    for run in runs:
        place = f"run {run.name}, key targets"
        for name in run.mixture:
            if name not in names:
                check.add(
                    place,
                    f"the run trains on {name!r}, which is no target of the study{suggestion(name, names)}",
                    f"name some of {', '.join(names)}, or add it to target in [study]",
                )
        if run.phase == "cpt" and len(names) > 1 and run.targets is None and run.replay != 1:
            check.add(
                place,
                f"the study has {len(names)} targets, and the run does not say which it trains on",
                f'write targets = "{names[0]}", or the share of each, as in '
                f"targets = {{ {names[0]} = 0.7, {names[1]} = 0.3 }}",
            )


def _check_runs(
    check: Check,
    bases: "Sequence[Base]",
    runs: "Sequence[Run]",
    is_plan: bool,
    malformed: Collection[str],
) -> None:
    for kind, names in (("base", [b.name for b in bases]), ("run", [r.name for r in runs])):
        for twice in sorted(name for name, times in Counter(names).items() if times > 1):
            check.add(
                f"{kind} {twice}", f"two {kind}s are named {twice!r}", "give each its own name"
            )
    known_bases = {base.name: base for base in bases}
    for run in runs:
        if run.base is None or run.base in malformed:
            continue
        if run.base not in known_bases:
            check.add(
                f"run {run.name}, key base",
                f"the base {run.base!r} is unknown{suggestion(run.base, known_bases)}",
                f"name one of {', '.join(known_bases) or 'none'}, or add [bases.{run.base}]",
            )
            continue
        size = known_bases[run.base].model_size
        if run.model_size is not None and size is not None and run.model_size != size:
            check.add(
                f"run {run.name}, key model_size",
                f"model_size is {run.model_size:g} but its base has {size:g}",
                "give both the same number of millions of parameters",
            )
    _check_branches(check, {run.name: run for run in runs})
    pretraining = {run.name: run for run in runs if run.phase == "pt"}
    for base in bases:
        if base.run in pretraining:
            _check_lies_on(check, base, pretraining[base.run])
        elif base.run and pretraining and not is_plan and base.run not in malformed:
            check.add(
                f"base {base.name}, key run",
                f"there is no PT run {base.run!r}{suggestion(base.run, pretraining)}",
                f"name one of {', '.join(pretraining)}, or leave the key out",
            )


def _check_branches(check: Check, runs: "dict[str, Run]") -> None:
    for run in runs.values():
        trunk = runs.get(run.branch.run) if run.branch else None
        if run.branch is None or trunk is None:
            continue
        place, step = f"run {run.name}, key branch", run.branch.step
        above = trunk
        for _ in runs:
            above = runs.get(above.branch.run, above) if above.branch else above
        if above.branch is not None and above.branch.run in runs:
            check.add(
                place,
                "the runs branch off each other in a ring",
                "give the run that was trained first no branch",
            )
            continue
        if (trunk.phase, trunk.base) != (run.phase, run.base):
            check.add(
                place,
                f"the run {trunk.name} is of another phase or base",
                "branch off a run of the same phase and base",
            )
        elif step > trunk.schedule.steps:
            check.add(
                place,
                f"the run {trunk.name} has {trunk.schedule.steps} steps and is left at step {step}",
                "give the step at which the runs part",
            )
        else:
            before, of_run = (one.schedule.learning_rates()[:step] for one in (trunk, run))
            apart = np.flatnonzero(~np.isclose(before, of_run, rtol=SAME_RATE, atol=0.0))
            if apart.size:
                check.add(
                    place,
                    f"up to the branch its learning rates are not those of {trunk.name}: at step "
                    f"{apart[0] + 1} {of_run[apart[0]]:g} and {before[apart[0]]:g}",
                    "correct one of the two schedules, or leave branch out",
                )


def _check_lies_on(check: Check, base: "Base", run: "Run") -> None:
    if base.schedule is None:
        return
    place = f"base {base.name}, key run"
    steps = base.schedule.steps
    if steps > run.schedule.steps:
        check.add(
            place,
            f"the base has {steps} steps but its run {run.name} only {run.schedule.steps}",
            "name the PT run it was saved from, or correct the steps",
        )
        return
    of_base = base.schedule.learning_rates()
    of_run = run.schedule.learning_rates()[:steps]
    differ = np.flatnonzero(np.abs(of_base - of_run) > SAME_RATE * base.schedule.peak)
    if differ.size:
        first = int(differ[0])
        check.add(
            f"{place}, step {first + 1}",
            f"the base's learning rate {of_base[first]:g} disagrees with {of_run[first]:g} of its "
            f"run {run.name}",
            f"make the base's schedule that of the first {steps} steps of the run",
        )


def _note_interpolation(cautions: Check, runs: "Sequence[Run]", origin: Origin) -> None:
    for run in runs:
        if run.schedule.interpolated_steps:
            cautions.add(
                f"{origin.rates}, run {run.name}",
                f"{run.schedule.interpolated_steps} of {run.schedule.steps} learning rates are "
                "interpolated linearly",
                "log every step if the learning rate changes between the logged ones",
            )


def _check_rows(
    table: TableCheck, losses: "pd.DataFrame", runs: "Sequence[Run]", malformed: Collection[str]
) -> "pd.DataFrame":
    """Note rows of unknown runs and impossible steps; return the others."""
    by_name = {run.name: run for run in runs}
    is_known = _of_run(losses, dict.fromkeys(by_name, True), False)
    strange = losses[~is_known]
    for name, rows in strange.groupby("run", sort=False) if len(strange) else ():
        if name not in malformed:
            table.add(
                table.place(rows.index[0]),
                f"the run {name!r} is unknown{suggestion(name, by_name)} ({len(rows)} rows)",
                f"add [runs.{name}] to the settings, or correct the name",
            )
    known = losses[is_known]
    steps = known["step"].to_numpy()
    too_late = steps > _of_run(known, {run.name: run.schedule.steps for run in runs}, 0)
    for name, rows in known[too_late].groupby("run", sort=False) if too_late.any() else ():
        table.add(
            table.place(rows.index[0]),
            f"step {rows['step'].iloc[0]} lies beyond the {by_name[name].schedule.steps} steps of "
            f"the schedule ({len(rows)} rows of {name})",
            "lengthen the schedule, or count steps from 1 inside the phase",
        )
    is_pretraining = _of_run(known, {run.name: run.phase == "pt" for run in runs}, False)
    too_early = is_pretraining & (steps == 0)
    for label in known.index[too_early]:
        table.add(
            table.place(label),
            "a PT run has no step 0",
            "remove the row: steps count from 1, and step 0 is only for a CPT run's base",
        )
    return known[~too_late & ~too_early]


def _of_run(losses: "pd.DataFrame", values: dict[str, Any], unknown: object) -> Any:
    """Return an array of the values of each row's run."""
    import pandas as pd

    # Not Series.map, which is slow for names.
    codes, names = pd.factorize(losses["run"])
    return np.array([values.get(name, unknown) for name in names], dtype=type(unknown))[codes]


def _check_domains(
    table: TableCheck,
    losses: "pd.DataFrame",
    general: object,
    target: object,
) -> None:
    if losses.empty:
        if not table.problems:
            table.add(table.file, "there is no loss", "add one row per validation measurement")
        return
    measured = sorted(losses["domain"].unique().tolist())
    for key, domain in (("general", general), ("target", target)):
        if isinstance(domain, str) and domain not in measured:
            table.add(
                table.file,
                f"no row has the {key} validation set {domain!r}{suggestion(domain, measured)}",
                f"set {key} in [study] to one of {', '.join(measured)}, or add its losses",
            )


def _note_unmeasured_runs(
    cautions: Check, losses: "pd.DataFrame", runs: "Sequence[Run]", origin: Origin
) -> None:
    measured = set(losses["run"].unique().tolist())
    for run in runs:
        if run.name not in measured:
            cautions.add(
                f"{origin.losses}, run {run.name}",
                "the run has no losses and tells the fit nothing",
                "add its losses, or leave the run to a plan",
            )


def _ordered(losses: "pd.DataFrame", runs: "Sequence[Run]") -> "pd.DataFrame":
    """Return the losses sorted by run (in the study's order), domain and step."""
    order = {run.name: number for number, run in enumerate(runs)}
    losses = losses.assign(order=_of_run(losses, order, len(order)))
    losses = losses.sort_values(["order", "domain", "step"], kind="stable", ignore_index=True)
    return losses[list(LOSS_COLUMNS)]
