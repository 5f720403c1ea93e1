"""Options: what several verbs have is worded in options.toml, all else in the docstring of its verb."""

import copy
import inspect
import re
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Annotated, Any, get_args

import typer

from bayes_cpt.cli.log_options import as_recipe
from bayes_cpt.cli.output import Answer, Output
from bayes_cpt.toml_files import packaged

# What every generator of the package takes.
LARGEST_SEED = 2**32 - 1
# Defaults that say nothing.
UNTOLD = (None, False, inspect.Parameter.empty)
SHORT = {"output": "-o", "verbose": "-v"}
# Of a verb's docstring: the section, and the name, metavariable and text of each parameter.
SECTION = "\n\nParameters\n----------\n"
DESCRIBED = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+\n?)+)", re.MULTILINE)
# Of a verb whose docstring names none; the second is of one that stands on a fit.
EXIT_CODES = (
    "\n\n\\b\nExit codes:\n0  done\n",
    "1  done, but the fit falls short of its diagnostics\n",
    "2  bad input: nothing is written; or no room for all files",
)


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


COUNT = re.compile(r"(\d*\.?\d+)(?:(e\+?\d+)|\s*([kmbt]))?", re.IGNORECASE)
UNITS = {"k": "e3", "m": "e6", "b": "e9", "t": "e12"}


def _count(text: str) -> float:
    found = COUNT.fullmatch(text.strip())
    if not found:
        raise typer.BadParameter(f"{text!r} is not a count: write 7B, 350M or 2e10.")
    return float(found[1] + (found[2] or UNITS.get((found[3] or "").lower(), "")))


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout in place of tables.")
]
KEPT = "Draws kept in each of the four chains of a fit [default: as many as the diagnostics need]."
ChainDraws = Annotated[int | None, typer.Option(callback=_enough, help=KEPT)]
LIMITS: dict[str, dict[str, Any]] = {
    "candidates": {"min": 1},
    "draws": {"min": 4},
    "interval": {"callback": _mass},
    "seed": {"min": 0, "max": LARGEST_SEED},
    "jobs": {"min": 1},
    **{name: {"parser": _count} for name in ("size", "tokens", "batch")},
}


@cache
def shared() -> dict[str, tuple[str, str]]:
    """Return the metavariables and the help of options that several verbs have, by name."""
    found = packaged("cli", "options.toml").items()
    return {name: (own.get("metavar", ""), own["help"]) for name, own in found}


def listed(text: str | None) -> tuple[str, ...]:
    """Return the names of a list with commas between."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def read_shares(text: str) -> tuple[float, ...]:
    """Return the shares of a list such as 0.25,0.5; none of the word none."""
    try:
        shares = () if text == "none" else tuple(map(float, text.split(",")))
    except ValueError:
        shares = (0.0,)
    if not all(0 < share < 1 for share in shares):
        raise typer.BadParameter(f"{text!r} is not a list of shares: write 0.25,0.5,0.75, or none.")
    return shares


def command(verb: Callable[..., Answer | int]) -> Callable[..., int]:
    """Return a verb as the parser takes it, which prints the verb's answer and returns its exit code.

    Positional arguments of the verb are arguments of the command, all others are options. Their help is
    what the section Parameters of its docstring says of them, else what options.toml does. ``written`` is
    an `Output`, for a verb that tells its progress, and not asked for. ``reading`` holds the options on how
    logs are read that its annotation names. A verb that prints as it goes returns its exit code itself.
    """
    signature = inspect.signature(verb)
    prose, _, section = inspect.cleandoc(verb.__doc__ or "").partition(SECTION)
    described = DESCRIBED.findall(f"{section}\n")
    words = shared() | {name: (metavar, text) for name, metavar, text in described}
    parameters = dict(signature.parameters)
    reading = parameters.pop("reading", None)
    options: dict[str, Any] = get_args(reading.annotation)[1] if reading else {}
    takes_output = parameters.pop("written", None) is not None
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    for name, kind in options.items():
        parameters[name] = keyword(name, default=False if kind is bool else None, annotation=kind)
    every = parameters.items()
    asked = [_worded(own, *words[name]) if name in words else own for name, own in every]
    asked.append(keyword("quiet", default=False, annotation=Quiet))
    asked.append(keyword("json", default=False, annotation=Json))

    @wraps(verb)
    def answered(*, quiet: bool, json: bool, **values: Any) -> int:
        written = Output(quiet, json)
        told = dict(values)
        if takes_output:
            values["written"] = written
        if options:
            values["reading"] = as_recipe({name: values.pop(name) for name in options})
        with written.cautions():
            answer = verb(**values)
        return written.give(answer, told) if isinstance(answer, Answer) else answer

    codes = EXIT_CODES if "fit" in parameters else EXIT_CODES[::2]
    answered.__doc__ = prose if "Exit codes:" in prose else prose + "".join(codes)
    # Typer reads what to ask for from both.
    answered.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
    answered.__annotations__ = {own.name: own.annotation for own in asked}
    return answered


def _worded(parameter: inspect.Parameter, metavar: str, text: str) -> inspect.Parameter:
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
    info.help = " ".join((info.help or text).split()).replace("[", r"\[")
    info.show_default = all(parameter.default is not own for own in UNTOLD)
    return parameter.replace(annotation=Annotated[base, info])
