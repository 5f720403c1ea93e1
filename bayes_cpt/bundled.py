"""Where the models and the study that come with the package are."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def _bundled(relative: str) -> Path:
    """Return a bundled folder: inside an installed wheel, else beside the package in a checkout."""
    in_wheel = PACKAGE / "_bundled" / relative
    return in_wheel if in_wheel.is_dir() else PACKAGE.parent / relative


def models_folder() -> Path:
    """Return the folder with one TOML file per model."""
    return _bundled("models")


def bundled_study() -> Path:
    """Return the folder of the bundled study, cpt-lab: real runs of a small transformer."""
    return _bundled("data/cpt-lab")
