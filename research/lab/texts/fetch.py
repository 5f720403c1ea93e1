"""Packages from their own clients (apt, pip), unpacked without running anything they contain."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError
from lab.texts.packages import Package

# Where Debian 12 and later say which mirror is theirs.
APT_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".whl", ".zip")


class Apt:
    """The machine's own apt with source packages switched on, in a state of its own: needs no root.

    Parameters
    ----------
    state : path
        Folder for the package index; kept between calls, so one build sees one index.
    sources : path
        The deb822 file that names the machine's mirrors.
    """

    def __init__(self, state: Path, sources: Path = APT_SOURCES) -> None:
        self.state = state.resolve()
        self.sources = sources

    def options(self) -> list[str]:
        """Return the options that make apt use this state; fetches the index on the first call."""
        chosen = {
            "Dir::State::Lists": self.state / "lists",
            "Dir::Cache": self.state / "cache",
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": self.state / "parts",
        }
        options = [word for key, value in chosen.items() for word in ("-o", f"{key}={value}")]
        if not (self.state / "ready").exists():
            for folder in ("lists/partial", "cache/archives/partial", "parts"):
                (self.state / folder).mkdir(parents=True, exist_ok=True)
            (self.state / "parts/lab.sources").write_text(with_source_packages(self.sources))
            _call(["apt-get", *options, "update"], self.state, "apt's package index")
            (self.state / "ready").touch()
        return options


def with_source_packages(sources: Path) -> str:
    """Return a deb822 list of mirrors with source packages beside the binary ones.

    Only the release itself is kept: the suites of updates and of security fixes drop the versions that they
    named yesterday.
    """
    try:
        stanzas = sources.read_text().split("\n\n")
    except OSError as error:
        raise LabError(
            str(sources),
            "there is no list of Debian mirrors",
            "name the machine's own with --apt-sources (deb822 format)",
        ) from error
    kept = []
    for stanza in stanzas:
        lines, releases = [], []
        for line in stanza.splitlines():
            key, _, value = line.partition(":")
            if key == "Types":
                line = "Types: deb deb-src"
            elif key == "Suites":
                releases = [suite for suite in value.split() if "-" not in suite]
                line = f"Suites: {' '.join(releases)}"
            lines.append(line)
        if releases:
            kept.append("\n".join(lines) + "\n")
    return "\n".join(kept)


def fetch(package: Package, folder: Path, apt: Apt) -> dict[str, str]:
    """Bring a package's text into a folder.

    Returns
    -------
    dict of str to str
        SHA-256 of every archive by its file name; empty for a folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    unpacked, archives = folder / "files", folder / "archives"
    unpacked.mkdir(parents=True)
    archives.mkdir()
    if package.origin == "folder":
        place = Path(package.name)
        if not place.is_dir():
            raise LabError(f"package {package.name}", "there is no such folder", "correct its path")
        shutil.copytree(place, unpacked / place.name, symlinks=True)
        return {}
    what = f"package {package.name} ({package.origin})"
    _call(_client(package, apt), archives, what)
    digests = {}
    for archive in sorted(archives.iterdir()):
        digests[archive.name] = hashlib.sha256(archive.read_bytes()).hexdigest()
        unpack(archive, unpacked)
    shutil.rmtree(archives)
    return digests


def _client(package: Package, apt: Apt) -> list[str]:
    if package.origin == "debian-source":
        only = ["source", "--download-only", "--tar-only"]
        return ["apt-get", *apt.options(), *only, package.name.replace("==", "=")]
    if package.origin == "debian":
        return ["apt-get", *apt.options(), "download", package.name.replace("==", "=")]
    # Wheels: a source distribution would run its own code before it can be downloaded.
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    return [*pip, package.name]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder; nothing is written outside it. Other files are left alone."""
    name = archive.name
    if name.endswith(".deb"):
        _call(["dpkg-deb", "--extract", str(archive), str(folder)], folder, name)
        # Packages such as linux-source-6.1 hold an archive of the sources.
        for inner in sorted((folder / "usr" / "src").glob("**/*.tar.*")):
            unpack(inner, folder)
            inner.unlink()
    elif name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)
    # Debian's own changes to a source package are packaging, not text.
    elif name.endswith(ARCHIVES) and ".debian.tar." not in name:
        try:
            with tarfile.open(archive) as content:
                content.extractall(folder, filter=_plain_files)
        except tarfile.TarError as error:
            raise LabError(name, f"it cannot be unpacked: {error}", "fetch it again") from error


def _plain_files(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    if not (member.isfile() or member.isdir()):
        return None
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _call(command: Sequence[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = " ".join(done.stderr.strip().split("\n")[-2:]) or f"exit code {done.returncode}"
        raise LabError(
            what, f"{command[0]} failed: {last}", "check its name and the machine's mirrors"
        )
