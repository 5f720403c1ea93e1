"""What the sub-commands of `bayes-cpt validate` share: options, and what marks their results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import option, output_option

if TYPE_CHECKING:
    from bayes_cpt.model.spec import ModelSpec

HELP = r"""See whether posteriors and forecasts are as sure as they should be.

\b
Example:
bayes-cpt validate forecast data/cpt-lab -o validation
bayes-cpt validate sbc --model pretrain -n 300 -o sbc-pretrain
"""

Model = Annotated[
    str, typer.Option(metavar="NAME", help="Model, by name or as a .toml file of your own.")
]
Jobs = Annotated[
    int | None, option(None, "Processes on this machine.", default="one per core", min=1)
]
Dask = Annotated[
    str | None,
    option(
        "ADDRESS",
        "Scheduler of a running Dask cluster to use in place of them, as in tcp://host:8786.",
    ),
]
Folder = Annotated[
    Path | None,
    output_option(
        "FOLDER", "Folder for tables and figures. What is done is saved there, and a rerun goes on."
    ),
]


def settings(specs: "Sequence[ModelSpec]", seed: int, **others: Any) -> dict[str, Any]:
    """Return all that results depend on: results with other settings must not be mixed with them."""
    from bayes_cpt.validate.tasks import described

    return described(specs) | {"seed": seed} | others
