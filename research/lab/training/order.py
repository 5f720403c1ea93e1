"""Which sequences a step learns from: a function of seed and step alone, so a run can stop anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.training.shards import Domain


@dataclass(frozen=True)
class Mixture:
    """Shares of two domains, each followed exactly: after n sequences, round(share * n) are general.

    Parameters
    ----------
    general, target : str
    replay : float
        Share of general data, 1 for PT.
    seed : tuple of int
        Of the order inside each shard.
    in_order : bool
        Whether shards follow each other as they are numbered (PT, whose later shards may not have arrived
        yet), or in an order of the seed.
    """

    general: str
    target: str
    replay: float
    seed: tuple[int, ...]
    in_order: bool

    def counts(self, sequences: int) -> dict[str, int]:
        """Return how many of the first `sequences` sequences are of each domain."""
        general = int(np.floor(self.replay * sequences + 0.5))
        return {self.general: general, self.target: sequences - general}

    def batch(
        self, domains: Mapping[str, Domain], step: int, sequences: int, context: int
    ) -> NDArray[np.int64]:
        """Return the tokens of a step, counted from 1, shape (sequences, context + 1)."""
        before, after = self.counts((step - 1) * sequences), self.counts(step * sequences)
        rows = [
            self._sequence(domains[domain], number, context)
            for domain in before
            for number in range(before[domain], after[domain])
        ]
        return np.stack(rows).astype(np.int64)

    def _sequence(self, domain: Domain, number: int, context: int) -> NDArray[np.uint16]:
        lengths = [max(0, (tokens - 1) // context) for tokens in domain.shard_tokens]
        epoch, number = divmod(number, sum(lengths))
        order = range(len(lengths)) if self.in_order else self._permutation(len(lengths), epoch)
        for shard in order:
            if number < lengths[shard]:
                place = self._permutation(lengths[shard], epoch, int(shard))[number]
                return domain.window(int(shard), int(place) * context, context + 1)
            number -= lengths[shard]
        raise AssertionError("a sequence lies in one of the shards")

    def _permutation(self, length: int, *key: int) -> NDArray[np.int64]:
        return _cached_permutation(length, (*self.seed, *key))


_permutations: dict[tuple[int, tuple[int, ...]], NDArray[np.int64]] = {}


def _cached_permutation(length: int, key: tuple[int, ...]) -> NDArray[np.int64]:
    found = _permutations.get((length, key))
    if found is None:
        # A run walks one shard per domain at a time; more than a few are never needed.
        if len(_permutations) > 16:
            _permutations.clear()
        found = np.random.default_rng(key).permutation(length)
        _permutations[length, key] = found
    return found
