"""A space on a study, names resolved and defaults filled in, and the candidates sampled from it."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import unknown
from bayes_cpt.decisions.space import LENGTHS, LIMITS, WAYS, Quantity, Space
from bayes_cpt.errors import SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.schedule_ends import DECAYS, ScheduleBatch
from bayes_cpt.model.bases import fitted_bases
from bayes_cpt.model.discrepancy import Configuration
from bayes_cpt.model.fitted_points import check_replays
from bayes_cpt.study.batches import UNSAID, Batch
from bayes_cpt.study.resources import Resources
from bayes_cpt.study.runs import Base, Run, mixture_words
from bayes_cpt.study.schedules import Segment
from bayes_cpt.study.study import Study

WARMUP_SHARE = 0.02
# Last learning rates as shares of the peak: the least of an exponential decay, which cannot end at 0, and
# the one to decay to where no run does.
LEAST_FINAL, USUAL_FINAL = 0.01, 0.1
# Nobody sets a learning rate to seven digits; and few distinct ratios are quickly evaluated.
DECIMALS = {"replay": 3, "warmup_share": 3, "decay_share": 2, "relative_final": 3}
DIGITS, DERIVED_DIGITS = 3, 9
# Share of a base's last learning rate by which a searched peak differs from it at least, unless not at all.
LEAST_MOVE = 0.01
# Share of the steps that a decay takes at least, unless a run took less.
SHORTEST_DECAY = 0.1
# What runs that are all alike do not tell.
ALIKE = ("replay", "peak", "relative_peak")
# What candidates have a value of each, besides schedules.
BY_ROW = ("base", "replay", "places", "mixture")
# Mixtures of targets are tried in steps of one over this.
MIXTURE_PARTS = 4


@dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations of CPT runs, one per row."""

    bases: tuple[Base, ...]  # those in use
    base: Ints  # place in `bases`, (candidates,)
    replay: Floats  # share of general data, (candidates,)
    schedules: ScheduleBatch
    # Which of the listed values each has, and its place in each range, 0...1: a column per choice
    places: Floats
    # Shares of targets in use, as `Run.mixture`; a single empty one where there is one target
    mixtures: tuple[Mapping[str, float], ...]
    mixture: Ints  # place in `mixtures`, (candidates,)
    batch: Batch = UNSAID  # of all of them, as far as it was said

    def __len__(self) -> int:
        """Return how many there are."""
        return int(self.base.size)

    def take(self, rows: "Ints | slice") -> Self:
        """Return some of them."""
        taken: dict[str, Any] = {name: getattr(self, name)[rows] for name in BY_ROW}
        schedules = self.schedules.take(np.arange(len(self))[rows])
        return replace(self, schedules=schedules, **taken)

    def joined(self, other: "Candidates") -> Self:
        """Return these and others of the same space."""
        pairs = zip(vars(self.schedules).items(), vars(other.schedules).values(), strict=True)
        schedules = {name: np.concatenate([mine, theirs]) for (name, mine), theirs in pairs}
        rows = {name: (getattr(self, name), getattr(other, name)) for name in BY_ROW}
        both: dict[str, Any] = {name: np.concatenate(own) for name, own in rows.items()}
        return replace(self, schedules=ScheduleBatch(**schedules), **both)

    def column(self, name: str) -> Any:
        """Return a quantity of all candidates, an array of shape (candidates,)."""
        return COLUMNS[name](self) if name in COLUMNS else getattr(self.schedules, name)

    def configuration(self, forward_cpt: NDArray[np.floating]) -> Configuration:
        """Return what the law's misfit depends on."""
        batch = self.schedules
        # A line down to the peak is highest at its first step.
        first = batch.initial + (batch.peak - batch.initial) / np.maximum(batch.warmup_steps, 1)
        return Configuration(
            replay=self.replay,
            initial=batch.initial,
            peak=np.maximum(batch.peak, first),
            mean=forward_cpt / batch.steps,
            last=batch.last_rate,
            forward_pt=_ends(self.bases)[self.base, 2],
        )

    def run(self, row: int, name: str) -> Run:
        """Return one as a run of the study format."""
        base, replay = self.bases[self.base[row]], float(self.replay[row])
        said: dict[str, Any] = {"model_size": base.model_size, **self.batch.keys}
        said["targets"] = dict(self.mixtures[self.mixture[row]]) or None
        return Run(name, "cpt", self.schedules.schedule(row), base.name, replay, **said)

    def plan(self, study: Study, names: Sequence[str]) -> Study:
        """Return all as a plan, to be predicted or written to a file."""
        bases = [self.bases[own] for own in np.unique(self.base)]
        return plan_of(study, bases, [self.run(row, name) for row, name in enumerate(names)])


