"""The batch of a run: how many tokens a step takes, in sequences of which length."""

from collections import Counter
from dataclasses import dataclass

from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study


@dataclass(frozen=True)
class Batch:
    """Batch size and sequence length; None is what nobody said.

    Parameters
    ----------
    tokens : float or None
        Per optimiser step.
    sequence_length : int or None
        Tokens.

    Examples
    --------
    >>> Batch(524288.0, 4096).words, Batch(1e6).words
    ('batch of 524288 tokens in sequences of 4096', 'batch of 1e+06 tokens')
    """

    tokens: float | None = None
    sequence_length: int | None = None

    @property
    def numbers(self) -> tuple[float, float]:
        """Tokens and sequence length, 0 where nobody said them."""
        return (self.tokens or 0.0, float(self.sequence_length or 0))

    @property
    def label(self) -> str:
        """Its numbers alone."""
        parts = [] if self.tokens is None else [_number(self.tokens)]
        parts += [] if self.sequence_length is None else [f"x{self.sequence_length}"]
        return " ".join(parts)

    @property
    def words(self) -> str:
        """What it is, in a sentence."""
        tokens = "batch" if self.tokens is None else f"batch of {_number(self.tokens)} tokens"
        length = self.sequence_length
        return tokens if length is None else f"{tokens} in sequences of {length}"


# Nobody said anything.
UNSAID = Batch()


def batch_of(study: Study, run: Run) -> Batch:
    """Return the batch of a run: what it says itself, else the tokens per step of its study.

    Parameters
    ----------
    study : Study
        Of the run.
    run : Run
    """
    tokens = study.tokens_per_step if run.batch_tokens is None else run.batch_tokens
    return Batch(None if tokens is None else float(tokens), run.sequence_length)


def batches_of(study: Study) -> tuple[Batch, ...]:
    """Return the different batches of the CPT runs of a study, those of most runs first.

    Parameters
    ----------
    study : Study
    """
    counts = Counter(batch_of(study, run) for run in study.continual_runs)
    return tuple(sorted(counts, key=lambda batch: (-counts[batch], *batch.numbers)))


def _number(tokens: float) -> str:
    return f"{tokens:.10g}" if tokens < 1e6 else f"{tokens:.4g}"
