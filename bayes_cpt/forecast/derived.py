"""Quantities that follow from the parameters: what a study's typical run comes to, and what moves it.

Coefficients are seldom what anybody wants to know. These are: the change of the loss over a typical run,
and how its last loss differs when one thing about the run is another. All are of the law's curve, in
nats/token, and need no measured loss.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.evaluate import Draws, law_losses
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay
from bayes_cpt.study.study import Study

# Bases of the runs that are compared: that of the typical run, and the same without and with an anneal.
OWN, STABLE, ANNEALED = "own", "stable", "annealed"
# Shares of a run's steps: its way from the base's learning rate to its own, and a base's anneal.
APPROACH, ANNEAL = 0.05, 0.2
ANY_LOSS = 3.0
# Runs that a study could be given, in words.
AT_REPLAY = "a CPT run at replay {:g}"
DECAYING = "a CPT run that decays to learning rate 0"
STEADY = "a CPT run that stays at its peak learning rate"
SLOWER = "a CPT run at half the peak learning rate"
REWARMED = "a CPT run from a base annealed to learning rate 0"
UNANNEALED = "a CPT run from a base that is not annealed"
LONG = "a CPT run 4 times as long"
LONG_PURE = f"{LONG}, at replay 0"
PT_STEADY = "a PT run at a constant learning rate"
PT_ANNEALED = "a PT run that anneals to learning rate 0"
PT_SLOWER = "a PT run at half the peak learning rate"
PT_LONG = "a PT run 4 times as long"
LONGER = 4
REPLAYS = (0.0, 0.03, 0.25, 0.5, 0.75, 0.9)
# How far apart runs must lie to show what a difference between them does.
REPLAY_APART, RATES_APART, POTENTIALS_APART, LENGTHS_APART = 0.1, 1.5, 0.5, 2.0


@dataclass(frozen=True)
class Typical:
    """What is typical of the CPT runs of a study (of its PT runs where there are no others)."""

    steps: int
    peak: float  # raw learning rate
    replay: float  # 0 where there are no CPT runs
    base: Base | None = None  # None where there are no CPT runs

    @classmethod
    def of(cls, study: Study) -> "Typical":
        """Return the medians over the measured runs of a study, as planned, and their usual base."""
        continual = study.measured_runs("cpt")
        runs = [study.run(run.name) for run in continual or study.measured_runs("pt")]
        sizes = {run.name: float(np.log(study.model_size(run) or 1.0)) for run in continual}
        middle = float(np.median([*sizes.values()] or [0.0]))
        # Of model sizes with as many runs the middle one's.
        order = sorted(continual, key=lambda run: abs(sizes[run.name] - middle))
        usual = Counter(str(run.base) for run in order).most_common(1)
        base = study.base(usual[0][0]) if usual else None
        return cls(
            steps=int(np.median([run.schedule.steps for run in runs])),
            peak=float(np.median([run.peak for run in runs])),
            replay=float(np.median([run.replay or 0.0 for run in runs])),
            base=Base(OWN, base.steps, base.schedule, known=base.known) if base else None,
        )


def typical_words(frame: BoundModel, study: Study) -> str:
    """Return what the run is that effects are of, for the reader of a table."""
    if not frame.spec.law.continual:
        steady = base_schedule(frame.reference)
        run = f"{steady.steps} PT steps at learning rate {steady.peak:.3g}"
        return f"{run}; decay, also at half the peak, is over the last {100 * ANNEAL:.0f} % of them"
    typical, targets = Typical.of(study), len(study.targets)
    shape = f"half-cosine from learning rate {typical.peak:.3g} to 0"
    mixture = f", {targets} targets in equal shares" if targets > 1 else ""
    potential = typical.base.loss_potential if typical.base else None
    base = "base of unknown pre-training"
    if potential is not None:
        fallen = f"annealed to {100 * potential:.0f} % of its peak"
        base = f"base {fallen if potential < 1 else 'not annealed'}"
    batch = f", {frame.batches[0].words}" if frame.batches else ""
    return f"{typical.steps} steps, {shape}, replay {typical.replay:g}{mixture}, {base}{batch}"


def check_continual(frame: BoundModel, otherwise: str) -> None:
    """Raise StudyError if the law knows no CPT phase, and say what follows from that."""
    if not frame.spec.law.continual:
        problem = f"the law knows no CPT phase, and {otherwise}"
        fix = "fit with --model cpt or cpt-replay, to a study that has CPT runs; planned PT runs "
        fix += "are compared by bayes-cpt predict --plan"
        raise StudyError.at(f"model {frame.spec.name}", problem, fix)


class Effect(NamedTuple):
    """A difference between the last losses of two runs, or between the two ends of one."""

    name: str
    run: str  # whose last loss it is, of `trial_runs`; that run would show it ...
    against: str | None  # ... less that of this one; None for its own loss at the start


# What each is called stands in bayes_cpt/report/notation.toml.
CONTINUAL_EFFECTS = (
    Effect("run_change", DECAYING, None),
    Effect("replay_effect", AT_REPLAY.format(0.5), AT_REPLAY.format(0)),
    Effect("rate_effect", SLOWER, DECAYING),
    Effect("decay_effect", DECAYING, STEADY),
    Effect("base_effect", REWARMED, UNANNEALED),
    Effect("length_effect", LONG, DECAYING),
)
PRETRAINING_EFFECTS = (
    Effect("rate_effect", PT_SLOWER, PT_ANNEALED),
    Effect("anneal_effect", PT_ANNEALED, PT_STEADY),
    Effect("length_effect", PT_LONG, PT_STEADY),
)


def effects_of(frame: BoundModel) -> tuple[Effect, ...]:
    """Return the effects that a law knows."""
    if not frame.spec.law.continual:
        return PRETRAINING_EFFECTS
    law = frame.spec.law
    known = {"replay_effect": law.uses_replay, "base_effect": not law.unknown_base}
    return tuple(effect for effect in CONTINUAL_EFFECTS if known.get(effect.name, True))


def tried(frame: BoundModel, study: Study) -> dict[str, bool]:
    """Return for each effect whether a study's runs, as far as measured, differ in what it is about.

    Where they do not, the law's form alone says what the effect is, however sure it sounds.
    """
    runs = study.measured_runs("cpt" if frame.spec.law.continual else "pt")
    decays = any(run.schedule.final <= run.peak / 2 for run in runs)
    rates = [study.run(run.name).peak for run in runs]
    lengths = [run.schedule.steps for run in runs]
    shortest = Typical.of(study).steps if frame.spec.law.continual else min(lengths)
    differs = {
        "run_change": True,
        "rate_effect": max(rates) >= RATES_APART * min(rates),
        "anneal_effect": decays,
        "decay_effect": decays,
        "length_effect": max(lengths) >= LENGTHS_APART * shortest,
    }
    if frame.spec.law.continual:
        replays = [run.replay or 0.0 for run in runs]
        potentials = _loss_potentials(study)
        differs |= {
            "replay_effect": max(replays) - REPLAY_APART >= min(replays) <= REPLAY_APART,
            "base_effect": max(potentials) - min(potentials) >= POTENTIALS_APART,
        }
    return {effect.name: differs[effect.name] for effect in effects_of(frame)}


def only_annealed(study: Study) -> bool:
    """Return whether all CPT runs start from annealed bases: one more of these shows nothing new."""
    return max(_loss_potentials(study)) < POTENTIALS_APART


def _loss_potentials(study: Study) -> list[float]:
    """Return the loss potential of the base of each CPT run, 0 where it is not known."""
    return [study.base(str(run.base)).loss_potential or 0.0 for run in study.measured_runs("cpt")]


def derived_quantities(
    frame: BoundModel, study: Study, parameters: dict[str, Floats]
) -> dict[str, Floats]:
    """Return the effects of a study's typical run, by name, shape (draws, domains), nats/token.

    Examples
    --------
    >>> from bayes_cpt import bundled_study, read_study
    >>> from bayes_cpt.model.joint_priors import draw_priors
    >>> from bayes_cpt.model.setup import build_setup
    >>> from bayes_cpt.model.spec import read_spec
    >>> study = read_study(bundled_study())
    >>> frame = build_setup(read_spec("cpt-replay"), study).frame
    >>> effects = derived_quantities(frame, study, draw_priors(frame, 500, seed=0))
    >>> effects["run_change"].shape, bool(np.median(effects["run_change"][:, 1]) < 0)
    ((500, 2), True)
    """
    curves = _effect_curves(frame, Typical.of(study))
    last = expected_loss(frame, parameters, curves)
    first = start_loss(frame, parameters, curves)
    places = {(curve.run, curve.domain): i for i, curve in enumerate(curves.curves)}

    def of(values: Floats, run: str) -> Floats:
        return values[:, [places[run, domain] for domain in frame.domains]]

    return {
        effect.name: of(last, effect.run)
        - (of(first, effect.run) if effect.against is None else of(last, effect.against))
        for effect in effects_of(frame)
    }


@lru_cache(maxsize=4)
def _effect_curves(frame: BoundModel, typical: Typical) -> Curves:
    """Return the last points of the runs that effects compare: prior and posterior ask for the same."""
    compared = {run for effect in effects_of(frame) for run in (effect.run, effect.against)}
    runs = {name: run for name, run in trial_runs(frame, typical).items() if name in compared}
    return last_points(frame, plan_of(frame, runs))


def last_points(frame: BoundModel, plan: Study, runs: Iterable[Run] | None = None) -> Curves:
    """Return the curves of a plan's runs at their last steps alone, a point per validation set each."""
    return frame.curves(plan, lambda run, _: [run.schedule.steps], runs)


