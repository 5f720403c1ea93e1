"""What can be chosen in the page: the range of every control, and what else takes as many steps.

The balance of the page is linear in the two losses, so that the lowest of it in a draw, whatever the
weight, lies on the lower hull of the draw's losses: a few points each stand for thousands of runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.search import nondominated, spread_along
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import DecayShape, Quantity, Space
from bayes_cpt.errors import SpecError
from bayes_cpt.planner.law import packed
from bayes_cpt.study.ranges import SLACK, covered, outside_base
from bayes_cpt.study.runs import Base
from bayes_cpt.study.study import Study

# Shapes of the decay, and their names in the page. An exponential one cannot end at 0.
SHAPES: dict[DecayShape, str] = {
    "cosine": "cosine",
    "linear": "linear",
    "one_minus_sqrt": "1 − square root",
}
# Lengths that people train for, as multiples of powers of ten.
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
# Of the median CPT run of a study, and of the longest.
SHORTEST, LONGEST = 0.2, 4.0
PEAKS = 81
# The factor by which peak learning rates go beyond those tried.
PEAK_BEYOND = 1.5
# The law knows no instability: without this it would jump to the peak, which nobody does.
SAFE_WARMUP = Quantity(low=0.01, high=0.2, scale="linear")
WHOLE = Quantity(low=0.0, high=1.0, scale="linear")
# Controls of shares: the quantity that each is about, the highest value and the step of its slider. Nobody
# replays more than that, unless a run of the study did.
SLIDERS = {
    "replay": ("replay", 0.8, 0.01),
    "warmup": ("warmup_share", 0.2, 0.005),
    "decay": ("decay_share", 1.0, 0.05),
    "final": ("relative_final", 1.0, 0.01),
}
COLUMNS = {"peak": "peak", "shape": "decay_shape"} | {
    name: quantity for name, (quantity, *_) in SLIDERS.items()
}
CANDIDATES = 3072
# Looks after a first one at the whole space: about what is best in any draw, then about the front. Widths
# are multiples of the distance between the places of the first, and shares of the candidates.
FIRST, FURTHER = 1 / 3, 1 / 6
NEAR_BEST, NEAR_FRONT = (1.0, 0.3), (1.0, 0.5, 0.25, 0.12, 0.06)
# Weights of the general loss at which the best run of each draw is looked for.
WEIGHTS = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class Controls:
    """The controls of the page for one study."""

    study: Study  # that was fitted
    bases: tuple[Base, ...]  # to start from
    lengths: tuple[int, ...]  # steps of a run, rising
    peaks: tuple[float, ...]  # raw peak learning rates, rising
    # Replay ratios that regret is counted from: those that were tried
    replay: Quantity
    knows_replay: bool = True  # whether the law does: the slider goes beyond them then

    @classmethod
    def of(cls, study: Study, *, knows_replay: bool = True) -> "Controls":
        """Return the controls of a study: bases and replay as `decide` takes them.

        Refused if no base was measured on both validation sets.
        """
        default = SearchSpace.of(Space(), study)
        bases, peaks = _measured(study, default.bases), _peaks(study, default.bases)
        return cls(study, bases, lengths(study), peaks, default.quantities["replay"], knows_replay)

    def space(self, length: int) -> Space:
        """Return what regret is counted from in runs of one length: what the other controls can say.

        Replay stays within what was tried, and a re-warm-up takes a hundredth of the steps at the least.
        """
        return Space(
            bases=tuple(base.name for base in self.bases),
            replay=self.replay,
            peak=Quantity(low=self.peaks[0], high=self.peaks[-1], scale="log"),
            warmup_share=SAFE_WARMUP,
            decay_shape=tuple(SHAPES),
            decay_share=WHOLE,
            relative_final=WHOLE,
            steps=Quantity(values=(float(length),)),
        )

    def ranges(self) -> dict[str, dict[str, float]]:
        """Return lowest and highest value and step of every slider of shares, and where it is searched."""
        space = self.space(self.lengths[0])
        ranges = {}
        for name, (quantity, highest, step) in SLIDERS.items():
            own = getattr(space, quantity)
            ranges[name] = {"min": 0.0, "max": highest, "step": step}
            ranges[name] |= {"lowest": own.lowest, "highest": own.highest}
        own, tried = ranges["replay"], self.replay
        own["max"] = max(own["max"], tried.highest) if self.knows_replay else tried.highest
        own["min"] = 0.0 if self.knows_replay else tried.lowest
        return ranges

    def settings(self, candidates: Candidates) -> dict[str, list[Any]]:
        """Return where the controls of shares, base, peak and shape stand for each of some runs."""
        names = [base.name for base in self.bases]
        settings = {name: candidates.column(own).tolist() for name, own in COLUMNS.items()}
        return {"base": [names.index(name) for name in candidates.column("base")]} | settings

    def start(self, recommended: Candidates) -> dict[str, Any]:
        """Return where the controls stand when the page opens: at the run that `decide` recommends."""
        first = {name: values[0] for name, values in self.settings(recommended).items()}
        peaks = np.log(np.array(self.peaks) / first["peak"])
        return first | {
            "peak": int(np.abs(peaks).argmin()),
            "steps": self.lengths.index(int(recommended.schedules.steps[0])),
        }

    def studied(self) -> dict[str, Any]:
        """Return what the runs of the study cover, as `bayes_cpt.study.ranges.outside_range` judges it."""
        ranges: Any = covered(self.study.measured_runs("cpt"))
        return {
            "slack": SLACK,
            "longest": ranges["steps"][1],
            "peak": ranges["peak_learning_rate"],
            "replay": ranges["replay"],
            "bases": [outside_base(self.study, base) for base in self.bases],
        }


def _measured(study: Study, bases: tuple[Base, ...]) -> tuple[Base, ...]:
    """Return the bases whose losses are known: the page has no band for a level that was not measured."""
    with_losses = tuple(
        base
        for base in bases
        if all(study.base_loss(base.name, domain) is not None for domain in study.trained_domains)
    )
    if not with_losses:
        problem = (
            "no base was measured on both validation sets, and the page starts runs at such losses"
        )
        fix = "add rows at step 0 of a run from a base, or use bayes-cpt predict and decide"
        raise SpecError.at(f"study {study.name}", problem, fix)
    return with_losses


def lengths(study: Study) -> tuple[int, ...]:
    """Return the lengths that a run may have in the page: round ones, and those of the study's runs.

    Examples
    --------
    >>> from bayes_cpt import bundled_study, read_study
    >>> lengths(read_study(bundled_study()))[:4], lengths(read_study(bundled_study()))[-1]
    ((600, 800, 1000, 1200), 12000)
    """
    studied = [run.schedule.steps for run in study.measured_runs("cpt")]
    low, high = SHORTEST * float(np.median(studied)), LONGEST * max(studied)
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.log10(high) + 1.0)
    whole = {round(share * power) for share in ROUND for power in powers}
    inside = {steps for steps in whole if max(low, 1.0) <= steps <= high}
    return tuple(sorted(inside | set(studied)))


def _peaks(study: Study, bases: tuple[Base, ...]) -> tuple[float, ...]:
    """Return peak learning rates on a logarithmic scale, in three digits: those tried, a little beyond.

    Never beyond where any run was trained: losses do not tell where training breaks down.
    """
    tried = [run.peak for run in study.measured_runs("cpt")]
    schedules = [run.schedule for run in study.runs] + [base.schedule for base in bases]
    trained = max(schedule.peak for schedule in schedules if schedule is not None)
    ends = min(tried) / PEAK_BEYOND, min(max(tried) * PEAK_BEYOND, trained)
    values = [float(f"{rate:.3g}") for rate in np.geomspace(*ends, PEAKS)]
    return tuple(dict.fromkeys(values))


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The runs of one length that are best in some draw for some weight, and those on the Pareto front."""

    candidates: Candidates
    # Of shape (domains, candidates, draws): expected losses at the last step in each draw, nats/token: the
    # law's, and what it misses as a function of the configuration, whose mean over draws is 0
    losses: Floats

    @classmethod
    def of(
        cls, model: FinalLosses, controls: Controls, length: int, count: int, seed: int
    ) -> "Alternatives":
        """Return the best of what the controls can say of runs of one length."""
        space = SearchSpace.of(controls.space(length), controls.study)
        first, further = int(FIRST * count), int(FURTHER * count)
        found = cls._seen(model, space.sample(first, seed))
        spacing = (first / space.combinations) ** (-1.0 / len(space.ranges))
        for number, width in enumerate(NEAR_BEST + NEAR_FRONT, start=1):
            near_front = number > len(NEAR_BEST)
            centres = found.candidates.take(found.on_front) if near_front else found.candidates
            near = space.around(centres, width * spacing, further, seed + number)
            found = found._joined(cls._seen(model, near))
        block = model.at(found.candidates)
        return cls(found.candidates, block.losses + block.discrepancy)

    @classmethod
    def _seen(cls, model: FinalLosses, candidates: Candidates) -> "Alternatives":
        losses = model.each(candidates, lambda own: (own.losses + own.discrepancy).swapaxes(0, 1))
        return cls(candidates, losses.swapaxes(0, 1))._best()

    def _joined(self, other: "Alternatives") -> "Alternatives":
        losses = np.concatenate([self.losses, other.losses], axis=1)
        return Alternatives(self.candidates.joined(other.candidates), losses)._best()

    def _best(self) -> "Alternatives":
        """Return the runs that are best in some draw for some weight, or on the front."""
        general, target = self.losses
        winners = [
            (np.float32(weight) * general + np.float32(1.0 - weight) * target).argmin(axis=0)
            for weight in WEIGHTS
        ]
        rows = np.unique(np.concatenate([*winners, self.on_front]))
        return Alternatives(self.candidates.take(rows), self.losses[:, rows])

    @property
    def on_front(self) -> Ints:
        """Which candidates no other beats in both mean losses, by rising general loss."""
        return nondominated(*self.losses.mean(axis=2))

    def front(self) -> Ints:
        """Return which candidates of the front are kept for the page."""
        rows = self.on_front
        kept = spread_along(self.losses.mean(axis=2)[:, rows])
        return np.asarray(rows[kept])

    def for_page(self, controls: Controls) -> dict[str, Any]:
        """Return the hull of each draw, and the front with the settings of its runs."""
        hulls = [lower_hull(*self.losses[:, :, draw]) for draw in range(self.losses.shape[2])]
        rows = self.front()
        means, chosen = self.losses.mean(axis=2)[:, rows], self.candidates.take(rows)
        return {
            "counts": [len(hull) for hull in hulls],
            "hulls": packed(np.concatenate(hulls)),
            "front": {"general": means[0].tolist(), "target": means[1].tolist()}
            | controls.settings(chosen),
        }


def lower_hull(first: Floats, second: Floats) -> Floats:
    """Return the points that are lowest in some weighting of two losses, shape (points, 2).

    Examples
    --------
    >>> lower_hull(np.array([0.0, 1.0, 0.6, 0.2]), np.array([1.0, 0.0, 0.6, 0.3])).tolist()
    [[0.0, 1.0], [0.2, 0.3], [1.0, 0.0]]
    """
    hull: list[tuple[float, float]] = []
    for row in nondominated(first, second):
        x, y = float(first[row]), float(second[row])
        while len(hull) > 1 and _bends_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    return np.array(hull)


def _bends_up(one: tuple[float, float], two: tuple[float, float], new: tuple[float, float]) -> bool:
    return (two[0] - one[0]) * (new[1] - one[1]) <= (two[1] - one[1]) * (new[0] - one[0])
