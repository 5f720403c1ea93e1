"""Text -> a byte-level BPE tokenizer and shards of tokens; shards -> files that are small enough to carry.

    python -m lab.tokens build CORPUS -o TOKENS --vocabulary 16384
    python -m lab.tokens pack TOKENS -o CARRIED      # compressed, a file each: carry them in any portions
    python -m lab.tokens unpack CARRIED -o TOKENS    # on the machine that trains

`build` needs the library tokenizers; the other two need only NumPy, so that a machine that trains needs no
package of its own.
"""

import argparse
import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.corpus import read_documents
from lab.errors import LabError, report, run_command
from lab.training.shards import INDEX, read_index

END_OF_TEXT = "<eos>"
# Characters of every domain that the tokenizer is trained on: the same of each, so that none is written in
# pieces smaller than the others.
SAMPLE_CHARACTERS = 100_000_000
# Of each validation set, about this much is made into tokens: many times what is ever measured.
VALIDATION_CHARACTERS = 4_000_000
DOCUMENTS_AT_ONCE = 1000
# Two-byte samples: the two low bits of a position say which byte of which token it is.
PACKING = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}]


def train_tokenizer(corpus: Path, domains: list[str], vocabulary: int, seed: int) -> Any:
    """Train a byte-level BPE on the training text of some domains, and return it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sample(corpus, domains, seed), trainer)
    return tokenizer


def _sample(corpus: Path, domains: list[str], seed: int) -> Iterator[str]:
    counts = read_counts(corpus)
    for domain in domains:
        share = SAMPLE_CHARACTERS / max(1, counts[f"{domain}.training"]["characters"])
        yield from sample(corpus / f"{domain}.training.jsonl.gz", share, seed)


def sample(text: Path, share: float, seed: int) -> Iterator[str]:
    """Yield each text of a file of documents with probability `share`."""
    generator = np.random.default_rng([seed, 1])
    for document in read_documents(text):
        if generator.random() < share:
            yield document.text


def read_counts(corpus: Path) -> dict[str, Any]:
    """Return what corpus.json says of each split."""
    try:
        splits: dict[str, Any] = json.loads((corpus / "corpus.json").read_text())["splits"]
    except FileNotFoundError as error:
        raise LabError(
            str(corpus / "corpus.json"), "the corpus is not built", "run python -m lab.corpus first"
        ) from error
    return splits


def build_tokens(
    corpus: Path, folder: Path, *, vocabulary: int, shard_tokens: int, seed: int = 0
) -> dict[str, Any]:
    """Train the tokenizer and write the shards of every split, their documents shuffled over all shards.

    Returns
    -------
    dict
        The content of index.json: splits (file, tokens, sha256 of each shard), the tokenizer's digest, and
        characters per token.
    """
    splits_of_text = read_counts(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    domains = [
        name.removesuffix(".training") for name in splits_of_text if name.endswith(".training")
    ]
    tokenizer = train_tokenizer(corpus, sorted(domains), vocabulary, seed)
    tokenizer.save(str(folder / "tokenizer.json"))
    splits, density = {}, {}
    for name, counts in sorted(splits_of_text.items()):
        # A validation set is one shard, in the order of its files.
        whole = name.endswith(".validation")
        share = VALIDATION_CHARACTERS / max(1, counts["characters"]) if whole else 1.0
        texts = sample(corpus / f"{name}.jsonl.gz", share, seed)
        tokens, lengths, characters = encode(tokenizer, texts, folder / "unshuffled.bin")
        if not lengths.size:
            raise LabError(f"split {name}", "it holds no document", "name packages that have text")
        order = np.random.default_rng([seed, len(lengths)]).permutation(len(lengths))
        splits[name] = write_shards(
            tokens,
            lengths,
            np.arange(len(lengths)) if whole else order,
            folder,
            name,
            len(tokens) if whole else shard_tokens,
        )
        density[name] = characters / len(tokens)
        report(f"{name}: {len(tokens) / 1e6:.2f} M tokens, {density[name]:.2f} characters each")
        del tokens
        (folder / "unshuffled.bin").unlink()
    index = {
        "vocabulary": tokenizer.get_vocab_size(),
        "seed": seed,
        "tokenizer_sha256": file_digest(folder / "tokenizer.json"),
        "characters_per_token": density,
        "splits": splits,
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")
    return index


def encode(
    tokenizer: Any, texts: Iterable[str], scratch: Path
) -> tuple[NDArray[np.uint16], NDArray[np.int64], int]:
    """Return all tokens of some texts, each ended by token 0, the length of each, and their characters."""
    lengths: list[int] = []
    characters = 0
    with scratch.open("wb") as out:
        for batch in _batches(texts):
            characters += sum(map(len, batch))
            for encoding in tokenizer.encode_batch_fast(batch):
                out.write(np.array([*encoding.ids, 0], dtype="<u2").tobytes())
                lengths.append(len(encoding.ids) + 1)
    tokens = np.memmap(scratch, dtype="<u2", mode="r") if lengths else np.empty(0, dtype="<u2")
    return tokens, np.array(lengths, dtype=np.int64), characters


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, DOCUMENTS_AT_ONCE)):
        yield batch


def write_shards(
    tokens: NDArray[np.uint16],
    lengths: NDArray[np.int64],
    order: NDArray[np.int64],
    folder: Path,
    name: str,
    shard_tokens: int,
) -> list[dict[str, Any]]:
    """Write documents in an order into shards of `shard_tokens` tokens, the last one shorter.

    A document may go on in the next shard.
    """
    starts = np.cumsum(lengths) - lengths
    shards: list[dict[str, Any]] = []
    held: list[NDArray[np.uint16]] = []
    count = 0

    def write() -> None:
        file = f"{name}-{len(shards):04d}.bin"
        content = np.concatenate(held).astype("<u2").tobytes()
        (folder / file).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        shards.append({"file": file, "tokens": count, "sha256": digest})

    for number in order:
        document = tokens[starts[number] : starts[number] + lengths[number]]
        while len(document):
            taken = document[: shard_tokens - count]
            held.append(taken)
            count += len(taken)
            document = document[len(taken) :]
            if count == shard_tokens:
                write()
                held.clear()
                count = 0
    if count:
        write()
    return shards


def pack(folder: Path, output: Path, threads: int = 1) -> None:
    """Compress shards into a file each, beside the tokenizer and the index."""
    output.mkdir(parents=True, exist_ok=True)
    index = read_index(folder)
    for name in (INDEX, "tokenizer.json"):
        (output / name).write_bytes((folder / name).read_bytes())
    shards = [folder / shard["file"] for shard in _shards(index)]
    packed = [output / f"{shard.name}.xz" for shard in shards]
    before = sum(shard.stat().st_size for shard in shards)
    # Threads are enough: compression and digests run without the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_pack_one, shards, packed))
    after = sum(path.stat().st_size for path in packed)
    report(
        f"{before / 2e6:.1f} M tokens in {after / 2**20:.1f} MiB, {2 * after / before:.2f} bytes each"
    )


def _pack_one(shard: Path, packed: Path) -> None:
    if not packed.exists():
        partial = packed.with_name(f"{packed.name}.partial")
        partial.write_bytes(lzma.compress(shard.read_bytes(), filters=PACKING))
        partial.replace(packed)


def unpack(carried: Path, folder: Path, threads: int = 1) -> None:
    """Unpack what has arrived of the shards, compare each with its digest, and say what has not arrived."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (INDEX, "tokenizer.json"):
        if (carried / name).exists():
            (folder / name).write_bytes((carried / name).read_bytes())
    shards = _shards(read_index(folder))
    arrived = [
        shard
        for shard in shards
        if (carried / f"{shard['file']}.xz").exists() and not (folder / shard["file"]).exists()
    ]
    packed = [carried / f"{shard['file']}.xz" for shard in arrived]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_unpack_one, packed, [folder] * len(packed), [s["sha256"] for s in arrived]))
    missing = [shard["file"] for shard in shards if not (folder / shard["file"]).exists()]
    report(f"{len(shards) - len(missing)} of {len(shards)} shards are here" + _named(missing))