def start_loss(frame: BoundModel, parameters: dict[str, Floats], curves: Curves) -> Floats:
    """Return the loss that each curve starts from, shape (draws, curves), nats/token.

    The base's measured loss where the law starts from it, else the law's.
    """
    bases = curves.bases
    law = law_losses(bases, Draws.of(frame, parameters, bases.form)).T
    if frame.law.base_offset is None:
        return law
    return np.where(bases.base_known > 0, bases.loss, law)


def replays_near(study: Study) -> list[str]:
    """Return the runs of `trial_runs` whose replay ratio is near that of a measured one."""
    measured = [run.replay or 0.0 for run in study.measured_runs("cpt")]
    near = (share for share in REPLAYS if any(abs(share - own) < REPLAY_APART for own in measured))
    return [AT_REPLAY.format(share) for share in near]


type Trials = dict[str, tuple[Schedule, Base | None, float]]


def trial_runs(frame: BoundModel, typical: Typical) -> Trials:
    """Return schedule, base and replay of runs named in words: typical ones, but for what the name says."""
    law, base = frame.spec.law, base_schedule(frame.reference)
    runs: Trials = {}
    if law.continual and (own := typical.base) is not None:
        n, peak, replay = typical.steps, typical.peak, typical.replay
        # From a base whose learning rate is unknown runs start at 0.
        rate = own.schedule.final if own.schedule else 0.0
        decayed = approach(n, rate, peak, decays=True)
        longer = approach(LONGER * n, rate, peak, decays=True)
        if law.uses_replay:
            runs |= {AT_REPLAY.format(share): (decayed, own, share) for share in REPLAYS}
            runs[LONG_PURE] = (longer, own, 0.0)
        runs |= {
            DECAYING: (decayed, own, replay),
            STEADY: (approach(n, rate, peak, decays=False), own, replay),
            SLOWER: (approach(n, rate, peak / 2, decays=True), own, replay),
            LONG: (longer, own, replay),
        }
        # Whoever has a base of unknown pre-training has no other of its kind.
        if own.schedule is None:
            return runs
        # To anneal a base takes further steps.
        is_annealed = (own.loss_potential or 0.0) < POTENTIALS_APART
        top = constant(round(own.schedule.steps / (1 + ANNEAL * is_annealed)), own.schedule.peak)
        fallen = top + linear(max(round(ANNEAL * top.steps), 1), top.peak, 0.0)
        stable, at_zero = Base(STABLE, top.steps, top), Base(ANNEALED, fallen.steps, fallen)
        runs[UNANNEALED] = (approach(n, top.peak, peak, decays=True), stable, replay)
        runs[REWARMED] = (approach(n, 0.0, peak, decays=True), at_zero, replay)
    return runs | {
        PT_STEADY: (base, None, 0.0),
        PT_ANNEALED: (annealed(base), None, 0.0),
        PT_SLOWER: (annealed(constant(base.steps, base.peak / 2)), None, 0.0),
        PT_LONG: (constant(LONGER * base.steps, base.peak), None, 0.0),
    }


