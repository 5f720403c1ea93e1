"""packages.toml: which packages make which validation set and which training text."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.texts.cleaning import SUFFIXES

SPLITS = ("validation", "training")
ORIGINS = ("debian-source", "debian", "pypi", "folder")


@dataclass(frozen=True)
class Package:
    """One package, all of it in one split of one domain.

    `name` is what the package's own client calls it, with ``==version`` where it is pinned; for a folder
    its path.
    """

    name: str
    origin: str
    domain: str
    split: str

    @property
    def file_name(self) -> str:
        """Return a file name that no other package of the domain has."""
        plain = "".join(
            letter if letter.isalnum() or letter in ".-_" else "_" for letter in self.name
        )
        return f"{self.domain}.{self.origin}.{plain}"


@dataclass(frozen=True)
class PackageList:
    """Domains, the kinds of file each takes, and their packages in the order of the file."""

    kinds: dict[str, tuple[str, ...]]
    packages: tuple[Package, ...]

    def of(self, domain: str, split: str) -> tuple[Package, ...]:
        """Return the packages of one split of a domain."""
        return tuple(
            package
            for package in self.packages
            if package.domain == domain and package.split == split
        )


def read_packages(path: Path) -> PackageList:
    """Read packages.toml."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LabError(str(path), f"it cannot be read: {error}", "give a TOML file") from error
    kinds: dict[str, tuple[str, ...]] = {}
    packages: list[Package] = []
    for domain, table in tables.items():
        kinds[domain] = _kinds(f"{path}, table {domain}", table)
        packages += _packages(path, domain, table)
        if not any(p.domain == domain and p.split == "validation" for p in packages):
            raise LabError(
                f"{path}, table {domain}",
                "no package is held out for validation",
                f"name at least one under [{domain}.validation]",
            )
    seen: dict[tuple[str, str], Package] = {}
    for package in packages:
        # The source package and the binary package of one name hold the same text.
        key = (package.origin.removesuffix("-source"), package.name.partition("==")[0])
        if key in seen:
            raise LabError(
                f"{path}, package {package.name}",
                f"it stands in [{seen[key].domain}.{seen[key].split}] and in "
                f"[{package.domain}.{package.split}]",
                "keep one of the two",
            )
        seen[key] = package
    return PackageList(kinds, tuple(packages))


def _kinds(place: str, table: Any) -> tuple[str, ...]:
    kinds = table.get("kinds") if isinstance(table, dict) else None
    if not isinstance(kinds, list) or not kinds or not set(kinds) <= set(SUFFIXES):
        raise LabError(place, f"kinds is {kinds!r}", f"list some of {', '.join(SUFFIXES)}")
    return tuple(kinds)


def _packages(path: Path, domain: str, table: dict[str, Any]) -> list[Package]:
    packages = []
    for split, origins in table.items():
        if split == "kinds":
            continue
        place = f"{path}, table {domain}.{split}"
        if split not in SPLITS or not isinstance(origins, dict):
            raise LabError(place, "it is no split", f"name it one of {', '.join(SPLITS)}")
        for origin, names in origins.items():
            if origin not in ORIGINS:
                raise LabError(place, f"{origin} is no origin", f"use one of {', '.join(ORIGINS)}")
            packages += [Package(name, origin, domain, split) for name in names]
    return packages
