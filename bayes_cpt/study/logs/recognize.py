"""Logged learning rates -> the schedule that they follow, where one of the usual shapes does.

The log is cut into pieces from its start. A piece is the longest stretch that a shape explains to
`TOLERANCE` of the peak, or to the digits that were printed; constant, linear, exponential and 1 - sqrt need
no more than a fit of two numbers, a cosine its length besides. Between pieces a break lies where the log
leaves it: of the steps between two logged ones each is tried, and by a cosine those of its least misfit. A
warm-up from zero is known by one point.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.study.schedules import SHAPES, Schedule, Segment

# Of the peak: what a fitted schedule may differ from the log.
TOLERANCE = 1e-6
# Of the peak: how far a schedule may differ from the log that is named, and taken after its end only.
NEAR = 1e-3
# Rates with so many significant digits at most were rounded as they were printed; of fewer than three
# nothing can be recognised.
FEWEST_DIGITS, MOST_DIGITS = 3, 6
# Levels of rates of one digit; so few, or zeros for a smaller share at the end, are no course that is lost.
MOST_LEVELS, FEWEST_LEVELS, ENDS_IN_ZERO = 9, 3, 0.1
# Shares of the run; a course goes on in a line that it is over the second, of so many points at least.
SHORT_WARMUP, LATE, FEWEST_LATE = 0.05, 0.05, 4
# Between two logged steps so many places for a break are tried at most.
MOST_BREAKS = 400
# A stretch must have so many points more than its shape has free numbers to be explained by it.
SPARE_POINTS = 1
MOST_PIECES = 12
# Of what rounding may do, by how much a shape may be off.
PRINTED = 1.5
# A misfit below so many tolerances may be made less, in so many rounds.
NEARLY, ROUNDS = 3.0, 12
# A rate of so many digits is one that somebody chose.
ROUND = 2
# So many points that rise as a cosine, or stay the same, are no chance: fewer are a line's too.
FEW_POINTS = 5
# A trainer that counts from 0 logs at step s what the shape has at s - 1, or, where it logs the rate of the
# step to come, at s + 1: by how much, and by how much more steps the shape then ends after the run.
SHIFTS = ((0, 0), (1, 0), (-1, 0), (-1, 1))
# A geometric course is a straight one in logarithms.
COURSES = {"exponential": "linear"}
# Of longer logs so many points are looked at; the schedule is checked against all.
MOST_POINTS = 20_000


@dataclass(frozen=True)
class _Logged:
    """Rising steps, the rates there and how precise they are, and the length of the run."""

    steps: Ints
    rates: Floats
    tolerance: Floats
    total: int

    def at(self, places: slice | Ints | np.ndarray) -> "_Logged":
        steps, rates, tolerance = self.steps[places], self.rates[places], self.tolerance[places]
        return _Logged(steps, rates, tolerance, self.total)


@dataclass(frozen=True)
class _Piece:
    """A stretch of one shape: points `first` to `last` (exclusive), from step `start` to `end`."""

    shape: str
    first: int
    last: int
    start: int
    end: int
    start_rate: float
    end_rate: float
    misfit: float = 0.0

    def rate_at(self, step: int) -> float:
        """Return the rate at a step, inside or beyond."""
        share = np.array((step - self.start) / (self.end - self.start))
        return float(SHAPES[self.shape](self.start_rate, self.end_rate, share))

    def ended(self, end: int) -> "_Piece":
        """Return the piece drawn out, or cut, to another end; a cosine has its length."""
        if self.shape == "cosine" or end == self.end:
            return self
        return replace(self, end=end, end_rate=self.rate_at(end))


# The rate at which the piece before ends, and how precisely that is known; None where none is before.
type _Join = tuple[float, float] | None


def recognize(
    steps: Sequence[int], rates: Sequence[float], total_steps: int
) -> tuple[Schedule, list[str]]:
    """Return the schedule that logged learning rates follow, else the log; and what was assumed."""
    at = np.asarray(steps, dtype=np.int64)
    values = np.asarray(rates, dtype=np.float64)
    found: list[tuple[tuple[int, int, int, int], str, list[Segment]]] = []
    for tolerance, precision in _tolerances(values):
        logged = _Logged(at, values, tolerance, total_steps)
        for shift, longer in SHIFTS:
            if found and shift < 0:
                break
            if segments := _segments(_shifted(replace(logged, total=total_steps + longer), shift)):
                pieces, own_rates = _effort(segments)
                found.append(((pieces, len(precision), own_rates, shift), precision, segments))
        if any(key[0] <= 2 for key, *_ in found):
            break
    if not found:
        notes = [f"learning rates follow no usual shape to {TOLERANCE:g} and are kept as a log"]
        near = _segments(replace(logged, tolerance=np.full(at.size, NEAR * values.max()))) or []
        if is_near := bool(near) and _effort(near)[0] <= 2:
            # As where a trainer skips its first steps in fp16.
            notes.append(f"to {NEAR:g} they follow {_words(near)}: if meant, give it by --schedule")
        if (last := int(at[-1])) < total_steps:
            goes = "the last one is held"
            if (end := _straight_end(at, values, total_steps)) is not None:
                at, values = np.append(at, total_steps), np.append(values, end)
                goes = f"it is taken to go on to {end:g}"
            elif is_near and near[-1].shape != "constant":
                at = np.append(at, np.arange(last + 1, total_steps + 1))
                to_come = Schedule(tuple(near)).learning_rates()[last:total_steps]
                values = np.append(values, to_come)
                goes = f"it is taken to go on as {near[-1].shape} to {near[-1].end:g}"
            notes.append(f"after step {last} no learning rate is logged; {goes} (else --schedule)")
        return Schedule.from_log(at[at > 0], values[at > 0], total_steps), notes
    (*_, shift), precision, segments = min(found, key=lambda one: one[0])
    notes = [f"learning rates follow {_words(segments)}{precision}"]
    notes += _open_breaks(segments, _shifted(_Logged(at, values, values, total_steps), shift).steps)
    if shift:
        when = "earlier" if shift > 0 else "later"
        notes.append(f"the trainer counts rates from step 0, the schedule from 1: one step {when}")
    last = int(at[-1])
    if gaps := last - int(np.unique(at[at > 0]).size):
        notes.append(f"{gaps} of {last} rates are not logged and follow from the shape")
    if last < total_steps:
        untold = f"after step {last} of {total_steps} no learning rate is logged"
        notes.append(f"{untold}: it is taken to go on as {segments[-1].shape} (--schedule if not)")
    return Schedule(tuple(segments)), notes


def _straight_end(steps: Ints, rates: Floats, total: int) -> float | None:
    """Return where rates that fall in a straight line at last would end; None where they do not."""
    late = steps >= min((1.0 - LATE) * steps[-1], steps[-FEWEST_LATE:][0])
    to_go, seen, tolerance = total - steps[late], rates[late], TOLERANCE * float(rates.max())
    if seen.size < FEWEST_LATE:
        return None
    slope, end = np.polyfit(to_go, seen, 1)
    off = np.abs(end + slope * to_go - seen).max()
    falls = slope * steps[-1] > tolerance and end >= -tolerance and off <= tolerance
    return _rounded(float(end), float(rates.max()), tolerance) if falls else None


def _effort(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return how much it takes to write a schedule: segments and jumps, then how many different rates."""
    jumps = sum(before.end != after.start for before, after in pairwise(segments))
    rates = {rate for segment in segments for rate in (segment.start, segment.end) if rate}
    return len(segments) + jumps, len(rates)


