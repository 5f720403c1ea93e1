"""Duplicates and near-duplicates: exact by digest, near by MinHash over lines.

A document is the set of its telling lines. Two documents whose sets have a Jaccard similarity of
about `SIMILARITY` or more are one text in two versions, and only the first is kept. MinHash: A. Z. Broder,
"On the resemblance and containment of documents", 1997, doi:10.1109/SEQUEN.1997.666900.
"""

import hashlib
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

HASHES = 64
# Two documents meet in some band with probability 1 - (1 - s**4)**16: .999 at s = .8, .64 at .5, .12 at .3.
BANDS = 16
SIMILARITY = 0.7
# Shorter lines ("}", "return x") stand in every file.
SHORTEST_LINE = 12
_PRIME = np.uint64(2**31 - 1)


class Duplicates:
    """Remembers the documents it has kept and tells whether a new one repeats one of them.

    Parameters
    ----------
    seed : int
        Of the hash functions.
    """

    def __init__(self, seed: int = 0) -> None:
        generator = np.random.default_rng([seed, 1997])
        # Below 2**31, so that the product of a factor and a line's hash stays below 2**62.
        self._factors = generator.integers(1, 2**31 - 1, size=(1, HASHES), dtype=np.uint64)
        self._offsets = generator.integers(0, 2**31 - 1, size=(1, HASHES), dtype=np.uint64)
        self._digests: set[bytes] = set()
        self._buckets: list[dict[bytes, list[int]]] = [{} for _ in range(BANDS)]
        self._signatures: list[NDArray[np.uint32]] = []

    def keep(self, text: str) -> str:
        """Say what a document is and remember it if it is new.

        Returns
        -------
        str
            ``new``, ``exact`` (the same but for blanks) or ``near``.
        """
        digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest()
        if digest in self._digests:
            return "exact"
        self._digests.add(digest)
        signature = self.signature(text)
        bands = [band.tobytes() for band in signature.reshape(BANDS, -1)]
        met = {
            number
            for bucket, band in zip(self._buckets, bands, strict=True)
            for number in bucket.get(band, ())
        }
        if any(np.mean(self._signatures[number] == signature) >= SIMILARITY for number in met):
            return "near"
        for bucket, band in zip(self._buckets, bands, strict=True):
            bucket.setdefault(band, []).append(len(self._signatures))
        self._signatures.append(signature)
        return "new"

    def signature(self, text: str) -> NDArray[np.uint32]:
        """Return the least value of each hash function over the lines of a text, shape (HASHES,)."""
        lines = {line for line in map(str.strip, text.split("\n")) if len(line) >= SHORTEST_LINE}
        hashes = np.fromiter(
            (zlib.crc32(line.encode()) for line in lines or {text}), dtype=np.uint64
        )[:, None]
        hashes %= _PRIME
        least = np.full(HASHES, _PRIME, dtype=np.uint64)
        for chunk in _chunks(hashes):
            values = (chunk * self._factors + self._offsets) % _PRIME
            np.minimum(least, values.min(axis=0), out=least)
        return least.astype(np.uint32)


def _chunks(hashes: NDArray[np.uint64], size: int = 4096) -> Iterator[NDArray[np.uint64]]:
    for start in range(0, len(hashes), size):
        yield hashes[start : start + size]
