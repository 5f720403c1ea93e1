"""What series of logs are called: counts of steps and other things, validation losses, learning rates."""

import re
from collections.abc import Sequence

# Words of a count of steps, those that make it the trainer's own, and those that say nothing.
STEP_WORDS = {
    "step", "steps", "schritt", "iteration", "iterations", "iter", "iters", "update", "updates",
}  # fmt: skip
OWN_WORDS = {"global", "current", "optimizer", "optimiser", "optim", "opt", "gradient", "grad"}
TRAINER = {"train", "training", "trainer"}
TOKENS = (
    "tokens", "num_tokens", "total_tokens", "tokens_seen", "consumed_tokens", "num_input_tokens_seen",
    "train/num_input_tokens_seen", "throughput/total_tokens", "throughput/total tokens",
    "trained_tokens", "time/token", "n_tokens_seen",
)  # fmt: skip
SAMPLES = ("samples", "consumed_samples", "consumed samples", "num_samples", "samples_seen")
# Other names of counts; W&B's _step is one of calls of its log function.
COUNTS = {
    "num_updates": "own",
    "time/batch": "steps",
    "_step": "calls",
    # Ray Tune's counts reports.
    "training_iteration": "epochs",
    **dict.fromkeys(TOKENS, "tokens"),
    **dict.fromkeys(SAMPLES, "samples"),
    **dict.fromkeys(("epoch", "epochs", "train/epoch", "epoche"), "epochs"),
}
# What a log may count, the likeliest column for its axis first.
RANKS = ("own", "steps", "calls", "tokens", "samples", "epochs")
LENGTHS = ("total_steps", "max_steps", "total_iters")

LOSS_WORDS = (
    "loss", "ce", "nll", "crossentropyloss", "crossentropy", "cross_entropy", "xent",
    "languagecrossentropy",
)  # fmt: skip
PERPLEXITY_WORDS = ("perplexity", "ppl", "languageperplexity")
BIT_WORDS = ("bits", "bpt", "bpb", "bpc")
# Of a byte, a character or a word, which a token is not.
PER_BYTE = re.compile(
    r"bpb|bpc|(?:^|[/_. -])(?:per[_ -](?:byte|char|word)|(?:byte|char|word)[_ -](?:ppl|perplexity))",
    re.IGNORECASE,
)
# A word that says that a loss was measured on held-out data; the rest of the name is the data's.
HELD_OUT = ("eval", "val", "valid", "validation", "test", "heldout", "dev", "evaluation")
FILLER = (
    *HELD_OUT, "mean", "avg", "lm", "metric", "metrics", "epoch", "on", "per", "token", "byte", "char",
    "character", "word",
)  # fmt: skip
TRAINING = ("train", "training", "reduced")
# What the loss of training is called where it stands in for a validation set.
TRAIN = "train"
# No loss of a set: its numbers against another axis (Megatron-LM), smoothed, the best so far, of one batch,
# their spread or sum, or a part of the loss.
NO_SET = re.compile(
    r"\bvs (?:samples|tokens|time|consumed)|__(?:min|max)$|_step$|(?:^|[/_. (-])(?:ema|smooth(?:ed)?|"
    r"moving|rolling|running|delta|gap|change|ratio|best|lowest|min|max|std|stderr|sem|var|sum|total|aux|"
    r"auxiliary|z|kl|lb|mtp|lower|upper|layer|router|balanc(?:e|ing))(?:$|[/_. )\d-])",
    re.IGNORECASE,
)
RATE_NAMES = (
    "learning_rate", "lr", "train/learning_rate", "train/lr", "learning-rate", "learning rate",
    "lernrate", "optimizer/lr", "train/optimizer/lr", "train/learning-rate", "schedule/lr",
)  # fmt: skip
RATE = re.compile(r"(?:^|[/_\s-])(?:lr|learning[-_ ]?rate)(?:$|[/_\s(-])", re.IGNORECASE)
# A learning rate in other units, as verl's lr(1e-3).
TIMES = re.compile(r"\((1e-?\d+)\)$")
NO_RATE = re.compile(
    r"decay|embed|config|scale|vs |final|initial|mult|ratio|factor|relative|peak|"
    r"(?:base|max|min|init)[_-]?l",
    re.IGNORECASE,
)
UNITS = ("nats", "bits", "perplexity")
OF_A_BYTE = "per byte, character or word"
# A counter by which logs of fairseq are known.
FAIRSEQ = "num_updates"


