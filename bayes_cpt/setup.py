"""What a specification makes of a study, before any PyMC: law, points, residual design and scales."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bayes_cpt.areas import MomentumRange
from bayes_cpt.errors import Problem, SpecError, StudyError
from bayes_cpt.laws import Law, Parameter, Reference, Shift
from bayes_cpt.laws.law import gather
from bayes_cpt.points import Curves, Points, build_curves, observed_steps, reference_of
from bayes_cpt.residuals import ResidualDesign, Scales, residual_design
from bayes_cpt.spec import Fixed, LogNormal, ModelSpec
from bayes_cpt.study import Run, Study

# Correlation time, in steps, that makes errors independent.
NO_MEMORY = 1e-6


@dataclass(frozen=True, eq=False)
class Frame:
    """A specification applied to named validation sets at reference points.

    Parameters
    ----------
    spec : ModelSpec
    domains, roles : tuple of str
        Validation sets and what each is: ``general`` or ``target``.
    reference : Reference
    """

    spec: ModelSpec
    domains: tuple[str, ...]
    roles: tuple[str, ...]
    reference: Reference

    @cached_property
    def law(self) -> Law:
        """The law of these validation sets."""
        return self.spec.law.build(self.roles, self.reference)

    @property
    def momentum_range(self) -> MomentumRange:
        """The momenta that the prior of the memory allows."""
        prior = self.spec.priors["memory"].of(None)
        if isinstance(prior, Fixed):
            momentum = 1.0 - 1.0 / prior.value
            return MomentumRange(momentum - 1e-3 * (1.0 - momentum), momentum)
        if isinstance(prior, LogNormal) and prior.lower and prior.upper:
            return MomentumRange(1.0 - 1.0 / prior.lower, 1.0 - 1.0 / prior.upper)
        raise SpecError(
            [
                Problem(
                    "key priors.memory",
                    "the memory needs bounds: annealing areas are tabulated between them",
                    "use a lognormal with lower and upper, or fix it",
                )
            ]
        )

    def parameters(self) -> dict[str, Parameter]:
        """Return all sampled parameters, of the law and of the residuals."""
        residual = self.spec.residuals.parameters(self.spec.law)
        return self.law.parameters() | residual

    def coords(self) -> dict[str, tuple[str, ...]]:
        """Return the coordinates that parameters run along."""
        factors = [getattr(self.spec.law.replay_factor, role) for role in self.roles]
        found = {"domain": self.domains}
        for factor in ("exponential", "saturating", "power"):
            chosen = zip(self.domains, factors, strict=True)
            if names := tuple(name for name, own in chosen if own == factor):
                found[f"{factor}_domain"] = names
        return found

    def curves(self, study: Study, steps_of: Any, runs: Iterable[Run] | None = None) -> Curves:
        """Return curves of a study or plan on these validation sets (see `build_curves`)."""
        return build_curves(
            study,
            self.domains,
            steps_of,
            self.reference,
            self.momentum_range,
            carry_memory=self.spec.law.carry_memory,
            runs=runs,
        )

    def residual_scales(
        self, points: Points, pretraining: Any, parameters: Any, coefficients: Any, xp: Any
    ) -> Scales:
        """Return the sizes of the residual parts at the points, shape (..., points).

        The fluctuation falls with the learning rate to a floor. The variance of the misfit of a CPT run is
        ``misfit_cpt²·(1 - misfit_replay·(1 - h))``: replay takes away a part of it with the run's replay
        factor h, more slowly than it takes away the shift itself.

        Parameters
        ----------
        points : Points
        pretraining : array, shape (points,)
            1 in PT curves, else 0.
        parameters, coefficients : mapping
            Sampled values, and the law's coefficients from them.
        xp : module
            `numpy` or `pytensor.tensor`.
        """
        law = self.spec.law
        names = self.spec.residuals.parameters(law)
        own = gather(points, {name: parameters[name] for name in names} | coefficients)
        if self.spec.residuals.kind == "independent":
            nothing = xp.zeros_like(own["error"])
            return Scales(own["error"], NO_MEMORY + nothing, nothing, nothing)
        floor = own["fluctuation_floor"]
        heat = floor + (1.0 - floor) * points.learning_rate
        fluctuation, misfit = own["fluctuation_pt"], own["misfit_pt"]
        if law.continual:
            misfit_cpt = own["misfit_cpt"]
            if law.uses_replay:
                factor = self._shift.replay_factor(points.target_share, own, xp)
                misfit_cpt = misfit_cpt * xp.sqrt(1.0 - own["misfit_replay"] * (1.0 - factor))
            fluctuation = _chosen(pretraining, fluctuation, own["fluctuation_cpt"])
            misfit = _chosen(pretraining, misfit, misfit_cpt)
        return Scales(
            fluctuation=fluctuation * heat,
            memory=own["fluctuation_memory"] * self.reference.steps,
            misfit=misfit,
            offset=own["offset_pt"],
        )

    def residual_design(self, curves: Curves, knots: int | None = None) -> ResidualDesign:
        """Return the residual design of some curves (see `residual_design`)."""
        memory = self.spec.residuals.misfit_memory
        return residual_design(curves, self.reference.steps, memory, knots)

    @property
    def _shift(self) -> Shift:
        return next(term for term in self.law.terms if isinstance(term, Shift))


def _chosen(indicator: Any, where_one: Any, where_zero: Any) -> Any:
    return indicator * where_one + (1.0 - indicator) * where_zero


@dataclass(frozen=True, eq=False)
class Setup:
    """A frame with the points and the residual design of a study.

    Parameters
    ----------
    frame : Frame
    curves : Curves
        The points that enter the likelihood.
    design : ResidualDesign
        Of those points.
    """

    frame: Frame
    curves: Curves
    design: ResidualDesign


def build_setup(spec: ModelSpec, study: Study) -> Setup:
    """Return law, points and residual design of a study under a specification.

    Raises
    ------
    StudyError
        If the study lacks what the law needs, or has what it has no term for.
    """
    continual = spec.law.continual
    _check_fits(spec, study)
    domains: tuple[str, ...] = (study.general,)
    if continual and study.target is not None:
        domains = (study.general, study.target)
    frame = Frame(spec, domains, ("general", "target")[: len(domains)], reference_of(study))
    skip = spec.residuals.skip_pretraining
    curves = frame.curves(
        study,
        lambda run, domain: observed_steps(study, run, domain, skip),
        runs=study.runs if continual else study.pretraining_runs,
    )
    return Setup(frame, curves, frame.residual_design(curves))


def _check_fits(spec: ModelSpec, study: Study) -> None:
    runs = study.continual_runs
    replays = sorted({run.replay for run in runs if run.replay is not None})
    problem = None
    if spec.law.continual and not runs:
        problem = ("there is no CPT run", "use --model pretrain, or add CPT runs")
    elif not spec.law.continual and not study.pretraining_runs:
        problem = ("there is no PT run", "use --model cpt or cpt-replay, or add PT runs")
    elif spec.law.continual and len(replays) > 1 and not spec.law.uses_replay:
        problem = (
            f"the runs have replay ratios {replays[0]:g} to {replays[-1]:g}, and the law {spec.name} "
            "has no term for them",
            "use --model cpt-replay, or keep runs of one replay ratio",
        )
    if problem:
        raise StudyError([Problem(f"study {study.name}, model {spec.name}", *problem)])