def coarse_decimals(rates: Floats, schedule: Schedule) -> int | None:
    """Return to how many decimals rates were printed that have so few levels that their course is lost.

    They take all multiples of a power of ten up to a digit, in jumps, or are 0 for the last part of a run.
    """
    levels = np.unique(rates)
    decimals = -math.floor(math.log10(levels[levels > 0].min()))
    multiples = levels * 10.0**decimals
    if multiples[-1] > MOST_LEVELS or not np.allclose(np.diff(multiples), 1.0, atol=1e-6):
        return None
    zeros = rates.size - 1 - np.flatnonzero(rates)[-1]
    if schedule.is_logged:
        return decimals if levels.size > FEWEST_LEVELS else None
    # Jumps to the next level, after a warm-up that may be too short to be logged.
    drawn = [own for own in schedule.segments if isinstance(own, Segment)]
    begins = np.cumsum([own.steps for own in drawn]) / schedule.steps
    jumps = [
        (before.end - after.start) * 10.0**decimals
        for begin, before, after in zip(begins, drawn, drawn[1:], strict=False)
        if begin > SHORT_WARMUP
    ]
    near = [bool(np.isclose(abs(jump), 1.0)) for jump in jumps]
    to_zero = bool(near) and near[-1] and drawn[-1].start == drawn[-1].end == 0.0
    lost = to_zero and zeros >= max(2, ENDS_IN_ZERO * rates.size)
    return decimals if lost or (levels.size > FEWEST_LEVELS and sum(near) > 1) else None


