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
from children import started, told
from synthetic import lab, prior_as_posterior

from bayes_cpt.errors import BayesCPTError
from bayes_cpt.inference.posterior import load
from bayes_cpt.inference.saved.fit_files import FitFileError
from bayes_cpt.inference.saved.netcdf import as_bytes, read_tree
from bayes_cpt.model.spec import read_spec

# Fits of earlier versions.
OLD = Path(__file__).parents[2] / "data" / "fits"
# What HDF5 says of a dimension of netCDF that has no values.
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


@pytest.fixture(scope="module")
def fit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fit that cost no sampling."""
    path = tmp_path_factory.mktemp("fit") / "fit.nc"
    study = lab().subset(["pt_trunk", "r00_cos", "r25_cos"])
    prior_as_posterior(study, draws=10).save(path)
    return path


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


def study_text(name: str, text: str) -> Edit:
    def edit(file: h5py.File) -> None:
        file["study"][name][()] = text

    return edit


def draws(change: Callable[[xr.Dataset], xr.Dataset]) -> Edit:
    """Write the draws anew: they are many variables that belong together."""

    def edit(file: h5py.File) -> None:
        path = file.filename
        file.close()
        tree = load(path).tree
        tree["posterior"] = xr.DataTree(change(tree["posterior"].to_dataset()))
        # Of a dimension without end there may be none.
        content = as_bytes(tree, unlimited_dims={"/posterior": ["draw"]})
        Path(path).write_bytes(content)

    return edit


def without(name: str) -> Edit:
    def edit(file: h5py.File) -> None:
        if name in file:
            del file[name]
        else:
            del file.attrs[name]

    return edit


def forged(edit: Edit, fit_file: Path, target: Path) -> Path:
    """Return the file of a fit after an edit."""
    shutil.copy(fit_file, target)
    with h5py.File(target, "a") as file:
        edit(file)
    return target


NESTED = "[" * 100_000 + "]" * 100_000
FORGERIES: dict[str, tuple[Edit, str]] = {
    "newer": (attribute("bayes_cpt_format", 99), "Upgrade bayes-cpt"),
    "no format": (without("bayes_cpt_format"), "not a fit"),
    "format of words": (attribute("bayes_cpt_format", "one"), "not a fit"),
    "no spec": (without("spec"), "not a fit"),
    "a setting of words": (
        spec(lambda table: table["residuals"].update(extrapolation_pt="wide")),
        "not a fit",
    ),
    "spec is code": (attribute("spec", "__import__('os').system('touch here')"), "not a fit"),
    "spec is a list": (attribute("spec", "[]"), "its spec is no table"),
    "spec is a number": (attribute("spec", 3.0), "not a fit"),
    "spec is nested": (attribute("spec", NESTED), "not a fit"),
    "spec without law": (spec(lambda table: table.pop("law")), "law"),
    "spec with a term": (
        spec(lambda table: table["law"].update(terms=["power", "os.system"])),
        "law.terms",
    ),
    "spec with NaN": (
        spec(lambda t: t["priors"]["exponent"]["every"].update(median=float("nan"))),
        "median",
    ),
    "memory without end": (
        spec(lambda t: t["priors"]["memory"]["every"].update(lower=1e-9, upper=1e300)),
        "memory",
    ),
    "reference of words": (attribute("reference", '{"steps": "many"}'), "not a fit"),
    "reference of zeros": (
        attribute(
            "reference",
            '{"learning_rate": 0, "forward_pt": 0, "forward_cpt": 0, "steps": 0}',
        ),
        "made of positive numbers",
    ),
    "other domains": (attribute("domains", '["a", "b"]'), "other validation sets"),
    "one domain": (attribute("domains", '["general"]'), "do not belong together"),
    "domains are a path": (attribute("domains", '"../../etc"'), "no list of texts"),
    "roles": (attribute("roles", '["target", "general"]'), "do not belong together"),
    "problems": (attribute("problems", "none"), "not a fit"),
    "seed": (attribute("seed", "pickle"), "not a fit"),
    "no posterior": (without("posterior"), "no posterior"),
    "no study": (without("study"), "no study"),
    "study is code": (study_text("study.toml", "import os"), "the study in this fit is damaged"),
    "study is long": (
        study_text(
            "study.toml",
            '[study]\nname="s"\ngeneral="general"\n[runs.a]\nphase="pt"\n'
            'schedule=[{shape="constant",steps=1000000000000,start=1e-3,end=1e-3}]\n',
        ),
        "the study in this fit is damaged",
    ),
    "no losses": (study_text("losses.csv", ""), "the study in this fit is damaged"),
    "a parameter less": (draws(lambda d: d.drop_vars("memory")), "memory"),
    "a parameter more": (draws(lambda d: d.assign(evil=d["memory"])), "evil"),
    "draws of words": (
        draws(lambda d: d.assign(memory=d["memory"].astype(str))),
        "draws of memory",
    ),
    "draws of one chain": (draws(lambda d: d.assign(memory=d["memory"][0])), "draws of memory"),
    "no draws": (draws(lambda d: d.isel(draw=slice(0, 0))), "no draws"),
    "domains turned": (
        draws(lambda d: d.assign_coords(domain=["kernel", "general"])),
        "other validation sets",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_fit_is_refused_in_words(name: str, fit_file: Path, tmp_path: Path) -> None:
    edit, said = FORGERIES[name]
    target = forged(edit, fit_file, tmp_path / "forged.nc")
    with pytest.raises(BayesCPTError) as refused:
        load(target)
    assert str(refused.value).startswith(str(target))
    assert said in str(refused.value)
    assert "/tmp/tmp" not in str(refused.value)


def test_a_command_refuses_a_forged_fit_in_words(
    fit_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bayes_cpt.cli import run

    edit, said = FORGERIES["no draws"]
    target = forged(edit, fit_file, tmp_path / "forged.nc")
    assert run(["summary", str(target)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_a_share_that_was_a_setting_is_a_fixed_parameter(tmp_path: Path) -> None:
    """Files of earlier days state under the residuals by what share of the slope bands widen."""
    study = lab().subset([run.name for run in lab().pretraining_runs])
    saved = tmp_path / "fit.nc"
    prior_as_posterior(study, read_spec("pretrain"), draws=10).save(saved)

    def as_before(table: dict[str, Any]) -> None:
        del table["residuals"]["extrapolation"], table["priors"]["extrapolation_pt"]
        table["residuals"]["extrapolation_pt"] = 0.25

    def edit(file: h5py.File) -> None:
        spec(as_before)(file)
        del file["posterior"]["extrapolation_pt"]

    posterior = load(forged(edit, saved, tmp_path / "before.nc"))
    np.testing.assert_array_equal(posterior.parameters()["extrapolation_pt"], 0.25)
    now = load(saved)
    names = set(now.parameters()) - {"extrapolation_pt"}
    for name in names:
        np.testing.assert_array_equal(posterior.parameters()[name], now.parameters()[name])


@pytest.mark.parametrize("old", ["", *(path.name for path in OLD.glob("*.nc"))])
def test_what_is_read_is_what_the_file_holds(old: str, fit_file: Path) -> None:
    path = OLD / old if old else fit_file
    found = read_tree(path)
    with h5py.File(path, "r") as file:
        groups = {name: group for name, group in file.items() if isinstance(group, h5py.Group)}
        assert set(found.children) == set(groups)
        said = file.attrs["spec"]
        assert found.attrs["spec"] == (said.decode() if isinstance(said, bytes) else said)
        for group, held in groups.items():
            variables = {
                name: values
                for name, values in held.items()
                if not bytes(values.attrs.get("NAME", b"")).startswith(NO_VARIABLE)
            }
            read = found[group].to_dataset()
            assert set(read.variables) == set(variables)
            for name, values in variables.items():
                assert read[name].shape == values.shape
                if values.dtype.kind in "fi":
                    np.testing.assert_array_equal(read[name], values)
        assert len(found["posterior"].data_vars) > 5


def test_a_tree_comes_back_as_it_was(fit_file: Path, tmp_path: Path) -> None:
    """Dimensions, coordinates, truth values, texts, attributes and types alike."""
    first = read_tree(fit_file)
    again = tmp_path / "again.nc"
    again.write_bytes(as_bytes(first))
    found = read_tree(again)
    xr.testing.assert_identical(found, first)
    for node in first.subtree:
        read = found[node.path].to_dataset()
        for name, variable in node.to_dataset().variables.items():
            assert read[name].dtype == variable.dtype


def test_a_file_that_claims_to_be_huge_is_refused(fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "huge.nc"
    target.write_bytes(fit_file.read_bytes())
    with h5py.File(target, "a") as file:
        file.create_dataset("posterior/bomb", shape=(10**12,), chunks=(1000,), dtype="f8")
    with pytest.raises(FitFileError, match="more than any fit"):
        load(target)


def test_loading_executes_nothing(fit_file: Path, tmp_path: Path) -> None:
    """No code is compiled or run, nothing is unpickled, no program started, nothing sent."""
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("true",)

    posterior = load(fit_file)
    attributes = {
        "pickled": np.frombuffer(pickle.dumps(Bomb()), dtype=np.uint8),
        "code": "__import__('os').system('true')",
        "problems": json.dumps(["__import__('os').system('true')"]),
    }
    posterior.tree.attrs.update(attributes)
    target = tmp_path / "forged.nc"
    posterior.save(target)
    assert told(fault_workers.load_under_watch, [fit_file, target]) == []


def test_damaged_bytes_are_refused_or_harmless(fit_file: Path, tmp_path: Path) -> None:
    """HDF5 is a library in C: a damaged file must not end the program either."""
    child, tell = started(fault_workers.load_damaged, fit_file, tmp_path, 0, 40)
    answers: list[Any] = []
    while not answers or answers[-1] != "done":
        assert tell.poll(120)
        answers.append(tell.recv())
    child.join()
    assert child.exitcode == 0
    assert set(answers) <= {"refused", "whole", "done"}
    assert answers.count("refused") >= 10
