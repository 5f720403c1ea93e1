"""Which files of a package are text worth learning, and what is left of each after cleaning."""

import gzip
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What each kind of text is written in; a doubled ending such as .html.gz counts by its inner part.
SUFFIXES: dict[str, frozenset[str]] = {
    "c": frozenset({".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"}),
    "prose": frozenset(
        {
            ".rst",
            ".txt",
            ".md",
            ".html",
            ".htm",
            ".texi",
            ".texinfo",
            ".adoc",
            ".sgml",
            ".pod",
            ".dict",
        }
    ),
    "python": frozenset({".py"}),
}
COMPRESSED = frozenset({".gz", ".dz"})
# Translations, and text that a test asks for and not a reader.
UNWANTED_FOLDERS = frozenset(
    {
        "translations",
        "locale",
        "po",
        "testdata",
        "test-data",
        "fixtures",
        "node_modules",
        "third_party",
    }
)
SHORTEST = 400
# One long file must not fill a batch of its own; what a person writes is rarely longer.
LONGEST = 200_000
PIECE = 40_000

_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_C_HEADER = re.compile(r"\A(?:\s*(?:/\*.*?\*/|//[^\n]*\n))+", re.DOTALL)
_SCRIPT_HEADER = re.compile(r"\A(?:[ \t]*#[^\n]*\n|[ \t]*\n)+")
_LICENCE = re.compile(r"copyright|licen[sc]e|spdx", re.IGNORECASE)
_GENERATED = re.compile(
    r"do not (?:edit|modify)|(?:auto(?:matically|-)?\s*|machine[ -])generated"
    r"|generated (?:by|from|automatically)|this file was generated|code generated",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Document:
    """One cleaned file: where it came from and its text."""

    package: str
    path: str
    kind: str
    text: str


def kind_of(path: Path) -> str | None:
    """Return the kind of text that a file name promises, None if none."""
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    suffix = Path(name).suffix
    for kind, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return kind
    return None


def documents(folder: Path, package: str, kinds: tuple[str, ...]) -> Iterator[Document]:
    """Yield the cleaned files of an unpacked package, in the order of their paths."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_symlink() or UNWANTED_FOLDERS & {part.lower() for part in inside.parts[:-1]}:
            continue
        kind = kind_of(path)
        if kind not in kinds or not path.is_file():
            continue
        text = clean(read_text(path), kind)
        for number, piece in enumerate(pieces(text) if kind == "prose" else [text]):
            if worth_learning(piece, kind):
                yield Document(package, f"{inside}#{number}", kind, piece)


def read_text(path: Path) -> str:
    """Return a file's text, unpacked; the empty text where it is not UTF-8."""
    try:
        content = path.read_bytes()
        if path.suffix in COMPRESSED:
            content = gzip.decompress(content)
        return content.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        return ""


def clean(text: str, kind: str) -> str:
    """Return text without markup, licence header, trailing blanks and stretches of empty lines."""
    if kind == "prose" and re.match(r"\s*(?:<\?xml|<!doctype|<html)", text, re.IGNORECASE):
        text = html.unescape(_TAG.sub("", text))
    text = _without_licence(text.replace("\r\n", "\n"), kind)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip()


def _without_licence(text: str, kind: str) -> str:
    if kind == "prose":
        return text
    header = (_C_HEADER if kind == "c" else _SCRIPT_HEADER).match(text)
    if header is None or not _LICENCE.search(header[0]) or _GENERATED.search(header[0]):
        return text
    return text[header.end() :]


def pieces(text: str) -> Iterator[str]:
    """Yield a long text, such as a dictionary, in pieces that end at empty lines."""
    start = 0
    while len(text) - start > 2 * PIECE:
        end = text.find("\n\n", start + PIECE, start + 2 * PIECE)
        end = end if end > 0 else start + PIECE
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()


def worth_learning(text: str, kind: str) -> bool:
    """Return whether a person wrote this to be read: not too short or long, no data, not generated.

    Limits: `SHORTEST` to `LONGEST` characters, lines of at most 200 characters on average and 2,000 at
    most (ten times that in prose), at least 95 % ASCII, at least a quarter of it letters, at most 30 % of
    the words numbers, and in code no mark of a generator in its first 3,000 characters.
    """
    if not SHORTEST <= len(text) <= LONGEST:
        return False
    lines = text.split("\n")
    # A paragraph of prose may stand on one line.
    widest = 20_000 if kind == "prose" else 2_000
    if len(text) / len(lines) > widest / 10 or max(map(len, lines)) > widest:
        return False
    # Counted in bytes: this runs over gigabytes.
    content = text.encode("utf-8")
    if len(content.translate(None, _NOT_ASCII)) < 0.95 * len(content):
        return False
    if len(content.translate(None, _LETTERS)) > 0.75 * len(content):
        return False
    words = text.split()
    if sum(word[0].isdigit() for word in words) > 0.3 * len(words):
        return False
    return not (kind != "prose" and _GENERATED.search(text, 0, 3_000))


_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NOT_ASCII = bytes(range(128, 256))