def digits_of(rate: float) -> int:
    """Return how many significant digits a rate has."""
    return len(f"{rate:.9e}".split("e")[0].replace(".", "").rstrip("0"))


def _tolerances(rates: Floats) -> Iterator[tuple[Floats, str]]:
    """Yield how far a shape may be from each rate: by double precision, then by the printed digits."""
    usual = np.full(rates.size, TOLERANCE * float(rates.max(initial=0.0)))
    yield usual, ""
    seen = np.unique(rates[rates > 0])[:1000]
    counts = np.array([digits_of(rate) for rate in seen], dtype=np.int64)
    most = int(counts.max(initial=0))
    if not 2 <= most <= MOST_DIGITS or seen.size < 2:
        return
    digits = max(most, FEWEST_DIGITS)
    # Rounded to digits, or to decimals: the smaller rates of a log tell which.
    decimals = (counts - 1 - np.floor(np.log10(seen))).max()
    orders = np.floor(np.log10(np.where(rates > 0, rates, 1.0)))
    by_digits = np.where(rates > 0, 0.5 * 10.0 ** (orders - digits + 1), 0.0)
    # More than half a digit: the fit to rounded numbers is off itself.
    printed = PRINTED * np.maximum(by_digits, 0.5 * 10.0**-decimals)
    yield np.maximum(usual, printed), f", to the {digits} digits that were printed"


def _shifted(logged: _Logged, shift: int) -> _Logged:
    # That a run begins at zero says nothing of how long its warm-up is.
    kept = logged.at((logged.steps > shift) | ((logged.steps == shift) & (logged.rates > 0)))
    return replace(kept, steps=kept.steps - shift)


