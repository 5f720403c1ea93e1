"""Where Numba and PyTensor keep what they compile if their usual places cannot be written."""

import os
from pathlib import Path


def settle_caches() -> None:
    """Name a temporary folder for compiled code, of this process and its own, where there is no other.

    Both read the environment as they are imported, which is later; what it says already is left.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path fails for users without an entry)
    flags = os.environ.get("PYTENSOR_FLAGS", "")
    lacking = {
        "NUMBA_CACHE_DIR": not _writable(Path(__file__).parent, home, home / ".cache")
        and "NUMBA_CACHE_DIR" not in os.environ,
        "PYTENSOR_FLAGS": not _writable(home, home / ".pytensor") and "compiledir" not in flags,
    }
    if not any(lacking.values()):
        return
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="bayes-cpt-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    said = {
        "NUMBA_CACHE_DIR": folder,
        "PYTENSOR_FLAGS": f"{flags},base_compiledir={folder}".lstrip(","),
    }
    os.environ.update({name: said[name] for name, own in lacking.items() if own})


def _writable(*folders: Path) -> bool:
    return any(os.access(folder, os.W_OK) for folder in folders)
