"""Reading the file of a fit: nothing in it is executed, and what is not a fit is refused in words."""

import json
import math
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.errors import BayesCPTError, StudyError, StudyWarning
from bayes_cpt.laws import Reference
from bayes_cpt.model.groups.batches import known_batches
from bayes_cpt.model.groups.sizes import known_sizes
from bayes_cpt.model.groups.targets import roles_of
from bayes_cpt.model.points import last_pretraining_step
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import parse_spec
from bayes_cpt.study.study import Study
from bayes_cpt.study.validation import Origin

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
# A file that holds fits of several laws; versions that know no stacks must refuse it.
STACK_FORMAT = 2
GROUPS = ("posterior", "sample_stats", "study")
STUDY_FILES = ("study.toml", "losses.csv", "lr.csv")
# A parameter that was a setting once.
EXTRAPOLATION = "extrapolation_pt"
# Attribute of a stack, and how its children are called, which hold a fit each.
WEIGHTS, LAW = "weights", "law_"
# Weights are written with all their digits.
ROUNDING = 1e-9


class FitFileError(BayesCPTError, ValueError):
    """A file that is not a fit, or a fit that this version cannot read."""


type Law = "tuple[xr.DataTree, Study, Frame]"


def read_fit(path: str | Path) -> "tuple[xr.DataTree, list[Law]]":
    """Return what a fit's file holds: draws, study and frame of each law in it; one, unless it is a stack.

    Parameters
    ----------
    path : str or Path
        A netCDF file.

    Raises
    ------
    FitFileError
        If there is no such file, or it is not a fit.
    """
    source = Path(path)
    tree = _tree(source)
    try:
        laws = [_law(part, source) for part in _parts(tree)]
    # The study's files are written to a temporary folder, which may be full.
    except (BayesCPTError, OSError):
        raise
    # Whatever else a damaged or forged file makes the libraries say.
    except Exception as error:
        raise _damaged(source, error) from None
    return tree, laws


def is_stack(tree: "xr.DataTree") -> bool:
    """Return whether a tree is that of a stack of laws (see `bayes_cpt.inference.stacked`).

    Parameters
    ----------
    tree : xarray.DataTree
    """
    return WEIGHTS in tree.attrs


def _parts(tree: "xr.DataTree") -> "list[xr.DataTree]":
    """Return the trees of single laws in a file."""
    if not is_stack(tree):
        return [tree]
    weights = json.loads(tree.attrs[WEIGHTS])
    if not weights or not all(_positive(weight) for weight in weights):
        raise ValueError("the weights of its laws are not positive numbers")
    if abs(sum(weights) - 1.0) > ROUNDING:
        raise ValueError("the weights of its laws do not add up to 1")
    names = [f"{LAW}{index}" for index in range(len(weights))]
    if set(names) != set(tree.children):
        raise ValueError("it has not as many laws as weights")
    _texts(tree, "problems")
    int(tree.attrs["seed"])
    return [tree.children[name] for name in names]


def _law(tree: "xr.DataTree", source: Path) -> Law:
    """Return draws, study and frame of the fit of one law."""
    if missing := [name for name in GROUPS if name not in tree.children]:
        raise ValueError(f"it has no {missing[0]}")
    spec = parse_spec(_spec_table(tree), str(source))
    reference = Reference(**_table(tree, "reference"))
    domains, roles = _texts(tree, "domains"), _texts(tree, "roles")
    if not all(_positive(value) for value in vars(reference).values()):
        raise ValueError("the reference is not made of positive numbers")
    if roles != roles_of(domains) or len(set(domains)) != len(roles) or not domains:
        raise ValueError("validation sets and roles do not belong together")
    study = _study(tree, source)
    last = last_pretraining_step(study)
    sizes, batches = known_sizes(spec, study), known_batches(spec, study)
    frame = Frame(spec, domains, roles, reference, last, sizes, batches)
    _check_draws(tree, frame)
    _texts(tree, "problems")
    int(tree.attrs["seed"])
    if domains not in (study.trained_domains, (study.general,)):
        raise ValueError("its study has other validation sets")
    return tree, study, frame