def _segments(logged: _Logged) -> list[Segment] | None:
    """Return the segments of the simplest schedule that fits, None where none does."""
    if logged.steps.size < 2 or not logged.rates.max() > 0:
        return None
    looked_at = logged
    if logged.steps.size > MOST_POINTS:
        places = np.linspace(0, logged.steps.size - 1, MOST_POINTS // 4).astype(np.int64)
        looked_at = logged.at(np.union1d(places, np.arange(MOST_BREAKS)))
    best = _fitting(logged, _pieces(looked_at, 0, None))
    steps, rates = looked_at.steps, looked_at.rates
    if steps[0] >= 1 and rates[0] > 0 and (best is None or _effort(best)[0] > 1):
        reach = steps / steps[0]
        off = np.abs(rates - rates[0] * reach) > looked_at.tolerance * reach
        points = int(np.argmax(off)) or steps.size - 1
        end, peak = int(steps[points - 1]), float(rates[points - 1])
        warmup = _Piece("linear", 0, points, 0, end, 0.0, peak)
        found = _fitting(logged, _pieces(looked_at, points, warmup))
        best = min(filter(None, (best, found)), key=_effort, default=None)
    return best


def _fitting(logged: _Logged, pieces: list[_Piece] | None) -> list[Segment] | None:
    """Return pieces as segments if they fit all that is logged."""
    widest = float(logged.tolerance.max())
    if not pieces or min(min(piece.start_rate, piece.end_rate) for piece in pieces) < -widest:
        return None
    # Round numbers first: where small rates are known better than large ones they may be off.
    return next(filter(None, (_written(logged, pieces, each) for each in (widest, 0.0))), None)


def _written(logged: _Logged, pieces: list[_Piece], freedom: float) -> list[Segment] | None:
    """Return pieces as segments whose ends are rounded within a freedom, None where that does not fit."""
    peak = float(logged.rates.max())
    segments: list[Segment] = []
    if pieces[0].start > 0:
        # Nothing is logged before: it is taken as a warm-up, as no trainer begins otherwise.
        top = _rounded(pieces[0].start_rate, peak, freedom)
        segments.append(Segment("linear", pieces[0].start, 0.0, top))
    for piece in pieces:
        start, end = (_rounded(rate, peak, freedom) for rate in (piece.start_rate, piece.end_rate))
        if segments and abs(segments[-1].end - start) <= 2.0 * logged.tolerance.max():
            start = segments[-1].end
        end = start if piece.shape == "constant" else end
        if piece.shape == "exponential" and not min(start, end) > 0:
            return None
        segments.append(Segment(piece.shape, piece.end - piece.start, start, end))
    made = Schedule(tuple(segments))
    inside = (logged.steps > 0) & (logged.steps <= made.steps)
    fitted = made.learning_rates()[logged.steps[inside] - 1]
    fine = np.abs(fitted - logged.rates[inside]) <= 2.0 * logged.tolerance[inside]
    return segments if fine.all() and made.steps >= logged.total else None


def _rounded(rate: float, peak: float, tolerance: float) -> float:
    """Return a rate as somebody would have written it, where that is within the tolerance."""
    if rate <= tolerance and rate < 1e-3 * peak:
        return 0.0
    shorter = (float(f"{rate:.{digits}g}") for digits in range(1, 7))
    return next((short for short in shorter if abs(short - rate) <= tolerance), rate)


def _pieces(logged: _Logged, first: int, before: _Piece | None) -> list[_Piece] | None:
    """Return the pieces from a point on, and the one before it."""
    pieces = [before] if before is not None else []
    while first < logged.steps.size:
        before = pieces[-1] if pieces else None
        starts = _starts(logged, first, before)
        candidates = [
            *_cosines(logged, first, starts, before),
            *_lines(logged, first, starts[:MOST_BREAKS], before),
        ]
        if not candidates or len(pieces) == MOST_PIECES:
            return None
        candidates.sort(key=partial(_rank, logged, before), reverse=True)
        best = _begun(logged, before, candidates[0])
        held = next((piece for piece in candidates if piece.shape == "constant"), best)
        if held.last < best.last:
            # Where a warm-up ends one step before its cosine begins the peak is held for that step.
            starts = _starts(logged, held.last, held)
            after = next(_cosines(logged, held.last, starts, held), held)
            best = held if after.last > best.last else best
        if before is not None:
            pieces[-1] = before.ended(best.start)
        pieces.append(best)
        first = best.last
    if pieces[-1].end < logged.total:
        pieces[-1] = pieces[-1].ended(logged.total)
    return pieces


def _join(logged: _Logged, first: int, start: int, before: _Piece | None) -> _Join:
    """Return where a piece must begin that goes on from the one before."""
    if before is None or start <= before.start:
        return None
    reach = (start - before.start) / max(before.end - before.start, 1)
    tolerance = float(logged.tolerance[max(first - 1, 0)]) * max(reach, 1.0)
    return before.ended(start).end_rate, tolerance


def _rank(logged: _Logged, before: _Piece | None, piece: _Piece) -> tuple[int, bool, float]:
    """Return how good a piece is: long, going on from the one before, and near what is logged."""
    join = _join(logged, piece.first, piece.start, before)
    joins = join is not None and abs(join[0] - piece.start_rate) <= join[1]
    # Any course that hardly moves reaches a little beyond a stretch that stays the same.
    same = piece.shape == "constant" and piece.last - piece.first >= FEW_POINTS
    return (piece.last - piece.first) * (1 + same), joins, -round(piece.misfit, 3)


def _begun(logged: _Logged, before: _Piece | None, piece: _Piece) -> _Piece:
    """Return a line from the step where it probably begins, at or before its first point.

    After a constant, as which its first points are printed, that is where the two meet. A first line that
    falls is past its peak, and would begin at step 0 and higher: it is taken from the roundest rate.
    """
    if piece.shape not in ("linear", "exponential"):
        return piece
    starts = range(min(int(logged.steps[piece.first]), MOST_BREAKS) + 1)
    if before is not None:
        starts = range(piece.start, max(before.start, piece.start - MOST_BREAKS), -1)
    cut = [replace(piece, start=start, start_rate=piece.rate_at(start)) for start in starts]
    if before is not None:
        meet = min(cut, key=lambda part: abs(part.start_rate - before.end_rate))
        return meet if before.shape == "constant" else piece
    peak, tolerance = float(logged.rates.max()), float(logged.tolerance.max())
    lengths = [digits_of(_rounded(part.start_rate, peak, tolerance)) for part in cut]
    best = min(starts, key=lambda start: (lengths[start], start))
    rounder = lengths[best] <= ROUND and lengths[best] < lengths[0] - 1
    return cut[best] if rounder and piece.end_rate < piece.start_rate else piece


def _starts(logged: _Logged, first: int, before: _Piece | None) -> range:
    """Return the steps after which a piece whose first point is `first` may begin."""
    if before is None:
        return range(min(int(logged.steps[first]), logged.total - 1) + 1)
    if before.shape == "cosine":
        return range(before.end, before.end + 1)
    return range(max(int(logged.steps[first - 1]), before.start + 1), int(logged.steps[first]))


def _lines(logged: _Logged, first: int, starts: range, before: _Piece | None) -> Iterator[_Piece]:
    """Yield what each shape but a cosine explains from a point on, by the step after which it begins."""
    steps, rates = logged.steps, logged.rates
    rate = float(rates[first])
    # What stays the same is printed the same, however few its digits.
    moves = np.abs(rates[first:] - rate) > TOLERANCE * rates.max()
    level = first + (int(np.argmax(moves)) or moves.size)

    def line(shape: str, start: int, join: _Join, last: int) -> _Piece:
        return _fitted(shape, logged, first, last, start, int(steps[last - 1]), join)

    for start in starts:
        join = _join(logged, first, start, before)
        if level - first >= 2 or (join is not None and abs(join[0] - rate) <= join[1]):
            end = max(int(steps[level - 1]), start + 1)
            yield _Piece("constant", first, level, start, end, rate, rate)
        for shape in ("linear", "exponential", "one_minus_sqrt"):
            piece = _longest(partial(line, shape, start, join), steps.size, first)
            if piece.end > start and _explains(piece, logged, join):
                yield piece


def _cosines(logged: _Logged, first: int, starts: range, before: _Piece | None) -> Iterator[_Piece]:
    """Yield the half-cosine that explains most from a point on, if one does."""

    @cache
    def fitted(start: int, end: int) -> _Piece:
        last = int(np.searchsorted(logged.steps, end, side="right"))
        join = _join(logged, first, start, before)
        return _fitted("cosine", logged, first, last, start, end, join)

    def ended(start: int, low: int, high: int) -> _Piece:
        return _least(partial(fitted, start), range(max(low, start + 1), high + 1))

    if before is not None and before.shape == "constant":
        # It begins so flat that its first points are within the tolerance of what was before.
        flat = (logged.tolerance[first] / logged.rates.max()) ** 0.5 * (logged.total - starts.start)
        starts = range(max(before.start + 1, starts.start - int(flat)), starts.stop)
    for low, high in _cosine_ends(logged, first):
        if begins := starts[: max(high - starts.start, 0)]:
            piece = _least(partial(ended, low=low, high=high), begins)
            few = piece.end_rate > piece.start_rate and piece.last - first < FEW_POINTS
            if not few and _explains(piece, logged, _join(logged, first, piece.start, before)):
                yield piece
                return


def _least(fit: Callable[[int], _Piece], steps: range) -> _Piece:
    """Return the piece of the least misfit, which rises to both sides of its step."""
    low, high = steps[0], steps[-1]
    while high - low > 2:
        third = (high - low) // 3
        if fit(low + third).misfit <= fit(high - third).misfit:
            high -= third
        else:
            low += third
    return min(map(fit, range(low, high + 1)), key=lambda piece: piece.misfit)


def _fitted(
    shape: str, logged: _Logged, first: int, last: int, start: int, end: int, join: _Join
) -> _Piece:
    """Return the piece of a shape through some points: least squares in the rates at its two ends.

    Its misfit is the largest one, in tolerances; where least squares nearly fit, that is made less.
    """
    part = logged.at(slice(first, last))
    steps, rates, tolerance = part.steps, part.rates, part.tolerance
    if join is not None:
        steps, rates = np.concatenate([[start], steps]), np.concatenate([[join[0]], rates])
        tolerance = np.concatenate([[join[1]], tolerance])
    # How far the shape has come from its start, 0, to its end, 1.
    course = SHAPES[COURSES.get(shape, shape)](0.0, 1.0, (steps - start) / max(end - start, 1))
    log = shape == "exponential"
    if not rates.size or (log and not rates.min() > 0):
        return _Piece(shape, first, last, start, end, 0.0, 0.0, np.inf)
    seen = np.log(rates) if log else rates

    weights = (rates / tolerance) ** 2 if log else tolerance**-2.0
    for _ in range(ROUNDS):
        weights = weights / weights.sum()
        centre, middle = weights @ course, weights @ seen
        away = weights * (course - centre)
        slope = away @ (seen - middle) / (away @ (course - centre) or np.inf)
        level = middle - slope * centre
        fitted = level + slope * course
        misfits = np.abs((np.exp(fitted) if log else fitted) - rates) / tolerance
        if not 1.0 < misfits.max() < NEARLY:
            break
        # Lawson's weights: towards the line whose largest misfit is least.
        weights = weights * misfits
    at_ends = np.array([level, level + slope])
    start_rate, end_rate = (np.exp(at_ends) if log else at_ends).tolist()
    return _Piece(shape, first, last, start, end, start_rate, end_rate, misfits.max())


def _explains(piece: _Piece, logged: _Logged, join: _Join) -> bool:
    """Whether a piece fits, rises or falls, and has more points than free numbers."""
    widest = float(logged.tolerance[piece.first : piece.last].max(initial=0.0))
    low, moved = min(piece.start_rate, piece.end_rate), abs(piece.end_rate - piece.start_rate)
    points = piece.last - piece.first + (join is not None)
    return piece.misfit <= 1.0 and points >= 2 + SPARE_POINTS and low >= -widest and moved > widest


def _longest(fit: Callable[[int], _Piece], size: int, first: int) -> _Piece:
    """Return the longest piece from `first` that fits, by doubling and halving."""
    last, step = first + 1, 2
    while last < size and fit(reach := min(first + step, size)).misfit <= 1.0:
        last, step = reach, 2 * step
    if last < size:
        # From the first end beyond `last` that does not fit.
        ends = range(reach)
        last = bisect_left(ends, True, lo=last + 1, key=lambda end: fit(end).misfit > 1.0) - 1
    return fit(last)


def _cosine_ends(logged: _Logged, first: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of steps that a half-cosine from `first` on may end in, the likeliest first."""
    steps, rates, total = logged.steps, logged.rates, logged.total
    yield total, total
    for extreme in (np.argmax, np.argmin):
        if turn := int(extreme(rates[first:])):
            last = min(first + turn + 1, steps.size - 1)
            yield int(steps[first + turn - 1]), int(steps[last])


def _open_breaks(segments: Sequence[Segment], steps: Ints) -> Iterator[str]:
    """Yield where a learning rate jumps between two logged steps: any step between may be the one."""
    ends = np.cumsum([segment.steps for segment in segments]).tolist()
    for (before, after), end in zip(pairwise(segments), ends[:-1], strict=True):
        last = np.searchsorted(steps, end, side="right") - 1
        around = steps[max(last, 0) : last + 2]
        if before.end != after.start and around.size == 2 and np.ptp(around) > 1:
            jump = f"the jump from {before.end:g} to {after.start:g} is put after step {end}"
            yield f"{jump}; the log leaves open where between steps {around[0]} and {around[1]} it is"


def _words(segments: Sequence[Segment]) -> str:
    def ends(segment: Segment) -> str:
        to = "" if segment.shape == "constant" else f" to {segment.end:g}"
        return f"{segment.shape} {segment.start:g}{to} over {segment.steps} steps"

    return ", then ".join(map(ends, segments))
