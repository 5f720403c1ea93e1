"""The file of a fit: written whole, and read without executing anything in it."""

import json
import math
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.errors import BayesCPTError, StudyError, StudyWarning
from bayes_cpt.files import replacing
from bayes_cpt.inference.law_checks import LawCheck
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import parse_spec
from bayes_cpt.study.study import Study
from bayes_cpt.study.validation import Origin

if TYPE_CHECKING:
    import xarray as xr

STUDY_FILES = ("study.toml", "losses.csv", "lr.csv")
# Attribute of a stack, and how its children are called, which hold a fit each.
WEIGHTS, LAW = "weights", "law_"
# Weights are written with all their digits.
ROUNDING = 1e-9
# A fit is megabytes; a file that claims more is made to fill the memory.
LARGEST = 4 * 2**30
ENGINE: Any = "netcdf4"


class FitFileError(BayesCPTError, ValueError):
    """A file that is not a fit, or a fit that is damaged."""


type Law = "tuple[xr.DataTree, Study, BoundModel]"


def write_fit(tree: "xr.DataTree", path: str | Path) -> None:
    """Write the tree of a fit or a stack, whole or not at all."""
    # By way of memory: HDF5 that runs out of disk may crash where Python raises. And a copy: the view that
    # xarray returns may crash Python if it outlives an error.
    content = bytes(tree.to_netcdf(engine=ENGINE))
    with replacing(path) as partial:
        partial.write_bytes(content)


def read_fit(path: str | Path) -> "tuple[xr.DataTree, list[Law]]":
    """Return what a fit's file holds: draws, study and frame of each law, one unless it is a stack."""
    source = Path(path)
    if (source / "study.toml").is_file():
        fix = f"Fit it first: bayes-cpt fit {quote(str(source))} -o fit.nc."
        raise FitFileError(f"{source}: this is a study, not a fit. {fix}")
    if not source.is_file():
        found = "this is a folder" if source.is_dir() else "this is not a file"
        problem = found if source.exists() else "there is no such fit"
        name = quote(str(source)) if source.suffix == ".nc" and not source.exists() else "fit.nc"
        raise FitFileError(f"{source}: {problem}. Write one with bayes-cpt fit STUDY -o {name}.")
    try:
        tree = read_tree(source)
    except Exception as error:
        raise _damaged(source, error) from None
    try:
        return tree, [_law(part, source) for part in _parts(tree)]
    # The study's files are written to a temporary folder, which may be full.
    except (FitFileError, OSError):
        raise
    # Whatever else a damaged, forged or older file makes the libraries say.
    except Exception as error:
        raise _damaged(source, error) from None


def _damaged(source: Path, error: Exception) -> FitFileError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return FitFileError(
        f"{source}: this is not a fit of bayes_cpt ({said.rstrip('.')}). "
        "Name a file that bayes-cpt fit wrote. If it is damaged or of another version, fit again."
    )


def read_tree(path: Path) -> "xr.DataTree":
    """Return what is in a netCDF file."""
    import xarray as xr

    with xr.open_datatree(path, engine=ENGINE) as tree:
        if sum(group.nbytes for group in tree.subtree) > LARGEST:
            raise ValueError("it claims to hold more than any fit")
        return tree.load()


def _parts(tree: "xr.DataTree") -> "list[xr.DataTree]":
    if WEIGHTS not in tree.attrs:
        return [tree]
    weights = json.loads(tree.attrs[WEIGHTS])
    if not weights or not all(isinstance(own, float) and 0 < own < math.inf for own in weights):
        raise ValueError("the weights of its laws are not positive numbers")
    if abs(sum(weights) - 1.0) > ROUNDING:
        raise ValueError("the weights of its laws do not add up to 1")
    names = [f"{LAW}{index}" for index in range(len(weights))]
    if set(names) != set(tree.children):
        raise ValueError("its numbers of laws and weights differ")
    _check_attributes(tree)
    return [tree.children[name] for name in names]


def _law(tree: "xr.DataTree", source: Path) -> Law:
    for name in ("posterior", "sample_stats", "constant_data"):
        if name not in tree.children:
            raise ValueError(f"it has no {name}")
    _check_attributes(tree)
    for record in json.loads(tree.attrs["law_checks"]):
        LawCheck(**record)
    json.loads(tree.attrs["missed_modes"])
    table = json.loads(tree.attrs["spec"])
    if not isinstance(table, dict):
        raise TypeError("its spec is not a table")
    spec, study = parse_spec(table, str(source)), _study(tree, source)
    frame = BoundModel.of(spec, study)
    _check_draws(tree["posterior"].to_dataset(), frame)
    return tree, study, frame


def _check_attributes(tree: "xr.DataTree") -> None:
    """Raise unless the attributes that are asked for without care have their form."""
    problems = json.loads(tree.attrs["problems"])
    if not isinstance(problems, list) or not all(isinstance(said, str) for said in problems):
        raise TypeError("its problems are not a list of strings")
    for name in ("seed", "attempts"):
        int(tree.attrs[name])


def _check_draws(draws: "xr.Dataset", frame: BoundModel) -> None:
    if min(draws.sizes["chain"], draws.sizes["draw"]) < 1:
        raise ValueError("it has no draws")
    infos = frame.parameters()
    with np.errstate(all="ignore"):
        drawn = draw_priors(frame, 1, seed=0)
        wanted = set(drawn) | set(frame.law.coefficients(drawn, np))
    if strange := sorted(wanted ^ {str(name) for name in draws.data_vars}):
        raise ValueError(f"its draws are not those of its law: {strange[0]}")
    coords = frame.coords()
    for name, values in draws.data_vars.items():
        along = tuple(str(dim) for dim in values.dims)
        if along[:2] != ("chain", "draw") or not np.issubdtype(values.dtype, np.floating):
            raise ValueError(f"its draws of {name} have another shape")
        own = infos[str(name)].dims if name in infos else along[2] if along[2:] else None
        known = all(dim in coords and tuple(draws[dim].values) == coords[dim] for dim in along[2:])
        if along[2:] != ((own,) if own else ()) or not known:
            raise ValueError(f"its draws of {name} are of other validation sets")


def _study(tree: "xr.DataTree", source: Path) -> Study:
    """Return the study that was fitted, from the texts of its files."""
    from bayes_cpt.study.folder import read_study

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # The user was warned when the study was fitted.
        warnings.simplefilter("ignore", StudyWarning)
        for name in STUDY_FILES:
            if name in tree["constant_data"]:
                text = str(tree["constant_data"][name].item())
                (Path(folder) / name).write_text(text, encoding="utf-8")
        # Messages name the file that is there, not the folder that will be gone.
        with suppress(StudyError):
            return read_study(folder, Origin(*[str(source)] * 3))
        # What is wrong with the study is named by its own files.
        try:
            return read_study(folder)
        except StudyError as error:
            first = str(error.problems[0]).replace(folder, "its study")
            damaged = f"{source}: the study in this fit is damaged: {first} Fit again."
            raise FitFileError(damaged) from None
