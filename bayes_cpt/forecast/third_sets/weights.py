"""The posterior of the weights of a third validation set, from its own curves (Eq. 6).

``L_ood = w1·L_pt + w2·L_cpt`` is taken of changes: bases differ in a third set by more than the two losses
explain, and one evaluation of a base removes that. So along a CPT run, t steps after its base,

    L_k(t) - L_k(0) = w1·(L_pt(t) - L_pt(0)) + w2·(L_cpt(t) - L_cpt(0)) + misfit + fluctuation,

with misfit and fluctuation of the set's own, of the same form as those of the law
(`bayes_cpt.model.residuals`); of several targets each has its weight. The losses on the right are, in each
posterior draw of the law, what the draw and the measured losses say of the curves without their
fluctuation: fluctuations of two validation sets are less alike than their courses, and would draw the
weights to 0. Nothing of a third set moves the law, so that its posterior is had from any fit of the study,
whenever it was made.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import suggestion
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.forecast.plans import DRAWS, observed_curves
from bayes_cpt.forecast.third_sets.regression import (
    Changes,
    draw_sizes,
    draw_weights,
    explained_share,
    pattern_probability,
    set_residual,
)
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.curve_residuals import CurveResidual, slow_mean
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import expected_loss, scales_of
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd


# The linear form is in doubt where what it leaves goes with how runs were trained so rarely by chance, or
# where it explains less of the change.
RARE, LEAST_EXPLAINED = 0.05, 0.8


@dataclass(frozen=True, eq=False)
class ThirdSet:
    """A third validation set in some draws of the law.

    Parameters
    ----------
    name : str
    weights : ndarray, shape (draws, sets)
        Of the changes of general and target losses.
    misfit, fluctuation, memory : ndarray, shape (draws,)
        What the linear form misses and the fluctuation, as standard deviations in nats/token, and the
        correlation time of the fluctuation in steps (see `bayes_cpt.model.residuals.Scales`).
    floor : ndarray, shape (draws,)
        Share of the fluctuation that is left at learning rate 0: the mean of the law's losses'.
    runs : tuple of str
        CPT runs that it was learnt from.
    explained : float
        Share of the mean square change over the late part of the runs that the linear form explains; the
        median over draws.
    pattern : float
        How often residuals of the model itself go as closely with replay ratio, peak learning rate, mixture
        of targets or one of the law's losses as those of the runs do; NaN of fewer than four runs.
    """

    name: str
    weights: Floats
    misfit: Floats
    fluctuation: Floats
    memory: Floats
    floor: Floats
    runs: tuple[str, ...]
    explained: float
    pattern: float

    @property
    def misses(self) -> bool:
        """Whether the linear form is in doubt."""
        return self.pattern < RARE or self.explained < LEAST_EXPLAINED

    @property
    def caution(self) -> str:
        """What to say where the linear form is in doubt; empty otherwise."""
        reasons = []
        if self.explained < LEAST_EXPLAINED:
            share = 100 * max(self.explained, 0.0)
            reasons.append(f"{self._causes} explain {share:.0f} % of its change")
        if self.pattern < RARE:
            reasons.append("what they leave goes with how the runs were trained")
        if not reasons:
            return ""
        return f"Eq. 6 misses {self.name}: {', and '.join(reasons)}. Its bands are wide for that."

    @property
    def _causes(self) -> str:
        return "general and target loss" + ("es" if self.weights.shape[1] > 2 else "")

    def residual(self, learning_rate: Floats, ramps: Floats) -> CurveResidual:
        """Return the residual of a curve of the set about the linear form.

        Parameters
        ----------
        learning_rate : ndarray, shape (points,)
            As a share of the reference learning rate.
        ramps : ndarray, shape (points, knots)
            Of the misfit (see `bayes_cpt.model.residuals.ResidualDesign`).
        """
        sizes = (self.misfit, self.fluctuation, self.memory)
        return set_residual(sizes, self.floor, learning_rate, ramps)

    def table_row(self, causes: Sequence[str], interval: float) -> dict[str, Any]:
        """Return weights with their intervals, and how well the linear form does.

        Parameters
        ----------
        causes : sequence of str
            From `cause_names`.
        interval : float
            Mass of the central credible intervals.
        """
        marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
        row: dict[str, Any] = {"domain": self.name, "runs": len(self.runs)}
        for index, cause in enumerate(causes):
            median, lower, upper = np.quantile(self.weights[:, index], marks)
            row |= {cause: median, f"{cause}_lower": lower, f"{cause}_upper": upper}
        return row | {
            "misfit": float(np.median(self.misfit)),
            "explained": self.explained,
            "pattern": self.pattern,
            "caution": self.caution,
        }


def third_names(study: Study) -> tuple[str, ...]:
    """Return the validation sets of a study that are neither general nor target.

    Parameters
    ----------
    study : Study
    """
    return tuple(name for name in study.domains if name not in study.trained_domains)


def check_names(posterior: Posterior, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of third validation sets, each once; ``all`` stands for all there are.

    Parameters
    ----------
    posterior : Posterior
    names : sequence of str

    Raises
    ------
    StudyError
        If the fit's law knows no CPT phase, or there is no such set.
    """
    study = posterior.study
    if names and not posterior.frame.spec.law.continual:
        problem = "the law knows no CPT phase, and third validation sets follow from its losses"
        fix = "fit with --model cpt or cpt-replay"
        raise StudyError.at(f"model {posterior.frame.spec.name}", problem, fix)
    known = third_names(study)
    wanted = known if tuple(names) == ("all",) else tuple(dict.fromkeys(names))
    problems = [
        Problem(
            f"study {study.name}",
            f"there is no third validation set {name!r}{suggestion(name, known)}",
            f"name one of {', '.join(known)}"
            if known
            else f"add its losses to {study.origin.losses}",
        )
        for name in wanted
        if name not in known
    ]
    if problems:
        raise StudyError(problems)
    return wanted