# What `Candidates.column` is told of beside the fields of schedules.
COLUMNS: dict[str, Callable[[Candidates], Any]] = {
    "base": lambda own: np.array([base.name for base in own.bases])[own.base],
    "loss_potential": lambda own: np.array([b.loss_potential for b in own.bases], float)[own.base],
    "replay": lambda own: own.replay,
    "targets": lambda own: np.array([mixture_words(mix) for mix in own.mixtures])[own.mixture],
    "relative_peak": lambda own: own.schedules.peak / _ends(own.bases)[own.base, 1],
    "warmup_share": lambda own: own.schedules.warmup_steps / own.schedules.steps,
    "decay_shape": lambda own: np.array(DECAYS)[own.schedules.shape],
    "decay_share": lambda own: (
        own.schedules.decay_steps / np.maximum(own.schedules.steps - own.schedules.warmup_steps, 1)
    ),
    "final": lambda own: own.schedules.last_rate,
    "relative_final": lambda own: own.schedules.last_rate / own.schedules.peak,
}


def _ends(bases: Sequence[Base]) -> Floats:
    """Return last and peak learning rate and S1 of bases, (bases, 3): 0, NaN and 0 where not known."""
    schedules, nothing = [base.schedule for base in bases], (0.0, np.nan, 0.0)
    ends = [(s.final, s.peak, s.learning_rates().sum()) if s else nothing for s in schedules]
    return np.array(ends)


