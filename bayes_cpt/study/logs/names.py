"""What series of logs are called: validation losses, learning rates, and counts that are no steps."""

import re

LOSS_WORDS = ("loss", "ce", "nll", "crossentropyloss", "crossentropy", "cross_entropy", "xent")
PERPLEXITY_WORDS = ("perplexity", "ppl")
BIT_WORDS = ("bits", "bpt", "bpb", "bpc")
# A word that says that a loss was measured on held-out data; the rest of the name is the data's.
HELD_OUT = ("eval", "val", "valid", "validation", "test", "heldout", "dev", "evaluation")
FILLER = (*HELD_OUT, "mean", "avg", "lm", "metrics", "epoch", "on")
RATE_NAMES = (
    "learning_rate", "lr", "train/learning_rate", "train/lr", "learning-rate", "learning rate",
    "optim/learning_rate_group0", "optim/lr", "lr-adamw", "lr-adamw/pg1", "lr/group_0", "optimizer/lr",
    "lernrate", "train/optimizer/lr", "lr-adam", "train/learning-rate", "schedule/lr",
)  # fmt: skip
UNITS = ("nats", "bits", "perplexity")


def words(series: str) -> list[str]:
    """Return the words of a name.

    Parameters
    ----------
    series : str
        As a trainer calls what it logs.

    Examples
    --------
    >>> words("eval/c4_en-validation/CrossEntropyLoss")
    ['eval', 'c4', 'en', 'validation', 'crossentropyloss']
    """
    return [word for word in re.split(r"[\s/_.\-:]+", series.lower()) if word]


def measured_unit(series: str) -> str | None:
    """Return the unit that a validation loss's name says it is in, None where it is no loss.

    Parameters
    ----------
    series : str
        As a trainer calls what it logs.

    Examples
    --------
    >>> measured_unit("eval_code_loss"), measured_unit("val/ppl"), measured_unit("train/loss")
    ('nats', 'perplexity', None)
    """
    parts = words(series)
    if not any(word in HELD_OUT for word in parts):
        return None
    last = [word for word in parts if word not in FILLER]
    if any(word in PERPLEXITY_WORDS for word in last):
        return "perplexity"
    if any(word in BIT_WORDS for word in last):
        return "bits"
    return "nats" if any(word in LOSS_WORDS for word in last) else None


def domain_of(series: str) -> str:
    """Return the validation set that a loss's name says: what is left of it, or ``val``.

    Parameters
    ----------
    series : str
        As a trainer calls a validation loss.

    Examples
    --------
    >>> domain_of("eval_code_loss"), domain_of("val_loss"), domain_of("eval/c4_en-validation/ppl")
    ('code', 'val', 'c4_en')
    """
    kept = []
    for part in re.split(r"[/\s]+", series):
        left = [
            word
            for word in re.split(r"[_.\-:]+", part)
            if word.lower() not in (*FILLER, *LOSS_WORDS, *PERPLEXITY_WORDS, *BIT_WORDS, "")
        ]
        if left:
            kept.append("_".join(left))
    return "_".join(kept) or "val"


def rate_series(names: list[str]) -> str | None:
    """Return which of some series is the learning rate, None where none is called so.

    Parameters
    ----------
    names : list of str
        As a trainer calls what it logs.
    """
    by_case = {name.lower(): name for name in reversed(names)}
    return next((by_case[known] for known in RATE_NAMES if known in by_case), None)