def _tree(source: Path) -> "xr.DataTree":
    if (source / "study.toml").is_file():
        raise FitFileError(
            f"{source}: this is a study, not a fit. Fit it first: bayes-cpt fit {source} -o fit.nc."
        )
    if not source.is_file():
        raise FitFileError(
            f"{source}: there is no such fit. Write one with bayes-cpt fit STUDY -o {source}."
        )
    opened = _opened(source)
    if isinstance(opened, FitFileError):
        raise opened
    format_number = int(opened.attrs["bayes_cpt_format"])
    newest = max(FORMAT, STACK_FORMAT)
    if format_number > newest:
        raise FitFileError(
            f"{source}: the fit has format {format_number}, and this version reads up to {newest}. "
            "Upgrade bayes-cpt."
        )
    return opened


def _opened(source: Path) -> "xr.DataTree | FitFileError":
    """Return what is in a file, or what is wrong with it; either way the file is done with."""
    from bayes_cpt.inference.saved.netcdf import read_tree

    try:
        tree = read_tree(source)
        int(tree.attrs["bayes_cpt_format"])
        return tree
    except Exception as error:
        return _damaged(source, error)


def _damaged(source: Path, error: Exception) -> FitFileError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return FitFileError(
        f"{source}: this is not a fit of bayes_cpt ({said.rstrip('.')}). "
        "Name a file that bayes-cpt fit wrote; if this is one, it is damaged: fit again."
    )


def _spec_table(tree: "xr.DataTree") -> dict[str, Any]:
    """Return the table of the model; what earlier files state as a setting is a fixed parameter now."""
    import xarray as xr

    spec = _table(tree, "spec")
    if share := spec.get("residuals", {}).pop(EXTRAPOLATION, 0.0):
        spec["residuals"]["extrapolation"] = True
        fixed = {"distribution": "fixed", "value": share}
        spec["priors"][EXTRAPOLATION] = {"reason": "A setting of the model.", "every": fixed}
        for group in {"posterior", "prior"} & set(tree.children):
            draws = tree[group].to_dataset()
            tree[group][EXTRAPOLATION] = xr.full_like(draws["reference_slope"], share)
    return spec


def _table(tree: "xr.DataTree", name: str) -> dict[str, Any]:
    table = json.loads(tree.attrs[name])
    if not isinstance(table, dict):
        raise TypeError(f"its {name} is no table")
    return table


def _texts(tree: "xr.DataTree", name: str) -> tuple[str, ...]:
    texts = json.loads(tree.attrs[name])
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise TypeError(f"its {name} is no list of texts")
    return tuple(texts)


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _check_draws(tree: "xr.DataTree", frame: Frame) -> None:
    """Raise unless the draws are those of the frame's parameters and coefficients."""
    draws = tree["posterior"].to_dataset()
    if min(draws.sizes["chain"], draws.sizes["draw"]) < 1:
        raise ValueError("it has no draws")
    drawn = draw_priors(frame, 1, seed=0)
    with np.errstate(all="ignore"):
        wanted = set(drawn) | set(frame.law.coefficients(drawn, np))
    if strange := sorted(wanted ^ {str(name) for name in draws.data_vars}):
        raise ValueError(f"its draws are not those of its law: {strange[0]}")
    coords = frame.coords()
    for name, values in draws.data_vars.items():
        along = tuple(str(dim) for dim in values.dims)
        if along[:2] != ("chain", "draw") or not np.issubdtype(values.dtype, np.floating):
            raise ValueError(f"its draws of {name} have another form")
        if name in drawn:
            dims = frame.parameters()[str(name)].dims
            if along[2:] != ((dims,) if dims else ()):
                raise ValueError(f"its draws of {name} are of other validation sets")
        for dim in along[2:]:
            if dim not in coords or tuple(draws[dim].to_numpy().tolist()) != coords[dim]:
                raise ValueError(f"its draws of {name} are of other validation sets")


def _study(tree: "xr.DataTree", source: Path) -> Study:
    """Return the study that was fitted, from the texts of its files."""
    from bayes_cpt.study.folder import read_study

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # The user was warned when the study was fitted.
        warnings.simplefilter("ignore", StudyWarning)
        for name in STUDY_FILES:
            if name in tree["study"]:
                text = str(tree["study"][name].item())
                (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            # Messages name the file that is there, not the folder that will be gone.
            origin = Origin(settings=str(source), losses=str(source), rates=str(source))
            return replace(read_study(folder), origin=origin)
        except StudyError as error:
            first = str(error.problems[0]).replace(folder, "its study")
            raise FitFileError(
                f"{source}: the study in this fit is damaged: {first} Fit again."
            ) from None
