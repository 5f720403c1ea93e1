"""Options that several verbs have, worded once."""

from pathlib import Path
from typing import Annotated, Any

import typer

# What every generator of the package takes.
LARGEST_SEED = 2**32 - 1
PLAN = "Runs: a study folder, or one TOML file."
SPACE = "What may be chosen in the end, as in bayes-cpt decide."
ENOUGH = "as many as the diagnostics need"
DASK = "Scheduler of a running Dask cluster to use in place of them, as in tcp://host:8786."
RESULTS = "Folder for tables (CSV), figures (PNG) and words."
GOES_ON = "What is done is saved there, and a rerun goes on."
TARGET = "Of several targets the one that is asked about, of runs on it alone."
SCORES = (
    "Losses and scores of checkpoints: columns benchmark, domain, loss, score (0 to 1), chance."
)


def option(metavar: str | None, text: str, *names: str, default: str = "", **limits: Any) -> Any:
    """Return an option that has no default to show, or one that only words can tell: `default`.

    Its text ends with a full stop, and the default stands before that.
    """
    if default:
        text = rf"{text.removesuffix('.')} \[default: {default}]."
    return typer.Option(*names, metavar=metavar, help=text, show_default=False, **limits)


def output_option(metavar: str, text: str) -> Any:
    """Return the option for what a verb writes."""
    return option(metavar, text, "--output", "-o")


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
SpaceFile = Annotated[Path | None, option("TOML", SPACE, "--space", default="its default")]
Draws = Annotated[int, typer.Option(min=4, help="Posterior draws to use.")]
Candidates = Annotated[
    int, typer.Option(min=1, help="Configurations looked at first; then more near the best.")
]
FitDraws = Annotated[
    int | None,
    option(None, "Draws kept in each of the four chains.", default=ENOUGH, min=10),
]
RefitDraws = Annotated[
    int | None,
    option(None, "Draws kept in each of the four chains of a fit.", default="1000", min=100),
]
StudyFolder = Annotated[
    Path,
    typer.Argument(metavar="STUDY", help="Folder with study.toml and losses.", show_default=False),
]
FitFile = Annotated[
    Path, typer.Argument(metavar="FIT", help="File that bayes-cpt fit wrote.", show_default=False)
]
Plan = Annotated[Path | None, option("PLAN", PLAN, default="the fitted runs")]
Model = Annotated[
    str, typer.Option(metavar="NAME", help="Model, by name or as a .toml file of your own.")
]
RunNames = Annotated[
    str | None,
    option("NAMES", "Runs to leave out, separated by commas.", default="all that can be predicted"),
]
Tails = Annotated[
    str,
    typer.Option(
        metavar="SHARES",
        help="Predict what follows these shares of each run's steps; none does not.",
    ),
]
Jobs = Annotated[
    int | None, option(None, "Processes on this machine.", default="one per core", min=1)
]
Dask = Annotated[str | None, option("ADDRESS", DASK)]
ResultFolder = Annotated[Path | None, output_option("FOLDER", RESULTS)]
WorkFolder = Annotated[Path | None, output_option("FOLDER", f"{RESULTS} {GOES_ON}")]
Target = Annotated[str | None, option("NAME", TARGET, "--target")]
ScoresFile = Annotated[Path | None, option("CSV", SCORES, "--scores")]


def listed(text: str | None) -> tuple[str, ...]:
    """Return the names of a list with commas between."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
