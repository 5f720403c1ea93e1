"""Text logs by patterns: those of known programs (formats.toml), and those that a user gives.

A pattern of a user is a piece of a line: ``step {step} ... val loss {val_loss} ... lr {lr}``. Words stand
for themselves, ``{name}`` for a number, ``...`` for anything between.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from bayes_cpt.errors import StudyError
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.logs import naming, raw
from bayes_cpt.study.logs.raw import RawLog, Row, as_number, fail, numbers
from bayes_cpt.study.tables import cut_off
from bayes_cpt.toml_files import packaged, read_toml

NUMBER = (
    # Whole where it has commas or lines below: what they part is settled with all other numbers.
    r"[-+]?(?:\d+(?:[,_]\d+)+(?:\.\d+)?\b|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+|[kKMBG]\b)?"
    r"|(?i:nan|inf(?:inity)?)\b)"
)
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
PAIR = re.compile(rf"([\w./()-]+)\s*[:=]\s*({NUMBER})")
# As programs end one: what is cut within a number ends otherwise.
WHOLE_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# A validation loss in a line in lower case, whatever program wrote it.
TELLS_LOSS = re.compile(rf"\b(?:val|eval|test)\w*[ _/-]loss\b[^,;|]*?[ :=]\s*{NUMBER}")
# Any loss in such a line.
A_LOSS = re.compile(rf"[a-z]\w* loss[ :=]+{NUMBER}")
STEP, NEXT_STEP, LAST_STEP = "step", "next_step", "last_step"
TOTAL, MICRO = "total", "micro"
LAP, LAPS = "lap", "laps"
FINAL = "final evaluations"
BY_USER = "the pattern"
# What to do about a log of no known program.
BY_PATTERN = (
    "say what its lines look like, --pattern 'step {step} ... val loss {val_loss} ... lr {lr}', or make a "
    "table of it with the columns step,general,target,lr and name that"
)


def _compiled(expression: Any) -> re.Pattern[str]:
    """Return a regular expression in which {name} stands for a number."""
    if not isinstance(expression, str):
        raise ValueError(f"{expression!r} is not a pattern")
    try:
        # Programs write numbers to a width.
        padded = re.sub(r" (?=\{[A-Za-z_])", r"\\s+", expression)
        return re.compile(PLACEHOLDER.sub(lambda name: f"(?P<{name[1]}>{NUMBER})", padded))
    except re.error as error:
        raise ValueError(f"{expression!r} is not a pattern: {error}") from None


type Expression = Annotated[re.Pattern[str], BeforeValidator(_compiled)]
FIX = "correct it as docs/from-logs.md shows; a name may stand in a line only once"


class Format(Strict):
    """Lines of a program's log; the keys are those of formats.toml."""

    lines: tuple[Expression, ...]
    endings: tuple[str, ...] = ()
    program: str = BY_USER
    from_zero: bool | None = None
    carries: bool = False
    before: bool = False
    final: Expression | None = None
    left_out: dict[Expression, str] = Field(default_factory=dict)
    instead: str = ""
    note: str = ""
    no_rates: str = ""

    @classmethod
    def from_patterns(cls, patterns: Sequence[str]) -> Self:
        """Build a format from what a user gave: pieces of lines, or one TOML file of expressions."""
        if len(patterns) == 1 and patterns[0].endswith(".toml"):
            return checked(cls, read_toml(Path(patterns[0])), patterns[0], FIX)
        lines = []
        for pattern in patterns:
            if not PLACEHOLDER.search(pattern):
                fix = "write it as in --pattern 'step {step} ... val loss {val_loss}'"
                raise fail(f"--pattern {pattern!r}", "it has no {name} for a number", fix)
            pieces = [re.escape(piece.strip()) for piece in re.split(r"\.\.\.|…", pattern)]
            text = ".*?".join(re.sub(r"(?:\\ )+", r"\\s+", piece) for piece in pieces)
            lines.append(text.replace(r"\{", r"\s*{").replace(r"\}", "}"))
        if not any(f"{{{name}}}" in line for line in lines for name in (STEP, NEXT_STEP)):
            raise fail("--pattern", "none has the {step}", "give one more, --pattern 'step {step}'")
        return checked(cls, {"lines": lines}, f"--pattern {', '.join(patterns)}", FIX)

    def counts(self, line: str) -> bool:
        """Whether a line is one of this program's with something to tell."""
        return any((own.groups or self.instead) and own.search(line) for own in self.lines)


