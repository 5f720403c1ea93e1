"""A plain object for any training loop: give it losses as they come, ask it whether the run is on track.

Other ends of the schedule, and stopping now, are set against going on as planned: the ends of all are drawn
together with the points that have arrived, one draw of the law, its discrepancy and the noise. So what the
run has shown informs each, by conditioning a Gaussian, and a difference between two has its own error.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, get_type_hints

import numpy as np
from pydantic import TypeAdapter

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.errors import ProblemError
from bayes_cpt.forecast.plans import first_step, with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.study.logs.runs import differing_rate
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, Segment, constant, linear
from bayes_cpt.study.study import Study
from bayes_cpt.watch.expected import INFLATION, Expected, Row, drawn_curves, faulty, rows_at

DRAWS = 2000
# Shares of the whole run over which a continuation decays, where that ends before the run would.
DECAYS = (0.1, 0.2)
# A continuation is advised where it is better with at least this probability.
SURE = 0.8
STOP = "stop now"
LEVEL = 0.05
# A run is parted into so many stretches, even in the square root of the step, and one evaluation of each is
# kept, so that memory does not grow: those between add little.
STRETCHES = 40
# Kept between two looks, beside the points.
KEPT = ("_gap", "_latest", "_newest", "_losses", "off_since", "diverged", "disagreements")
# Loss at step 0, nats/token: one further from that of the plan's base is of another base or validation set.
SAME_BASE = 0.02
# By what share the tokens of a step may differ from the plan's, and a rate that is called as large.
SAME_SHARE = 0.02


@dataclass(frozen=True)
class Continuation:
    """One way to go on, beside the run as planned."""

    name: str
    end: int  # its last step
    # By how much the objective ends below that of the run as planned, costs included, nats/token
    mean: float
    lower: float
    upper: float
    probability: float  # that it ends below


@dataclass(frozen=True)
class Continuations:
    """What could be done with the rest of a run."""

    objective: str
    ways: tuple[Continuation, ...]  # the best first

    @property
    def advised(self) -> Continuation | None:
        """The best one; None where going on as planned may as well be the best."""
        best = self.ways[0] if self.ways else None
        return best if best is not None and best.probability >= SURE and best.mean > 0 else None


def schedules_from(run: Run, now: int) -> dict[str, tuple[Schedule, int]]:
    """Return other schedules after so many steps and their last steps by name, each as long as the run.

    After its last step a schedule is held: all continuations are then drawn by the same random numbers.
    """
    total = run.schedule.steps
    rate = float(run.schedule.learning_rates()[now - 1])
    done = run.schedule.first(now)
    found = {"decay to 0 evenly from now on": (done + linear(total - now, rate, 0.0), total)}
    for end in (now + round(share * total) for share in DECAYS):
        if end < total:
            schedule = done + linear(end - now, rate, 0.0) + constant(total - end, 0.0)
            found[f"decay to 0 until step {end}"] = (schedule, end)
    return found


def _given(gain: Floats, seen: Floats, measured: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of a gain given what was measured."""
    off = seen - seen.mean(axis=0)
    covariance = off.T @ off / (len(seen) - seen.shape[1] - 2) + 1e-10 * np.eye(seen.shape[1])
    across = off.T @ (gain - gain.mean()) / len(seen)
    slope = np.linalg.solve(covariance, across)
    variance = max(float(gain.var() - across @ slope), 0.0)
    return float(gain.mean() + slope @ (measured - seen.mean(axis=0))), variance**0.5


