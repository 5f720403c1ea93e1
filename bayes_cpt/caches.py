"""Where Numba and PyTensor keep what they compile if their usual places cannot be written."""

import os
from pathlib import Path


def settle_caches() -> None:
    """Name a temporary folder for compiled code, of this process and its own, where there is no other.

    Both read the environment as they are imported, which is later; what it says already is left.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path fails for users without an entry)
    flags = os.environ.get("PYTENSOR_FLAGS", "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    kept = _writable(Path(__file__).parent, cache, cache.parent)
    numba = "NUMBA_CACHE_DIR" not in os.environ and not kept
    pytensor = "compiledir" not in flags and not _writable(home, home / ".pytensor")
    if not (numba or pytensor):
        return
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="bayes-cpt-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if numba:
        os.environ["NUMBA_CACHE_DIR"] = folder
    if pytensor:
        os.environ["PYTENSOR_FLAGS"] = f"{flags},base_compiledir={folder}".lstrip(",")


def _writable(*folders: Path) -> bool:
    return any(os.access(folder, os.W_OK) for folder in folders)
