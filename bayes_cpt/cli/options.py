"""Options that several verbs have, worded once."""

from pathlib import Path
from typing import Annotated

import typer

# What every generator of the package takes.
LARGEST_SEED = 2**32 - 1


def _mass(value: float) -> float:
    if 0 < value < 1:
        return value
    hint = f": write {value / 100:g} for {value:g} %" if 1 <= value < 100 else ", as in 0.9"
    raise typer.BadParameter(f"{value:g} is not a mass between 0 and 1{hint}.")


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout in place of tables.")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print all tables, and every answer in words."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same numbers."),
]
Interval = Annotated[
    float,
    typer.Option(callback=_mass, help="Mass of the central intervals, between 0 and 1."),
]
Objective = Annotated[
    str,
    typer.Option(
        metavar="TOML_OR_PRESET",
        help="What to minimise: domain-focus, balanced, general-preserving, or a TOML file.",
    ),
]
SpaceFile = Annotated[
    Path | None,
    typer.Option(
        "--space",
        metavar="TOML",
        help=r"What may be chosen in the end, as in bayes-cpt decide \[default: its default].",
        show_default=False,
    ),
]
RefitDraws = Annotated[
    int | None,
    typer.Option(
        "--draws",
        min=100,
        help=r"Draws kept in each of the four chains of a fit \[default: 1000].",
        show_default=False,
    ),
]
StudyFolder = Annotated[
    Path,
    typer.Argument(metavar="STUDY", help="Folder with study.toml and losses.", show_default=False),
]
FitFile = Annotated[
    Path, typer.Argument(metavar="FIT", help="File that bayes-cpt fit wrote.", show_default=False)
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="Of several targets the one that is asked about, of runs on it alone.",
        show_default=False,
    ),
]
ScoresFile = Annotated[
    Path | None,
    typer.Option(
        "--scores",
        metavar="CSV",
        help="Losses and scores of checkpoints: columns benchmark, domain, loss, score (0 to 1), chance.",
        show_default=False,
    ),
]