def base_schedule(reference: Reference) -> Schedule:
    """Return a PT schedule of the reference forward area at the reference learning rate."""
    steps = max(1, round(reference.forward_pt / reference.learning_rate))
    return constant(steps, reference.learning_rate)


def annealed(schedule: Schedule, loss_potential: float = 0.0) -> Schedule:
    """Return a PT schedule as long as a given one that anneals to a share of its peak.

    The warm-up and the peak are the given schedule's; the last fifth of the steps falls linearly, as in
    Fig. 5 of arXiv 2505.07796.
    """
    fall, peak = max(round(ANNEAL * schedule.steps), 1), schedule.peak
    warmup = min(schedule.warmup_steps, schedule.steps - fall)
    return warmup_stable_decay(
        schedule.steps, peak, loss_potential * peak, decay_steps=fall, warmup_steps=warmup
    )


def approach(steps: int, start: float, peak: float, *, decays: bool) -> Schedule:
    """Return a CPT schedule that goes from the base's rate to its own peak, then stays or decays."""
    first = 0 if start == peak or steps < 2 else max(1, round(APPROACH * steps))
    rest = cosine(steps - first, peak) if decays else constant(steps - first, peak)
    return linear(first, start, peak) + rest if first else rest


def plan_of(frame: BoundModel, runs: Trials, *, measured: bool = False) -> Study:
    """Return a plan of runs given as schedule, base (None for a PT run) and replay, by name.

    Of several targets they train on equal shares; where batches differ they have that of most runs, and the
    typical model size where the law has a size. Measured bases have a loss that stands for any.
    """
    usual = frame.typical_size if frame.sizes else None
    bases = tuple({base.name: base for _, base, _ in runs.values() if base}.values())
    targets = frame.targets
    shares = {target: 1.0 / len(targets) for target in targets} if len(targets) > 1 else None
    batch = frame.batches[0] if frame.batches else Batch()
    built = []
    for name, (schedule, start, replay) in runs.items():
        own: dict[str, Any] = {"model_size": usual}
        if start is not None:
            own |= {"base": start.name, "replay": replay, "targets": shares, **batch.keys}
        built.append(Run(name, "pt" if start is None else "cpt", schedule, **own))
    started = [run.name for run in built if measured and run.phase == "cpt"]
    rows = product(started, [0], frame.domains, [ANY_LOSS])
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(
        "typical runs", frame.general, targets or None, bases, tuple(built), losses, is_plan=True
    )