def words(series: str) -> list[str]:
    """Return the words of a name.

    Examples
    --------
    >>> words("eval/c4_en-validation/CrossEntropyLoss")
    ['eval', 'c4', 'en', 'validation', 'crossentropyloss']
    """
    return [word for word in re.split(r"[\s/_.\-:]+", series.lower()) if word]


def count_of(series: str) -> str | None:
    """Return which of `RANKS` a series counts, None where its name does not say that it counts.

    Examples
    --------
    >>> count_of("train/global_step"), count_of("iter_num"), count_of("_step"), count_of("eval_steps")
    ('own', 'steps', 'calls', None)
    """
    name = series.strip().lower()
    others = {*words(name)} - TRAINER
    if name in COUNTS or not others & STEP_WORDS:
        return COUNTS.get(name)
    others -= STEP_WORDS | ({"num", "idx", "index"} if words(name)[-1] not in STEP_WORDS else set())
    return ("own" if others else "steps") if others <= OWN_WORDS else None


def is_loss(series: str) -> bool:
    """Whether a name is that of a loss, a perplexity or bits, of whatever data."""
    return any(word in (*LOSS_WORDS, *PERPLEXITY_WORDS, *BIT_WORDS) for word in words(series))


def is_training_loss(series: str) -> bool:
    """Whether a name says no more than that it is the loss, or that of training.

    Examples
    --------
    >>> [is_training_loss(name) for name in ("loss", "run1 - train/loss", "train_loss_step", "eval_loss")]
    [True, True, True, False]
    """
    # Charts of W&B are exported with the run before the series.
    name = series.rpartition(" - ")[2]
    return is_loss(name) and {*words(name)} <= {*TRAINING, *LOSS_WORDS, "lm", "step"}


def measured_unit(series: str) -> str | None:
    """Return the unit that a validation loss's name says it is in, None where it is no loss.

    Examples
    --------
    >>> measured_unit("eval_code_loss"), measured_unit("val/ppl"), measured_unit("train/loss")
    ('nats', 'perplexity', None)
    >>> measured_unit("eval/c4/bpb"), measured_unit("val/nll_per_char")
    ('per byte, character or word', 'per byte, character or word')
    """
    parts = words(series)
    held_out = any(word in HELD_OUT for word in parts)
    # Composer calls the losses of its evaluations metrics/SET/LanguageCrossEntropy.
    composer = parts[:1] == ["metrics"] and not any(word in TRAINING for word in parts)
    if not (held_out or composer) or NO_SET.search(series):
        return None
    last = [word for word in parts if word not in FILLER]
    if PER_BYTE.search(series) and is_loss(series):
        return OF_A_BYTE
    if any(word in PERPLEXITY_WORDS for word in last):
        return "perplexity"
    if any(word in BIT_WORDS for word in last):
        return "bits"
    return "nats" if any(word in LOSS_WORDS for word in last) else None


def domain_of(series: str) -> str:
    """Return the validation set that a loss's name says: what is left of it, or ``val``.

    Examples
    --------
    >>> domain_of("eval_code_loss"), domain_of("val_loss"), domain_of("eval/c4_en-validation/ppl")
    ('code', 'val', 'c4_en')
    """
    left = (*FILLER, *LOSS_WORDS, *PERPLEXITY_WORDS, *BIT_WORDS, "")
    kept = []
    for part in re.split(r"[/\s]+", series):
        own = [word for word in re.split(r"[_.\-:]+", part) if word.lower() not in left]
        if own:
            kept.append("_".join(own))
    name = "_".join(kept) or "val"
    return f"val{name}" if name.isdigit() else name


def rate_series(names: Sequence[str]) -> str | None:
    """Return which of some series is the learning rate, None where none is called so."""
    by_case = {name.lower(): name for name in reversed(names)}
    known = next((by_case[name] for name in RATE_NAMES if name in by_case), None)
    return known or next(
        (name for name in names if RATE.search(name) and not NO_RATE.search(name)), None
    )
