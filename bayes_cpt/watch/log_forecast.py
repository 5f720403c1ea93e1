"""Where one run will end, from its log alone: the law under learnt priors, given what the log shows.

The run is fitted as a study of its own, each validation set by itself. What one run does not tell, its base
or what annealing gains before it anneals, rests on the priors of the shipped models, and bands are as wide
as these leave them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import check_interval, is_number
from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.fitting import fit
from bayes_cpt.inference.posterior import Posterior, contraction
from bayes_cpt.inference.sampling import Progress
from bayes_cpt.model.fitted_points import first_step, observed_steps
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.logs.naming import TRAIN
from bayes_cpt.study.logs.raw import fail
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.study.logs.runs import Recipe, logged_run, read_run_log
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import LoggedSegment, Schedule, linear, warmup_stable_decay
from bayes_cpt.study.study import Study

MODELS = {"pt": "pretrain-log", "cpt": "cpt-log"}
RUN, BASE = "log", "base"
PLANNED, ANNEAL, LONGER = "as planned", "anneal now", "go on"
HELD = "last LR held"  # in place of PLANNED, where nothing tells how the rates go on
# From this share of a run on its last rates matter no more.
NEARLY_DONE = 0.99
# Share of a run over which the learning rate falls to 0 where the log does not plan it.
DECAY = 0.2
# A run whose learning rate is below this share of its peak has annealed: it cannot go on as it is.
ANNEALED = 0.05
# Pre-training starts near the loss of a uniform guess; no base is as bad, nor gains as much.
PT_LOSS, PT_FALL = 5.0, 1.0
# In so few steps no model learns that much from scratch.
FIRST_STEPS, BASE_LOSS = 20, 3.0
# With fewer losses where the law holds nothing can be said.
FEWEST = 4
# Median absolute fourth difference (nats): of bundled curves 9e-4 at the least.
SMOOTH = 1e-4
# A quantity that the run's losses narrow by less than this share rests on its prior.
TOLD = 0.5
# Points of a curve in tables and figures.
CURVE = 40


@dataclass(frozen=True, eq=False)
class LogForecast:
    """Where a run ends, in each of the ways that it may go on.

    Parameters
    ----------
    run : Run
        As the log plans it.
    now : int
        Last step that the log tells of.
    measured : DataFrame
        Columns step, domain and loss (nats/token).
    ways : mapping of str to Schedule
        The whole run's learning rates by how it may go on, those as planned first.
    curves : DataFrame
        Columns way, domain, step, mean, median, lower, upper and interval, nats/token; after `now`.
    on_priors : mapping of str to tuple of str
        By validation set what rests on priors learnt from other studies, as the run does not tell it.
    problems : tuple of str
        Why it is not to be trusted, by validation set.
    notes : tuple of str
        All that was assumed of the log.
    phase_given : bool
        Whether the phase of the run was said, and not taken by its losses.
    """

    run: Run
    now: int
    measured: pd.DataFrame
    ways: Mapping[str, Schedule]
    curves: pd.DataFrame
    on_priors: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), repr=False)
    phase_given: bool = True

    @property
    def table(self) -> pd.DataFrame:
        """Ends: one row a way and validation set, with the last measured loss as ``now``."""
        ends = self.curves.groupby(["way", "domain"], sort=False).tail(1)
        last = self.measured.groupby("domain")["loss"].last()
        return ends.assign(now=ends["domain"].map(last)).reset_index(drop=True)

    def __repr__(self) -> str:
        """Return the verdict: the arrays would fill pages."""
        return "\n".join(self.verdict())

    def verdict(self) -> list[str]:
        """Return the forecast in at most three lines."""
        from bayes_cpt.report.forecasts import log_verdict

        return log_verdict(self)


def forecast_log(
    logs: str | Sequence[str],
    *,
    steps: int | None = None,
    decay: float = DECAY,
    interval: float = 0.9,
    seed: int = 0,
    progress: Progress | None = None,
    **reading: Any,
) -> LogForecast:
    """Forecast the end of one run from its log, with no study and no fit at hand.

    Parameters
    ----------
    logs : str or sequence of str
        Files or folders: one log, its parts in the order in which they were written, or one
        for each validation set.
    steps : int, optional
        Also where the run would end after so many steps.
    decay : float
        Share of a run over which the learning rate falls to 0, where it anneals now or goes on.
    interval : float
        Mass of the central bands.
    seed : int
    progress : callable, optional
        Told what goes on and the share of it that is done.
    **reading
        Fields of `bayes_cpt.study.logs.runs.Recipe`: how the log is read, ``total_steps``,
        ``schedule`` and ``phase``, "pt" or "cpt".

    Returns
    -------
    LogForecast

    Raises
    ------
    StudyError
        If the log cannot be read, has no validation losses or learning rates, or is too short.

    Examples
    --------
    >>> forecast_log("out/trainer_state.json", steps=20_000).table  # doctest: +SKIP
    """
    check_interval(interval)
    if not is_number(decay) or not 0 < decay < 1:
        raise fail("key decay", f"decay is {decay!r}", "give a share between 0 and 1, as 0.2")
    paths = (logs,) if isinstance(logs, str) else tuple(logs)
    parts = [Recipe().changed(paths=(path,), **reading) for path in paths] or [Recipe()]
    (recipe, *_), log = read_run_log(RUN, parts, (TRAIN,))
    options = {"steps": steps, "decay": decay, "interval": interval, "seed": seed}
    told = recipe.schedule is not None
    return forecast_read(recipe, log, now=log.last_step, progress=progress, told=told, **options)


def forecast_read(recipe: Recipe, log: Log, *, now: int, **options: Any) -> LogForecast:
    """Forecast the end of one run from a log that was read; options as in `forecast_run`."""
    phase = recipe.phase or phase_of(log)
    known = {"base": BASE, "replay": 0.0} if phase == "cpt" else {}
    read = logged_run(RUN, log, recipe.changed(phase=phase), known, [BASE])
    found = forecast_run(read.run, read.losses, now, notes=read.notes, **options)
    return replace(found, phase_given=recipe.phase is not None)


def phase_of(log: Log) -> str:
    """Return the phase of a run by its losses: no base is as bad as pre-training is at its start."""
    if any(step <= FIRST_STEPS and loss < BASE_LOSS for step, _, loss in log.losses):
        return "cpt"
    for domain in log.domains:
        losses = [loss for _, own, loss in log.losses if own == domain]
        # Evaluations may begin late. A training loss summed over micro-batches is no mean.
        fell = losses[-1] < losses[0] and log.trained[:1] > (PT_LOSS,)
        if fell and abs(log.trained[-1] - losses[-1]) < PT_FALL:
            return "pt"
        if losses[0] > PT_LOSS or losses[0] - min(losses) > PT_FALL:
            return "pt"
    return "cpt"


def forecast_run(
    run: Run,
    losses: Sequence[tuple[int, str, float]],
    now: int,
    *,
    steps: int | None = None,
    decay: float = DECAY,
    interval: float = 0.9,
    seed: int = 0,
    progress: Progress | None = None,
    models: Mapping[str, str] | None = None,
    told: bool = True,
    notes: Sequence[str] = (),
) -> LogForecast:
    """Forecast a run with a planned schedule from its losses so far, to step `now`; see `forecast_log`.

    Losses are of a step and a validation set, in nats/token. Models go by phase, by name or as the path of
    a TOML file; they are those of `MODELS` unless given. Rates after `now` were told, or else are read from
    those before.
    """
    if not losses:
        raise fail("the log", "it has no validation loss", "wait for the first evaluation")
    rates = run.schedule.learning_rates()[: now + 1]
    if (np.diff(rates) >= 0).all() and rates.size > now and rates[now] > rates[now - 1]:
        problem = f"at step {now} the run still warms up: nothing tells yet what its peak LR does"
        raise fail("the log", problem, "wait for losses after the warm-up")
    measured = pd.DataFrame(losses, columns=["step", "domain", "loss"])
    ways = ways_on(run, now, steps, decay, told=told)
    spec = read_spec((models or MODELS)[run.phase])
    curves, on_priors, problems = [], {}, []
    domains = list(dict.fromkeys(measured["domain"]))
    for place, domain in enumerate(domains):
        rows = measured[measured["domain"] == domain]
        study = study_of(run, domain, rows)
        count = len(observed_steps(study, study.run(RUN), domain, spec.residuals))
        if count < FEWEST:
            first = first_step(study, study.run(RUN), spec.residuals)
            problem = "it is too short to say anything: the law holds from step "
            problem += f"{first:.0f} on, and {count} losses lie there"
            fix = f"wait for {FEWEST}"
            if domain != TRAIN:
                fix += ", or evaluate more often; --loss SERIES=train is the training loss"
            raise fail(f"the log, validation set {domain}", problem, fix)
        _check_measured(domain, rows["loss"].to_numpy(dtype=np.float64))

        def part(stage: str, share: float, domain: str = domain, place: int = place) -> None:
            if progress is not None:
                progress(f"{domain}: {stage}", (place + share) / len(domains))

        posterior = fit(study, spec, seed, progress=part)
        if short := "; ".join(posterior.problems):
            problems.append(f"{domain}: the draws fall short of their diagnostics ({short})")
        said = (own.problem.replace(f" of the run {RUN}", "") for own in study.misleading)
        # What is wrong with its schedule is said of each validation set.
        problems += [problem for problem in said if problem not in problems]
        on_priors[domain] = untold(posterior, domain)
        for way, schedule in ways.items():
            found = _curve(posterior, domain, schedule, now, interval, seed)
            curves.append(found.assign(way=way, domain=domain, interval=interval))
    measured = measured.sort_values(["domain", "step"], kind="stable")
    table = pd.concat(curves, ignore_index=True)
    for domain, lowest in table.groupby("domain", sort=False)["lower"].min().items():
        if lowest <= 0.0:
            problem = f"{domain}: the band reaches {lowest:.2g}, and no cross-entropy is below 0: the law "
            problems.append(f"{problem}does not hold so low, as of data that many epochs memorise")
    return LogForecast(run, now, measured, ways, table, on_priors, tuple(problems), tuple(notes))


def _check_measured(domain: str, losses: Floats) -> None:
    """Refuse losses that are smoother than any that were measured: they are hardly to be sampled."""
    bends = np.abs(np.diff(losses, n=4))
    if losses.size > 9 and (np.diff(losses) != 0).all() and np.median(bends) < SMOOTH:
        problem = "its losses do not fluctuate: they seem smoothed, or of a formula"
        raise fail(f"the log, validation set {domain}", problem, "give them as they were measured")


def ways_on(
    run: Run, now: int, steps: int | None, decay: float, *, told: bool = True
) -> dict[str, Schedule]:
    """Return the schedules, from the first step on, that a run may have after now.

    Its own is a plan where it was told, and not only read from rates so far.
    """
    schedule = run.schedule
    if steps is not None and steps <= now:
        fix = "give the steps of the whole run, those so far among them"
        raise fail("--steps", f"{steps} steps were asked for, and the log has {now} already", fix)
    rate = float(schedule.learning_rates()[min(now, schedule.steps) - 1])
    ways, ends_later = {}, schedule.steps > now
    if ends_later:
        last = schedule.segments[-1]
        logged = isinstance(last, LoggedSegment) and last.logged_steps[-1] < last.steps
        moves = logged and np.ptp(schedule.first(now).learning_rates()[-now // 20 :]) > 0
        # Runs that stay at their peak mostly anneal in the end.
        stays = not told and schedule.final == schedule.peak
        open_end = (moves or stays) and now < NEARLY_DONE * schedule.steps
        ways[HELD if open_end else PLANNED] = schedule
    longer = steps or (0 if ends_later else 2 * now)
    if rate >= ANNEALED * schedule.peak:
        done = schedule.first(now)
        ways[ANNEAL] = done + linear(max(1, round(now * decay / (1 - decay))), rate, 0.0)
        if longer:
            falling = min(max(1, round(decay * longer)), longer - now)
            rest = warmup_stable_decay(longer - now, rate, decay_steps=falling)
            ways[f"{LONGER} to {longer}"] = done + rest
    elif longer:
        # It has annealed, or is warming up: it cannot go on at this rate.
        ways[f"over {longer} steps by the same schedule"] = schedule.stretched(longer)
    return ways


def study_of(run: Run, domain: str, rows: pd.DataFrame) -> Study:
    """Return a study of one run and one validation set."""
    losses = rows.assign(run=RUN)
    own = replace(run, name=RUN)
    if run.phase == "pt":
        return Study(RUN, domain, None, (), (own,), losses[losses["step"] > 0])
    base = Base(BASE, known=False)
    own = replace(own, base=BASE)
    # A loss that rises is of data that the base knew and the run does not train on.
    risen = rows["loss"].iloc[-1] > rows["loss"].iloc[0]
    general, target = (domain, None) if risen else (None, domain)
    return Study(RUN, general, target, (base,), (own,), losses)


def untold(posterior: Posterior, domain: str) -> tuple[str, ...]:
    """Return the quantities that rest on priors: the run's losses hardly narrow them."""
    asked = [name for name in ("annealing_gain", "shift_share") if name in posterior.parameters()]
    pairs = ((posterior.prior_draws(own, domain), posterior.draws(own, domain)) for own in asked)
    return tuple(own for own, pair in zip(asked, pairs, strict=True) if contraction(*pair) < TOLD)


def _curve(
    posterior: Posterior, domain: str, schedule: Schedule, now: int, interval: float, seed: int
) -> pd.DataFrame:
    """Return bands after now of the run under another schedule, given its measured points."""
    study = posterior.study
    run = replace(study.run(RUN), schedule=schedule)
    planned = study.run(RUN).schedule.learning_rates()
    same = np.array_equal(planned[:now], schedule.learning_rates()[:now])
    first = now + 1 if same else max(1, schedule.steps // 20)
    steps = np.unique(np.linspace(first, schedule.steps, CURVE).astype(int))
    at = pd.DataFrame({"run": RUN, "domain": domain, "step": steps})
    if same:
        going_on = replace(posterior, study=replace(study, runs=(run,)))
        return bands(going_on, None, "known_run", at=at, seed=seed, interval=interval)
    return bands(posterior, replace(study, runs=(run,)), at=at, seed=seed, interval=interval)
