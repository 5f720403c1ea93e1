"""Packages -> training and validation text of each domain, without duplicates.

    python -m lab.corpus research/lab/packages.toml -o CORPUS

Every package is fetched and cleaned once; stopped, the command goes on where it was. Validation packages
come first, so that no training text repeats what is asked for. CORPUS/corpus.json names every archive by
its digest and counts what was kept; the text itself stays where it is and is never committed.
"""

import argparse
import gzip
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.errors import LabError, report, run_command
from lab.texts.cleaning import Document, documents
from lab.texts.deduplication import Duplicates
from lab.texts.fetch import APT_SOURCES, Apt, fetch
from lab.texts.packages import SPLITS, Package, PackageList, read_packages


def build_corpus(
    listed: PackageList, folder: Path, apt: Apt, *, seed: int = 0, keep_going: bool = False
) -> dict[str, Any]:
    """Fetch, clean and deduplicate, and write the text and corpus.json.

    Returns
    -------
    dict
        The content of corpus.json.
    """
    archives = {}
    missing: list[Package] = []
    for number, package in enumerate(listed.packages, start=1):
        report(f"[{number}/{len(listed.packages)}] {package.domain} {package.name}")
        try:
            archives[package.file_name] = cleaned(
                package, listed.kinds[package.domain], folder, apt
            )
        except LabError as error:
            if not keep_going:
                raise
            report(f"left out: {error}")
            missing.append(package)
    here = PackageList(listed.kinds, tuple(p for p in listed.packages if p not in missing))
    for domain in listed.kinds:
        if not here.of(domain, "validation"):
            raise LabError(
                f"domain {domain}", "none of its validation packages can be fetched", "name another"
            )
    duplicates = Duplicates(seed)
    splits: dict[str, Any] = {}
    # All validation text is known before any training text is taken.
    for split in SPLITS:
        for domain in listed.kinds:
            chosen = here.of(domain, split)
            if chosen:
                splits[f"{domain}.{split}"] = _write_split(chosen, folder, duplicates)
                counts = splits[f"{domain}.{split}"]
                report(f"{domain}.{split}: {counts['characters'] / 1e6:.1f} M characters")
    summary = {
        "seed": seed,
        "kinds": {domain: list(kinds) for domain, kinds in listed.kinds.items()},
        "splits": splits,
        "archives": archives,
        "missing": [package.file_name for package in missing],
    }
    (folder / "corpus.json").write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n")
    return summary


def cleaned(package: Package, kinds: tuple[str, ...], folder: Path, apt: Apt) -> dict[str, str]:
    """Fetch and clean one package unless that is done, and return the digests of its archives."""
    text = folder / "cleaned" / f"{package.file_name}.jsonl.gz"
    digests = text.with_suffix("").with_suffix(".json")
    if digests.exists():
        known: dict[str, str] = json.loads(digests.read_text())
        return known
    unpacked = folder / "unpacked"
    archives = fetch(package, unpacked, apt)
    text.parent.mkdir(parents=True, exist_ok=True)
    partial = text.with_name(f"{text.name}.partial")
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=1) as out:
        for document in documents(unpacked / "files", package.name, kinds):
            out.write(json.dumps(asdict(document)) + "\n")
    partial.replace(text)
    # Last, as the sign that the package is done.
    digests.write_text(json.dumps(archives))
    shutil.rmtree(unpacked)
    return archives


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a .jsonl.gz file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield Document(**json.loads(line))
    except FileNotFoundError as error:
        raise LabError(
            str(path), "there is no such text", "run python -m lab.corpus first"
        ) from error


def _write_split(
    packages: tuple[Package, ...], folder: Path, duplicates: Duplicates
) -> dict[str, Any]:
    first = packages[0]
    path = folder / f"{first.domain}.{first.split}.jsonl.gz"
    digest = hashlib.sha256()
    verdicts: Counter[str] = Counter()
    by_package: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as out:
        for package in packages:
            for document in read_documents(folder / "cleaned" / f"{package.file_name}.jsonl.gz"):
                verdict = duplicates.keep(document.text)
                verdicts[verdict] += 1
                if verdict != "new":
                    continue
                line = json.dumps(asdict(document)) + "\n"
                out.write(line)
                digest.update(line.encode())
                by_package[package.name] += len(document.text)
                by_kind[document.kind] += len(document.text)
    return {
        "documents": verdicts["new"],
        "exact_duplicates": verdicts["exact"],
        "near_duplicates": verdicts["near"],
        "characters": by_kind.total(),
        "characters_by_kind": dict(by_kind),
        "characters_by_package": dict(by_package),
        "text_sha256": digest.hexdigest(),
    }


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.corpus", description=__doc__.split("\n")[0]
    )
    parser.add_argument("packages", type=Path, help="list of packages, TOML")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the text")
    parser.add_argument("--seed", type=int, default=0, help="of the hashes of near-duplicates")
    parser.add_argument(
        "--keep-going", action="store_true", help="leave out what cannot be fetched"
    )
    parser.add_argument(
        "--apt-sources", type=Path, default=APT_SOURCES, help="deb822 list of mirrors"
    )
    chosen = parser.parse_args(arguments)
    listed = read_packages(chosen.packages)
    chosen.output.mkdir(parents=True, exist_ok=True)
    apt = Apt(chosen.output / "apt", chosen.apt_sources)
    build_corpus(listed, chosen.output, apt, seed=chosen.seed, keep_going=chosen.keep_going)
    return 0


if __name__ == "__main__":
    run_command(main)
