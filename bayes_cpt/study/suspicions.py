"""What of a study looks like a mistake though it can be read: `check` and `fit` say it first."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, permutations

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import Problem
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Segment
from bayes_cpt.study.tables import LossCurves, loss_curves

# Changes of the loss over a run that are no accident (nats).
CLEAR = 0.05
# Runs with no more replay forget; what they learn is the target.
LITTLE_REPLAY = 0.05
# Replay ratios that differ by so much change how much is forgotten.
APART = 0.2
# Peaks and lengths within the one ratio are alike; peaks further apart than the next (5, with rounding)
# teach otherwise; so many times the steps of all others, one of which is no mere test, may count tokens.
ALIKE, FAR, TOO_LONG, A_TEST = 1.1, 4.9, 50, 100
# So many equal losses are no coincidence, and so many points show how a loss begins to fall.
EQUAL, SHOWN = 5, 5
# Shares of a run within which it is still near its base, and shows how fast it learns.
START, EARLY = 0.02, 0.05
# Runs that start further apart than this (nats) do not start from one base, or are not given alike.
SAME_BASE = 0.2
# Share of a difference, or of a change, that may be left where it is explained.
LEFT = 0.2
# A learning rate above this share of the peak that would fall for so many more steps is not at its end.
UNFINISHED, TO_GO = 0.2, 10
# Twice as many losses, or more, are averaged to this many or a few more; fewer than the next say nothing. A
# loss has risen where each of the last few is above its least by so many sds, and nats: no prefix of a
# bundled run does.
MEANS, FEWEST_MEANS, LAST, SDS_RISEN, RISEN = 20, 6, 3, 3.0, 0.02
# The sd of a normal variable over the median absolute second difference of its values.
SD_OF_BEND = 1.4826 / 6**0.5
# PT runs of one model and batch differ by less than this ratio (in logs) where both have learnt most.
BITS, SAME_RATIO = float(np.log(2)), 0.05


@dataclass(frozen=True)
class Suspicion(Problem):
    """Something that can be used but is probably not meant."""

    misleads: bool = True  # whether a fit would be about something else


def suspicions(
    losses: pd.DataFrame,
    bases: Sequence[Base],
    runs: Sequence[Run],
    general: str | None,
    targets: Sequence[str],
    file: str,
) -> list[Suspicion]:
    """Return what is suspicious of some runs, stated in a file.

    Losses have columns run, step, domain and loss (nats/token), each measurement once, by domain and step;
    validation sets are the general one and those of the targets.
    """
    # What is no name was refused, and all else is told at once.
    names = tuple(name for name in (general, *targets) if isinstance(name, str))
    sets = names if len(names) == 2 and len(targets) == 1 else ()
    curves = loss_curves(losses)
    measured = [run for run in runs if run.name in curves]
    found = [*_given_twice(curves, measured), *_jumps(measured, bases), *_lengths(curves, measured)]
    found += [*_cut_off(measured), *_warming_up(curves, measured)]
    found += _overfitting(curves, measured, targets)
    for base in dict.fromkeys(run.base for run in measured):
        alike = [run for run in measured if run.base == base]
        # PT runs fall fast at first whatever their learning rate.
        if base is not None:
            found += [*_rate_of_others(curves, alike), *_other_starts(curves, alike, sets)]
        else:
            found += _other_units(curves, alike)
    if sets:
        found += _swapped(curves, measured, *sets)
    return [replace(own, place=f"{file}, {own.place}") for own in found]


def _given_twice(curves: LossCurves, runs: Sequence[Run]) -> list[Suspicion]:
    """Return runs that differ in their settings and show the very same losses."""
    same: dict[object, list[Run]] = {}
    for run in runs:
        trained: dict[tuple[str, int], float] = {}
        for domain, (steps, losses) in curves[run.name].items():
            after = [(domain, step) for step in steps[steps > 0].tolist()]
            trained |= zip(after, losses[steps > 0].tolist(), strict=True)
        if len({*trained.values()}) >= EQUAL:
            same.setdefault((*trained.items(),), []).append(run)
    said = "have the very same losses: one log seems to be given twice"
    fix = "give each run its own log, or leave one of them out"
    return [
        Suspicion(f"run {other.name}", f"the runs {first.name} and {other.name} {said}", fix)
        for first, *others in same.values()
        for other in others
        if replace(other, name=first.name) != first
    ]


def _jumps(runs: Sequence[Run], bases: Sequence[Base]) -> Iterator[Suspicion]:
    """Yield segments that start far above all learning rates before them, of the base too."""
    for run in runs:
        # A restart jumps too, but to where the run or its base has been.
        peaks = (own.schedule.peak for own in bases if own.name == run.base and own.schedule)
        highest = max(peaks, default=0.0)
        for number, (before, after) in enumerate(pairwise(run.schedule.segments), start=2):
            highest = max(highest, before.highest)
            if isinstance(after, Segment) and after.start >= FAR * highest > 0:
                place = f"run {run.name}, segment {number}"
                problem = f"the learning rate of the run {run.name} jumps to {after.start:g} at "
                problem += f"the start of segment {number}, and was {highest:g} at most before"
                yield Suspicion(place, problem, "correct that segment of its schedule")


def _lengths(curves: LossCurves, runs: Sequence[Run]) -> Iterator[Suspicion]:
    """Yield the longest run of a phase if it is hardly so long, or not as far as it was measured."""
    for phase in ("pt", "cpt"):
        lengths = sorted((run.schedule.steps, run.name) for run in runs if run.phase == phase)
        if len(lengths) < 2:
            continue
        (others, other), (steps, name) = lengths[-2:]
        end = max(points[-1] for points, _ in curves[name].values())
        if steps >= min(TOO_LONG * max(others, A_TEST), FAR * max(others, end)):
            problem = f"the run {name} has {steps} steps, the next longest {others} ({other}), "
            problem += f"and was measured to step {end}"
            fix = "count optimiser steps, not tokens or samples; leave it so if it is that long"
            yield Suspicion(f"run {name}", problem, fix, misleads=False)


def _cut_off(runs: Sequence[Run]) -> Iterator[Suspicion]:
    """Yield runs whose logged learning rate still falls where the log ends."""
    for run in runs:
        rates = run.schedule.learning_rates()
        last, fall = float(rates[-1]), float(rates[-2:].max() - rates[-1])
        is_falling = run.schedule.is_logged and 0.0 < TO_GO * fall < last
        if is_falling and (share := last / run.schedule.peak) > UNFINISHED:
            problem = (
                f"the run {run.name} ends at step {run.schedule.steps} while its learning rate "
                f"still falls, at {100 * share:.0f} % of the peak: its log seems to be cut off"
            )
            fix = "give the whole log; if the run was stopped there, leave it so"
            yield Suspicion(f"run {run.name}", problem, fix, misleads=False)


def _warming_up(curves: LossCurves, runs: Sequence[Run]) -> Iterator[Suspicion]:
    """Yield the runs that were measured no further than their warm-up."""
    found = {}
    for run in runs:
        end = max(steps[-1] for steps, _ in curves[run.name].values())
        if 0 < end < run.schedule.warmup_steps < run.schedule.steps:
            found[run.name] = f"of {run.name} to step {end} of {run.schedule.warmup_steps}"
    if found:
        name, said = next(iter(found.items()))
        problem = f"all losses of {', '.join(found)} lie in the warm-up ({said}): they show "
        problem += "neither the peak learning rate nor a decay"
        fix = "add later losses, or correct the schedule"
        yield Suspicion(f"run {name}", problem, fix, misleads=False)


def _overfitting(
    curves: LossCurves, runs: Sequence[Run], targets: Collection[str]
) -> Iterator[Suspicion]:
    """Yield runs whose loss falls and then rises, though the learning rate does not, and in CPT falls.

    In CPT only on what they train on: the rest may be forgotten.
    """
    pairs = ((run, own) for run in runs for own in curves[run.name].items())
    for run, (domain, (steps, losses)) in pairs:
        if run.phase == "cpt" and domain not in (run.mixture or targets):
            continue
        moves = np.diff(run.schedule.learning_rates()[: steps[-1]])
        rough = np.flatnonzero(moves > 0 if run.phase == "pt" else moves >= 0)
        settled = steps > rough.max(initial=-1) + 1
        count = int(settled.sum())
        if count < FEWEST_MEANS:
            continue
        size = max(1, count // MEANS)
        steps, own = steps[settled][count % size :], losses[settled][count % size :]
        means = own.reshape(-1, size).mean(axis=1)
        clear = max(RISEN, SDS_RISEN * SD_OF_BEND * np.median(np.abs(np.diff(means, n=2))))
        # Medians of three: no single wild one counts.
        middles = np.median(sliding_window_view(means, 3), axis=1)
        least = middles.min()
        if min(means[-LAST:].min(), middles[0]) >= least + clear:
            step = steps[size * (middles.argmin() + 1)]
            problem = f"on {domain} the loss of the run {run.name} has risen since step {step}, "
            problem += f"from {least:.3f} to {means[-1]:.3f}, though its learning rate has not: "
            problem += "it overfits, and the law has no overfitting"
            fix = "give only what came before, or leave the run out (docs/scope.md)"
            yield Suspicion(f"run {run.name}", problem, fix)


def _rate_of_others(curves: LossCurves, runs: Sequence[Run]) -> Iterator[Suspicion]:
    """Yield the run whose peak is far from those of all others, where it learns as one of them."""
    order = []
    for run in sorted(runs, key=lambda run: run.peak):
        early = run.schedule.learning_rates()[: int(EARLY * run.schedule.steps) + 1]
        order += [run] if run.peak <= FAR * early.max() else []  # others do not show it there
    for run in (*order[-1:], *order[:1]):
        others = [own for own in order if own is not run]
        if any(_within(FAR, run.peak, other.peak) for other in others):
            continue
        for other in others:
            both = _together(EARLY, curves, run, other).values()
            # On the set on which they change most.
            changes = max((own - own[:, :1] for own in both), key=_size, default=np.empty((2, 0)))
            gaps = np.abs(np.diff(changes, axis=0))
            if gaps.size >= SHOWN and gaps.mean() < LEFT * _size(changes):
                problem = f"the peak learning rate of the run {run.name} is {run.peak:g}, that of "
                problem += f"{other.name} {other.peak:g}, but both begin to learn equally fast"
                fix = "give raw learning rates: look at the unit of its log or correct its schedule"
                yield Suspicion(f"run {run.name}", problem, fix)
                return


def _size(changes: Floats) -> float:
    """Return by how much the one of two runs changes that changes less."""
    return float(np.abs(changes).mean(axis=1).min())


def _together(share: float, curves: LossCurves, run: Run, other: Run) -> dict[str, Floats]:
    """Return the losses of two runs by set, shape (2, points), where both were measured early."""
    last = share * min(run.schedule.steps, other.schedule.steps)
    found = {}
    for domain, (steps, losses) in curves[run.name].items():
        others, theirs = curves[other.name].get(domain, (steps[:0], losses[:0]))
        early, one, two = np.intersect1d(steps, others, assume_unique=True, return_indices=True)
        if early.size and early[0] <= last:
            found[domain] = np.stack([losses[one], theirs[two]])[:, early <= last]
    return found


def _other_starts(
    curves: LossCurves, runs: Sequence[Run], sets: Sequence[str]
) -> Iterator[Suspicion]:
    """Yield runs that start as the first of their base does only in bits, or with its sets swapped."""
    first, *others_of_base = runs
    for run in others_of_base:
        together = _together(START, curves, run, first)
        # Step 0 may be filled in from the base: the next step tells what a log is of.
        starts = {name: both[:, :2][:, -1] for name, both in together.items()}
        gaps = {name: abs(own - other) for name, (own, other) in starts.items()}
        domain = max(gaps, key=lambda name: gaps[name], default="")
        if not (gap := gaps.get(domain, 0.0)) > SAME_BASE:
            continue
        own, others = starts[domain]
        place = f"run {run.name}"
        same = f"{first.name} from the same base {others:.3f}"
        problem = f"near its start the run {run.name} has a loss of {own:.3f} on {domain}, {same}"
        for name, factor in ((run.name, BITS), (first.name, 1.0 / BITS)):
            if max(abs(one * factor - two) for one, two in starts.values()) < LEFT * gap:
                yield _in_bits(run, name, problem)
        if sets and set(sets) <= set(starts):
            pairs = zip(sets, reversed(sets), strict=True)
            if max(abs(starts[one][0] - starts[two][1]) for one, two in pairs) < LEFT * gap:
                problem += f": {sets[0]} and {sets[1]} seem to be mixed up in one of them"
                yield Suspicion(place, problem, "swap the two sets in its losses")


def _other_units(curves: LossCurves, runs: Sequence[Run]) -> Iterator[Suspicion]:
    """Yield PT runs whose losses are those of the one before only in bits, at all later common steps."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.model_size, run.batch_tokens, run.branch), []).append(run)
    named = set[str]()
    for before, run in chain(*map(pairwise, groups.values())):
        for domain, both in _together(1.0, curves, run, before).items():
            own, others = both[:, both.shape[1] // 2 :]
            problem = f"the run {run.name} has a loss of {own[-1]:.3f} on {domain}, {before.name} "
            problem += f"of {others[-1]:.3f} at the same step"
            for name, factor in ((run.name, BITS), (before.name, 1.0 / BITS)):
                off = np.abs(np.log(factor * own / others)).max()
                if name not in named and own.size >= SHOWN and off < SAME_RATIO:
                    named.add(name)
                    yield _in_bits(run, name, problem)


def _in_bits(run: Run, name: str, problem: str) -> Suspicion:
    fix = f"multiply the losses of {name} by {BITS:.4f} if they are in bits"
    return Suspicion(f"run {run.name}", f"{problem}: {name} seems to be in bits", fix)


def _swapped(curves: LossCurves, runs: Sequence[Run], general: str, target: str) -> list[Suspicion]:
    """Return that all sets seem swapped, or that replay ratios seem to count the target's share."""
    rows = []
    for run in runs:
        curve = curves[run.name]
        changes = {name: own[-1] - own[0] for name, (_, own) in curve.items() if own.size > 1}
        if run.replay is not None and general in changes:
            rows.append((run.replay, changes[general], run, changes.get(target, np.nan)))
    little = [own for own in rows if own[0] <= LITTLE_REPLAY and np.isfinite(own[-1])]
    if little and all(on_general < -CLEAR and other > CLEAR for _, on_general, _, other in little):
        problem = f"in every CPT run with little replay the loss of {general} falls and that of "
        problem += f"{target} rises, as if {general} were what they train on"
        fix = "swap general, the data of pre-training, and target, that of CPT, if mixed up"
        return [Suspicion("table study", problem, fix)]
    pairs = [
        (more, less)
        for more, less in permutations(rows, 2)
        if more[0] - less[0] >= APART and _comparable(more[2], less[2])
    ]
    if not pairs or any(more[1] <= max(less[1], 0.0) + CLEAR for more, less in pairs):
        return []
    clearest = max(pairs, key=lambda pair: pair[0][1] - pair[1][1])
    (replay, rise, run, _), (lower, kept, other, _) = clearest
    problem = (
        f"the loss of {general} changes by {rise:+.2f} at replay {replay:g} (run {run.name}), by "
        f"{kept:+.2f} at {lower:g} (run {other.name}), though replay should keep it down"
    )
    fix = "give as replay the share of general data in the batches, not that of target data; or "
    fix += "swap general and target, if they are mixed up"
    return [Suspicion("table runs, key replay", problem, fix)]


def _comparable(one: Run, other: Run) -> bool:
    """Return whether two runs have one base, and peaks and lengths that are alike."""
    sizes = ((own.peak, own.schedule.steps) for own in (one, other))
    return one.base == other.base and all(_within(ALIKE, *own) for own in zip(*sizes, strict=True))


def _within(ratio: float, one: float, other: float) -> bool:
    """Return whether two sizes differ by no more than a ratio."""
    return max(one, other) <= ratio * min(one, other)
