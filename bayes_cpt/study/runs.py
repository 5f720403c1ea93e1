"""Training runs and the bases they start from: the parts of a study, each checked by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayes_cpt.checks import Check, is_number
from bayes_cpt.study.schedules import Schedule, Segment

OPTIMIZER_STATES = ("carried", "reset")
# No optimiser in use trains a language model faster; 2.0 is a 2e-4 without its unit.
HIGHEST_LEARNING_RATE = 0.1
# No model has more parameters (in millions): 6e7 is a 60 without its unit.
LARGEST_MODEL = 1e7
SIZES = {"model_size": "millions of parameters", "batch_tokens": "tokens per step"}
# Below this nothing is learnt in any number of steps.
LOWEST_LEARNING_RATE = 1e-12
# On its way from the base's learning rate to its own a run is for this share of its steps at most.
APPROACH = 0.1
# Shares of a mixture are often rounded to a few digits.
SHARES_ADD_UP = 2e-3


def _check_schedule(check: Check, schedule: object) -> None:
    if not isinstance(schedule, Schedule):
        check.add("key schedule", f"the schedule is {schedule!r}", "give the schedule's segments")
        return
    peak = schedule.peak
    if not schedule.learning_rates().any():
        fix = "give the learning rates that were trained with"
        check.add("key schedule", "the learning rate is 0 throughout", fix)
    elif not LOWEST_LEARNING_RATE <= peak <= HIGHEST_LEARNING_RATE:
        low = peak < LOWEST_LEARNING_RATE
        limit = f"below {LOWEST_LEARNING_RATE:g}" if low else f"above {HIGHEST_LEARNING_RATE:g}"
        fix = "write raw learning rates, 2e-4 and not 2.0 (or say lr_unit = 1e-4 in [study]; of a log call "
        fix += "the column as in lr (1e-4))"
        check.add("key schedule", f"the peak learning rate is {peak:g}, {limit}", fix)


def _check_sizes(check: Check, item: "Base | Run") -> None:
    for key, unit in SIZES.items():
        value = getattr(item, key, None)
        if value is None or not check.positive(key, value, unit):
            continue
        if key == "model_size" and value > LARGEST_MODEL:
            problem = f"model_size is {value:g} million parameters"
            check.add("key model_size", problem, f"write {value / 1e6:g} for {value:g} parameters")


def _settle(check: Check, item: "Base | Run", place: str) -> None:
    """Raise problems; make integers floats, so that equal studies have equal digests."""
    check.raise_problems(place)
    for key in ("replay", *SIZES):
        if (value := getattr(item, key, None)) is not None:
            object.__setattr__(item, key, float(value))


@dataclass(frozen=True)
class Base:
    """A pre-trained checkpoint that CPT runs start from.

    Parameters
    ----------
    name : str
    steps : int, optional
        PT steps behind it; needed unless `known` is false.
    schedule : Schedule, optional
        Learning rates of just those steps; needed unless `known` is false.
    run : str, optional
        The PT run it lies on.
    model_size : float, optional
        Non-embedding parameters in millions.
    known : bool
        False for an open-weights base whose PT schedule is not known (docs/law.md, "Unknown base").

    Raises
    ------
    StudyError
        With every problem of the base, named by key.

    Examples
    --------
    >>> from bayes_cpt.study.schedules import constant, linear
    >>> Base("half", 2000, constant(1000, 2e-3) + linear(1000, 2e-3, 1e-3)).loss_potential
    0.5
    """

    name: str
    steps: int | None = None
    schedule: Schedule | None = None
    run: str | None = None
    model_size: float | None = None
    known: bool = True

    def __post_init__(self) -> None:
        check = Check()
        check.name("name", self.name)
        if not isinstance(self.known, bool):
            fix = "write true or false, without quotes"
            check.add("key known", f"known is {self.known!r}", fix)
        if self.run is not None:
            check.name("run", self.run)
        _check_sizes(check, self)
        steps_fine = self.steps is not None and check.count("steps", self.steps)
        if self.schedule is not None:
            _check_schedule(check, self.schedule)
        if self.known is True:
            for key in ("steps", "schedule"):
                if getattr(self, key) is None:
                    fix = f"add {key} = ..., or known = false for an open-weights base"
                    check.add(f"key {key}", f"the key {key!r} is missing", fix)
            length = self.schedule.steps if isinstance(self.schedule, Schedule) else self.steps
            if steps_fine and self.steps != length:
                problem = f"steps is {self.steps} but the segments of the schedule sum to {length}"
                fix = "make both the number of PT steps behind the checkpoint"
                check.add("key steps", problem, fix)
        _settle(check, self, f"base {self.name}")

    @property
    def loss_potential(self) -> float | None:
        """Final over peak PT learning rate: 0 fully annealed, 1 not annealed; None if not known."""
        return self.schedule.final / self.schedule.peak if self.schedule else None


@dataclass(frozen=True)
class Branch:
    """Where a run leaves another one, its trunk: up to there they are one and the same."""

    run: str  # name of the trunk
    step: int  # the last step that they share, of their phase

    def __post_init__(self) -> None:
        check = Check()
        check.name("run", self.run)
        check.count("step", self.step)
        check.raise_problems("key branch")


@dataclass(frozen=True)
class Run:
    """One training run: a PT run from its first step, or a CPT run from a base.

    Parameters
    ----------
    name : str
    phase : {"pt", "cpt"}
    schedule : Schedule
        Learning rates of the run's own phase.
    base : str, optional
        Name of the base; CPT runs only, and needed there.
    replay : float, optional
        Share of general data in the CPT batches, 0 to 1; CPT runs only, and needed there.
    model_size : float, optional
        Non-embedding parameters in millions.
    batch_tokens : float, optional
        Tokens per optimiser step.
    sequence_length : int, optional
        Tokens per sequence.
    optimizer_state : {"carried", "reset"}, optional
        What became of the optimiser state at the transfer.
    targets : str or mapping of str to float, optional
        Which of several targets the run trains on, or the share of each in the data that are not replay;
        kept as pairs in the order of their names. CPT runs only, needed where a study has several.
    branch : Branch, optional
        The run that this one leaves, and where. The schedule is the whole one, from the first step on.

    Raises
    ------
    StudyError
        With every problem of the run, named by key.
    """

    name: str
    phase: str
    schedule: Schedule
    base: str | None = None
    replay: float | None = None
    model_size: float | None = None
    batch_tokens: float | None = None
    sequence_length: int | None = None
    optimizer_state: str | None = None
    # Not in the representation, from which the digest of a study is made: older studies keep theirs.
    targets: str | Mapping[str, float] | tuple[tuple[str, float], ...] | None = field(
        default=None, repr=False
    )
    branch: Branch | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check = Check()
        check.name("name", self.name)
        _check_schedule(check, self.schedule)
        if self.targets is not None:
            object.__setattr__(self, "targets", _mixture(check, self.targets))
        if self.phase == "cpt":
            self._check_continual(check)
        elif self.phase == "pt":
            for key in ("base", "replay", "targets"):
                if getattr(self, key) is not None:
                    fix = f'leave {key} out, or write phase = "cpt"'
                    check.add(f"key {key}", f"a PT run has no {key}", fix)
        else:
            check.add("key phase", f"phase is {self.phase!r}", 'write "pt" or "cpt"')
        _check_sizes(check, self)
        if self.sequence_length is not None:
            check.count("sequence_length", self.sequence_length)
        if self.branch is not None and self.branch.step >= self.schedule.steps:
            leaves = f"the run leaves {self.branch.run} at step {self.branch.step}"
            problem = f"{leaves}, and has {self.schedule.steps} steps"
            check.add("key branch", problem, "give the schedule of the steps after the branch")
        if self.optimizer_state is not None and self.optimizer_state not in OPTIMIZER_STATES:
            problem = f"optimizer_state is {self.optimizer_state!r}"
            check.add("key optimizer_state", problem, 'write "carried" or "reset", or leave it out')
        _settle(check, self, f"run {self.name}")

    @property
    def _falls_first(self) -> bool:
        """Whether it begins with a short fall from its base's learning rate to its own peak."""
        first, *rest = self.schedule.segments
        falls = isinstance(first, Segment) and first.end < first.start
        short = falls and first.steps <= APPROACH * self.schedule.steps
        return self.phase == "cpt" and bool(rest) and short

    @property
    def approach_steps(self) -> int:
        """Steps until it is at its own peak: of the warm-up, or of a short fall from its base's rate."""
        return self.schedule.segments[0].steps if self._falls_first else self.schedule.warmup_steps

    @property
    def peak(self) -> float:
        """Highest raw learning rate, once a CPT run that falls to its own has left that of its base."""
        return max(segment.highest for segment in self.schedule.segments[self._falls_first :])

    @property
    def mixture(self) -> dict[str, float]:
        """Share of each target in the data that are not replay; empty where the run does not say it."""
        return dict(self.targets or ())  # type: ignore[arg-type]

    def _check_continual(self, check: Check) -> None:
        if self.base is None:
            check.add("key base", "a CPT run needs a base", "name the checkpoint it starts from")
        else:
            check.name("base", self.base)
        fix = "give the share of general data in the batches as a number from 0 to 1"
        if self.replay is None:
            check.add("key replay", "a CPT run needs a replay ratio", fix)
        elif not is_number(self.replay) or not 0 <= self.replay <= 1:
            if is_number(self.replay) and 1 < self.replay <= 100:
                fix = f"write {self.replay / 100:g} for {self.replay:g} %"
            check.add("key replay", f"replay is {self.replay!r}, outside 0 to 1", fix)


