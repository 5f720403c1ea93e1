"""A small corpus for the lab's tests: folders of this machine, and files written for the purpose."""

import random
import sysconfig
from pathlib import Path

WORDS = [
    "lock", "page", "memory", "device", "driver", "holds", "waits", "returns", "writes", "list",
]  # fmt: skip


def prose(seed: int, lines: int = 40) -> str:
    """Return lines of words that no other seed gives."""
    generator = random.Random(seed)
    return "\n".join(" ".join(generator.choices(WORDS, k=9)) + f" {seed}." for _ in range(lines))


def package_list(folder: Path) -> Path:
    """Write a list of packages that are folders: C headers and prose as general, Python as target."""
    standard = Path(sysconfig.get_path("stdlib"))
    headers = Path(sysconfig.get_path("include"))
    for name, seeds in (("manual", range(60)), ("handbook", range(100, 110))):
        (folder / name).mkdir(parents=True)
        for seed in seeds:
            (folder / name / f"page{seed:03d}.txt").write_text(prose(seed))
    path = folder / "packages.toml"
    path.write_text(
        f"""
[general]
kinds = ["c", "prose"]
[general.validation]
folder = ["{headers / "cpython"}", "{folder / "handbook"}"]
[general.training]
folder = ["{headers / "internal"}", "{folder / "manual"}"]
[python]
kinds = ["python"]
[python.validation]
folder = ["{standard / "email"}"]
[python.training]
folder = ["{standard / "asyncio"}", "{standard / "multiprocessing"}"]
"""
    )
    return path