@cache
def formats() -> dict[str, Format]:
    """Return the known formats by the names of their kinds."""
    found = packaged("study.logs", "formats.toml").items()
    return {kind: checked(Format, {"from_zero": False, **own}, kind, FIX) for kind, own in found}


def text_kinds() -> tuple[str, ...]:
    """Return the kinds of text logs that can be read."""
    return tuple(kind for kind, form in formats().items() if not form.instead)


def read_text(path: Path, form: Format, kind: str = BY_USER) -> RawLog:
    """Read a text log line by line."""
    *lines, last = re.split(r"\r\n|[\r\n]", raw.printed_text(path, stripped=kind != BY_USER))
    if form.instead:
        raise fail(str(path), f"this is {form.program}", form.instead)
    keys = form.model_dump(include={"from_zero", "carries", "no_rates"})
    log = RawLog(str(path), counter=STEP, **keys)
    if _unfinished(last, lines):
        log.notes.append(f"{path}, line {len(lines) + 1}: {raw.CUT_OFF}")
    elif last.strip():
        lines.append(last)
    _read_lines(log, lines, form)
    if not log.rows:
        problem = f"none of its {len(lines)} lines is one that {kind} writes"
        raise unknown_format(path, lines[:2000], problem, kind)
    if form.note:
        log.notes.append(f"{path}: {form.note}")
    return log


def _unfinished(last: str, lines: Sequence[str]) -> bool:
    """Whether a last line, which has no line break, ends before lines that begin alike do."""
    if not last.strip("\0 "):
        return "\0" in last
    begin = re.split(r"\d", last, maxsplit=1)[0]
    like = [line for line in lines if re.split(r"\d", line, maxsplit=1)[0] == begin]
    shapes = {WHOLE_NUMBER.sub("0", line.rstrip()) for line in like}
    cut = WHOLE_NUMBER.sub("0", last.rstrip()) not in shapes or cut_off([*like, last])
    return bool(like) and cut