def _mixture(check: Check, targets: object) -> tuple[tuple[str, float], ...]:
    """Return the shares of the targets by name, those of 0 left out; note what is wrong with them."""
    form = 'write targets = "NAME", or shares that add up to 1, as in targets = { code = 0.7, law = 0.3 }'
    if isinstance(targets, str):
        targets = {targets: 1.0}
    if isinstance(targets, tuple):
        targets = dict(targets)
    if not isinstance(targets, Mapping) or not targets:
        check.add("key targets", f"targets is {targets!r}", form)
        return ()
    for name, share in targets.items():
        check.name("targets", name)
        if not is_number(share) or not 0 <= share <= 1:
            check.add("key targets", f"the share of {name} is {share!r}, outside 0 to 1", form)
            return ()
    total = sum(targets.values())
    if abs(total - 1.0) > SHARES_ADD_UP:
        fix = f"{form}; replay is not among them, it is the share of general data in all batches"
        check.add("key targets", f"the shares add up to {total:g}, not 1", fix)
        return ()
    return tuple(sorted((name, float(share)) for name, share in targets.items() if share > 0))


def checked_mixture(targets: object) -> dict[str, float]:
    """Return the shares of a mixture of targets by name."""
    check = Check()
    mixture = dict(_mixture(check, targets))
    check.raise_problems()
    return mixture


def mixture_words(mixture: Mapping[str, float]) -> str:
    """Return a mixture of targets in words.

    Examples
    --------
    >>> mixture_words({"code": 0.75, "law": 0.25})
    '75 % code, 25 % law'
    """
    return ", ".join(f"{100 * share:.3g} % {name}" for name, share in mixture.items())
