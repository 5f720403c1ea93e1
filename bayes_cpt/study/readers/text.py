"""Text logs of training programs, line by line: Megatron-LM, NeMo, nanoGPT, LitGPT, OLMo and torchtitan."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayes_cpt.study.logs.raw import SEQUENCES_PER_STEP, TOTAL_STEPS, RawLog, as_number, fail
from bayes_cpt.study.readers.columns import decoded

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"


def _n(name: str) -> str:
    return f"(?P<{name}>{NUMBER})"


@dataclass(frozen=True)
class Line:
    """A sort of line.

    Parameters
    ----------
    pattern : Pattern
        Its groups: ``step``, without which a line is about the last step named; ``micro``, a count of
        batches that a later line may give in place of the step; ``total`` and ``sequences``, facts;
        ``set``, a validation set; ``name`` and ``value``, a series and its number; others are series.
    series : mapping of str to str
        What a group's number is called.
    """

    pattern: re.Pattern[str]
    series: Mapping[str, str] = field(default_factory=dict)


def _line(pattern: str, **series: str) -> Line:
    return Line(re.compile(pattern), series)


# Sources: Megatron-LM training.py (training_log, evaluate_and_print_results); NeMo 2 lightning progress
# printer; nanoGPT train.py; litgpt/pretrain.py; OLMo train.py; torchtitan metrics.py.
FORMATS: dict[str, tuple[Line, ...]] = {
    "megatron": (
        _line(
            rf"\biteration\s+{_n('step')}\s*/\s*{_n('total')}\s*\|\s*consumed samples"
            rf"(?:.*?learning rate:\s*{_n('rate')})?"
            rf"(?:.*?global batch size:\s*{_n('sequences')})?(?:.*?lm loss:\s*{_n('train')})?",
            rate="learning_rate",
            train="train_loss",
        ),
        _line(
            rf"validation loss at iteration {_n('step')}(?: on (?P<set>[^|]+?))?\s*\|"
            rf".*?lm loss value:\s*{_n('loss')}",
            loss="val_loss",
        ),
    ),
    "nemo": (
        _line(
            rf"iteration \d+(?:/\d+)? .*?\blr: {_n('rate')}.*?\bglobal_step: {_n('step')}"
            rf"(?:.*?\breduced_train_loss: {_n('train')})?(?:.*?\bval_loss: {_n('loss')})?",
            rate="learning_rate",
            train="train_loss",
            loss="val_loss",
        ),
    ),
    "nanogpt": (
        _line(
            rf"^step {_n('step')}: train loss {_n('train')}, val loss {_n('loss')}",
            train="train_loss",
            loss="val_loss",
        ),
        _line(
            rf"^iter {_n('step')}: loss {_n('train')}(?:.*?\blr {_n('rate')})?",
            train="train_loss",
            rate="learning_rate",
        ),
    ),
    "litgpt": (
        _line(
            rf"iter {_n('micro')} step {_n('step')} \|(?:.*?loss train: {_n('train')})?",
            train="train_loss",
        ),
        _line(rf"iter {_n('micro')}: val loss {_n('loss')}", loss="val_loss"),
    ),
    "olmo": (
        _line(rf"\[step={_n('step')}(?:/{_n('total')})?"),
        _line(rf"(?P<name>(?:train|optim|eval)/[^=]+?)\s*=\s*{_n('value')}\s*$"),
    ),
    "torchtitan": (
        _line(rf"\bvalidate step:\s*{_n('step')}\s+loss:\s*{_n('loss')}", loss="val_loss"),
        _line(
            rf"\bstep:\s*{_n('step')}\s+loss:\s*{_n('train')}(?:.*?\blr:\s*{_n('rate')})?",
            train="train_loss",
            rate="learning_rate",
        ),
    ),
}
# NeMo counts from 0: what it calls global step 9 is after ten steps.
FIRST_STEP_0 = ("nemo",)


def read_text(path: Path, kind: str) -> RawLog:
    """Read the text log of a training program.

    Parameters
    ----------
    path : Path
    kind : str
        One of `FORMATS`.

    Raises
    ------
    LogError
        If it is no text, or no line is of that program.
    """
    log = RawLog(str(path))
    lines = decoded(path).splitlines()
    for place, values, line in _matches(lines, FORMATS[kind], path):
        _add(log, place, values, line)
    if not log.entries:
        raise fail(
            str(path),
            f"none of its {len(lines)} lines is one that {kind} writes",
            f"name its kind: {', '.join(FORMATS)}; or make a table of it, step,general,target,lr",
        )
    if kind in FIRST_STEP_0:
        log.entries = [
            type(entry)(entry.step + 1, entry.series, entry.value, entry.place)
            for entry in log.entries
        ]
        log.notes.append(f"{path}: {kind} counts steps from 0; one was added to each")
    return log


def _matches(
    lines: Iterable[str], formats: tuple[Line, ...], path: Path
) -> Iterator[tuple[str, dict[str, str], Line]]:
    """Yield what lines say: a step missing is the last one named, or that of the same micro-batch."""
    last: str | None = None
    step_of: dict[str, str] = {}
    for number, text in enumerate(lines, start=1):
        text = COLOUR.sub("", text).rstrip()
        for line in formats:
            match = line.pattern.search(text)
            if match is None:
                continue
            values = {name: value for name, value in match.groupdict().items() if value is not None}
            micro = values.pop("micro", None)
            if "step" not in values:
                known = step_of.get(micro, last) if micro else last
                if known is None:
                    break
                values["step"] = known
            elif micro:
                # Only the last is needed: an evaluation follows its step.
                step_of = {micro: values["step"]}
            last = values["step"]
            yield f"{path}, line {number}", values, line
            break


def _add(log: RawLog, place: str, values: dict[str, str], line: Line) -> None:
    step = float(values["step"])
    for group, fact in (("total", TOTAL_STEPS), ("sequences", SEQUENCES_PER_STEP)):
        if group in values:
            log.facts[fact] = float(values[group])
    if "name" in values:
        log.add(step, values["name"], float(values["value"]), place)
    for group, series in line.series.items():
        value = as_number(values.get(group))
        if value is None:
            continue
        if group == "loss" and (name := values.get("set", "").strip(" '\"")):
            series = f"{name}_{series}"
        log.add(step, series, value, place)
