"""Trees of data to netCDF and back, all of them in memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

# A fit is megabytes; a file that claims more is made to fill the memory.
LARGEST = 4 * 2**30
# What xarray reads and writes netCDF with: through h5netcdf each of 150 variables costs milliseconds.
ENGINE = "netcdf4"


def read_tree(path: Path) -> "xr.DataTree":
    """Return what is in a netCDF file.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ValueError
        If it claims to hold more than any fit.
    OSError
        If it is not netCDF, or damaged.
    """
    import xarray as xr

    with xr.open_datatree(path, engine=ENGINE) as tree:
        if sum(group.nbytes for group in tree.subtree) > LARGEST:
            raise ValueError("it claims to hold more than any fit")
        return tree.load()


def as_bytes(tree: "xr.DataTree | xr.Dataset", **settings: Any) -> bytes:
    """Return the content of a netCDF file.

    To write it by way of memory is safe: HDF5 that runs out of disk may crash where Python raises.

    Parameters
    ----------
    tree : DataTree or Dataset
    settings
        More that xarray's ``to_netcdf`` takes.
    """
    write: Any = tree.to_netcdf
    # A copy: the view that xarray returns may crash Python if it outlives an error.
    return bytes(write(engine=ENGINE, **settings))
