"""A plain object for any training loop: tell it losses as they come, ask it whether the run is on track."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.files import replacing
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.inference.new_groups import covering
from bayes_cpt.model.fitted_points import first_step
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.views import view
from bayes_cpt.watch.learnt.experience import Experience
from bayes_cpt.watch.predictive import Outlook, Predictive
from bayes_cpt.watch.renewal import Renewal, renewed
from bayes_cpt.watch.stretches import STRETCHES, stretch, watched_steps
from bayes_cpt.watch.worth import Worth, worth

if TYPE_CHECKING:
    from bayes_cpt.decisions.objective import Objective
    from bayes_cpt.inference.posterior import Posterior

LEVEL = 0.05
STATE_FORMAT = 1


class WatchError(BayesCPTError):
    """A run that cannot be watched, and why."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


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
        Share of real runs on track that depart from the forecast as far as this one has, at any time.
    off_since : int or None
        Step at which the run was first found off track.
    looks_like : str or None
        What would explain the departure, of what the law can foretell.
    losses : dict of str to float
        Last measured loss by validation set, nats/token.
    forecast : dict of str to dict
        ``mean``, ``lower``, ``upper`` of the loss at the last step, and what was forecast before any point
        came, ``planned_lower`` and ``planned_upper``; nats/token.
    gain_left : dict of str to dict
        ``mean``, ``lower``, ``upper``: by how much going on to the end is forecast to lower the loss.
    notes : list of str
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

    def verdict(self) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each."""
        return list(view(self, "verdict"))

    def words(self) -> str:
        """Return the verdict in one line."""
        return " ".join(self.verdict())


@dataclass
class Watcher:
    """Follows one run against the forecast of a fit.

    Memory and the time of an update do not grow with the run: at most one evaluation of each of `STRETCHES`
    stretches of it is looked at.

    Parameters
    ----------
    posterior : Posterior
    run : str
        A run of the plan.
    plan : Study, optional
        Where the run is; the fitted study unless given.
    level : float
        Share of runs on track for which an alarm is given at any time of theirs.
    interval : float
        Mass of the central intervals.
    experience : Experience, optional
        How unlike real runs are to drawn ones; learnt from the fitted runs unless given.

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
    experience: Experience | None = None
    points: dict[int, dict[str, float]] = field(default_factory=dict, init=False)
    off_since: int | None = field(default=None, init=False)
    diverged: int | None = field(default=None, init=False)
    _gap: int = field(default=1, init=False)
    _latest: int = field(default=0, init=False)
    _losses: dict[str, float] = field(default_factory=dict, init=False)
    _looked_at: set[tuple[int, str]] = field(default_factory=set, init=False, repr=False)
    _predictive: Predictive | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        study = self.plan or self.posterior.study
        frame = self.posterior.frame
        plan = study if self.plan is not None else study.without_losses()
        self._study = with_base_losses(self.posterior.study, frame.domains, plan)
        self._run: Run = self._study.run(self.run)
        self.posterior = covering(self.posterior, self._study, [self._run])
        self._outside = outside_range(self.posterior.study, self._study, self._run)
        # The law of PT is fitted to what comes after this step, and says nothing of what comes before.
        residuals, fitted = self.posterior.frame.spec.residuals, self.posterior.study
        pretraining = self._run.phase == "pt"
        self._first = first_step(fitted, self._run, residuals) if pretraining else 0.0

    def update(self, step: int, losses: Mapping[str, float]) -> Status:
        """Tell of an evaluation, and return how the run is doing.

        Parameters
        ----------
        step : int
            Inside the run, from 1; 0 is the base, of which the forecast knows already.
        losses : mapping of str to float
            By validation set, nats/token; those that the fit does not know are left aside. A step told
            again replaces what was told before: a restarted job repeats itself.
        """
        self.tell(step, losses)
        return self.status()

    def tell(self, step: int, losses: Mapping[str, float]) -> None:
        """Note an evaluation without asking for the status."""
        known = {d: float(losses[d]) for d in self.posterior.frame.domains if d in losses}
        if step < 1 or step > self._run.schedule.steps or not known:
            return
        if not all(math.isfinite(loss) for loss in known.values()):
            self.diverged = step if self.diverged is None else min(step, self.diverged)
            return
        if self.diverged is not None and step < self.diverged:
            # The job was restarted from before it diverged.
            self.diverged = None
        if step > self._first:
            for domain, loss in known.items():
                self._take(step, domain, loss)
        if step != self._latest:
            self._gap = max(1, abs(step - self._latest))
        if step >= self._latest:
            self._latest, self._losses = step, {**self._losses, **known}

    def expect(self, steps: Sequence[int]) -> None:
        """Say at which steps the run will be evaluated, where that is known before.

        It saves the drawing of forecasts anew when evaluations come at other steps than the last ones let
        expect.

        Parameters
        ----------
        steps : sequence of int
            Rising, from 1 to the run's last; of many, one of each stretch is looked at.
        """
        total = self._run.schedule.steps
        told = [step for step in steps if step > self._first]
        chosen = sorted({*watched_steps(told, total), *self.points, total})
        self._predictive = self._forecast(chosen)

    def _take(self, step: int, domain: str, loss: float) -> None:
        """Look at the first evaluation of each stretch of the run, and at the last step."""
        known = domain in self.points.get(step, {})
        place = self._stretch(step), domain
        if known or step == self._run.schedule.steps or place not in self._looked_at:
            self.points.setdefault(step, {})[domain] = loss
            self._looked_at.add(place)
            if step not in self._rows():
                self._predictive = None

    def _stretch(self, step: int) -> int:
        return stretch(step, self._run.schedule.steps)

    def _draw(self) -> Predictive:
        """Draw what is expected where the run was looked at, and where it will be if it goes on so."""
        total = self._run.schedule.steps
        starts = np.ceil(total * (np.arange(STRETCHES) / STRETCHES) ** 2)
        ahead = starts[starts > max(self._latest, self._first)]
        if self._latest:
            ahead = self._latest + self._gap * np.ceil((ahead - self._latest) / self._gap)
        future = ahead[(ahead > self._latest) & (ahead <= total)].astype(int)
        steps = np.unique(np.r_[np.array(sorted(self.points), dtype=int), future, [total]])
        return self._forecast(steps[steps > 0].tolist())

    def _forecast(self, steps: Sequence[int]) -> Predictive:
        sizes = self._learnt().sizes
        return Predictive.of(self.posterior, self._run, self._study, steps, sizes)

    def _learnt(self) -> Experience:
        if self.experience is None:
            continual = self._run.phase == "cpt"
            self.experience = Experience.of(self.posterior, continual=continual)
        return self.experience

    def _rows(self) -> set[int]:
        return set() if self._predictive is None else {row.step for row in self._predictive.rows}

    def status(self) -> Status:
        """Return how the run is doing."""
        predictive = self._predictive = self._predictive or self._draw()
        seen, losses = [], []
        for place, row in enumerate(predictive.rows):
            if row.domain in self.points.get(row.step, {}):
                seen.append(place)
                losses.append(self.points[row.step][row.domain])
        outlook = predictive.outlook(seen, losses)
        drawn = np.array(outlook.probability)
        probability = 0.0 if self.diverged is not None else float(self._learnt().share(drawn))
        if probability < self.level and self.off_since is None:
            self.off_since = self.diverged or self._latest
        return self._described(predictive, outlook, probability)

    def _described(self, predictive: Predictive, outlook: Outlook, probability: float) -> Status:
        mean, spread = outlook.mean, outlook.spread
        planned, planned_spread = predictive.given([], np.empty(0))
        width = NormalDist().inv_cdf(0.5 + self.interval / 2)
        forecast: dict[str, dict[str, float]] = {}
        gains: dict[str, dict[str, float]] = {}
        ends = {
            row.domain: place
            for place, row in enumerate(predictive.rows)
            if row.step == self._run.schedule.steps
        }
        for domain, place in ends.items():
            forecast[domain] = {
                "mean": float(mean[place]),
                "lower": float(mean[place] - width * spread[place]),
                "upper": float(mean[place] + width * spread[place]),
                "planned_lower": float(planned[place] - width * planned_spread[place]),
                "planned_upper": float(planned[place] + width * planned_spread[place]),
            }
            if domain in self._losses:
                now = self._losses[domain]
                gains[domain] = {
                    "mean": now - forecast[domain]["mean"],
                    "lower": now - forecast[domain]["upper"],
                    "upper": now - forecast[domain]["lower"],
                }
        notes = []
        if self.diverged is not None:
            notes.append(f"the loss is no number at step {self.diverged}: the run has diverged")
        if probability < self.level and self._outside:
            notes.append(
                f"the run leaves what was fitted ({'; '.join(self._outside)}): the law may be off there"
            )
        if self.off_since is not None and probability >= self.level:
            notes.append("the run was off track before and is back")
        return Status(
            step=self._latest,
            steps=self._run.schedule.steps,
            on_track=probability >= self.level,
            probability=probability,
            off_since=self.off_since,
            looks_like=outlook.fault if probability < self.level else None,
            losses=dict(self._losses),
            forecast=forecast,
            gain_left=gains,
            notes=notes,
        )

    def worth(self, objective: "str | Path | dict[str, Any] | Objective") -> Worth:
        """Return what else could be done with the rest of the run (see `bayes_cpt.watch.worth.worth`).

        Parameters
        ----------
        objective : str, path, dict or Objective
            As `bayes_cpt.decisions.objective.read_objective` takes it.
        """
        points = {} if self.diverged is not None else self.points
        return worth(
            self.posterior,
            self._run,
            self._study,
            points,
            read_objective(objective),
            self._learnt().sizes,
            interval=self.interval,
        )

    def renewed(self, **options: Any) -> Renewal:
        """Return the posterior given the run's points (see `bayes_cpt.watch.renewal.renewed`).

        Parameters
        ----------
        **options
            As `renewed` takes them.
        """
        return renewed(self.posterior, self._run, self._study, self.points, **options)

    def state(self) -> dict[str, Any]:
        """Return all that was learnt from the run, ready for JSON; its size is bounded."""
        return {
            "format": STATE_FORMAT,
            "run": self.run,
            "study_digest": self.posterior.study.digest(),
            "gap": self._gap,
            "latest": self._latest,
            "losses": self._losses,
            "off_since": self.off_since,
            "diverged": self.diverged,
            "points": [[step, losses] for step, losses in sorted(self.points.items())],
            "experience": self.experience and self.experience.state(self.posterior),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave.

        Raises
        ------
        WatchError
            If it is of another run or fit.
        """
        for key, current in (("run", self.run), ("study_digest", self.posterior.study.digest())):
            if state.get(key) != current:
                raise WatchError(
                    Problem(
                        f"state, key {key}",
                        f"it is of another {'run' if key == 'run' else 'fit'}",
                        "remove the state file, or name another with --state",
                    )
                )
        self._gap, self._latest = int(state["gap"]), int(state["latest"])
        self._losses = dict(state["losses"])
        self.off_since, self.diverged = state["off_since"], state["diverged"]
        self.points = {int(step): dict(losses) for step, losses in state["points"]}
        self._looked_at = {
            (self._stretch(step), d) for step in self.points for d in self.points[step]
        }
        learnt = Experience.restored(state.get("experience"), self.posterior)
        self.experience = self.experience or learnt
        if not self._rows() >= set(self.points):
            self._predictive = None


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state, whole or not at all: a program killed at any time loses nothing told before."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(state), encoding="utf-8")


def status_json(status: Status) -> dict[str, Any]:
    """Return a status as one JSON object."""
    return {**asdict(status), "words": status.words()}