def plan_of(study: Study, bases: Sequence[Base], runs: Sequence[Run]) -> Study:
    """Return a plan of runs that nobody trained, from some bases."""
    # What a run takes of its data is told of the configuration, not of the names it has here.
    return study.changed(
        name=f"{study.name}-decision",
        description="",
        # The PT run that a base lies on is no part of a plan.
        bases=tuple(replace(base, run=None) for base in bases),
        runs=tuple(runs),
        losses=study.losses.iloc[:0],
        is_plan=True,
    )


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A space on a study: names resolved, defaults filled in."""

    bases: tuple[Base, ...]  # to start from
    quantities: dict[str, Quantity]  # by their names in `Space`, in a fixed order
    shapes: tuple[str, ...]  # shapes of the decay
    resources: Resources  # what is known of the tokens and the cost of steps
    notes: Sequence[str] = ()  # what the user should know of it
    alike: Sequence[str] = ()  # quantities that it keeps as all CPT runs have them
    # Of targets; a single empty one where there is one target.
    mixtures: tuple[Mapping[str, float], ...] = ({},)
    batch: Batch = UNSAID  # of every run, as far as it was said
    given: Set[str] = frozenset()  # keys that were given; the others have their defaults

    @classmethod
    def of(cls, space: Space, study: Study) -> Self:
        """Return the space on a study."""
        bases, notes = listed_bases(space, study)
        resources = space.resources(study)
        for name in LENGTHS[1:]:
            if (asked := getattr(space, name)) is not None:
                step = resources.step("space", name, asked.lowest)
                # Hours and money are a budget, which part of a step would exceed.
                steps = asked.over(step, whole=name != "tokens")
                space = space.model_copy(update={"steps": steps, name: None})
        runs = study.measured_runs("cpt")
        # As planned: what was cut short did not mean to end there.
        finals = [run.schedule.final / run.peak for run in study.continual_runs]
        planned = [run.schedule for run in study.continual_runs]
        warmups = {round(own.warmup_steps / own.steps, 3) for own in planned}
        warmup = max(warmups) if len(warmups) == 1 else 0.0
        # Where nobody knows the rate that a base was left at, a run starts as all runs did.
        left_alone = warmups == {0.0} and not any(base.schedule for base in bases)
        share = 0.0 if left_alone else warmup or WARMUP_SHARE
        decayed = [final for final in finals if final < 1.0] or [USUAL_FINAL]
        least_final = LEAST_FINAL if "exponential" in space.decay_shape else 0.0
        defaults = {
            "replay": within([run.replay or 0.0 for run in runs]),
            **peaks_tried(space, study, bases),
            "warmup_share": Quantity(values=(share,)),
            "decay_share": Quantity(low=shortest_decay(study), high=1.0, scale="linear"),
            "relative_final": within([max(final, least_final) for final in decayed]),
            "steps": Quantity(values=(max(run.schedule.steps for run in runs),)),
        }
        quantities: dict[str, Quantity] = {}
        alike = []
        for name, default in defaults.items():
            ways = next((own for own in WAYS if name in own), (name,))
            given = {way: own for way in ways if (own := getattr(space, way)) is not None}
            quantities |= given or {name: default}
            if not given and name in ALIKE and default.values:
                alike.append(name)
        return cls(
            bases=bases,
            quantities=quantities,
            shapes=space.decay_shape,
            resources=resources,
            notes=notes,
            alike=alike,
            mixtures=listed_mixtures(space, study),
            batch=space.batch,
            given=space.model_fields_set,
        )

    @property
    def length_given(self) -> bool:
        """Whether the length was given; else it is that of the longest CPT run of the study."""
        return "steps" in self.given

    @property
    def ranges(self) -> tuple[str, ...]:
        """The quantities that have a range."""
        return tuple(name for name, quantity in self.quantities.items() if quantity.is_range)

    @property
    def lists(self) -> dict[str, int]:
        """How many values each listed choice has."""
        chosen = {"base": self.bases, "decay_shape": self.shapes, "targets": self.mixtures}
        listed = {name: own.values for name, own in self.quantities.items() if own.values}
        return {name: len(values) for name, values in (chosen | listed).items()}

    @property
    def choices(self) -> tuple[str, ...]:
        """All choices, by the columns of `Candidates.places`."""
        return (*self.lists, *self.ranges)

    @property
    def searched(self) -> tuple[str, ...]:
        """What is to be chosen, by the names of `Candidates.column`."""
        several = {name for name, count in self.lists.items() if count > 1} | set(self.ranges)
        order = ("base", *self.quantities, "targets", "decay_shape")
        return tuple(name for name in order if name in several)

    @property
    def combinations(self) -> int:
        """Number of combinations of listed values."""
        return int(np.prod(list(self.lists.values())))

    def sample(self, count: int, seed: int) -> Candidates:
        """Return about `count` candidates: all combinations of listed values at the same places.

        Places in the ranges are a scrambled Sobol sequence and the corners. Without a range every
        combination is there once.
        """
        if self.combinations > count:
            problem = f"the lists have {self.combinations} combinations, and {count} candidates are wanted"
            raise SpecError.at("space", problem, "shorten them, use ranges, or ask for more")
        dimensions = len(self.ranges)
        places = np.zeros((1, 0))
        if dimensions:
            places = _sobol(dimensions, max(count / self.combinations, 2), seed)
            corners = np.indices([2] * dimensions).reshape(dimensions, -1).T
            places = np.concatenate([places, corners])
        listed = np.indices(list(self.lists.values())).reshape(len(self.lists), -1).T
        every = np.repeat(listed, len(places), axis=0)
        return self.build(np.hstack([every, np.tile(places, (len(listed), 1))]))

    def around(self, centres: Candidates, width: float, count: int, seed: int) -> Candidates:
        """Return `count` candidates near others, with the same listed values."""
        points = _sobol(len(self.ranges) + 1, count, seed)[:count]
        places = centres.places[(points[:, 0] * len(centres)).astype(np.int64)]
        in_ranges = places[:, len(self.lists) :]
        in_ranges += width * (2.0 * points[:, 1:] - 1.0)
        np.clip(in_ranges, 0.0, 1.0, out=in_ranges)
        return self.build(places)

    def along(self, centre: Candidates, name: str, count: int) -> Candidates:
        """Return candidates that differ from one in a single choice."""
        is_range = name in self.ranges
        along = np.linspace(0.0, 1.0, count) if is_range else np.arange(self.lists[name])
        places = np.repeat(centre.places, along.size, axis=0)
        places[:, self.choices.index(name)] = along
        return self.build(places)

    def build(self, places: Floats) -> Candidates:
        """Return the candidates at places (see `Candidates`)."""
        at = dict(zip(self.choices, places.T, strict=True))
        listed = {name: at[name].astype(np.int64) for name in self.lists}
        values = {}
        for name, quantity in self.quantities.items():
            if quantity.is_range:
                rough = _rounded(name, quantity.at(at[name]))
                values[name] = np.clip(rough, quantity.lowest, quantity.highest)
            else:
                values[name] = np.array(quantity.values)[listed[name]]
        base = listed["base"]
        shapes = np.array([DECAYS.index(shape) for shape in self.shapes])[listed["decay_shape"]]
        return Candidates(
            bases=self.bases,
            base=base,
            replay=values["replay"],
            schedules=self._schedules(values, base, shapes),
            places=places,
            mixtures=self.mixtures,
            mixture=listed["targets"],
            batch=self.batch,
        )

    def _schedules(self, values: dict[str, Floats], base: Ints, shapes: Ints) -> ScheduleBatch:
        initial, pretraining_peak, _ = _ends(self.bases)[base].T

        def raw(name: str, share: str, whole: Floats) -> Floats:
            """Return a quantity, given as it is or as a share: in few digits where that is sampled."""
            if name in values:
                return values[name]
            digits = DIGITS if self.quantities[share].is_range else DERIVED_DIGITS
            return _to_digits(values[share] * whole, digits)

        peak = raw("peak", "relative_peak", pretraining_peak)
        for name in {"peak", "relative_peak"} & {*self.ranges}:
            # Nobody moves a learning rate by less.
            near = np.isclose(initial, peak, rtol=LEAST_MOVE, atol=0.0)
            place = initial / (pretraining_peak if name == "relative_peak" else 1.0)
            own = self.quantities[name]
            inside = (place >= own.lowest) & (place <= own.highest)
            peak = np.where(near & inside, initial, peak)
        steps = np.maximum(np.round(values["steps"]), 1.0)
        share = values.get("warmup_share", 0.0)
        warmup = np.minimum(np.round(values.get("warmup_steps", share * steps)), steps - 1.0)
        # What starts at its peak needs no line there.
        warmup = np.where(np.isclose(initial, peak, rtol=1e-9, atol=0.0), 0.0, warmup)
        return ScheduleBatch(
            initial=initial,
            peak=peak,
            final=np.minimum(raw("final", "relative_final", peak), peak),
            warmup_steps=warmup.astype(np.int64),
            decay_steps=np.round(values["decay_share"] * (steps - warmup)).astype(np.int64),
            steps=steps.astype(np.int64),
            shape=shapes,
        )

    def could_be_moved(self, name: str, end: str) -> bool:
        """Return whether the ``lowest`` or ``highest`` value of a quantity is no end by nature."""
        natural = LIMITS[name][end == "highest"]
        return bool(getattr(self.quantities[name], end) != natural)


def _sobol(dimensions: int, count: float, seed: int) -> Floats:
    """Return at least so many places of a scrambled Sobol sequence, a power of two."""
    from scipy.stats.qmc import Sobol

    sequence = Sobol(dimensions, rng=np.random.default_rng(seed))
    return np.asarray(sequence.random_base2(int(np.ceil(np.log2(count)))))


def _rounded(name: str, values: Floats) -> Floats:
    if name in DECIMALS:
        return np.round(values, DECIMALS[name])
    values = _to_digits(values, DIGITS)
    return np.round(values) if name.endswith("steps") else values


def _to_digits(values: Floats, digits: int) -> Floats:
    return np.array([float(f"{value:.{digits}g}") for value in values.tolist()])


def listed_bases(space: Space, study: Study) -> tuple[tuple[Base, ...], list[str]]:
    """Return the bases to choose from, and what is to be said of those left out."""
    fitted = fitted_bases(study)
    if space.bases is None:
        started = {run.base for run in study.continual_runs}
        tried = tuple(base for base in fitted if base.name in started) or fitted
        unused = "no CPT run starts from it: name it under bases to have it"
        unknown = "its PT schedule is not known: give an approximate one, annealed to 0 in doubt"
        left = {base.name: unused for base in fitted if base not in tried}
        left |= {b.name: unknown for b in study.bases if b not in fitted and b.schedule is None}
        notes = [f"base {name} is left out, for {why}" for name, why in left.items()]
        if len({base.model_size for base in tried}) > 1:
            sizes = "the bases are of several model sizes, and a step of a larger one costs more"
            notes.append(f"{sizes}: name those of one size under bases")
        return tried, notes
    return tuple(named_base(study, name, "space, key bases") for name in space.bases), []


def listed_mixtures(space: Space, study: Study) -> tuple[Mapping[str, float], ...]:
    """Return the mixtures of targets; by default all in steps of `MIXTURE_PARTS` of those trained on."""
    for name in {name for mixture in space.targets or () for name in mixture}:
        if name not in study.targets:
            raise SpecError.at("space, key targets", *unknown("target", name, study.targets))
    if len(study.targets) < 2:
        return ({},)
    if space.targets is not None:
        return space.targets
    tried = {name for run in study.continual_runs for name in run.mixture}
    names = [name for name in study.targets if name in tried]
    return tuple(
        {name: count / MIXTURE_PARTS for name, count in Counter(parts).items()}
        for parts in itertools.combinations_with_replacement(names, MIXTURE_PARTS)
    )


def with_batch(posterior: Posterior, space: Space) -> tuple[Posterior, Space]:
    """Return the posterior in the batch that a space asks for, and the space with that batch.

    Refused if a law that knows no replay is asked for a ratio that it was not fitted to.
    """
    if ratios := space.replay:
        place, values = "space, key replay", (ratios.lowest, ratios.highest)
        for law in posterior.laws:
            check_replays(law.frame.spec, posterior.study, [(place, own) for own in values])
    settled, study = posterior.in_batch(space.batch), posterior.study
    batch, tokens = settled.batch, space.resources(study).tokens_per_step
    usual = None if tokens == study.tokens_per_step else tokens
    said = {"tokens_per_step": batch.tokens or usual, "sequence_length": batch.sequence_length}
    return settled, space.model_copy(update={key: own for key, own in said.items() if own})


def within(tried: Sequence[float], *, scale: Literal["linear", "log"] = "linear") -> Quantity:
    """Return the range of what runs tried.

    A single value is no choice: what another does would be the prior's word, or not in the law at all.
    """
    low, high = (float(f"{end:.{DERIVED_DIGITS}g}") for end in (min(tried), max(tried)))
    return Quantity(low=low, high=high, scale=scale) if low < high else Quantity(values=(low,))


def peaks_tried(space: Space, study: Study, bases: Sequence[Base]) -> dict[str, Quantity]:
    """Return the peak LR unless one is given."""
    runs = study.measured_runs("cpt")
    started = [(run, study.base(str(run.base)).schedule) for run in runs]
    shares = [run.peak / before.peak for run, before in started if before is not None]
    if shares and any(base.schedule is not None for base in bases):
        return {"relative_peak": within(shares, scale="log")}
    tried = [run.peak for run in runs]
    if space.relative_peak is not None:
        problem = "it is a share of the PT peak, and that is not known"
        fix = f"give peak, raw: the runs of the study have up to {max(tried):g}"
        raise SpecError.at("space, key relative_peak", problem, fix)
    return {"peak": within(tried, scale="log")}


def shortest_decay(study: Study) -> float:
    """Return the shortest decay that may be chosen, as a share of the steps: as tried, or a tenth."""
    tried = [
        last.steps / run.schedule.steps
        for run in study.continual_runs
        if isinstance(last := run.schedule.segments[-1], Segment) and last.start > last.end
    ]
    return round(min([SHORTEST_DECAY, *tried]), DECIMALS["decay_share"])


def named_base(study: Study, name: str, place: str, *, also: tuple[str, ...] = ()) -> Base:
    """Return a base of a fitted study by its name."""
    names = [base.name for base in study.bases]
    if name not in names:
        problem, fix = unknown("base", name, names)
        raise SpecError.at(place, problem, ", ".join((fix, *also)))
    base, fitted = study.base(name), fitted_bases(study)
    if base not in fitted:
        known = "known, and that of what was fitted is not" if base.schedule else "not known"
        problem = f"the PT schedule of the base {name} is {known}"
        fix = f"name one of {', '.join(other.name for other in fitted)}, or fit runs that start from it"
        raise SpecError.at(place, problem, fix)
    return base
