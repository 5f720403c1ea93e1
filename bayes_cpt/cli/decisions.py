"""`bayes-cpt decide`, `next-run` and `schedule`: what to train, which short run first, how its LR falls."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import bayes_cpt
from bayes_cpt.cli.log_options import pairs
from bayes_cpt.cli.options import command, listed
from bayes_cpt.cli.output import Answer, Results
from bayes_cpt.cli.running import advised
from bayes_cpt.report.tables import Table

# Runs that next-run prints; all are written.
SHOWN = 6


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

    Every configuration of the space is judged by its final losses in all posterior draws. Prints what to
    train, how sure that is and what would change it; then distinct runners-up, each with its expected
    regret. With --verbose also in words where the best of each draw lies, what is traded for what,
    whether further runs could change the choice, and where it lies outside the fitted range.

    \b
    An objective (needs weights or a preset):
    \[weights]                     shares of the losses (Eq. 5); also other sets of the study, by name
    general = 0.3
    target = 0.5
    code = 0.2
    \[mixtures.code]               a set that the study lacks, by its weights of Eq. 6
    general = -0.1
    target = 1.1
    \[\[constraints]]               a chance constraint: P(rise above the reference base) at most
    domain = "general"
    rise = 0.02                   or limit = 3.1, a loss
    probability = 0.1

    \b
    With --scores (losses and scores of checkpoints), scores are reported and may be constrained:
    \[\[score_constraints]]         P(score falls below the reference base's by more than) at most
    benchmark = "mmlu"
    fall = 0.01                   or least = 0.3, a score
    probability = 0.1

    Keys before its first table: preset = "balanced", reference = "BASE" (what changes and rises are
    counted from, whatever base the run starts from; "own": from that; if left out, the base of the space
    with the lowest general loss), cost_per_1000_steps, cost_per_billion_tokens, cost_per_1000_gpu_hours or
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
    steps = [3000, 12000]         or tokens, gpu_hours or money
    unique_tokens = { target = 2e9 }   with tokens_per_step: epochs are then counted
    compute = { seconds_per_step = 1.8, gpus = 64, price = 2.5 }

    \b
    Example:
    bayes-cpt decide fit.nc --objective general-preserving --risk cvar -o decision
    bayes-cpt decide fit.nc --steps 30000 --base stable_12k
    bayes-cpt predict fit.nc --plan decision/plan.toml -o forecast.csv

    \b
    Exit codes:
    0  done
    1  done, but no configuration keeps the constraints, or law or fit cannot be trusted
    2  bad input: nothing is written; or no room for all files

    Parameters
    ----------
    space : TOML
        What may be chosen [default: base, replay and peak LR within what CPT runs tried; decay].
    steps : N
        Length of the run [default: that of the longest CPT run of the study].
    tokens : N
        Its length in tokens instead, as in 20B.
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
        expected, quantile:Q, cvar:Q (Q is 0.9 if left out) or best.
    output : FOLDER
        Folder for tables (CSV), the figure (PNG), the words, and the plan (TOML).
    tolerance
        Nats of the objective that make no difference.
    """
    from bayes_cpt.decisions.space import narrowed, read_space
    from bayes_cpt.report.decisions import decision_words
    from bayes_cpt.report.results import choices_table
    from bayes_cpt.study.folder import settings_text

    results = Results(output)
    posterior = bayes_cpt.load(fit)
    length = {"steps": steps, "tokens": tokens, "gpu_hours": hours, "money": cost}
    decision = bayes_cpt.decide(
        posterior,
        objective,
        narrowed(read_space(space), bases=base, replay=replay, peak=peak, **length),
        risk,
        scores=scores,
        draws=draws,
        candidates=candidates,
        tolerance=tolerance,
        seed=seed,
    )
    results.write("plan.toml", settings_text(decision.plan()))
    contenders, optimum = decision.table(interval), decision.optimum_table(interval)
    front = decision.front_table(interval)
    nothing = "No configuration of the space keeps the constraints; these come nearest."
    valuation, searched = decision.valuation, decision.space
    content = {
        "objective": valuation.objective.model_dump(mode="json"),
        "reference": valuation.reference.name if valuation.reference else None,
        "space": {name: quantity.model_dump() for name, quantity in searched.quantities.items()}
        | {"bases": [own.name for own in searched.bases], "decay_shape": searched.shapes},
        "searched": searched.searched,
        "draws": valuation.model.draws,
        "candidates": len(decision.search.candidates),
        "feasible": decision.feasible,
        "value_of_perfect_information": _nats(decision.information),
        "edges": [edge._asdict() for edge in decision.edges],
        "binding": [str(valuation.chances[place]) for place in decision.binding],
        "notes": searched.notes,
    }
    return advised(
        posterior,
        decision_words(decision, contenders, optimum, interval),
        results,
        content,
        tables={"contenders": contenders, "optimum": optimum, "front": front},
        figures={"decision": decision.plot},
        parts=[choices_table(decision, contenders)],
        verbose=verbose,
        problems=[] if decision.feasible or decision.search.beyond_law else [nothing],
    )


