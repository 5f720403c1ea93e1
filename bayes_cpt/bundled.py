"""Where the models and the study that come with the package are."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def _bundled(relative: str, checkout: str | None = None) -> Path:
    """Return a bundled folder: inside an installed wheel, else of a checkout."""
    in_wheel = PACKAGE / "_bundled" / relative
    return in_wheel if in_wheel.is_dir() else PACKAGE.parent / (checkout or relative)


def models_folder() -> Path:
    """Return the folder with one TOML file per model."""
    return _bundled("models")


def bundled_study() -> Path:
    """Return the folder of the bundled study, cpt-lab: real runs of a small transformer."""
    return _bundled("data/cpt-lab")


def held_out_runs() -> Path:
    """Return the folder of three longer runs from the bases of cpt-lab, which nothing is fitted to."""
    return _bundled("data/cpt-lab-practice", "tests/data/cpt-lab-practice")
