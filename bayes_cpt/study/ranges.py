"""What is in a study, whether it can be fitted, what its runs cover, and where a plan leaves that."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.study.batches import batch_of, batches_of
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.trunks import with_found_branches
from bayes_cpt.study.validation import FEWEST, SAME_NUMBER


def describe(study: Study) -> dict[str, Any]:
    """Return what a study holds, ready for JSON.

    Learning rates are raw, losses in nats/token, model sizes in millions of parameters.

    Returns
    -------
    dict
        ``name``, ``description``, ``general``, ``target``, ``domains``, ``digest``, ``bases`` and
        ``runs`` (a list of dictionaries each), ``ranges`` (lowest and highest replay ratio, peak
        learning rate and steps of the CPT and of the PT runs, None where there is none) and
        ``warnings``. Runs have ``measured_steps``, fewer than ``steps`` where losses end clearly earlier,
        ``branch``, the run that they leave and the last step that they share, and
        ``general_epochs``, ``target_epochs``, ``gpu_hours`` and ``money`` where the
        study says what it takes.
    """
    measured = {phase: study.measured_runs(phase) for phase in ("cpt", "pt")}
    lengths = {run.name: run.schedule.steps for runs in measured.values() for run in runs}
    return {
        **_keys(study, "name", "description", "general"),
        "target": study.target if isinstance(study.target, str | None) else list(study.target),
        "domains": list(study.domains),
        "digest": study.digest(),
        "bases": [
            {
                **_keys(base, "name", "known", "run", "model_size", "steps", "loss_potential"),
                "peak_learning_rate": base.schedule.peak if base.schedule else None,
                "final_learning_rate": base.schedule.final if base.schedule else None,
                "losses": {domain: study.base_loss(base.name, domain) for domain in study.domains},
                "runs": [run.name for run in study.continual_runs if run.base == base.name],
            }
            for base in study.bases
        ],
        "runs": [
            {
                **_keys(run, "name", "phase", "base", "replay", "model_size"),
                **_keys(run.schedule, "steps", "warmup_steps", "interpolated_steps"),
                "measured_steps": lengths.get(run.name, 0),
                "targets": run.mixture or None,
                "peak_learning_rate": run.peak,
                "final_learning_rate": run.schedule.final,
                **study.resources.of_one(run),
                "branch": asdict(run.branch) if run.branch else None,
                "points": {
                    domain: study.curve(run.name, domain)[0].size for domain in study.domains
                },
            }
            for run in with_found_branches(study).runs
        ],
        "ranges": {phase: covered(runs) for phase, runs in measured.items()},
        "warnings": [str(caution) for caution in study.warnings],
    }


def _keys(item: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def covered(runs: Sequence[Run]) -> dict[str, list[float] | None]:
    """Return lowest and highest replay ratio, peak learning rate and steps of some runs."""
    values: dict[str, list[float]] = {
        "replay": [run.replay for run in runs if run.replay is not None],
        "peak_learning_rate": [run.peak for run in runs],
        "steps": [run.schedule.steps for run in runs],
    }
    return {name: [min(own), max(own)] if own else None for name, own in values.items()}


# A learning rate or a step count a little beyond the studied ones is no extrapolation.
SLACK = 1.05
# Values closer than that tell as much as one: a ratio of peak learning rates or lengths, a difference in
# replay.
ALIKE_RATIO, ALIKE_REPLAY = 1.1, 0.05
# A schedule stands at its peak while its learning rate is above this share of it ...
AT_PEAK = 0.98
# ... and is stable before its decay if it stands there for this share of the steps after the warm-up.
STABLE_SHARE = 0.3
FAMILIES = ("constant", "stable, then decay", "decay throughout", "several stages")
PEAK_RATE, LENGTH, FAMILY = "peak learning rate", "length", "schedule family"
BASE, REPLAY = "base", "replay ratio"


@dataclass(frozen=True)
class Factor:
    """Something that the runs of a phase may differ in."""

    name: str  # `PEAK_RATE`, `LENGTH`, `FAMILY`, `BASE` or `REPLAY`
    # By run: raw learning rate, steps, one of `FAMILIES`, name of the base, share of general data
    values: Mapping[str, float | str]

    @property
    def graded(self) -> bool:
        """Whether values are numbers, and not kinds."""
        return self.name in (PEAK_RATE, LENGTH, REPLAY)

    def place(self, run: str) -> float:
        """Return where a run's number lies: values apart by a ratio are compared by their logarithms."""
        value = float(self.values[run])
        return value if self.name == REPLAY else float(np.log(value))

    @property
    def differs(self) -> bool:
        """Whether any two runs differ in it by more than tells nothing."""
        if not self.graded:
            return len(set(self.values.values())) > 1
        places = [self.place(run) for run in self.values]
        apart = ALIKE_REPLAY if self.name == REPLAY else float(np.log(ALIKE_RATIO))
        return bool(places) and max(places) - min(places) > apart


