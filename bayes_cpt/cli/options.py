"""Options: what several verbs have is worded here by its name, all else in the docstring of its verb."""

import copy
import inspect
import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any, get_args

import typer

from bayes_cpt.cli.log_options import as_recipe
from bayes_cpt.cli.output import Answer, Output

# What every generator of the package takes.
LARGEST_SEED = 2**32 - 1
# Defaults that say nothing.
UNTOLD = (None, False, inspect.Parameter.empty)
SHORT = {"output": "-o", "verbose": "-v"}
# Of a verb's docstring: the section, and the name, metavariable and text of each parameter.
SECTION = "\n\nParameters\n----------\n"
DESCRIBED = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+\n?)+)", re.MULTILINE)


def _mass(value: float) -> float:
    if 0 < value < 1:
        return value
    hint = f": write {value / 100:g} for {value:g} %" if 1 <= value < 100 else ", as in 0.9"
    raise typer.BadParameter(f"{value:g} is not a mass between 0 and 1{hint}.")


def _enough(value: int | None) -> int | None:
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
# Draws of each of the four chains of a fit.
ChainDraws = Annotated[int | None, typer.Option(callback=_enough)]
# What has one meaning in most verbs, in the form of a section Parameters, and its limits.
SHARED = """
fit : FIT
    File that bayes-cpt fit wrote.
study : STUDY
    Folder with study.toml and losses.
plan : PLAN
    Runs: a study folder, or one TOML file [default: the fitted runs].
model : NAME
    Model, by name or as a .toml file of your own.
objective : TOML_OR_PRESET
    What to minimise: domain-focus, balanced, general-preserving, or a TOML file.
space : TOML
    What may be chosen in the end, as in bayes-cpt decide [default: its default].
target : NAME
    Of several targets the one that is asked about, of runs on it alone.
scores : CSV
    Losses and scores of checkpoints: columns benchmark, domain, loss, score (0 to 1), chance.
candidates
    Configurations looked at first; then more near the best.
draws
    Posterior draws to use.
interval
    Mass of the central intervals, between 0 and 1.
seed
    The same seed gives the same numbers.
runs : NAMES
    Runs to leave out, separated by commas [default: all that can be predicted].
tails : SHARES
    Predict what follows these shares of each run's steps; none does not.
jobs
    Processes on this machine [default: one per core].
dask : ADDRESS
    Scheduler of a running Dask cluster to use in place of them, as in tcp://host:8786.
output : FOLDER
    Folder for tables (CSV), figures (PNG) and words.
verbose
    Print all tables, and every answer in words.
pattern : PATTERN
    What lines of a text log look like, 'step {step} ... val loss {val_loss} ... lr {lr}', or a TOML of
    regular expressions; repeat for other lines.
loss : SERIES=SET
    A validation loss of the log and the validation set it is of; repeat for each [default: by the names].
rate : SERIES
    The learning rate [default: by its name].
step : COLUMN
    The series that counts the steps [default: by its name].
step_unit : UNIT
    It counts steps, tokens, samples, micro-batches or epochs.
per_step : N
    Tokens, samples or micro-batches of an optimiser step.
per_epoch : N
    Optimiser steps of an epoch.
unit : UNIT
    Of the losses: nats, bits (per token) or perplexity [default: by the names].
start : STEP
    Step of the log at which the run begins, if it counts on.
row_run : NAME
    Of tables of several runs: the one meant.
overlap : WHICH
    Which of two numbers of one step counts where the log does not say: first or last [default: refuse].
drop_nan
    Leave out losses that are not finite, and say so.
total_steps : N
    Length of the run [default: as the log says, else its last step].
schedule : SEGMENTS
    Learning rates as in study.toml, where the log has none: '[{ shape = "constant", steps = 300, start =
    1e-4, end = 1e-4 }]'.
phase : PHASE
    pt or cpt [default: cpt; for forecast, as the losses say].
base : NAME
    What a CPT run starts from [default: the study's only base].
model_size : N
    Non-embedding parameters, millions.
"""
LIMITS: dict[str, dict[str, Any]] = {
    "candidates": {"min": 1},
    "draws": {"min": 4},
    "interval": {"callback": _mass},
    "seed": {"min": 0, "max": LARGEST_SEED},
    "jobs": {"min": 1},
}


def listed(text: str | None) -> tuple[str, ...]:
    """Return the names of a list with commas between."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def read_shares(text: str) -> tuple[float, ...]:
    """Return the shares of a list such as 0.25,0.5; none of the word none."""
    if text == "none":
        return ()
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = (0.0,)
    if not all(0 < share < 1 for share in shares):
        raise typer.BadParameter(f"{text!r} is not a list of shares: write 0.25,0.5,0.75, or none.")
    return shares


def command(verb: Callable[..., Answer | int]) -> Callable[..., int]:
    """Return a verb as the parser takes it, which prints the verb's answer and returns its exit code.

    Positional arguments of the verb are arguments of the command, all others are options. Their help is
    what the section Parameters of its docstring says of them, else what `SHARED` does. ``written`` is an
    `Output`, for a verb that tells its progress, and not asked for. ``reading`` holds the options on how
    logs are read that its annotation names. A verb that prints as it goes returns its exit code itself.
    """
    signature = inspect.signature(verb)
    prose, _, section = inspect.cleandoc(verb.__doc__ or "").partition(SECTION)
    described = DESCRIBED.findall(f"{SHARED}{section}\n")
    words = {name: (metavar, text) for name, metavar, text in described}
    parameters = dict(signature.parameters)
    reading = parameters.pop("reading", None)
    options: dict[str, Any] = get_args(reading.annotation)[1] if reading else {}
    takes_output = parameters.pop("written", None) is not None
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    for name, kind in options.items():
        parameters[name] = keyword(name, default=False if kind is bool else None, annotation=kind)
    asked = [
        _worded(own, *words[name]) if name in words else own for name, own in parameters.items()
    ]
    asked.append(keyword("quiet", default=False, annotation=Quiet))
    asked.append(keyword("json", default=False, annotation=Json))

    @wraps(verb)
    def answered(*, quiet: bool, json: bool, **values: Any) -> int:
        written = Output(quiet, json)
        told = {name: value for name, value in values.items() if name not in options}
        if takes_output:
            values["written"] = written
        if options:
            values["reading"] = as_recipe({name: values.pop(name) for name in options})
        with written.cautions():
            answer = verb(**values)
        return written.give(answer, told) if isinstance(answer, Answer) else answer

    answered.__doc__ = prose
    # Typer reads what to ask for from both.
    answered.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
    answered.__annotations__ = {own.name: own.annotation for own in asked}
    return answered


def _worded(parameter: inspect.Parameter, metavar: str, text: str) -> inspect.Parameter:
    """Return a parameter of a verb with its help and limits."""
    base, info, name = parameter.annotation, None, parameter.name
    limits = LIMITS.get(name, {})
    if hasattr(base, "__metadata__"):
        base, info = get_args(base)
        info = copy.copy(info)
    elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        info = typer.Argument(**limits)
    else:
        # Of a switch that is off there is no option that turns it off.
        wanted = name in SHORT or parameter.default is False
        names = [f"--{name.replace('_', '-')}", SHORT.get(name)] if wanted else []
        info = typer.Option(*filter(None, names), **limits)
    info.metavar = metavar or None
    # A bracket is markup in help.
    info.help = " ".join(text.split()).replace("[", r"\[")
    info.show_default = all(parameter.default is not own for own in UNTOLD)
    return parameter.replace(annotation=Annotated[base, info])