def _unpack_one(packed: Path, folder: Path, digest: str) -> None:
    try:
        content = lzma.decompress(packed.read_bytes())
    except lzma.LZMAError as error:
        raise LabError(str(packed), f"it cannot be unpacked: {error}", "carry it again") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise LabError(str(packed), "it is not the shard that index.json names", "carry it again")
    partial = folder / f"{packed.name}.partial"
    partial.write_bytes(content)
    partial.replace(folder / packed.name.removesuffix(".xz"))


def _shards(index: dict[str, Any]) -> list[dict[str, Any]]:
    return [shard for shards in index["splits"].values() for shard in shards]


def _named(missing: list[str]) -> str:
    return f"; not yet: {', '.join(missing)}" if missing else ""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.tokens", description=__doc__.split("\n")[0]
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what in (
        ("build", "folder of lab.corpus"),
        ("pack", "folder of shards"),
        ("unpack", "folder of packed shards"),
    ):
        one = verbs.add_parser(verb)
        one.add_argument("source", type=Path, help=what)
        one.add_argument("-o", "--output", type=Path, required=True)
        if verb == "build":
            one.add_argument("--vocabulary", type=int, default=16384)
            one.add_argument("--shard-tokens", type=int, default=2**23)
            one.add_argument("--seed", type=int, default=0)
        else:
            one.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.verb == "build":
        build_tokens(
            chosen.source,
            chosen.output,
            vocabulary=chosen.vocabulary,
            shard_tokens=chosen.shard_tokens,
            seed=chosen.seed,
        )
    elif chosen.verb == "pack":
        pack(chosen.source, chosen.output, chosen.threads)
    else:
        unpack(chosen.source, chosen.output, chosen.threads)
    return 0


if __name__ == "__main__":
    run_command(main)
