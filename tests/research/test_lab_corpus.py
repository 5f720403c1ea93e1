import io
import json
import tarfile
from pathlib import Path

import pytest
from lab.corpus import build_corpus, main, read_documents
from lab.errors import LabError
from lab.texts.fetch import Apt, unpack
from lab.texts.packages import read_packages
from lab_sample import prose


def write_packages(folder: Path) -> Path:
    """Write three packages, one held out that a training package partly repeats, and their list."""
    contents = {
        "held": {1: prose(1), 2: prose(2)},
        "first": {2: prose(2), 3: prose(3)},
        "second": {3: prose(3), 4: prose(4)},
    }
    for package, pages in contents.items():
        (folder / package).mkdir()
        for number, text in pages.items():
            (folder / package / f"page{number}.txt").write_text(text)
    path = folder / "packages.toml"
    path.write_text(
        f"""
[general]
kinds = ["prose"]
[general.validation]
folder = ["{folder / "held"}"]
[general.training]
folder = ["{folder / "first"}", "{folder / "second"}"]
"""
    )
    return path


def test_training_text_repeats_neither_itself_nor_validation(tmp_path: Path) -> None:
    assert main([str(write_packages(tmp_path)), "-o", str(tmp_path / "corpus")]) == 0
    training = list(read_documents(tmp_path / "corpus" / "general.training.jsonl.gz"))
    validation = list(read_documents(tmp_path / "corpus" / "general.validation.jsonl.gz"))
    assert [document.text for document in validation] == [prose(1), prose(2)]
    assert [document.text for document in training] == [prose(3), prose(4)]
    counts = json.loads((tmp_path / "corpus" / "corpus.json").read_text())["splits"]
    assert counts["general.training"]["exact_duplicates"] == 2
    assert counts["general.training"]["characters"] == len(prose(3)) + len(prose(4))


def test_a_second_build_gives_the_same_digests_without_fetching(tmp_path: Path) -> None:
    listed = read_packages(write_packages(tmp_path))
    apt = Apt(tmp_path / "apt")
    first = build_corpus(listed, tmp_path / "corpus", apt)
    other = build_corpus(listed, tmp_path / "other", apt)
    for package in listed.packages:
        for page in Path(package.name).iterdir():
            page.unlink()
    assert build_corpus(listed, tmp_path / "corpus", apt) == first == other


def test_what_cannot_be_fetched_is_an_error_or_left_out_and_noted(tmp_path: Path) -> None:
    path = write_packages(tmp_path)
    path.write_text(path.read_text().replace(str(tmp_path / "second"), str(tmp_path / "absent")))
    listed = read_packages(path)
    with pytest.raises(LabError, match="no such folder"):
        build_corpus(listed, tmp_path / "corpus", Apt(tmp_path / "apt"))
    summary = build_corpus(listed, tmp_path / "kept", Apt(tmp_path / "apt"), keep_going=True)
    assert [name.rpartition("_")[2] for name in summary["missing"]] == ["absent"]
    assert summary["splits"]["general.training"]["documents"] == 1
    path.write_text(path.read_text().replace(str(tmp_path / "held"), str(tmp_path / "gone")))
    with pytest.raises(LabError, match="none of its validation packages"):
        build_corpus(read_packages(path), tmp_path / "none", Apt(tmp_path / "apt"), keep_going=True)


def test_nothing_of_an_archive_is_written_outside_its_folder(tmp_path: Path) -> None:
    archive = tmp_path / "upstream.orig.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        for name in ("good.c", "../evil.c", "/absolute.c"):
            member = tarfile.TarInfo(name)
            member.size = 4
            content.addfile(member, io.BytesIO(b"text"))
        link = tarfile.TarInfo("link.c")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        content.addfile(link)
    folder = tmp_path / "files"
    folder.mkdir()
    unpack(archive, folder)
    # A leading slash is dropped, a way out is refused, and so are links.
    assert {path.name for path in folder.rglob("*")} == {"good.c", "absolute.c"}
    assert not (tmp_path / "evil.c").exists()