@dataclass(frozen=True)
class Status:
    """How a run is doing.

    Parameters
    ----------
    step : int
        Of the last evaluation, 0 before the first.
    steps : int
        Of the whole run.
    on_track : bool
    probability : float
        Share of healthy runs that stray from their forecast as far as this one has, at any time.
    off_since : int or None
        Step at which the run was first found off track.
    looks_like : str or None
        What would explain the departure, of what the law can forecast.
    losses : dict of str to float
        Last measured loss by validation set, nats/token.
    forecast : dict of str to dict
        ``mean``, ``lower``, ``upper`` of the loss at the last step, and what was forecast before any
        evaluation, ``planned_lower`` and ``planned_upper``; nats/token. Empty once the run has
        diverged, as ``gain_left`` is.
    gain_left : dict of str to dict
        ``mean``, ``lower``, ``upper``: by how much going on to the end is forecast to lower the loss.
    notes : list of str
    disagreements : list of str
        What the job's log states that is not as the run was planned: then the forecast is of another run.
    """

    step: int
    steps: int
    on_track: bool
    probability: float
    off_since: int | None
    looks_like: str | None
    losses: dict[str, float]
    forecast: dict[str, dict[str, float]]
    gain_left: dict[str, dict[str, float]]
    notes: list[str]
    disagreements: list[str] = field(default_factory=list)

    def verdict(self) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.words import paragraphs

        return paragraphs("watch.txt", "verdict", {"status": self})

    def words(self) -> str:
        """Return the verdict in one line."""
        return " ".join(self.verdict())


def _measured(
    rows: Sequence[Row], points: Mapping[int, Mapping[str, float]]
) -> tuple[list[int], Floats]:
    """Return which rows were measured, and the losses there."""
    places = [place for place, row in enumerate(rows) if row.domain in points.get(row.step, {})]
    return places, np.array([points[rows[place].step][rows[place].domain] for place in places])