def _read_lines(log: RawLog, lines: Sequence[str], form: Format) -> None:
    """Add what lines say to a log; a step missing is the last one, or that of the same micro-batch.

    Before the first step of a run it is the base that was evaluated.
    """
    aside: dict[str, list[int]] = {}
    early: list[Row] = []
    file = f"{log.source}, line"
    last: Any = None
    total: Any = None
    step_of: dict[str, Any] = {}
    for number, text in enumerate(lines, start=1):
        text = text.rstrip()
        out = next((what for pattern, what in form.left_out.items() if pattern.search(text)), None)
        if out is not None:
            aside.setdefault(out, []).append(number)
            continue
        match = next((found for line in form.lines if (found := line.search(text))), None)
        cells: dict[str, Any] = match.groupdict() if match else {}
        cells = {name: own for name, own in cells.items() if own is not None}
        cells |= dict(PAIR.findall(cells.pop("pairs", "")))
        if "name" in cells:
            cells[cells.pop("name")] = cells.pop("value")
        if measured := cells.pop("set", "").strip(" '\""):
            trained = measured in naming.WORDS["training"]
            for name in filter(naming.is_loss, list(cells)):
                own = name.removeprefix("val_")
                cells[f"{measured}_{own}" if trained else f"{measured}_val_{own}"] = cells.pop(name)
        lower = text.lower()
        measured = any(map(naming.measured_unit, cells))
        told = len((A_LOSS if measured else TELLS_LOSS).findall(lower)) if "loss" in lower else 0
        if told > sum(naming.is_loss(name) if measured else "val" in name for name in cells):
            what = f"lines tell a validation loss not as {form.program} does (--pattern can); those losses"
            aside.setdefault(what, []).append(number)
        if match is None:
            continue
        if {LAP, TOTAL, STEP} <= cells.keys():
            lap, of_lap, step = (as_number(cells.pop(name)) or 0.0 for name in (LAP, TOTAL, STEP))
            cells[STEP] = (lap - 1.0) * of_lap + step
            if laps := as_number(cells.pop(LAPS, None)):
                cells[TOTAL] = laps * of_lap
        if LAST_STEP in cells:
            cells[TOTAL] = (as_number(cells.pop(LAST_STEP)) or 0.0) + 1.0
        total = cells.pop(TOTAL, total)
        micro = cells.pop(MICRO, None)
        if NEXT_STEP in cells:
            cells[STEP] = (as_number(cells.pop(NEXT_STEP)) or 1.0) - 1.0
        elif STEP not in cells:
            cells[STEP] = _at_micro(micro, step_of, last) if micro else last
        elif micro:
            # Only the last is needed: an evaluation follows its step.
            step_of = {micro: cells[STEP]}
        if cells[STEP] is None:
            if len(cells) > 1:
                early.append(Row(f"{file} {number}", cells))
            continue
        now, then = (as_number(own) or 0.0 for own in (cells[STEP], last))
        if form.before and last is not None and now > then:
            names = filter(naming.measured_unit, [*cells])
            if before := {name: cells.pop(name) for name in names}:
                log.rows.append(Row(f"{file} {number}", {**before, STEP: last}))
        if form.final and form.final.search(text) and _measured(log.rows, cells):
            aside.setdefault(FINAL, []).append(number)
            continue
        last = cells[STEP]
        log.rows.append(Row(f"{file} {number}", cells))
    begun = 0 if form.from_zero else 1
    if log.rows and as_number(log.rows[0].cells[STEP]) == begun:
        measured = [row for row in early if any(map(naming.measured_unit, row.cells))]
        log.rows[:0] = [row._replace(cells={**row.cells, STEP: begun - 1}) for row in measured]
        early = [row for row in early if row not in measured]
    if early:
        said = f"{len(early)} lines before the first one with a step were left out"
        log.notes.append(f"{early[0].place}: {said}")
    if steps := raw.as_count(numbers([total], whole=True)[0][0]):
        log.stated["steps"] = steps
    log.notes += [f"{file} {at[0]}: {len(at)} {what} were left out" for what, at in aside.items()]


def _measured(rows: Sequence[Row], cells: Mapping[str, Any]) -> bool:
    """Whether rows have evaluations of the step of some cells, or of sets of other names."""
    for row in rows:
        series = set(filter(naming.measured_unit, row.cells))
        if series - cells.keys() or (series and row.cells[STEP] == cells[STEP]):
            return True
    return False


def _at_micro(micro: str, step_of: Mapping[str, Any], last: Any) -> Any:
    """Return the step of a micro-batch: as printed, else by how many a step had at the last one printed."""
    if micro in step_of or not step_of:
        return step_of.get(micro, last)
    ((printed, step),) = step_of.items()
    steps = (as_number(micro) or 0.0) * (as_number(step) or 0.0) / (as_number(printed) or 1.0)
    return steps if steps.is_integer() else last


def unknown_format(
    path: Path, lines: Sequence[str], problem: str = "", tried: str = ""
) -> StudyError:
    """Return the error that a text cannot be read, with the known formats whose words it has most of."""
    words = set(re.findall(r"[a-z]{2,}", " ".join(lines).lower()))

    def share(form: Format) -> float:
        text = " ".join(line.pattern for line in form.lines)
        plain = re.sub(r"\(\?P<\w+>|\\[a-zA-Z]", " ", text).lower()
        own = set(re.findall(r"[a-z]{3,}", plain))
        return len(own & words) / max(len(own), 1)

    others = [kind for kind in text_kinds() if kind != tried]
    nearest = sorted(others, key=lambda kind: -share(formats()[kind]))[:3]
    fix = f"name its kind ({', '.join(nearest)} are nearest), or {BY_PATTERN}"
    return fail(str(path), problem or "it is a log of no known format", fix)
