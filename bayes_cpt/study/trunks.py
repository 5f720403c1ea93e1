"""What a run that branches off another one shares with it: the trunk's curve up to the branch."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.study.runs import Branch, Run
from bayes_cpt.study.study import Study

# Learning rates that differ by less than this share are the same.
SAME_RATE = 1e-6
# What runs that are one run up to a branch have in common.
ALIKE = tuple(key.name for key in fields(Run) if key.name not in ("name", "schedule", "branch"))
# So many equal losses past the warm-up are no coincidence.
FEWEST_EQUAL = 2
# A log begins just after a step if it does within so many gaps of the trunk's log.
MOST_GAPS = 2.0
FEWEST_BEFORE = 5
# A fit, its forecasts and its tables all ask of one study, a page of a few.
KEPT = 8

# Rising steps and the losses there, nats/token.
type Measured = tuple[Ints, Floats]


def branch_of(study: Study, run: Run) -> Branch | None:
    """Return where a run leaves its trunk; None where the study does not have the trunk."""
    return run.branch if run.branch is not None and run.branch.run in study else None


def start_loss(study: Study, run: Run, domain: str) -> float | None:
    """Return the loss (nats/token) of a run's trunk where the run leaves it, None if it is not known.

    Between two measured steps of the trunk it is on the line that joins them.
    """
    branch = branch_of(study, run)
    if branch is None:
        return None
    trunk = study.run(branch.run)
    earlier = branch_of(study, trunk)
    if earlier is not None and branch.step < earlier.step:
        return start_loss(study, replace(run, branch=Branch(earlier.run, branch.step)), domain)
    steps, losses = own_curve(study, trunk, domain)
    before = start_loss(study, trunk, domain)
    if earlier is not None and before is not None:
        steps, losses = np.r_[earlier.step, steps], np.r_[before, losses]
    if not steps.size or not steps[0] <= branch.step <= steps[-1]:
        return None
    return float(np.interp(branch.step, steps, losses))


def own_curve(study: Study, run: Run, domain: str) -> Measured:
    """Return what a run of a study shows that its trunk does not: all of it where it has no trunk."""
    steps, losses = study.curve(run.name, domain)
    branch = branch_of(study, run)
    unshared = steps > branch.step if branch else np.ones(steps.size, dtype=bool)
    return steps[unshared], losses[unshared]


@lru_cache(maxsize=KEPT)
def with_found_branches(study: Study) -> Study:
    """Return a study to be fitted with the branches that its losses show.

    Runs that show the very same losses before they part are one run up to there: taken for two, they would
    tell everything twice. And a PT run whose log begins just where its learning rates leave those of
    another one was started from there. A forecast knows only of branches that somebody names: where a run
    will part cannot be seen from its losses.
    """
    runs: list[Run] = []
    for place, run in enumerate(study.runs):
        others = ((trunk, i < place) for i, trunk in enumerate(study.runs) if trunk is not run)
        branches = (_branch_off(study, trunk, run, earlier=earlier) for trunk, earlier in others)
        best = max(filter(None, branches), key=lambda branch: branch.step, default=None)
        runs.append(run if run.branch or best is None else replace(run, branch=best))
    if runs == list(study.runs):
        return study
    return study.changed(runs=tuple(runs), rows_are_checked=True)


def _branch_off(study: Study, trunk: Run, run: Run, *, earlier: bool) -> Branch | None:
    """Return where a run leaves another one by their losses; None where they have nothing in common."""
    if any(getattr(trunk, name) != getattr(run, name) for name in ALIKE):
        return None
    curves = [(study.curve(trunk.name, d), study.curve(run.name, d)) for d in study.domains]
    # Logs are looked at first: learning rates of long runs are large.
    logs = [(of_trunk[0], own[0]) for of_trunk, own in curves if own[0].size]
    begins_late = run.phase == "pt" and bool(logs)
    begins_late &= all((before < own[0]).sum() >= FEWEST_BEFORE for before, own in logs)
    # Of two runs with the same losses the later one of the study is the branch.
    equal, differ = _equal(curves) if earlier else ({}, np.inf)
    if not begins_late and len(equal) < FEWEST_EQUAL:
        return None
    rates = [either.schedule.learning_rates() for either in (trunk, run)]
    length = min(map(len, rates))
    apart = ~np.isclose(rates[0][:length], rates[1][:length], rtol=SAME_RATE, atol=0.0)
    last = min(int(np.argmax(apart)) if apart.any() else length, run.schedule.steps - 1)
    if last <= run.schedule.warmup_steps:
        return None
    if begins_late and all(_begins_after(before, own, last) for before, own in logs):
        return Branch(trunk.name, last)
    after = run.schedule.warmup_steps
    shared = [step for step in equal.values() if after < step <= last and step < differ]
    return Branch(trunk.name, max(shared)) if len(shared) >= FEWEST_EQUAL else None


def _begins_after(before: Ints, own: Ints, last: int) -> bool:
    """Return whether a log begins just after a step, and that of its trunk goes past it."""
    # Where the trunk's log begins there too, neither shows what was before.
    if np.count_nonzero(before <= last) < FEWEST_BEFORE or before[-1] < last:
        return False
    return bool(last < own[0] <= last + MOST_GAPS * np.median(np.diff(before)))


def _equal(curves: Sequence[tuple[Measured, Measured]]) -> tuple[dict[float, int], float]:
    """Return the losses that two runs share, each with its step, and the first step at which two differ."""
    equal: dict[float, int] = {}
    differ = np.inf
    for (steps, losses), (own_steps, own_losses) in curves:
        both, here, there = np.intersect1d(steps, own_steps, return_indices=True)
        same = losses[here] == own_losses[there]
        # By loss, as losses that do not change tell nothing.
        equal |= dict(zip(losses[here][same], both[same].tolist(), strict=True))
        if not same.all():
            differ = min(differ, float(both[np.argmin(same)]))
    return equal, differ