def factors(study: Study, phase: str) -> tuple[Factor, ...]:
    """Return what the measured runs of a phase may differ in, and their values.

    Examples
    --------
    >>> from bayes_cpt import bundled_study, read_study
    >>> found = factors(read_study(bundled_study()), "pt")
    >>> [factor.name for factor in found if not factor.differs]
    ['peak learning rate']
    """
    runs = study.measured_runs(phase)
    of_run: dict[str, Callable[[Run], float | str]] = {
        # Of a run whose losses end early too: its peak is soon there.
        PEAK_RATE: lambda run: study.run(run.name).peak,
        LENGTH: lambda run: float(run.schedule.steps),
        FAMILY: family,
        BASE: lambda run: str(run.base),
        REPLAY: lambda run: run.replay or 0.0,
    }
    names = list(of_run) if phase == "cpt" else [PEAK_RATE, LENGTH, FAMILY]
    return tuple(Factor(name, {run.name: of_run[name](run) for run in runs}) for name in names)


def family(run: Run) -> str:
    """Return which of `FAMILIES` a run's schedule belongs to, by its learning rates from its peak on.

    Examples
    --------
    >>> from bayes_cpt.study.schedules import constant, cosine, linear
    >>> family(Run("warm", "pt", linear(10, 0.0, 1e-3) + cosine(90, 1e-3)))
    'decay throughout'
    >>> family(Run("cooled", "pt", constant(80, 1e-3) + linear(20, 1e-3, 0.0)))
    'stable, then decay'
    """
    constant, stable, throughout, several = FAMILIES
    rates = run.schedule.learning_rates()[run.approach_steps :]
    if rates.size == 0 or rates.min() >= AT_PEAK * rates.max():
        return constant
    changes = np.diff(rates)
    moving = np.flatnonzero(np.abs(changes) > 1e-6 * rates.max())
    rests = np.diff(moving).max(initial=1) > STABLE_SHARE * 0.5 * rates.size
    if (changes[moving] > 0).any() or rests:
        return several
    return stable if (rates >= AT_PEAK * rates.max()).mean() >= STABLE_SHARE else throughout


def outside_range(study: Study, plan: Study, run: Run) -> list[str]:
    """Return in words where a run lies outside what the study's runs of its phase cover."""
    fitted = study.measured_runs(run.phase)
    notes = []
    longest, steps = max(other.schedule.steps for other in fitted), run.schedule.steps
    if steps > longest * SLACK:
        notes.append(f"{steps} steps, {steps / longest:.1f}x the longest run")
    notes += outside_span("peak LR", run.peak, [own.peak for own in fitted])
    sizes = [study.model_size(other) for other in fitted]
    notes += _none_of("model size", plan.model_size(run), sizes, unit="M")
    if run.phase == "cpt":
        if run.replay is not None:
            # Of runs on its targets: those on others tell less of its own.
            like = [other for other in fitted if {*other.mixture} & {*run.mixture}] or fitted
            ratios = [other.replay for other in like if other.replay is not None]
            notes += outside_span("replay", run.replay, ratios)
        notes += _outside_targets(study, run)
        notes += _outside_batches(study, plan, run)
        notes += outside_base(study, plan.base(str(run.base)))
    return notes


def _none_of(
    label: str, value: float | None, studied: Iterable[float | None], unit: str = ""
) -> list[str]:
    """Return in words that a value is none of the studied ones; nothing where either is not known."""
    values = [known for known in studied if known is not None]
    if value is None or not values or any(1 / SLACK <= value / known <= SLACK for known in values):
        return []
    if min(values) < value < max(values):
        return [f"{label} {_plain(value)}{unit}, which no studied run has"]
    return outside_span(label, value, values, unit)


def _outside_batches(study: Study, plan: Study, run: Run) -> list[str]:
    """Return in words that no CPT run has the batch size, sequence length, or both, of a run."""
    batch, studied = batch_of(plan, run), batches_of(study)
    notes = _none_of("batch size", batch.tokens, [known.tokens for known in studied])
    lengths = [known.sequence_length for known in studied]
    notes += _none_of("sequence length", batch.sequence_length, lengths)
    told = all(batch.numbers) and all(all(known.numbers) for known in studied)
    if told and batch not in studied and not notes:
        return [f"{batch.words}, which no studied run has"]
    return notes