def _nats(pair: tuple[float, float]) -> dict[str, float]:
    """Return an average over draws and its Monte Carlo error, for machines."""
    return dict(zip(("nats", "error"), pair, strict=True))


@command
def next_run(
    fit: Path,
    *,
    runs: Path | None = None,
    objective: str = "balanced",
    space: Path | None = None,
    steps: int | None = None,
    run_steps: int | None = None,
    output: Path | None = None,
    candidates: int = 8192,
    interval: float = 0.9,
    draws: Annotated[int, typer.Option(min=50)] = 1000,
    seed: int = 0,
    verbose: bool = False,
) -> Answer:
    r"""Find the short run that would improve a decision most for its cost.

    The curves that each run may show are simulated from the posterior, and a regression tells how well the
    configurations of the space could be chosen with them at hand. Runs are ranked by the expected value of
    that (expected value of sample information, nats of the objective) per cost; none is worth more than
    knowing the law exactly. The table also says what each run tells about coefficients and effects.

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
    bayes-cpt next-run fit.nc --steps 30000 --runs probes.toml

    Parameters
    ----------
    runs : PLAN
        Runs that could be trained: a study folder or one TOML file, each with an optional cost
        [default: see above].
    steps : N
        Length of the long run to decide on [default: that of the longest CPT run of the study].
    run_steps : N
        Length of the default runs [default: a third of the typical CPT run].
    draws
        Posterior draws to use: more give smaller errors.
    """
    from bayes_cpt.decisions.next_run import MOST_TELLING
    from bayes_cpt.decisions.space import narrowed, read_space
    from bayes_cpt.report.decisions import run_words
    from bayes_cpt.report.words import notation

    results = Results(output)
    posterior = bayes_cpt.load(fit)
    values = bayes_cpt.next_run(
        posterior,
        objective,
        narrowed(read_space(space), steps=steps),
        runs,
        run_steps=run_steps,
        draws=draws,
        candidates=candidates,
        seed=seed,
    )
    tables = {"runs": values.table(), "information": values.information_table()}
    content = {
        "objective": values.valuation.objective.model_dump(mode="json"),
        "draws": values.valuation.model.draws,
        "value_of_perfect_information": _nats(values.perfect),
        "as_good_as_the_first": values.as_good(values.order[0]),
    }
    rows = tables["runs"]
    called = {name: own["subject"] for name, own in notation()["effects"].items()}
    told = rows["about"].map(called) + " on " + rows["on"]
    of_all = (rows.index < SHOWN) | (rows["run"] == MOST_TELLING)
    left, name = int((~of_all).sum()), values.valuation.objective.name
    worth = Table.of("worth", rows.assign(told=told)[of_all], objective=name)
    more = Text(f"{left} more are in --json and in what -o writes.", "dim")
    return advised(
        posterior,
        run_words(values, interval),
        results,
        content,
        tables=tables,
        figures={"next_run": values.plot},
        parts=[worth, *([more] if left else [])],
        verbose=verbose,
    )


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
    the base's learning rate, and the two are compared in every posterior draw.

    \b
    Example:
    bayes-cpt schedule fit.nc --steps 10000 -o schedule
    bayes-cpt schedule fit.nc --steps 12000 --replay 0.25 --base stable_12k -o schedule
    bayes-cpt predict fit.nc --plan schedule -o forecast.csv

    FOLDER is a plan of two runs, cosine and wsd.

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
        Highest learning rate, raw [default: the highest that decide looks at].
    """
    from bayes_cpt.decisions.schedule_choice import choose_schedule
    from bayes_cpt.report.decisions import schedule_words
    from bayes_cpt.study.folder import runs_text

    results = Results(output)
    posterior = bayes_cpt.load(fit)
    mixture = pairs("--targets", listed(targets), float) if "=" in (targets or "") else targets
    choice = choose_schedule(
        posterior, base, replay, steps, objective, targets=mixture, cap=cap, draws=draws
    )
    gains = choice.table(interval)
    content = {
        "base": choice.run.base,
        "replay": choice.run.replay,
        "targets": choice.run.mixture,
        "not_given": choice.taken,
        "cap": choice.cap,
        "objective": choice.valuation.objective.name,
        "advised": choice.advised,
        "noise": choice.noise,
        "outside": choice.outside,
        "learning_rate": choice.run.schedule.learning_rates().tolist(),
    }
    results.write("study.toml", runs_text(choice.plan.runs))
    return advised(
        posterior,
        schedule_words(choice, interval),
        results,
        content,
        tables={"gains": gains},
        figures={"schedule": choice.plot},
        parts=[Table.of("gains", gains, marked=gains["advised"], interval=interval)],
        verbose=verbose,
    )