@dataclass
class Watcher:
    """Follows one run against the forecast of a fit.

    Memory and the time of an update do not grow with the run: at most one evaluation of each of `STRETCHES`
    stretches of it is kept and judged; the forecast is given the newest one too.

    Parameters
    ----------
    posterior : Posterior
    run : str
        A run of the plan.
    plan : Study, optional
        Where the run is; the fitted study unless given.
    level : float
        Share of healthy runs for which an alarm is given at any time of theirs.
    interval : float
        Mass of the central intervals.
    inflation : float
        By how much real runs depart further from their forecast than the fit says.

    Raises
    ------
    StudyError
        If there is no such run.

    Examples
    --------
    In a training loop::

        watcher = Watcher(bayes_cpt.load("fit.nc"), "long", bayes_cpt.read_plan("plan.toml", study))
        status = watcher.update(step, {"general": 3.31, "kernel": 2.47})
        if not status.on_track:
            print(status.words())
    """

    posterior: "Posterior"
    run: str
    plan: Study | None = None
    level: float = LEVEL
    interval: float = 0.9
    inflation: float = INFLATION
    points: dict[int, dict[str, float]] = field(default_factory=dict, init=False)
    off_since: int | None = field(default=None, init=False)
    diverged: int | None = field(default=None, init=False)
    disagreements: dict[str, str] = field(default_factory=dict, init=False)
    # Whether a log has learning rates, and they are the planned ones.
    rates_agree: bool = field(default=False, init=False)
    _gap: int = field(default=1, init=False)
    _latest: int = field(default=0, init=False)
    # What was told of the newest step, which `points` may not have.
    _newest: dict[int, dict[str, float]] = field(default_factory=dict, init=False)
    _losses: dict[str, float] = field(default_factory=dict, init=False)
    _expected: tuple[Expected, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        plan = self.posterior.study.without_losses() if self.plan is None else self.plan
        self._study = with_base_losses(self.posterior.study, self.posterior.frame.domains, plan)
        self._run: Run = self._study.run(self.run)
        self._total = self._run.schedule.steps
        self.posterior = self.posterior.with_new_groups(self._study, [self._run])
        self._outside = outside_range(self.posterior.study, self._study, self._run)
        # The law of PT is fitted to what comes after this step, and says nothing of what comes before.
        self._first = first_step(self.posterior, self._run)
        # Half of a central interval, in sds.
        self._width = NormalDist().inv_cdf(0.5 + self.interval / 2)

    def update(self, step: int, losses: Mapping[str, float]) -> Status:
        """Tell of an evaluation, and return how the run is doing.

        Parameters
        ----------
        step : int
            Inside the run, from 1; 0 is the base, whose loss the forecast uses already.
        losses : mapping of str to float
            By validation set, nats/token; those that the fit does not know are left aside. A step given
            again replaces what was given before: a restarted job repeats itself.
        """
        self.tell(step, losses)
        return self.status()

    def tell(self, step: int, losses: Mapping[str, float]) -> None:
        """Note an evaluation without asking for the status."""
        known = {d: float(losses[d]) for d in self.posterior.frame.domains if d in losses}
        if not 1 <= step <= self._total or not known:
            return
        if not all(math.isfinite(loss) for loss in known.values()):
            self.diverged = step if self.diverged is None else min(step, self.diverged)
            self._latest = max(step, self._latest)
            return
        before = self.points.get(step, {})
        if step < self._latest and any(before.get(d, loss) != loss for d, loss in known.items()):
            # The job was restarted: what came later belongs to the run that was given up.
            self.points = {own: told for own, told in self.points.items() if own < step}
            kept = sorted(self.points.items())
            self._losses = dict(last for _, told in kept for last in told.items())
            self._latest, self.off_since, self.disagreements = step, None, {}
        if self.diverged is not None and step < self.diverged:
            # From before it diverged, or its log is read again.
            self.diverged, self._latest = None, step
        if step > self._first:
            # Of each stretch of the run its first evaluation is looked at, and the last step.
            for domain, loss in known.items():
                taken = {self._stretch(s): s for s, own in self.points.items() if domain in own}
                if step == self._total or taken.get(self._stretch(step), step) == step:
                    self.points.setdefault(step, {})[domain] = loss
        if step != self._latest:
            self._gap = max(1, abs(step - self._latest))
        if step >= self._latest:
            self._newest = {step: {**self._newest.get(step, {}), **known}}
            self._latest, self._losses = step, {**self._losses, **known}

    def _stretch(self, step: int) -> int:
        return min(int(STRETCHES * math.sqrt(step / self._total)), STRETCHES - 1)

    @property
    def _told(self) -> dict[int, dict[str, float]]:
        """The points and the newest evaluation: what the forecast is given."""
        newest = {step: told for step, told in self._newest.items() if step > self._first}
        return {**self.points, **newest}

    def compare(self, log: Log) -> None:
        """Compare what a job's log states with the plan: steps, learning rates, tokens of a step, its base.

        What disagrees is the first thing that `Status` says, and is kept: a log may be cut.
        """
        found: dict[str, str] = {}
        run, planned = self._run, self._total
        if log.stated.steps not in (None, planned):
            found["steps"] = f"The log announces {log.stated.steps} steps, the plan {planned}."
        # A program that counts from 0 may be one step off.
        elif (last := max((step for step, *_ in log.losses), default=0)) > planned + 1:
            why = "another run, or its counter goes on from an earlier one (--start)"
            found["steps"] = f"The log goes up to step {last}, the plan to {planned}: {why}."
        wrong = differing_rate(log, run.schedule, *_from_zero(run.schedule))
        self.rates_agree = bool(log.rates) and wrong is None
        if wrong is not None:
            step, rate, meant = wrong
            apart = meant > 0 and abs(rate / meant - 1.0) > SAME_SHARE
            times = f", {rate / meant:.3g} times as much" if apart else ""
            logged = f"The logged learning rate is {rate:g} at step {step}"
            found["learning rate"] = f"{logged}, the planned one {meant:g}{times}."
        tokens, own = log.stated.batch_tokens, run.batch_tokens or self._study.tokens_per_step
        if tokens and own and abs(tokens - own) > SAME_SHARE * own:
            found["tokens"] = f"The log has {tokens:g} tokens a step, the plan {own:g}."
        for step, domain, loss in log.losses:
            if step or self._run.base is None or domain not in self.posterior.frame.domains:
                continue
            begins = self._study.base_loss(self._run.base, domain)
            if begins is not None and abs(loss - begins) > SAME_BASE:
                start = f"The log starts from a loss of {loss:.3f} on {domain}"
                found["base"] = f"{start}, the base of the plan from {begins:.3f}."
        kept = self.disagreements if self.points or not self.rates_agree else {}
        self.disagreements = found | kept

    def expect(self, steps: Iterable[int]) -> None:
        """Say at which steps the run will be evaluated, where that is known before.

        Otherwise forecasts are drawn again, in about a second, whenever evaluations come at unexpected
        steps; so they are for each that its stretch does not keep.

        Parameters
        ----------
        steps : iterable of int
            From 1 to the run's last; of many, one of each stretch is looked at.
        """
        later = sorted((step for step in steps if step > self._first), reverse=True)
        first = {self._stretch(step): step for step in later}
        self._forecast({*first.values(), *self.points, self._total})

    def _forecast(self, steps: Iterable[int]) -> None:
        """Draw what is expected at some steps.

        With several targets nobody knows how their errors go together: what is seen is rare only if it is
        rare where validation sets err together as the fit says, and where each errs by itself.
        """
        several = len(self.posterior.frame.domains) > 2
        self._expected = tuple(
            Expected.of(self.posterior, self._run, self._study, sorted(steps), apart=apart)
            for apart in ((False, True) if several else (False,))
        )

    def _forecast_ahead(self) -> None:
        """Draw what is expected where the run was looked at, and where it will be if it goes on so."""
        starts = np.ceil(self._total * (np.arange(STRETCHES) / STRETCHES) ** 2)
        ahead = starts[starts > max(self._latest, self._first)]
        if self._latest:
            ahead = self._latest + self._gap * np.ceil((ahead - self._latest) / self._gap)
        future = ahead[(ahead > self._latest) & (ahead <= self._total)].astype(int)
        self._forecast({*self._told, *future.tolist(), self._total} - {0})

    def status(self) -> Status:
        """Return how the run is doing."""
        known = {row.step for own in self._expected for row in own.rows}
        if not self._expected or not known >= self._told.keys():
            self._forecast_ahead()
        rows = self._expected[0].rows
        seen, losses = _measured(rows, self.points)
        # Those passed by without a measurement are left out.
        last = max(self.points, default=0)
        remaining = (*seen, *(place for place, row in enumerate(rows) if row.step > last))
        at_rows = [own.of_rows(remaining) for own in self._expected]
        departures = [own.departures(losses, self.inflation) for own in at_rows]
        likeliest = max(departures, key=lambda own: own.probability)
        probability = 0.0 if self.diverged is not None else likeliest.probability
        if probability < self.level and self.off_since is None:
            self.off_since = self.diverged or self._latest
        # With several targets, of sets that err each by itself: no loss says too much of another.
        expected = self._expected[-1]
        before, now = expected.given([], np.empty(0)), expected.given(*_measured(rows, self._told))
        forecast, gains = ({}, {}) if self.diverged is not None else self._ends(rows, before, now)
        on_track, notes = probability >= self.level, []
        fault = None if on_track else likeliest.fault
        if fault and self.rates_agree and faulty(self._run)[fault].schedule != self._run.schedule:
            fault = None
        if self.diverged is not None:
            notes.append(f"the loss is not finite at step {self.diverged}: the run has diverged")
        if not on_track and self._outside:
            outside = "; ".join(self._outside)
            notes.append(f"the run leaves the fitted range ({outside}): the law may be off there")
        if on_track and self.off_since is not None:
            notes.append("the run was off track before and is back")
        return Status(
            step=self._latest,
            steps=self._total,
            on_track=on_track,
            probability=probability,
            off_since=self.off_since,
            looks_like=fault,
            losses=dict(self._losses),
            forecast=forecast,
            gain_left=gains,
            notes=notes,
            disagreements=list(self.disagreements.values()),
        )

    def _ends(
        self, rows: tuple[Row, ...], before: tuple[Floats, Floats], now: tuple[Floats, Floats]
    ) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
        """Return forecast and gain left, of mean and sd of each row before and given the points."""
        forecast, gains = {}, {}
        for place, row in enumerate(rows):
            if row.step == self._total:
                planned, wide = float(before[0][place]), float(self._width * before[1][place])
                mean, half = float(now[0][place]), float(self._width * now[1][place])
                ends = {"planned_lower": planned - wide, "planned_upper": planned + wide}
                forecast[row.domain] = _band(mean, half) | ends
                if (loss := self._losses.get(row.domain)) is not None:
                    gains[row.domain] = _band(loss - mean, half)
        return forecast, gains

    def continuations(self, objective: "str | Path | dict[str, Any] | Objective") -> Continuations:
        """Return what else could be done with the rest of the run, against going on as planned.

        Parameters
        ----------
        objective : str, path, dict or Objective
            As `bayes_cpt.decisions.objective.read_objective` takes it. Its weights and costs count; its
            constraints do not.
        """
        aim, resources = read_objective(objective), self._study.resources
        # Of a run that departs from its forecast the law does not tell what would serve it.
        points = self._told if not self.disagreements and self.status().on_track else {}
        run, now, total = self._run, max(points, default=0), self._total
        if not 0 < now < total:
            return Continuations(aim.name, ())
        others = schedules_from(run, now)
        domains, roles = self.posterior.frame.domains, self.posterior.frame.roles
        aim = aim.of_measured(domains, roles)
        weights = np.array(aim.combination(domains, roles))
        rows = rows_at(domains, {*points, *(end for _, end in others.values()), total})

        def drawn(other: Run) -> Floats:
            return drawn_curves(self.posterior, self._study, other, rows, DRAWS)[0]

        def combined(losses: Floats, step: int) -> Floats:
            here = [row.step == step for row in rows]
            return np.asarray(losses[:, here] @ weights + aim.cost(step, resources))

        planned = drawn(run)
        seen, measured = _measured(rows, points)
        end = combined(planned, total)
        gains = {
            name: (last, end - combined(drawn(replace(run, schedule=schedule)), last))
            for name, (schedule, last) in others.items()
        }
        if set(points[now]) >= set(domains):
            loss = weights @ [points[now][domain] for domain in domains]
            gains[STOP] = (now, end - loss - aim.cost(now, resources))
        ways = []
        for name, (last, gain) in gains.items():
            mean, spread = _given(gain, planned[:, seen], measured)
            better = 1.0 - NormalDist(mean, max(spread, 1e-12)).cdf(0.0)
            ends = _band(mean, self._width * spread)
            ways.append(Continuation(name, last, **ends, probability=better))
        return Continuations(aim.name, tuple(sorted(ways, key=lambda way: -way.mean)))

    def state(self) -> dict[str, Any]:
        """Return all that is known of the run, ready for JSON; its size is bounded."""
        told = {name: getattr(self, name) for name in KEPT}
        points = [[step, losses] for step, losses in sorted(self.points.items())]
        return {**self._identity, **told, "points": points}

    @property
    def _identity(self) -> dict[str, str]:
        return {"run": self.run, "fit": self.posterior.study.digest()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave.

        Raises
        ------
        ProblemError
            If it is of another run or fit.
        ValueError
            If it is none that `state` gave.
        """
        for key, current in self._identity.items():
            if state.get(key) != current:
                fix = "remove the state file, or name another with --state"
                raise ProblemError.at(f"state, key {key}", f"it is of another {key}", fix)
        told, kinds = {**state, "points": dict(state["points"])}, get_type_hints(type(self))
        for name in (*KEPT, "points"):
            setattr(self, name, TypeAdapter(kinds[name]).validate_python(told[name]))


def _band(mean: float, half: float) -> dict[str, float]:
    return {"mean": mean, "lower": mean - half, "upper": mean + half}


def _from_zero(schedule: Schedule) -> list[Schedule]:
    """Return a schedule that warms up from above 0 as trainers do that cannot."""
    first, *rest = schedule.segments
    if isinstance(first, Segment) and first.rises and first.start > 0.0:
        return [Schedule((replace(first, start=0.0), *rest))]
    return []