def third_sets(
    posterior: Posterior, names: Sequence[str], parameters: dict[str, Floats], seed: int = 0
) -> tuple[ThirdSet, ...]:
    """Return third validation sets in some draws of one law.

    Parameters
    ----------
    posterior : Posterior
        Of one law (see `Posterior.shares`).
    names : sequence of str
        As from `check_names`.
    parameters : dict of str to ndarray, shape (draws, ...)
        The draws.
    seed : int

    Raises
    ------
    StudyError
        If no CPT run of the study tells of a set: measured on it and on those of the law, from a base that
        was measured too.
    """
    known = _Known(posterior, parameters, {})
    sets = tuple(
        # A set's own seed: it does not hang on which others are asked for.
        _third_set(known, name, np.random.default_rng([seed, crc32(name.encode())]))
        for name in names
    )
    for third in sets:
        if third.misses:
            warnings.warn(third.caution, StudyWarning, stacklevel=2)
    return sets


def weight_table(
    posterior: Posterior,
    names: Sequence[str] = ("all",),
    draws: int = DRAWS,
    seed: int = 0,
    interval: float = 0.9,
) -> "pd.DataFrame":
    """Return the weights of third validation sets of a fit's study, one row each.

    Parameters
    ----------
    posterior : Posterior
        Of one law or a stack.
    names : sequence of str
        ``("all",)`` stands for all there are.
    draws : int
    seed : int
    interval : float
        Mass of the central credible intervals.

    Returns
    -------
    DataFrame
        Columns domain, runs, those of `cause_names` (medians of the weights) with ``_lower`` and
        ``_upper``, misfit (nats/token per e-fold of steps), explained, pattern and caution (see
        `ThirdSet`).

    Raises
    ------
    StudyError
        As `check_names` and `third_sets`.
    """
    import pandas as pd

    wanted = check_names(posterior, names)
    laws = [
        third_sets(law, wanted, law.parameters(count), seed)
        for law, count in posterior.shares(draws)
    ]
    causes = cause_names(posterior.study)
    rows = [pooled(same).table_row(causes, interval) for same in zip(*laws, strict=True)]
    return pd.DataFrame(rows)


def cause_names(study: Study) -> tuple[str, ...]:
    """Return what the losses that weights are of are called in tables: several targets by their names.

    Parameters
    ----------
    study : Study
    """
    return ("general", *(study.targets if len(study.targets) > 1 else ("target",)))


def pooled(laws: Sequence[ThirdSet]) -> ThirdSet:
    """Return a third set in the draws of several laws, which stand side by side.

    Parameters
    ----------
    laws : sequence of ThirdSet
        The same set under each law; how well the linear form does is the worst of them.
    """
    return replace(
        laws[0],
        weights=np.concatenate([law.weights for law in laws]),
        misfit=np.concatenate([law.misfit for law in laws]),
        fluctuation=np.concatenate([law.fluctuation for law in laws]),
        memory=np.concatenate([law.memory for law in laws]),
        floor=np.concatenate([law.floor for law in laws]),
        explained=min(law.explained for law in laws),
        pattern=min(law.pattern for law in laws),
    )


