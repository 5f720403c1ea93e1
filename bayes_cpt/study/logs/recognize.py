"""Logged learning rates -> the schedule that they follow, where one of the usual shapes does.

The log is cut into pieces from its start. A piece is the longest stretch that a shape explains to
`TOLERANCE` of the peak; constant, linear, exponential and 1 - sqrt need no more than a fit of two numbers,
a cosine its length besides. Between pieces a break lies where the log leaves it: of the steps between two
logged ones each is tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.study.schedules import LoggedSegment, Schedule, Segment

# Of the peak: what a fitted schedule may differ from the log.
TOLERANCE = 1e-6
# Between two logged steps so many places for a break are tried at most.
MOST_BREAKS = 400
# A stretch must have so many points more than its shape has free numbers to be explained by it.
SPARE_POINTS = 1
MOST_PIECES = 12


@dataclass(frozen=True)
class Recognized:
    """A schedule for logged rates, and how it was found.

    Parameters
    ----------
    schedule : Schedule
        Segments where a shape was recognised, else the log.
    notes : tuple of str
        What was assumed.
    """

    schedule: Schedule
    notes: tuple[str, ...]


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


def recognize(
    steps: Sequence[int], rates: Sequence[float], total_steps: int, *, name: str = "the log"
) -> Recognized:
    """Return the schedule that logged learning rates follow.

    Parameters
    ----------
    steps : sequence of int, shape (logged,)
        Strictly rising steps of the run; a rate at step 0 is what it began from.
    rates : sequence of float, shape (logged,)
        Raw learning rates.
    total_steps : int
        Length of the run.
    name : str
        What notes call the log.

    Returns
    -------
    Recognized
        The shapes are those of `Segment`, each fitted to 1e-6 of the peak. Else the log itself,
        interpolated linearly between logged steps, which is said.
    """
    at = np.asarray(steps, dtype=np.int64)
    values = np.asarray(rates, dtype=np.float64)
    # A trainer that counts from 0 logs at step s what the shape has at s - 1.
    by_shift = {}
    for shift in (0, 1):
        kept = at >= shift
        segments = _segments(at[kept] - shift, values[kept], total_steps)
        if segments is not None:
            by_shift[shift] = segments
    if by_shift:
        shift = min(by_shift, key=lambda number: (len(by_shift[number]), number))
        segments, kept = by_shift[shift], at >= shift
        notes = [f"{name}: learning rates follow {_words(segments)}"]
        notes += [f"{name}: {note}" for note in _open_breaks(segments, at[kept] - shift)]
        if shift:
            notes.append(
                f"{name}: the trainer counts learning rates from step 0; the schedule counts them "
                "from 1, one step earlier"
            )
        gaps = total_steps - int(np.unique(at[at > 0]).size)
        if gaps > 0:
            notes.append(
                f"{name}: {gaps} of {total_steps} rates are not logged and follow from the shape"
            )
        return Recognized(Schedule(tuple(segments)), tuple(notes))
    return _as_log(at, values, total_steps, name)


def _as_log(steps: Ints, rates: Floats, total_steps: int, name: str) -> Recognized:
    kept = steps > 0
    schedule = Schedule.from_log(steps[kept], rates[kept], total_steps)
    notes = [f"{name}: learning rates follow no usual shape to {TOLERANCE:g} and are kept as a log"]
    missing = schedule.interpolated_steps
    if missing:
        notes.append(
            f"{name}: {missing} of {total_steps} learning rates are not logged and were interpolated"
        )
    if int(steps[-1]) < total_steps:
        notes.append(
            f"{name}: after step {int(steps[-1])} no learning rate is logged; the last one is held"
        )
    return Recognized(schedule, tuple(notes))


def _segments(steps: Ints, rates: Floats, total: int) -> list[Segment] | None:
    if steps.size < 2 or not rates.max() > 0:
        return None
    pieces = _pieces(steps, rates, total, TOLERANCE * float(rates.max()))
    if pieces is None:
        return None
    lowest = min(rate for piece in pieces for rate in (piece.start_rate, piece.end_rate))
    if lowest < -TOLERANCE * float(rates.max()):
        return None
    segments: list[Segment] = []
    lead = pieces[0].start
    if lead > 0:
        # Nothing is logged of the first steps: they are taken as a warm-up, unless the log begins there.
        before = pieces[0].start_rate
        logged_there = bool(steps[0] <= lead)
        segments.append(
            Segment(
                "constant" if logged_there else "linear",
                lead,
                before if logged_there else 0.0,
                before,
            )
        )
    for piece in pieces:
        start, end = (
            _rounded(rate, float(rates.max())) for rate in (piece.start_rate, piece.end_rate)
        )
        segments.append(Segment(piece.shape, piece.end - piece.start, start, end))
    made = Schedule(tuple(segments))
    inside = (steps > 0) & (steps <= made.steps)
    fitted = made.learning_rates()[steps[inside] - 1]
    fine = np.abs(fitted - rates[inside]) <= 2.0 * TOLERANCE * float(rates.max())
    return segments if fine.all() and made.steps >= total else None


def _rounded(rate: float, peak: float) -> float:
    """Return a rate as somebody would have written it, where that is within the tolerance."""
    short = float(f"{rate:.6g}") if rate > TOLERANCE * peak else 0.0
    return short if abs(short - rate) <= TOLERANCE * peak else rate


def _pieces(steps: Ints, rates: Floats, total: int, tolerance: float) -> list[_Piece] | None:
    pieces: list[_Piece] = []
    first = 0
    while first < steps.size:
        before = pieces[-1] if pieces else None
        candidates = [
            piece
            for start in _starts(steps, first, before)
            for piece in _candidates(steps, rates, first, start, before, total, tolerance)
        ]
        if not candidates or len(pieces) == MOST_PIECES:
            return None
        # Of equally long ones that which begins where the last one ends, else the simplest.
        best = max(candidates, key=lambda piece: (piece.last, _joins(before, piece, tolerance)))
        if before is not None:
            pieces[-1] = _ended(before, best.start)
        pieces.append(best)
        first = best.last
    if pieces[-1].end < total:
        pieces[-1] = _ended(pieces[-1], total)
    return pieces


def _joins(before: _Piece | None, piece: _Piece, tolerance: float) -> bool:
    if before is None or piece.start <= before.start:
        return False
    return abs(_ended(before, piece.start).end_rate - piece.start_rate) <= tolerance


def _ended(piece: _Piece, end: int) -> _Piece:
    """Return a piece of two free numbers drawn out, or cut, to another end."""
    if end == piece.end or piece.shape == "cosine":
        return piece
    reach = (end - piece.start) / (piece.end - piece.start)
    first, last = piece.start_rate, piece.end_rate
    if piece.shape == "exponential":
        rate = first * (last / first) ** reach
    elif piece.shape == "one_minus_sqrt":
        rate = first + (last - first) * np.sqrt(reach)
    else:
        rate = first + (last - first) * reach
    return _Piece(piece.shape, piece.first, piece.last, piece.start, end, first, float(rate))


def _starts(steps: Ints, first: int, before: _Piece | None) -> Iterator[int]:
    """Yield the steps after which a piece whose first point is `first` may begin."""
    if before is None:
        yield from range(min(int(steps[first]), MOST_BREAKS) + 1)
        return
    if before.shape == "cosine":
        yield before.end
        return
    low, high = int(steps[first - 1]), int(steps[first]) - 1
    yield from range(low, min(high, low + MOST_BREAKS) + 1)


def _candidates(
    steps: Ints,
    rates: Floats,
    first: int,
    start: int,
    before: _Piece | None,
    total: int,
    tolerance: float,
) -> Iterator[_Piece]:
    """Yield what each shape explains from a point on, if it begins after step `start`."""
    joined = _ended(before, start).end_rate if before is not None and start > before.start else None
    last = _longest(steps, rates, first, lambda at, stretch: np.ptp(stretch) <= tolerance)
    if last - first >= 2 or (joined is not None and abs(joined - rates[first]) <= tolerance):
        rate = float(rates[first])
        yield _Piece(
            "constant", first, last, start, max(int(steps[last - 1]), start + 1), rate, rate
        )
    for shape in ("linear", "exponential", "one_minus_sqrt"):
        if shape == "exponential" and not rates[first] > 0:
            continue
        piece = _longest_line(shape, steps, rates, first, start, joined, tolerance)
        if piece is not None:
            yield piece
    yield from _cosines(steps, rates, first, start, joined, total, tolerance)


def _longest(steps: Ints, rates: Floats, first: int, fits: object) -> int:
    """Return the end of the longest stretch from `first` that `fits`, by doubling and halving."""
    reach, size = first + 1, 2
    while True:
        last = min(first + size, steps.size)
        if not fits(steps[first:last], rates[first:last]):  # type: ignore[operator]
            low, high = reach, last
            break
        reach = last
        if last == steps.size:
            return last
        size *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if fits(steps[first:middle], rates[first:middle]):  # type: ignore[operator]
            low = middle
        else:
            high = middle
    return low


def _longest_line(
    shape: str,
    steps: Ints,
    rates: Floats,
    first: int,
    start: int,
    joined: float | None,
    tolerance: float,
) -> _Piece | None:
    def line(at: Ints, stretch: Floats) -> tuple[float, float] | None:
        places = (at - start).astype(np.float64)
        if shape == "one_minus_sqrt":
            places = np.sqrt(places)
        values = stretch
        if joined is not None:
            places, values = np.r_[0.0, places], np.r_[joined, stretch]
        if shape == "exponential":
            if not values.min() > 0:
                return None
            values = np.log(values)
        if values.size < 2:
            return float(values[0]), 0.0
        centre = places.mean()
        spread = ((places - centre) ** 2).sum()
        slope = float(((places - centre) * values).sum() / spread) if spread else 0.0
        level = float(values.mean() - slope * centre)
        fitted, seen = level + slope * places, values
        if shape == "exponential":
            fitted, seen = np.exp(fitted), np.exp(seen)
        return (level, slope) if np.abs(fitted - seen).max() <= tolerance else None

    last = _longest(steps, rates, first, lambda at, stretch: line(at, stretch) is not None)
    if last - first + (joined is not None) < 2 + SPARE_POINTS:
        return None
    line_fit = line(steps[first:last], rates[first:last])
    if line_fit is None:
        return None
    level, slope = line_fit
    end = int(steps[last - 1])
    if end <= start:
        return None
    reach = np.sqrt(end - start) if shape == "one_minus_sqrt" else float(end - start)
    ends = np.array([level, level + slope * reach])
    if shape == "exponential":
        ends = np.exp(ends)
    if ends.min() < -tolerance or abs(ends[1] - ends[0]) <= tolerance:
        return None
    return _Piece(shape, first, last, start, end, *np.maximum(ends, 0.0).tolist())


def _cosines(
    steps: Ints,
    rates: Floats,
    first: int,
    start: int,
    joined: float | None,
    total: int,
    tolerance: float,
) -> Iterator[_Piece]:
    """Yield half-cosines that end where the run does, where a constant rate begins, or at the turn."""
    for low, high in _cosine_ends(steps, rates, first, total):
        for end in range(max(low, start + 1), min(high, low + MOST_BREAKS) + 1):
            last = int(np.searchsorted(steps, end, side="right"))
            if last - first + (joined is not None) < 2 + SPARE_POINTS:
                continue
            at, stretch = steps[first:last], rates[first:last]
            course = 0.5 * (1.0 - np.cos(np.pi * (at - start) / (end - start)))
            if joined is not None:
                course, stretch = np.r_[0.0, course], np.r_[joined, stretch]
            design = np.stack([1.0 - course, course], axis=1)
            ends, *_ = np.linalg.lstsq(design, stretch, rcond=None)
            if np.abs(design @ ends - stretch).max() > tolerance or ends.min() < -tolerance:
                continue
            if abs(ends[1] - ends[0]) <= tolerance:
                continue
            yield _Piece("cosine", first, last, start, end, *np.maximum(ends, 0.0).tolist())
            return


def _cosine_ends(steps: Ints, rates: Floats, first: int, total: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of steps that a half-cosine from `first` on may end in, the likeliest first."""
    yield total, total
    turn = int(np.argmax(rates[first:])) + first
    if turn > first:
        yield int(steps[turn - 1]), int(steps[min(turn + 1, steps.size - 1)])
    tail = rates.size - 1
    while tail > first and rates[tail - 1] == rates[-1]:
        tail -= 1
    if first < tail < rates.size - 1:
        yield int(steps[tail - 1]), int(steps[tail])
    if steps[-1] != total:
        yield int(steps[-1]), int(steps[-1])


def _open_breaks(segments: Sequence[Segment], steps: Ints) -> Iterator[str]:
    """Yield where a learning rate jumps between two logged steps: any step between may be the one."""
    end = 0
    for before, after in pairwise(segments):
        end += before.steps
        place = int(np.searchsorted(steps, end, side="right"))
        if (
            before.end != after.start
            and 0 < place < steps.size
            and steps[place] - steps[place - 1] > 1
        ):
            jump = f"from {before.end:g} to {after.start:g}"
            yield (
                f"the jump {jump} is taken to be after step {end}; the log leaves open where between "
                f"steps {steps[place - 1]} and {steps[place]} it is"
            )


def _words(segments: Sequence[Segment | LoggedSegment]) -> str:
    parts = []
    for segment in segments:
        if isinstance(segment, Segment):
            way = (
                f"{segment.start:g}"
                if segment.shape == "constant"
                else f"{segment.start:g} to {segment.end:g}"
            )
            parts.append(f"{segment.shape} {way} over {segment.steps} steps")
    return ", then ".join(parts)
