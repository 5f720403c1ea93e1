"""`bayes-cpt decide`, `next-run` and `schedule`: what to train, which short run first, how its LR falls."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import NUMBERS, Answer, OutputFile, Results, write_numbers
from bayes_cpt.cli.running import SAME, advised
from bayes_cpt.report.tables import Row, Table, columns, share, star, starred

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.decisions.next_run import RunValues
    from bayes_cpt.decisions.schedule_choice import ScheduleChoice

# The column of the table that shows a quantity that was searched, where it goes by another name.
SHOWN_AS = {
    "relative_peak": "peak",
    "warmup_share": "warmup_steps",
    "decay_share": "decay_steps",
    "relative_final": "final",
}
HEADINGS = {
    "loss_potential": "loss\npotential",
    "peak": "peak LR",
    "warmup_steps": "re-warm-up",
    "decay_shape": "decay",
    "decay_steps": "decay\nsteps",
    "final": "final LR",
}
# Of the table of choices: as a paper shows it, and all its numbers.
TABLES = (".csv", ".md", ".tex", *NUMBERS)
# Runs that next-run prints, and with --verbose; all are written.
SHOWN, MORE = 6, 20
SCHEDULES = {"free": "of any falling shape", "cosine": "cosine", "wsd": "hold-and-decay (WSD)"}


class Kind(StrEnum):
    """What a careful measure of risk is about."""

    expected = "expected"
    new_run = "new_run"


@command
def decide(
    fit: Path,
    *,
    objective: str = "balanced",
    space: Path | None = None,
    steps: int | None = None,
    tokens: float | None = None,
    hours: float | None = None,
    cost: float | None = None,
    base: str | None = None,
    replay: float | None = None,
    peak: float | None = None,
    risk: str = "expected",
    kind: Kind = Kind.expected,
    scores: Path | None = None,
    output: Path | None = None,
    tolerance: Annotated[float, typer.Option(min=0.0)] = 0.005,
    candidates: int = 8192,
    interval: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
    verbose: bool = False,
) -> Answer:
    r"""Choose base, replay ratio, learning rate and length of a run under the posterior of a fit.

    Every configuration of the space is judged by its final losses in all posterior draws. Printed are what
    to train, how sure that is and what would change it; then well separated runners-up, each with its
    expected regret. With --verbose also where the best of each draw lies, and in words what is traded for
    what, whether further runs could change the choice, and where it leaves what was fitted.

    \b
    An objective (all keys but weights may be left out):
    \[weights]                     shares of the losses (Eq. 5); also other sets of the study, by name
    general = 0.3
    target = 0.7
    \[mixtures.code]               a set that the study has not, by its weights of Eq. 6
    general = -0.1
    target = 1.1
    \[\[constraints]]               a chance constraint: P(rise above the base) at most
    domain = "general"
    rise = 0.02                   or limit = 3.1, a loss
    probability = 0.1

    \b
    With --scores (losses and scores of checkpoints), scores are reported and may be constrained:
    \[\[score_constraints]]         P(score falls below the base's by more than) at most
    benchmark = "mmlu"
    fall = 0.01                   or least = 0.3, a score
    probability = 0.1

    Before its first table may stand preset = "balanced", reference = "BASE" (what changes are counted
    from), cost_per_1000_steps, cost_per_billion_tokens, cost_per_1000_gpu_hours or
    cost_per_1000_spent (nats of the objective).

    \b
    \[limits]                      the most that a run may take
    target_epochs = 4             general_epochs, gpu_hours, money

    \b
    A space (each a number, a list, or a range):
    bases = ["stable_12k", "annealed_0pct"]
    replay = { low = 0.0, high = 0.8 }
    relative_peak = { low = 0.1, high = 1.0, scale = "log" }   or peak, raw
    warmup_share = 0.02           or warmup_steps, from the base's last LR to the peak
    decay_shape = ["cosine", "linear", "one_minus_sqrt"]
    decay_share = 1.0             of the steps after the re-warm-up
    relative_final = 0.1          or final, raw
    steps = [3000, 12000]         or tokens
    loss_potential = [0.0, 0.5]   other ends of the anneal of a single base
    unique_tokens = { target = 2e9 }   with tokens_per_step: epochs are then counted
    compute = { seconds_per_step = 1.8, gpus = 64, price = 2.5 }

    \b
    Example:
    bayes-cpt decide fit.nc --objective general-preserving --risk cvar -o decision
    bayes-cpt decide fit.nc --steps 30000 --base stable_12k
    bayes-cpt predict fit.nc --plan decision/plan.toml -o forecast.csv
    bayes-cpt decide fit.nc -o choices.tex

    \b
    Exit codes:
    0  done
    1  done, but no configuration keeps the constraints, or the fit falls short of its diagnostics
    2  bad input: nothing is written

    Parameters
    ----------
    space : TOML
        What may be chosen [default: base, replay, peak LR near what CPT runs tried; decay].
    steps : N
        Length of the run [default: that of the longest CPT run of the study].
    tokens
        Its length in tokens instead.
    hours
        Its length in GPU-hours instead, by the study's compute.
    cost
        Its length in money instead, by the study's compute.
    base : NAME
        Base to start from [default: searched].
    replay : SHARE
        Share of general data [default: searched].
    peak : LR
        Peak LR, raw [default: searched].
    risk : MEASURE
        expected, quantile:Q, cvar:Q, mean-sd:K, best or beat:RUN.
    kind
        Whether the risk is of the expected loss or of what a new run may show.
    output : OUT
        Folder to write tables (CSV), the figure (PNG), the words and the plan (TOML) into; or a file for
        the table of choices: .csv, .md, or .tex for a paper (booktabs), .parquet or .json for programs.
    tolerance
        Nats of the objective that make no difference.
    """
    from bayes_cpt.decisions.decision import decide as choose
    from bayes_cpt.decisions.space import narrowed, read_space
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.study.folder import settings_text

    is_table = output is not None and output.suffix in TABLES
    file = OutputFile(output if is_table else None, TABLES, fit)
    results = Results(None if is_table else output)
    posterior = load(fit)
    lengths = {"steps": steps, "tokens": tokens, "gpu_hours": hours, "money": cost}
    decision = choose(
        posterior,
        objective,
        narrowed(
            read_space(space), posterior.study, lengths=lengths, base=base, replay=replay, peak=peak
        ),
        risk,
        kind=kind.value,
        scores=scores,
        draws=draws,
        candidates=candidates,
        tolerance=tolerance,
        seed=seed,
    )
    tables = {
        "contenders": decision.table(interval),
        "optimum": decision.optimum_table(interval),
        "front": decision.front_table(interval),
    }
    content = {**_facts(decision), **tables, "seed": seed}
    if file.path is not None:
        _write_choices(file, decision, tables["contenders"], interval)
        content["files"] = {"contenders": str(file.path)}
    nothing = "No configuration of the space keeps the constraints; these come nearest."
    return advised(
        fit,
        posterior,
        decision,
        interval,
        results,
        content,
        tables=tables,
        figures={"decision": decision.plot},
        plan={"plan.toml": settings_text(decision.plan())},
        main=[_choices(tables["contenders"], decision), *file.said],
        detail=lambda: _detail(tables, interval),
        verbose=verbose,
        problems=[] if decision.feasible else [nothing],
    )


def _choices(table: "pd.DataFrame", decision: "Decision") -> Table:
    """Return what was chosen among, the recommendation first."""
    from bayes_cpt.report.numbers import fixed, signed
    from bayes_cpt.report.results import taken_columns

    valuation = decision.valuation
    spread = float(decision.contenders.values.std(axis=1).min())
    change = partial(signed, spread=spread)
    cells: dict[str, Any] = {"option": "option"}
    for name in (SHOWN_AS.get(quantity, quantity) for quantity in decision.space.searched):
        cells[HEADINGS.get(name, name)] = (name, "3") if table[name].dtype.kind in "if" else name
    cells |= taken_columns(table)
    domains = (*valuation.model.domains, *valuation.thirds)
    cells |= {domain: (f"{domain}_change", change) for domain in domains}
    cells |= {name: (f"{name}_change", "+.3f") for name in valuation.links}
    cells |= {
        "objective": ("objective", change),
        "regret": ("regret", partial(fixed, spread=decision.information[1])),
        f"within\n{decision.criterion.tolerance:g}": ("p_within", "%"),
    }
    for index in range(1, len(valuation.objective.chances) + 1):
        cells[f"P(breach\n{index})"] = (f"breach_{index}", "%")
    reference = valuation.reference.name if valuation.reference else "its own base"
    title = f"Choices by {valuation.objective.name}: change from {reference}, nats/token"
    outside = table["outside"]
    return Table(title, starred(table, "option"), cells, note=star(outside), marked=outside)


def _detail(tables: "dict[str, pd.DataFrame]", interval: float) -> list[Table]:
    percent, contenders = f"{100 * interval:g} %", tables["contenders"]
    mixture = "targets | " if "targets" in contenders else ""
    configuration = (
        f"option | base | decay=decay_shape | {mixture}replay | steps | re-warm-up=warmup_steps | "
        "peak LR=peak | final LR=final"
    )
    objective = (
        "option | median=objective:.4f | lower=objective_lower:.4f | upper=objective_upper:.4f | "
        "regret:.4f | is the best=p_best:%"
    )
    shown = [
        Table("The configurations", contenders, configuration),
        Table(f"The objective, with {percent} intervals", contenders, objective),
    ]
    if not (optimum := tables["optimum"]).empty:
        # Of numbers their interval, of names their shares.
        chosen, of_name = optimum["recommended"], optimum["value"].notna()
        rows = optimum.assign(
            quantity=optimum["quantity"].str.replace("_", " "),
            value=optimum["value"].fillna(""),
            recommended=chosen.mask(of_name, chosen.map({True: "yes", False: ""})),
        )
        cells = (
            "quantity | value | draws=probability:% | median | lower | upper | at lowest=at_lowest:% | "
            "at highest=at_highest:% | recommended"
        )
        title = f"Where the best of each draw lies, with {percent} intervals"
        shown.append(Table(title, rows, cells, group="quantity"))
    return shown


def _write_choices(
    file: OutputFile, decision: "Decision", table: "pd.DataFrame", interval: float
) -> None:
    """Write the table of choices, for a paper or for programs."""
    from bayes_cpt.report.results import choices_table
    from bayes_cpt.report.tables import WRITERS

    suffix = file.path.suffix if file.path else ""
    if suffix in NUMBERS:
        file.write(partial(write_numbers, table))
    else:
        file.write(WRITERS[suffix](choices_table(decision, interval)))


def _nats(pair: tuple[float, float]) -> dict[str, float]:
    """Return an average over draws and its Monte Carlo error, for machines."""
    return dict(zip(("nats", "error"), pair, strict=True))


def _facts(decision: "Decision") -> dict[str, Any]:
    """Return the JSON of a decision apart from its tables."""
    valuation, space = decision.valuation, decision.space
    return {
        "objective": valuation.objective.model_dump(mode="json"),
        "reference": valuation.reference.name if valuation.reference else None,
        "space": {name: quantity.model_dump() for name, quantity in space.quantities.items()}
        | {"bases": [base.name for base in space.bases], "decay_shape": space.shapes},
        "searched": space.searched,
        "risk": str(decision.criterion.measure),
        "kind": "new_run" if decision.criterion.new_run else "expected",
        "tolerance": decision.criterion.tolerance,
        "draws": valuation.model.draws,
        "candidates": len(decision.search.candidates),
        "feasible": decision.feasible,
        "value_of_perfect_information": _nats(decision.information),
        "edges": [edge._asdict() for edge in decision.edges],
        "binding": [str(valuation.objective.chances[place]) for place in decision.binding],
        "notes": space.notes,
    }


@command
def next_run(
    fit: Path,
    *,
    runs: Path | None = None,
    objective: str = "balanced",
    space: Path | None = None,
    about: list[str] | None = None,
    steps: int | None = None,
    output: Path | None = None,
    candidates: int = 8192,
    interval: float = 0.9,
    draws: Annotated[int, typer.Option(min=50)] = 1000,
    seed: int = 0,
    verbose: bool = False,
) -> Answer:
    r"""Find the short run that would sharpen a decision most for its cost.

    The curves that each run may show are simulated from the posterior, and a regression tells how well the
    configurations of the space could be chosen with them at hand. Runs are ranked by the expected value of
    that (expected value of sample information, nats of the objective) per cost; none is worth more than to
    know the law exactly. Beside it stands what each run tells about coefficients and effects.

    A run pays if it is worth more than its price in the objective, or, without a price, than the same
    steps would gain if they lengthened the run that is chosen now.

    \b
    PLAN, besides what study.toml says of runs:
    \[runs.probe]
    phase = "cpt"
    base = "stable_12k"
    replay = 0.5
    schedule = \[ { shape = "cosine", steps = 1000, start = 0.002, end = 0 } ]
    cost = 1500                   in steps of the long run; its own steps unless given

    Without a PLAN: from every base, at replay 0, 0.25, 0.5 and 0.75, to the PT peak and then annealed to 0
    or held there; and the run that would tell most of what the fit leaves open, which summary names.

    \b
    Example:
    bayes-cpt next-run fit.nc --objective general-preserving -o next
    bayes-cpt next-run fit.nc --runs probes.toml --about replay_effect --about B

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written

    Parameters
    ----------
    runs : PLAN
        Runs that could be trained: a study folder or one TOML file, each with an optional cost
        [default: see above].
    about : NAME
        Coefficient or effect to report, as summary names them; may be repeated [default: all].
    steps : N
        Length of the default runs [default: a third of the typical CPT run].
    draws
        Posterior draws to use: more, smaller errors.
    """
    from bayes_cpt.decisions.next_run import MOST_TELLING
    from bayes_cpt.decisions.next_run import next_run as value
    from bayes_cpt.inference.posterior import load

    results = Results(output)
    posterior = load(fit)
    values = value(
        posterior,
        objective,
        space,
        runs,
        about=tuple(about or ()),
        steps=steps,
        draws=draws,
        candidates=candidates,
        seed=seed,
    )
    tables = {"runs": values.table(), "information": values.information_table()}
    content = {
        "objective": values.valuation.objective.model_dump(mode="json"),
        "seed": seed,
        "draws": values.valuation.model.draws,
        "value_of_perfect_information": _nats(values.perfect),
        **tables,
        "as_good_as_the_first": values.as_good(values.order[0]),
    }
    shown = tables["runs"]
    shown = shown[(shown.index < SHOWN) | (shown["run"] == MOST_TELLING)]
    left = len(tables["runs"]) - len(shown)
    more = Text(f"{left} more are in --json and in what -o writes.", "dim")
    return advised(
        fit,
        posterior,
        values,
        interval,
        results,
        content,
        tables=tables,
        figures={"next_run": values.plot},
        main=[_worth(shown, values), *([more] if left > 0 else [])],
        detail=lambda: [_most_about(tables["runs"].head(MORE))],
        verbose=verbose,
    )


def _worth(table: "pd.DataFrame", values: "RunValues") -> Table:
    """Return what each run is worth and must be worth, in thousandths of a nat."""
    from bayes_cpt.report.numbers import decimals

    def worth(row: Row) -> str:
        digits = decimals(1000.0 * row["error"])
        return f"{1000.0 * row['value']:.{digits}f} ± {1000.0 * row['error']:.{digits}f}"

    cells = columns("run | cost:g") | {"worth": worth}
    cells |= columns("must be=price:2 | changes the choice=changes:%")
    title = (
        f"What runs are worth to {values.valuation.objective.name}, 0.001 nats, the most for its cost "
        "first"
    )
    rows = starred(table, "run").assign(price=1000.0 * table["hurdle"])
    return Table(title, rows, cells, note=star(table["outside"]), marked=table["outside"])


def _most_about(table: "pd.DataFrame") -> Table:
    told = table["about"].str.replace("_", " ") + " on " + table["on"]
    rows = table.assign(told=told, rate=1000.0 * table["per_1000_steps"])
    cells = "run | tells most about=told | per 1,000 steps\n(0.001 nats)=rate:.2g"
    return Table("What each tells most about", rows, cells)


@command
def schedule(
    fit: Path,
    *,
    steps: int,
    replay: float | None = None,
    base: str | None = None,
    targets: str | None = None,
    objective: str = "balanced",
    cap: float | None = None,
    output: Path | None = None,
    interval: float = 0.9,
    draws: int = 400,
    verbose: bool = False,
) -> Answer:
    r"""Find the best schedule of a run: a cosine, or one that is held and then decays (WSD).

    Up to a highest learning rate the best of either is found, from the end of a short line that starts at
    the base's learning rate, and the two are compared in every posterior draw. Beside them stands the best
    schedule of any falling shape. The law's annealing term rewards one that drops to 0 at once, which no
    study has tried: it says what further shapes could gain at most, and is not advised.

    \b
    Example:
    bayes-cpt schedule fit.nc --steps 10000 -o schedule
    bayes-cpt schedule fit.nc --steps 12000 --replay 0.25 --base stable_12k -o schedule
    bayes-cpt predict fit.nc --plan schedule -o forecast.csv

    FOLDER is a plan of three runs, free, cosine and wsd. Its lr.csv has the learning rate of every step
    of free.

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written

    Parameters
    ----------
    steps : N
        Length of the run.
    replay : SHARE
        Share of general data [default: the best of the study's for the objective].
    base : NAME
        Base of the fitted study [default: the best that its CPT runs start from].
    targets : MIXTURE
        Of several targets one, or shares as in code=0.7,law=0.3 [default: the best of the study's].
    cap : LR
        Highest learning rate, raw [default: the highest that the study was trained at].
    """
    from bayes_cpt.decisions.schedule_choice import choose_schedule
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.study.folder import runs_text

    results = Results(output)
    posterior = load(fit)
    choice = choose_schedule(
        posterior, base, replay, steps, objective, targets=_mixture(targets), cap=cap, draws=draws
    )
    table = choice.table(interval)
    content = {
        "base": choice.base.name,
        "replay": choice.replay,
        "targets": choice.mixture,
        "not_given": choice.taken,
        "steps": steps,
        "cap": choice.cap,
        "objective": choice.valuation.objective.name,
        "advised": choice.advised,
        "gains": table,
        "noise": choice.noise,
        "outside": choice.outside,
        "learning_rate": choice.schedules[choice.advised].learning_rates().tolist(),
    }
    return advised(
        fit,
        posterior,
        choice,
        interval,
        results,
        content,
        tables={"lr": choice.rates(), "gains": table},
        figures={"schedule": choice.plot},
        plan={"study.toml": runs_text(choice.plan.runs)},
        main=[_against(choice, interval)],
        detail=lambda: [_gains(table)],
        verbose=verbose,
    )


def _mixture(words: str | None) -> str | dict[str, float] | None:
    """Return the mixture that ``code=0.7,law=0.3`` stands for; the name of a single target as it is."""
    if words is None or "=" not in words:
        return words
    shares = {}
    for part in words.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            hint = "write NAME=SHARE with commas between, as in code=0.7,law=0.3."
            raise typer.BadParameter(
                f"--targets {words}: {part!r} is not a share: {hint}"
            ) from None
    return shares


def _against(choice: "ScheduleChoice", interval: float) -> Table:
    """Return where each schedule ends beside others, and = where no gain can be detected."""
    import pandas as pd

    from bayes_cpt.decisions.schedule_choice import PAIRS
    from bayes_cpt.report.numbers import Estimate

    rows = []
    for family, against in PAIRS:
        change = Estimate.of(-choice.gains(family, against), interval)
        detectable = choice.is_detectable(family, against)
        shown = f"{change.change} ({change.band})" if detectable else SAME
        rows.append((SCHEDULES[family], SCHEDULES[against], shown))
    table = pd.DataFrame(rows, columns=["the best", "against the best", "ends, nats"])
    title = f"Where schedules end, with {100 * interval:g} % intervals"
    return Table(title, table, note=f"{SAME} no detectable gain")


def _gains(table: "pd.DataFrame") -> Table:
    """Return by how much each schedule ends lower, in numbers."""
    cells: dict[str, Any] = {"the best": "schedule", "than the best": "against"}
    cells |= {end: (end, "+.4f") for end in ("median", "lower", "upper")}
    cells["ends lower"] = ("probability", share)
    rows = table.replace({"schedule": SCHEDULES, "against": SCHEDULES})
    title = "By how much each schedule ends lower, nats"
    return Table(title, rows, cells, marked=table["advised"], group="the best")
