"""The command line, `bayes-cpt`: parse, call the API, print.

Nothing heavy is imported before a verb needs it: `--help` and `check` know no PyMC.
"""

import codecs
import gc
import inspect
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

import bayes_cpt
from bayes_cpt.cli.before_fit import check, prior
from bayes_cpt.cli.decisions import decide, next_run, schedule
from bayes_cpt.cli.demo import demo
from bayes_cpt.cli.findings import landmarks, summary
from bayes_cpt.cli.fit import fit
from bayes_cpt.cli.one_log import advise, forecast
from bayes_cpt.cli.output import BAD_INPUT, Output, silence
from bayes_cpt.cli.pages import planner, report
from bayes_cpt.cli.predict import predict
from bayes_cpt.cli.refits import compare, learn_priors, validate
from bayes_cpt.cli.running import UsageError, usage_words
from bayes_cpt.cli.trainers import export, import_logs, init
from bayes_cpt.cli.watch import watch
from bayes_cpt.errors import BayesCPTError

INTERRUPTED, BROKEN_PIPE = 130, 141
PROGRAM = "bayes-cpt"
# New objects after which to look for circular garbage: imports make as many, and next to none are garbage.
GARBAGE = 100_000
# Read by the libraries of linear algebra when NumPy is imported, which is later.
LINEAR_ALGEBRA = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Name of how signs are written that the output's encoding lacks.
PLAIN = "plain"

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(docstring: str | None) -> str:
    r"""Return a docstring as Typer prints it best: prose in one line, blocks after \b as they are."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(
        text.removeprefix("\\b\n") if text.startswith("\\b\n") else " ".join(text.split())
        for text in paragraphs
    )


app.command(name="import", help=_help(import_logs.__doc__))(import_logs)
for _verb in (
    init, check, fit, summary, predict, decide, planner, next_run, schedule, landmarks, compare, report,
    prior, learn_priors, validate, export, watch, forecast, advise, demo,
):  # fmt: skip
    app.command(help=_help(_verb.__doc__))(_verb)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(bayes_cpt.__version__)
        raise typer.Exit


def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    r"""Bayesian scaling laws for continual pre-training: from runs to credible loss curves.

    A study is a folder of training runs: study.toml says what was run, losses.csv what was measured.
    Make one from logs, look at it, fit a law to it, read the law, predict runs that were never trained:

    \b
    bayes-cpt init study out/r00 out/r25 --open-base base --replay r00=0 --replay r25=0.25
    bayes-cpt import hf out/r50 --study study --run r50 --replay 0.5
    bayes-cpt check data/cpt-lab
    bayes-cpt prior cpt-replay --plan data/cpt-lab -o prior.png
    bayes-cpt fit data/cpt-lab --seed 1 -o fit.nc
    bayes-cpt summary fit.nc
    bayes-cpt predict fit.nc --plan plan.toml -o forecast.csv
    bayes-cpt decide fit.nc --objective balanced -o decision
    bayes-cpt planner fit.nc -o planner.html
    bayes-cpt next-run fit.nc --objective balanced -o next
    bayes-cpt schedule fit.nc --steps 12000 --replay 0.25 --base stable_12k -o schedule
    bayes-cpt export hf plan.toml --run long --fit fit.nc -o arguments.json
    bayes-cpt watch fit.nc --run long --plan plan.toml out/long/trainer_state.json
    bayes-cpt landmarks fit.nc --plan plan.toml -o landmarks
    bayes-cpt validate data/cpt-lab -o validation
    bayes-cpt compare data/cpt-lab --models cpt-replay,cpt-replay-printed -o comparison
    bayes-cpt report fit.nc -o report.html
    bayes-cpt learn-priors studies/a studies/b studies/c -o ours.toml

    With one run's log and no study, or with no run at all:

    \b
    bayes-cpt forecast out/trainer_state.json --steps 20000
    bayes-cpt advise --size 7B --tokens 20B --base annealed --target far

    With no study at hand, see all of that on a bundled one: bayes-cpt demo

    \b
    Exit codes:
    0  done
    1  done, but the posterior falls short of its diagnostics: do not trust the result
    2  bad input: what is wrong, where, and the fix are on stderr; nothing was written
       (or there was no room for all files)
    """


app.callback(help=_help(_program.__doc__))(_program)


# One for all command lines of a process.
_COMMAND = get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = list(arguments) or ["--help"]
    output = Output(quiet=False, machine="--json" in arguments)
    try:
        with _COMMAND.make_context(PROGRAM, arguments) as context:
            code = int(context.command.invoke(context) or 0)
        if sys.stdout:
            sys.stdout.flush()
        return code
    except typer.Exit as stop:
        return stop.exit_code
    except UsageError as error:
        _report(output, usage_words(error, PROGRAM))
    except BayesCPTError as error:
        _report(output, str(error), error)
    except (KeyboardInterrupt, typer.Abort) as stop:
        output.error(str(stop) or "Interrupted. No unfinished file is left behind.")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as stop:
        if BrokenPipeError not in (type(stop), type(stop.__context__)):
            raise
        # What reads the output has seen enough, and Rich, which prints help, would exit with code 1.
        silence(sys.stdout)
        return BROKEN_PIPE
    except OSError as error:
        problem = f"{error.filename or PROGRAM}: {error.strerror or error}"
        _report(output, f"{problem}. Check the path, the rights and the room on the disk.")
    except MemoryError:
        _report(output, f"{PROGRAM}: there is not enough memory. Use fewer --draws or runs.")
    return BAD_INPUT


def _report(output: Output, text: str, error: Exception | None = None) -> None:
    """Print what is wrong on stderr, and for machines the problems on stdout."""
    output.error(text)
    try:
        output.result({"error": text, "problems": getattr(error, "problems", ())})
        output.out.file.flush()
    except OSError:
        silence(sys.stdout)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for signs that the output's encoding lacks, and where to go on."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join("-" if sign == "−" else "?" for sign in lacking), error.end


def main() -> None:
    """Run the command line that the program was started with.

    Linear algebra gets one thread unless the environment says otherwise: matrices are small here, and what
    is long runs in threads or processes of its own. Circular garbage is looked for less often than Python
    does: that goes through all that modules and figures are made of, again and again, and finds little.
    """
    for variable in LINEAR_ALGEBRA:
        os.environ.setdefault(variable, "1")
    # Figures are written to files, and a notebook names a backend that this process may lack.
    os.environ["MPLBACKEND"] = "agg"
    codecs.register_error(PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)
    gc.set_threshold(GARBAGE)
    if sys.flags.optimize > 1:
        fix = "Unset PYTHONOPTIMIZE, or drop -OO."
        said = f"{PROGRAM}: Python drops docstrings, which ArviZ needs. {fix}"
        Output(quiet=False, machine=False).error(said)
        sys.exit(BAD_INPUT)
    ended: list[int] = []

    def end(number: int, _: Any) -> NoReturn:
        # As Ctrl-C does: the processes of refits end too.
        ended.append(128 + number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    code = run(sys.argv[1:])
    # As it ends Python would go through all of that several times more, for half a second.
    gc.freeze()
    sys.exit(ended[0] if ended and code == INTERRUPTED else code)