def _outside_targets(study: Study, run: Run) -> list[str]:
    """Return in words that a run trains on a target, or a mixture of them, that no studied run has."""
    if len(study.targets) < 2:
        return []
    notes = []
    mixtures = [other.mixture for other in study.continual_runs if other.replay != 1]
    for name, share in run.mixture.items():
        most = max((mixture.get(name, 0.0) for mixture in mixtures), default=0.0)
        if not most:
            notes.append(f"target {name}, on which no studied run trains")
        elif share > most * SLACK:
            notes.append(f"{share:g} of target {name}, studied up to {most:g}")
    if len(run.mixture) > 1 and all(len(own.mixture) < 2 for own in study.continual_runs):
        notes.append("a mixture of targets, which no studied run has")
    return notes


def outside_span(label: str, value: float, studied: Iterable[float], unit: str = "") -> list[str]:
    """Return in words that a value lies outside the studied ones.

    Examples
    --------
    >>> outside_span("replay", 0.9, [0.0, 0.25, 0.75])
    ['replay 0.9, studied 0 to 0.75']
    """
    values = list(studied)
    if min(values) / SLACK <= value <= max(values) * SLACK:
        return []
    ends = dict.fromkeys(f"{_plain(end)}{unit}" for end in (min(values), max(values)))
    return [f"{label} {_plain(value)}{unit}, studied {' to '.join(ends)}"]


def _plain(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


def outside_base(study: Study, base: Base) -> list[str]:
    """Return in words whether, and how far, a base is none that the study's CPT runs start from."""
    used = [study.base(str(other.base)) for other in study.continual_runs]
    if any(other.schedule == base.schedule for other in used):
        return []
    notes = [f"base {base.name}, from which no studied run starts"]
    lengths = [other.steps for other in used if other.steps]
    if base.steps and lengths and not min(lengths) <= base.steps <= max(lengths):
        notes.append(f"base at {base.steps} PT steps, studied {min(lengths)} to {max(lengths)}")
    return notes


def check_evidence(study: Study, *, continual: bool) -> None:
    """Refuse a study whose losses cannot tell what training does, for a law of CPT or of PT alone."""
    phase = "CPT" if continual else "PT"
    runs = study.continual_runs if continual else study.pretraining_runs
    if not runs:
        # Refused in other words, by what builds the law.
        return
    domains = study.trained_domains if continual else study.trained_domains[:1]
    own = study.losses[study.losses["run"].isin([run.name for run in runs])]
    measured = {domain: own[own["domain"] == domain] for domain in domains}
    if len(study.targets) > 1:
        # One of several may be left to the others (docs/targets.md); reading the study says so.
        measured = {domain: rows for domain, rows in measured.items() if len(rows)}
    of_study = f"{study.origin.losses}, study {study.name}"
    trained = [domain for domain, rows in measured.items() if (rows["step"] > 0).any()]
    if continual and (untrained := [domain for domain in measured if domain not in trained]):
        problem = f"no CPT run has a loss of {' and '.join(untrained)} after step 0"
        problem += ": its change rests on the prior alone"
        fix = f"add rows of later steps to {study.origin.losses}: a handful along each CPT run is enough"
        if not trained:
            raise StudyError.at(of_study, problem, fix)
        warnings.warn(str(Problem(of_study, problem, fix)), StudyWarning, stacklevel=2)
    problems = []
    for domain, rows in measured.items():
        losses = study.losses.loc[study.losses["domain"] == domain, "loss"]
        curves = rows.groupby("run", sort=False)["loss"]
        flat = (curves.max() - curves.min() <= SAME_NUMBER).all()
        if len(losses) >= FEWEST and np.ptp(losses) <= SAME_NUMBER:
            problem = f"all {len(losses)} losses are {losses.iloc[0]:g}"
        elif flat and curves.size().max() >= FEWEST:
            problem = (
                f"in each of the {len(curves)} {phase} runs the loss stays what it is ({len(rows)} "
                f"losses; {rows['loss'].iloc[0]:g} throughout run {rows['run'].iloc[0]})"
            )
        else:
            continue
        problem += ": there is no curve to fit a law to"
        fix = "give the validation loss that was measured at each step, not one value repeated"
        problems.append(Problem(f"{of_study}, domain {domain}", problem, fix))
    if problems:
        raise StudyError(problems)
