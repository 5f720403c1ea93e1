"""Forged and damaged files: refused in words, and nothing in them is executed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fault_workers
import h5py
import numpy as np
import pytest
import xarray as xr
from fault_workers import started, told

from bayes_cpt.errors import BayesCPTError
from bayes_cpt.inference.fit_files import read_tree, write_fit
from bayes_cpt.inference.posterior import load

# Changes a fit's file in place: to write all of it anew takes a hundred times as long.
type Edit = Callable[[h5py.File], None]


def attribute(name: str, value: Any) -> Edit:
    def edit(file: h5py.File) -> None:
        file.attrs[name] = value

    return edit


def spec(change: Callable[[dict[str, Any]], None]) -> Edit:
    def edit(file: h5py.File) -> None:
        table = json.loads(file.attrs["spec"])
        change(table)
        file.attrs["spec"] = json.dumps(table)

    return edit


def prior(name: str, **values: float) -> Edit:
    return spec(lambda table: table["priors"][name]["every"].update(values))


def study_text(name: str, text: str) -> Edit:
    def edit(file: h5py.File) -> None:
        file["constant_data"][name][()] = text

    return edit


def draws(change: Callable[[xr.Dataset], xr.Dataset]) -> Edit:
    """Write the draws anew: they are many variables that belong together."""

    def edit(file: h5py.File) -> None:
        path = file.filename
        file.close()
        tree = load(path).tree
        tree["posterior"] = xr.DataTree(change(tree["posterior"].to_dataset()))
        # Of a dimension without end there may be none.
        tree.to_netcdf(path, engine="netcdf4", unlimited_dims={"/posterior": ["draw"]})

    return edit


def without(name: str) -> Edit:
    def edit(file: h5py.File) -> None:
        if name in file:
            del file[name]
        else:
            del file.attrs[name]

    return edit


def forged(edit: Edit, cpt_fit_file: Path, target: Path) -> Path:
    """Return the file of a fit after an edit."""
    shutil.copy(cpt_fit_file, target)
    with h5py.File(target, "a") as file:
        edit(file)
    return target


IN_WORDS = "run,step,domain,loss\npt_trunk,9,general,low\n"
LONG = (
    '[study]\nname="s"\ngeneral="general"\n[runs.a]\nphase="pt"\n'
    'schedule=[{shape="constant",steps=1000000000000,start=1e-3,end=1e-3}]\n'
)
NESTED = "[" * 100_000 + "]" * 100_000
FORGERIES: dict[str, tuple[Edit, str]] = {
    "no spec": (without("spec"), "not a fit"),
    "spec is code": (attribute("spec", "__import__('os').system('touch here')"), "not a fit"),
    "spec is a list": (attribute("spec", "[]"), "its spec is not a table"),
    "spec is a number": (attribute("spec", 3.0), "not a fit"),
    "spec is nested": (attribute("spec", NESTED), "not a fit"),
    "spec without law": (spec(lambda table: table.pop("law")), "law"),
    "spec with a term": (spec(lambda t: t["law"].update(terms=["power", "os.system"])), "law.terms"),
    "spec with NaN": (prior("exponent", median=float("nan")), "median"),
    "memory without end": (prior("memory", lower=1e-9, upper=1e300), "memory"),
    "problems": (attribute("problems", "none"), "not a fit"),
    "problems of numbers": (attribute("problems", "[1]"), "not a list of strings"),
    "checks of another kind": (attribute("law_checks", '[{"kind": "run"}]'), "not a fit"),
    "seed": (attribute("seed", "pickle"), "not a fit"),
    "no posterior": (without("posterior"), "no posterior"),
    "no study": (without("constant_data"), "no constant_data"),
    "study is code": (study_text("study.toml", "import os"), "the study in this fit is damaged"),
    "study is long": (study_text("study.toml", LONG), "the study in this fit is damaged"),
    "no losses": (study_text("losses.csv", ""), "the study in this fit is damaged"),
    "a loss in words": (study_text("losses.csv", IN_WORDS), "its study/losses.csv, line 2, run"),
    "a parameter less": (draws(lambda d: d.drop_vars("memory")), "memory"),
    "a parameter more": (draws(lambda d: d.assign(evil=d["memory"])), "evil"),
    "draws of words": (draws(lambda d: d.assign(memory=d["memory"].astype(str))), "draws of memory"),
    "draws of one chain": (draws(lambda d: d.assign(memory=d["memory"][0])), "draws of memory"),
    "no draws": (draws(lambda d: d.isel(draw=slice(0, 0))), "no draws"),
    "huge": (lambda file: file.create_dataset("posterior/bomb", (10**12,), "f8", chunks=(1000,)),
             "more than any fit"),
    "domains turned": (draws(lambda d: d.assign_coords(domain=["kernel", "general"])),
                       "other validation sets"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_fit_is_refused_in_words(name: str, cpt_fit_file: Path, tmp_path: Path) -> None:
    edit, said = FORGERIES[name]
    target = forged(edit, cpt_fit_file, tmp_path / "forged.nc")
    with pytest.raises(BayesCPTError) as refused:
        load(target)
    assert str(refused.value).startswith(str(target))
    assert said in str(refused.value)
    assert "/tmp/tmp" not in str(refused.value)


def test_a_tree_comes_back_as_it_was(cpt_fit_file: Path, tmp_path: Path) -> None:
    """Dimensions, coordinates, truth values, texts, attributes and types alike."""
    first = read_tree(cpt_fit_file)
    again = tmp_path / "again.nc"
    write_fit(first, again)
    found = read_tree(again)
    xr.testing.assert_identical(found, first)
    for node in first.subtree:
        read = found[node.path].to_dataset()
        for name, variable in node.to_dataset().variables.items():
            assert read[name].dtype == variable.dtype


def test_loading_executes_nothing(cpt_fit_file: Path, tmp_path: Path) -> None:
    """No code is compiled or run, nothing is unpickled, no program started, nothing sent."""
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("true",)

    posterior = load(cpt_fit_file)
    attributes = {
        "pickled": np.frombuffer(pickle.dumps(Bomb()), dtype=np.uint8),
        "code": "__import__('os').system('true')",
        "problems": json.dumps(["__import__('os').system('true')"]),
    }
    posterior.tree.attrs.update(attributes)
    target = tmp_path / "forged.nc"
    posterior.save(target)
    assert told(fault_workers.load_under_watch, [cpt_fit_file, target]) == []


def test_damaged_bytes_are_refused_or_harmless(cpt_fit_file: Path, tmp_path: Path) -> None:
    """HDF5 is a library in C: a damaged file must not end the program either."""
    child, tell = started(fault_workers.load_damaged, cpt_fit_file, tmp_path, 0, 40)
    answers: list[Any] = []
    while not answers or answers[-1] != "done":
        assert tell.poll(120)
        answers.append(tell.recv())
    child.join()
    assert child.exitcode == 0
    assert set(answers) <= {"refused", "whole", "done"}
    assert answers.count("refused") >= 10
