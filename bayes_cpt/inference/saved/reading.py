"""A fit's netCDF file -> its tree, by HDF5 itself: through h5netcdf every variable costs milliseconds.

The files are written by xarray, and what is read is what `xarray.open_datatree` reads from them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

if TYPE_CHECKING:
    import xarray as xr

# A fit is megabytes; a file that claims more is made to fill the memory.
LARGEST = 4 * 2**30
# Attributes that netCDF keeps for itself.
HIDDEN = frozenset(
    {
        *("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid"),
        *("_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"),
    }
)
# What the name of a scale says that is a dimension alone, without values.
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def read_tree(path: Path) -> "xr.DataTree":
    """Return what is in a netCDF file, all of it in memory.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ValueError
        If it claims to hold more than any fit, or is not made as netCDF is.
    OSError
        If it is not HDF5, or damaged.
    """
    import xarray as xr

    with h5py.File(path, "r") as file:
        groups = {group.name: group for group in _groups(file)}
        if (
            sum(_size(dataset) for group in groups.values() for dataset in _datasets(group))
            > LARGEST
        ):
            raise ValueError("it claims to hold more than any fit")
        return xr.DataTree.from_dict({name: _dataset(group) for name, group in groups.items()})


def _groups(group: Any) -> Iterator[Any]:
    yield group
    for member in group.values():
        if isinstance(member, h5py.Group):
            yield from _groups(member)


def _datasets(group: Any) -> Iterator[Any]:
    return (member for member in group.values() if isinstance(member, h5py.Dataset))


def _size(dataset: Any) -> int:
    return int(dataset.size or 0) * int(dataset.dtype.itemsize)


def _dataset(group: Any) -> "xr.Dataset":
    """Return the variables and attributes of one group."""
    import xarray as xr

    variables = {}
    for dataset in _datasets(group):
        attributes = _attributes(dataset)
        if not bytes(dataset.attrs.get("NAME", b"")).startswith(NO_VARIABLE):
            variables[_name(dataset)] = xr.Variable(_dims(dataset), _values(dataset), attributes)
    return xr.decode_cf(xr.Dataset(variables, attrs=_attributes(group))).load()


def _name(dataset: Any) -> str:
    return str(dataset.name).rsplit("/", 1)[-1]


def _dims(dataset: Any) -> tuple[str, ...]:
    """Return the names of the scales of a dataset; one that is a scale has its own."""
    if "DIMENSION_LIST" in dataset.attrs:
        lists = dataset.attrs["DIMENSION_LIST"]
        return tuple(_name(dataset.file[references[0]]) for references in lists)
    if dataset.ndim == 1 and "CLASS" in dataset.attrs:
        return (_name(dataset),)
    if dataset.ndim:
        raise ValueError(f"{_name(dataset)} has dimensions without names")
    return ()


def _values(dataset: Any) -> Any:
    if h5py.check_string_dtype(dataset.dtype) is None:
        return dataset[()]
    return np.asarray(dataset.asstr()[()], dtype=str)


def _attributes(holder: Any) -> dict[str, Any]:
    """Return the attributes that are not netCDF's own, single ones as numbers."""
    found = {}
    for name in holder.attrs:
        if name not in HIDDEN:
            value = holder.attrs[name]
            single = isinstance(value, np.ndarray) and value.shape == (1,)
            found[name] = value[0] if single else value
    return found
