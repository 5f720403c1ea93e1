"""Options: those that several verbs have are worded here, the others in their verb's docstring."""

import copy
import inspect
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bayes_cpt.cli.output import Answer, Output

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
# Of a verb's docstring: the section, and the name, metavariable and text of each parameter.
SECTION = "\n\nParameters\n----------\n"
DESCRIBED = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+\n?)+)", re.MULTILINE)


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


def _chain_draws(value: int | None) -> int | None:
    from bayes_cpt.inference.diagnostics import LOWEST_ESS

    needed = int(LOWEST_ESS) // 4
    if value is None or value >= needed:
        return value
    raise typer.BadParameter(
        f"{value} draws in each of four chains cannot reach the effective sample size that a fit is held "
        f"to, {LOWEST_ESS:g}: give {needed} or more, or leave --draws out."
    )


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
    option(None, "Draws kept in each of the four chains.", default=ENOUGH, callback=_chain_draws),
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


def command(verb: Callable[..., Answer | int]) -> Callable[..., int]:
    """Return a verb as the parser takes it, which prints the verb's answer and returns its exit code.

    A verb that prints as it goes returns its exit code itself.

    Positional arguments of the verb are arguments of the command, all others are options. What stands of
    them in the docstring becomes their help; those that are not described there have a type from this
    module. ``written`` is an `Output`, for a verb that tells its progress, and not asked for.
    """
    signature = inspect.signature(verb)
    prose, _, section = inspect.cleandoc(verb.__doc__ or "").partition(SECTION)
    said = {name: (metavar, text) for name, metavar, text in DESCRIBED.findall(f"{section}\n")}
    asked = [
        _worded(own, *said[name]) if name in said else own
        for name, own in signature.parameters.items()
        if name != "written"
    ]
    for name, annotation in (("quiet", Quiet), ("json", Json)):
        kind = inspect.Parameter.KEYWORD_ONLY
        asked.append(inspect.Parameter(name, kind, default=False, annotation=annotation))

    @wraps(verb)
    def answered(*, quiet: bool, json: bool, **values: Any) -> int:
        written = Output(quiet, json)
        if "written" in signature.parameters:
            values["written"] = written
        with written.cautions():
            answer = verb(**values)
        return written.give(answer) if isinstance(answer, Answer) else answer

    answered.__doc__ = prose
    # Typer reads what to ask for from both.
    answered.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
    answered.__annotations__ = {own.name: own.annotation for own in asked}
    return answered


def _worded(parameter: inspect.Parameter, metavar: str, text: str) -> inspect.Parameter:
    """Return a parameter of a verb with the help that its docstring has for it."""
    base, *own = get_args(parameter.annotation) if _annotated(parameter) else [parameter.annotation]
    if own:
        info = copy.copy(own[0])
    elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        info = typer.Argument()
    else:
        flag = [f"--{parameter.name.replace('_', '-')}"] if parameter.default is False else []
        info = typer.Option(*(("--output", "-o") if parameter.name == "output" else flag))
    info.metavar = metavar or None
    # A bracket is markup in help.
    info.help = " ".join(text.split()).replace("[", r"\[")
    info.show_default = parameter.default not in (None, inspect.Parameter.empty)
    return parameter.replace(annotation=Annotated[base, info])


def _annotated(parameter: inspect.Parameter) -> bool:
    return hasattr(parameter.annotation, "__metadata__")