@dataclass(frozen=True, eq=False)
class _Known:
    """The law's losses of the study's runs in some draws; sets measured at the same steps share them."""

    posterior: Posterior
    parameters: dict[str, Floats]
    kept: dict[tuple[str, tuple[int, ...]], Changes]

    @property
    def floor(self) -> Floats:
        """Share of the fluctuation that is left at learning rate 0, shape (draws,)."""
        floors = self.parameters.get("fluctuation_floor", np.ones((1, 1)))
        draws = len(self.parameters["memory"])
        return np.broadcast_to(floors.reshape(len(floors), -1).mean(axis=1), draws)

    def changes(self, run: Run, name: str) -> Changes:
        """Return the changes along a run, those of a third set too."""
        study, frame = self.posterior.study, self.posterior.frame
        wanted = tuple(frame.fitted_steps(study, run, name))
        if (run.name, wanted) not in self.kept:
            self.kept[run.name, wanted] = self._causes(run, wanted)
        steps, losses = study.curve(run.name, name)
        change = losses[np.isin(steps, wanted)] - float(study.base_loss(str(run.base), name) or 0.0)
        return replace(self.kept[run.name, wanted], change=change)

    def _causes(self, run: Run, steps: Sequence[int]) -> Changes:
        """Return the changes of the law's losses at some steps of a run."""
        frame = self.posterior.frame
        form = frame.area_form.around(frame.law.coefficients(self.parameters, np))
        curves = frame.curves(self.posterior.study, lambda *_: steps, [run], form)
        slow = self._slow(curves) - curves.bases.loss[curves.points.curve_index]
        points, count = curves.points, len(steps)
        return Changes(
            steps=points.steps[:count],
            change=np.full(count, np.nan),
            causes=np.stack(np.split(slow, len(frame.domains), axis=1), axis=2),
            floor=self.floor,
            learning_rate=points.learning_rate[:count],
            ramps=frame.residual_design(curves).ramps[:count],
        )

    def _slow(self, curves: Curves) -> Floats:
        """Return curves without their fluctuation, their mean in each draw, shape (draws, points)."""
        frame, observed = self.posterior.frame, observed_curves(self.posterior, curves)
        last = float(max(curves.points.steps.max(), observed.points.steps.max()))
        both = (curves, observed)
        designs = [frame.residual_design(curve_set, last) for curve_set in both]
        scales = [
            scales_of(frame, self.parameters, curve_set, design)
            for curve_set, design in zip(both, designs, strict=True)
        ]
        slow, seen_law = (expected_loss(frame, self.parameters, curve_set) for curve_set in both)
        residual = observed.points.loss - seen_law
        for index in range(len(curves.curves)):
            rows, seen = (
                slice(int(design.first[index]), int(design.last[index])) for design in designs
            )
            part, of_seen = (
                CurveResidual.of(design, scale, at)
                for design, scale, at in zip(designs, scales, (rows, seen), strict=True)
            )
            slow[:, rows] += slow_mean(
                part, of_seen, residual[:, seen], observed.points.steps[seen]
            )
        return np.asarray(slow)


def _third_set(known: _Known, name: str, generator: np.random.Generator) -> ThirdSet:
    study, frame = known.posterior.study, known.posterior.frame
    runs = [run for run in study.continual_runs if _tells(study, frame, run, name)]
    if not runs:
        problem = f"no CPT run tells how it goes with {' and '.join(frame.domains)}"
        fix = (
            "measure it, beside those, along at least one CPT run and at its base (step 0), or leave "
            "the set out"
        )
        raise StudyError.at(f"study {study.name}, domain {name}", problem, fix)
    data = [known.changes(run, name) for run in runs]
    sizes = draw_sizes(data, frame.reference.steps, known.floor.size, generator)
    misfit, fluctuation, memory = sizes
    weights = draw_weights(data, sizes, generator)
    residuals = [changes.left(weights) for changes in data]
    return ThirdSet(
        name,
        weights,
        misfit,
        fluctuation,
        memory,
        floor=known.floor,
        runs=tuple(run.name for run in runs),
        explained=explained_share(data, residuals),
        pattern=pattern_probability(data, residuals, sizes, runs, generator),
    )


def _tells(study: Study, frame: Frame, run: Run, name: str) -> bool:
    """Return whether a run was measured on a set and those of the law, and its base too."""
    domains = (*frame.domains, name)
    measured = all(study.curve(run.name, domain)[0][-1:].any() for domain in domains)
    return measured and all(
        study.base_loss(str(run.base), domain) is not None for domain in domains
    )
