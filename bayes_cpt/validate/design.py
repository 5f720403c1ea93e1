"""Design studies: runs, bases and where losses are measured, for a simulation to fill in.

What is simulated is just what a fit conditions on. A base's loss enters a fit as given, so it is known
only where it lies on a simulated PT curve at a point that the fit sees too: then it adds nothing to what
the curves say of the parameters, and the posterior is exact. An unknown base has any loss: its law starts
there whatever it is (`bayes_cpt.model.bases.unknown_base`).
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.fitted_points import first_step, observed_steps
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import Setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Base, Run, Study

POINTS = 12
# Stands for every loss until a simulation fills it in, nats/token.
PLACEHOLDER = 3.0
HELD_OUT = "held_out"
# How much longer than a run of the design the run is that is predicted.
STRETCH = 3
# Where CPT runs are measured first, as a share of their steps, if the design does not say.
FIRST_SHARE = 0.005


def design_study(study: Study, spec: ModelSpec, points: int = POINTS) -> Study:
    """Return a study's runs as a design: placeholders in place of losses, at fewer points.

    Parameters
    ----------
    study : Study
        A study, or a plan, whose runs are then measured at points spread evenly (PT) or evenly in the
        logarithm (CPT).
    spec : ModelSpec
        What will be fitted: its runs alone are kept. Where the law knows no replay those are the CPT
        runs of the most frequent replay ratio.
    points : int
        Of each curve at the most; points at a base's step come on top.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If nothing is left to simulate.
    """
    import pandas as pd

    # A design is simulated run by run: those that branch off another one have a level of their own.
    runs = tuple(replace(run, branch=None) for run in _fitted_runs(study, spec))
    domains = study.trained_domains if spec.law.continual else (study.general,)
    rows = [
        {"run": run.name, "step": step, "domain": domain, "loss": PLACEHOLDER}
        for run in runs
        for domain in domains
        for step in _measured_steps(study, run, str(domain), spec, points)
    ]
    if not rows:
        raise StudyError.at(
            f"study {study.name}, model {spec.name}",
            "the design has no run that the model describes",
            "give runs of its phase, or choose another model",
        )
    kept = {run.name for run in runs}
    bases = tuple(
        base if base.run in kept or base.run is None else replace(base, run=None)
        for base in study.bases
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return replace(
            study,
            target=study.target if spec.law.continual else None,
            runs=runs,
            bases=bases,
            losses=pd.DataFrame(rows),
            is_plan=False,
        )


def held_out_run(design: Study, steps: int = STRETCH) -> Run:
    """Return the run to predict where no plan is given: one of the design's, drawn out.

    Parameters
    ----------
    design : Study
    steps : int
        How many times as long it is.
    """
    runs = design.continual_runs or design.pretraining_runs
    model = runs[len(runs) // 2]
    stretched = model.schedule.stretched(steps * model.schedule.steps)
    return replace(model, name=HELD_OUT, schedule=stretched)


def read_design(path: str | Path) -> Study:
    """Read a study, or a plan whose runs were not measured yet: a folder or one TOML file.

    Parameters
    ----------
    path : path
        A study folder, or one TOML file.

    Raises
    ------
    StudyError
        With every problem of it.
    """
    from bayes_cpt.study.readers.folder import read_plan, read_study

    folder = Path(path)
    measured = any(folder.glob("losses.*")) if folder.is_dir() else False
    return read_study(folder) if measured else read_plan(folder)


def with_runs(design: Study, runs: Sequence[Run], bases: Sequence[Base] = ()) -> Study:
    """Return the design with further runs, which are measured nowhere, and their names made its own.

    Parameters
    ----------
    design : Study
    runs : sequence of Run
    bases : sequence of Base
        What they start from; those that the design has are its own already.
    """
    taken = {run.name for run in design.runs}
    added = [run if run.name not in taken else replace(run, name=f"{run.name}+") for run in runs]
    known = {base.name for base in design.bases}
    added_bases = [replace(base, run=None) for base in bases if base.name not in known]
    return design.with_runs(added, bases=added_bases)


def simulate_setup(
    setup: Setup, design: Study, parameters: dict[str, Floats], generator: np.random.Generator
) -> Setup:
    """Return a design's setup with simulated losses in place of the placeholders.

    PT curves come first; bases take their losses from them; CPT curves start there.

    Parameters
    ----------
    setup : Setup
        Of the design.
    design : Study
    parameters : dict of str to ndarray
        One draw: each of shape (1, ...).
    generator : numpy.random.Generator
    """
    frame, curves = setup.frame, setup.curves
    pretraining = simulate(frame, parameters, curves, None, generator).loss[0]
    filled = replace(curves, points=replace(curves.points, loss=pretraining))
    based = with_base_losses(curves, filled, design)
    continual = simulate(frame, parameters, based, None, generator).loss[0]
    is_continual = np.array([curve.continual for curve in curves.curves])
    loss = np.where(is_continual[curves.points.curve_index], continual, pretraining)
    return Setup(frame, replace(based, points=replace(curves.points, loss=loss)), setup.design)


def with_base_losses(curves: Curves, simulated: Curves, design: Study) -> Curves:
    """Return curves whose known bases have the losses of the simulated PT curves they lie on.

    Parameters
    ----------
    curves : Curves
        Of the design or of runs from its bases.
    simulated : Curves
        Of the design, with losses on its PT curves.
    design : Study
        Has all the runs of `curves`.
    """
    points = simulated.points
    measured = {
        (simulated.curves[curve].run, simulated.curves[curve].domain, int(step)): loss
        for curve, step, loss in zip(points.curve_index, points.steps, points.loss, strict=True)
    }
    losses = curves.bases.loss.copy()
    for i, curve in enumerate(curves.curves):
        if curve.continual and curve.base_known:
            base = design.base(str(design.run(curve.run).base))
            if base.schedule is not None:
                losses[i] = measured[str(base.run), curve.domain, int(base.steps or 0)]
    return replace(curves, bases=replace(curves.bases, loss=losses))


def _fitted_runs(study: Study, spec: ModelSpec) -> tuple[Run, ...]:
    if not spec.law.continual:
        return study.pretraining_runs
    if spec.law.uses_replay or not study.continual_runs:
        return study.runs
    counts = Counter(run.replay for run in study.continual_runs)
    common = counts.most_common(1)[0][0]
    return tuple(run for run in study.runs if run.phase == "pt" or run.replay == common)


def _measured_steps(study: Study, run: Run, domain: str, spec: ModelSpec, points: int) -> list[int]:
    """Return the steps of a curve that a fit sees: thinned, and at the bases that lie on the run.

    Step 0, which a fit conditions on, is among them where the run's base is unknown.
    """
    last = run.schedule.steps
    first = first_step(study, run, spec.residuals) if run.phase == "pt" else 0.0
    steps = observed_steps(study, run, domain, spec.residuals)
    if steps:
        places = np.linspace(0, len(steps) - 1, min(points, len(steps))).round().astype(int)
        chosen = {steps[place] for place in places}
    elif run.phase == "pt":
        even = np.linspace(first, last, points + 1)[1:]
        chosen = {int(step) for step in even.round()}
    else:
        even = np.geomspace(max(1.0, FIRST_SHARE * last), last, points)
        chosen = {int(step) for step in even.round()}
    bases = {int(base.steps or 0) for base in study.bases if base.run == run.name}
    unknown = run.base is not None and study.base(run.base).schedule is None
    start = [0] if unknown and spec.law.base_offset else []
    return start + sorted(step for step in chosen | bases if first < step <= last)
