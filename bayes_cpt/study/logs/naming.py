"""What series of logs are called: counts of steps and other things, validation losses, learning rates."""

import re
from collections.abc import Sequence
from typing import Any

from bayes_cpt.toml_files import packaged

_TABLES = packaged("study.logs", "names.toml")
# What a log may count, and whole names of that.
RANKS: tuple[str, ...] = tuple(_TABLES["counts"])
COUNTS: dict[str, str] = {name: rank for rank in RANKS for name in _TABLES["counts"][rank]}
LABELS: list[dict[str, Any]] = _TABLES["labels"]
SCALES: dict[str, float] = _TABLES["scales"]
NAMES: dict[str, list[str]] = _TABLES["names"]
WORDS: dict[str, set[str]] = {kind: set(own) for kind, own in _TABLES["words"].items()}
PATTERNS: dict[str, re.Pattern[str]] = {
    kind: re.compile(own, re.IGNORECASE) for kind, own in _TABLES["patterns"].items()
}
# Between the words of a name.
BETWEEN = r"[\s/_.\-:()\[\]#,]+"
UNITS = ("nats", "bits", "perplexity")
LOSS_WORDS = set[str]().union(*(WORDS[unit] for unit in UNITS))
FILLER = WORDS["held_out"] | WORDS["filler"]
# What the loss of training is called where it stands in for a validation set.
TRAIN = "train"
OF_A_BYTE = "per byte, character or word"
# A counter by which logs of fairseq are known.
FAIRSEQ = "num_updates"


def words(series: str) -> list[str]:
    """Return the words of a name.

    Examples
    --------
    >>> words("eval/c4_en-validation/CrossEntropyLoss"), words("Val loss (bits/token)")
    (['eval', 'c4', 'en', 'validation', 'crossentropyloss'], ['val', 'loss', 'bits', 'token'])
    """
    return [word for word in re.split(BETWEEN, joined(series).lower()) if word]


def joined(series: str) -> str:
    """Return a name whose words of two parts, as in val_cross_entropy, are one."""
    return PATTERNS["two_parts"].sub(r"\1\2", series)


def count_of(series: str) -> str | None:
    """Return which of `RANKS` a series counts, None where its name does not say that it counts.

    Examples
    --------
    >>> count_of("train/global_step"), count_of("iter_num"), count_of("_step"), count_of("eval_steps")
    ('own', 'steps', 'calls', None)
    >>> count_of("Tokens (B)"), count_of("Step (optimizer)"), count_of("Step (%)")
    ('tokens', 'own', None)
    """
    name, _ = scaled(series)
    others = {*words(name)} - WORDS["trainer"]
    if name in COUNTS or not others & WORDS["step"]:
        return COUNTS.get(name)
    others -= WORDS["step"] if words(name)[-1] in WORDS["step"] else WORDS["step"] | WORDS["number"]
    return ("own" if others else "steps") if others <= WORDS["own"] else None


def scaled(series: str) -> tuple[str, float]:
    """Return a name without the unit in brackets that it counts in, in lower case, and that unit.

    Examples
    --------
    >>> scaled("Tokens (B)"), scaled("Step (optimizer)")
    (('tokens', 1000000000.0), ('step (optimizer)', 1.0))
    """
    name = series.strip().lower()
    found = re.fullmatch(r"(.+?)\s*[(\[]\s*(\w+)\s*[)\]]", name)
    return (found[1], SCALES[found[2]]) if found and found[2] in SCALES else (name, 1.0)


def is_loss(series: str) -> bool:
    """Whether a name is that of a loss, a perplexity or bits, of whatever data."""
    return not LOSS_WORDS.isdisjoint(words(series))


def is_training_loss(series: str) -> bool:
    """Whether a name says no more than that it is the loss, or that of training.

    Examples
    --------
    >>> [is_training_loss(name) for name in ("loss", "loss/out", "train_loss_step", "eval_loss")]
    [True, True, True, False]
    """
    # Charts of W&B are exported with the run before the series.
    name = series.rpartition(" - ")[2]
    plain = WORDS["training"] | WORDS["nats"] | {"lm", "step", "out"}
    return is_loss(name) and plain.issuperset(words(name))


def measured_unit(series: str) -> str | None:
    """Return the unit that a validation loss's name says it is in, None where it is no loss.

    Examples
    --------
    >>> measured_unit("held_out_cross_entropy"), measured_unit("val/ppl"), measured_unit("train/loss")
    ('nats', 'perplexity', None)
    >>> measured_unit("eval/c4/bpb"), measured_unit("val_log_ppl")
    ('per byte, character or word', 'nats')
    """
    parts = words(series)
    # Composer calls the losses of its evaluations metrics/SET/LanguageCrossEntropy.
    composer = parts[:1] == ["metrics"] and WORDS["training"].isdisjoint(parts)
    held_out = composer or not WORDS["held_out"].isdisjoint(parts)
    if not held_out or PATTERNS["no_set"].search(joined(series)):
        return None
    if PATTERNS["per_byte"].search(series) and is_loss(series):
        return OF_A_BYTE
    last = {*parts} - FILLER
    return next((unit for unit in ("perplexity", "bits", "nats") if WORDS[unit] & last), None)


def domain_of(series: str) -> str:
    """Return the validation set that a loss's name says: what is left of it, or ``val``.

    Examples
    --------
    >>> domain_of("eval_code_loss"), domain_of("val_loss"), domain_of("eval/c4_en-validation/ppl")
    ('code', 'val', 'c4_en')
    """
    first, *others = words(series)
    left = FILLER | LOSS_WORDS | {""}
    if not WORDS["held_out"].isdisjoint(others):
        # The trainer's own prefix, as in train/val_loss.
        left = left | WORDS["training"] & {first}
    parts = re.split(BETWEEN, joined(series))
    name = "_".join(part for part in parts if part.lower() not in left) or "val"
    return f"val{name}" if name.isdigit() else name


def rate_series(names: Sequence[str]) -> list[str]:
    """Return which of some series are learning rates by their names, the likeliest first."""
    by_case = {name.lower(): name for name in reversed(names)}
    known = [by_case[name] for name in NAMES["rates"] if name in by_case]
    rate, no_rate = PATTERNS["rate"], PATTERNS["no_rate"]
    called = (name for name in names if rate.search(name) and not no_rate.search(name))
    return list(dict.fromkeys((*known, *called)))
