"""What a specification makes of a study, before any PyMC: law, points, residual design and scales."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import batched
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.law import Law, gather
from bayes_cpt.laws.phase_areas import continual_areas, pretraining_areas
from bayes_cpt.laws.series import SHORTEST, Interval
from bayes_cpt.laws.term import Parameter, Reference
from bayes_cpt.laws.transfer import OF_BATCH, Shift
from bayes_cpt.model import fitted_points
from bayes_cpt.model.bases import at_medians, check_kind, for_base, starts_at_bases, with_lone_bases
from bayes_cpt.model.discrepancy import misfit_variance
from bayes_cpt.model.groups import (
    BATCHES,
    GAIN_BY_BATCH,
    GROUPED,
    SIZES,
    BatchSizes,
    Group,
    check_sizes,
    checked_batches,
    for_batches,
    for_targets,
    known_sizes,
    label,
    member_place,
    mixture_columns,
    roles_of,
    run_batch,
)
from bayes_cpt.model.law_table import REPLAY_FACTORS
from bayes_cpt.model.points import Curve, Curves, Points, losses_at, reference_of
from bayes_cpt.model.priors import Distribution, prior_ends
from bayes_cpt.model.residuals import ONSET_SHARE, ResidualDesign, Scales, Studied, residual_design
from bayes_cpt.model.spec import ROLES, ModelSpec
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.study import Run, Study
from bayes_cpt.study.trunks import start_loss, with_found_branches

LONE_LEVELS = "No two curves of pre-training show how far apart the levels of runs lie."
ONE_BATCH = "All runs have one batch size."
# Correlation time, in steps, that makes errors independent.
NO_MEMORY = 1e-6
# The coordinate of what several targets, or batches, share in part.
POOLED = "pooled"
# What a target has for itself: its level, which its base's loss determines, and what is of the mixture.
NOT_POOLED = ("reference_loss", "target_transfer", "forgetting_factor")


@dataclass(frozen=True)
class Member:
    """One of a coordinate: its label, and what it is of: a validation set, a parameter, or all (None)."""

    label: str
    domain: str | None


@dataclass(frozen=True, eq=False)
class BoundModel:
    """A specification applied to named validation sets at reference points."""

    spec: ModelSpec
    # Validation sets and what each is: ``general`` or ``target``
    domains: tuple[str, ...]
    roles: tuple[str, ...]
    reference: Reference
    # Last steps and highest peak that the study measured: beyond them the law extrapolates
    studied: Studied = field(default_factory=Studied)
    # Model sizes that the law knows, millions of parameters; none where it has no size
    sizes: tuple[float, ...] = ()
    # Batches that the law knows, that of most runs first; none where it does not compare them
    batches: tuple[Batch, ...] = ()
    # Batch sizes of the fitted runs, where the law compares model sizes
    batch_sizes: BatchSizes = field(default_factory=BatchSizes)
    # Whether CPT runs of the study start with a new optimiser, as runs that are asked about then do
    resets: bool = False

    @classmethod
    def of(cls, spec: ModelSpec, study: Study) -> Self:
        """Return a specification that is already one for the base, targets and batches of a study."""
        domains = spec.law.domains(study)
        return cls(
            spec,
            domains,
            roles_of(study, domains),
            reference_of(study, spec),
            Studied.of(study),
            known_sizes(spec, study),
            checked_batches(study) if spec.law.batches else (),
            BatchSizes.of(spec, study),
            {run.optimizer_state for run in study.continual_runs} == {"reset"},
        )

    @cached_property
    def law(self) -> Law:
        """The law of these validation sets."""
        return self.spec.law.build(self.roles, self.reference, self.spec.priors)

    @property
    def general(self) -> str | None:
        """The general validation set, None where the law knows targets alone."""
        return next((name for name, role in self._roles.items() if role == "general"), None)

    @property
    def targets(self) -> tuple[str, ...]:
        """The validation sets of the targets."""
        return tuple(name for name, role in self._roles.items() if role == "target")

    @property
    def unmeasured(self) -> str | None:
        """Of general and target data what a law of CPT tells nothing about, as nobody measured it."""
        missing = (role for role in ROLES if role not in self.roles)
        return next(missing, None) if self.spec.law.continual else None

    @property
    def carries_memory(self) -> bool:
        """Whether runs that are asked about carry the memory of the annealing across the transfer."""
        return self.spec.law.carry_memory and not self.resets

    @property
    def _roles(self) -> dict[str, str]:
        return dict(zip(self.domains, self.roles, strict=True))

    @property
    def groups(self) -> dict[str, tuple[Group, ...]]:
        """The groups of runs that have a part of the law for themselves, by coordinate."""
        return {SIZES: self.sizes, BATCHES: self.batches}

    @property
    def typical_size(self) -> float:
        """The model size nearest to the reference size, millions of parameters."""
        return min(self.sizes, key=lambda size: abs(np.log(size / self.reference.model_size)))

    @property
    def area_form(self) -> AreaForm:
        """How the law reckons areas, over all that the priors of memories and forward power allow."""
        law, steps = self.spec.law, {"memory": 1.0, "slow_memory": self.reference.steps}
        ends = [
            unit * end
            for name, unit in steps.items()
            if name in self.spec.priors
            for end in self._ends(name)
        ]
        momenta = (1.0 - 1.0 / min(ends), 1.0 - 1.0 / max(ends)) if ends else ()
        if momenta and momenta[0] < SHORTEST:
            length = self.reference.steps
            problem = f"it allows a memory of {min(ends):.2g} steps in runs of {length:g} steps"
            fix = 'give longer runs, or a model with slow_share = "printed" under [priors]'
            raise SpecError.at(f"model {self.spec.name}, key priors.slow_memory", problem, fix)
        return AreaForm(
            momenta=Interval.of_momenta(*momenta),
            powers=Interval.of_powers(*self._ends("forward_power")),
            reference_rate=self.reference.learning_rate,
            memory_clock=law.memory_clock,
            count_warmup=law.count_warmup,
            carry_memory=law.carry_memory,
            shift_powers=Interval.of_powers(*self._ends("shift_power")),
        )

    def _ends(self, name: str) -> tuple[float, float]:
        if name not in self.spec.priors:
            # A power that is not free is the printed 1.
            return 1.0, 1.0
        prior, dims = self.spec.priors[name], self.law.parameters()[name].dims
        found = [prior_ends(prior.of(role)) for role in (self.roles if dims else (None,))]
        if ends := [end for pair in found if pair for end in pair]:
            return min(ends), max(ends)
        problem = "it needs bounds: areas are tabulated between them"
        fix = "use a lognormal with lower and upper, or fix it"
        raise SpecError.at(f"model {self.spec.name}, key priors.{name}", problem, fix)

    def parameters(self) -> dict[str, Parameter]:
        """Return all sampled parameters, of the law and of the residuals.

        Those of single groups come last: the places of the others do not depend on how many there are.
        """
        parameters = self.law.parameters() | self.spec.residuals.parameters(self.spec.law)
        return dict(sorted(parameters.items(), key=lambda entry: entry[1].dims in GROUPED))

    def coords(self) -> dict[str, tuple[str, ...]]:
        """Return the coordinates that parameters run along."""
        coords = self._domain_coords()
        for dims, known in ((SIZES, self.spec.law.model_size), (BATCHES, self.spec.law.batches)):
            if known:
                coords[dims] = tuple(member.label for member in self.members(dims))
        if self.spec.law.targets > 1 or self.spec.law.batches:
            coords[POOLED] = self.pooled
        return coords

    def _domain_coords(self) -> dict[str, tuple[str, ...]]:
        """Return the coordinates whose members are validation sets."""
        factors = [getattr(self.spec.law.replay_factor, role) for role in self.roles]
        coords = {"domain": self.domains}
        for factor in REPLAY_FACTORS:
            chosen = zip(self.domains, factors, strict=True)
            if names := tuple(name for name, its_factor in chosen if its_factor == factor):
                coords[f"{factor}_domain"] = names
        return coords

    @property
    def pooled(self) -> tuple[str, ...]:
        """Names of the parameters of which targets, or batches, have one each from one population."""
        infos, priors = self.parameters(), self.spec.priors
        if self.spec.law.batches:
            free = (name for name in OF_BATCH if name in infos)
            return tuple(n for n in free if all(priors[n].of(role).is_free for role in self.roles))
        if self.spec.law.targets == 1:
            return ()
        along = self._domain_coords()
        return tuple(
            name
            for name, info in infos.items()
            if info.dims in along
            and name not in NOT_POOLED
            and any(self.pools(name))
            and priors[name].of("target").is_free
        )

    @property
    def spread(self) -> str:
        """The parameter that says how unlike what is pooled is."""
        return "batch_spread" if self.spec.law.batches else "target_spread"

    def pools(self, name: str) -> list[list[int]]:
        """Return the places of what is pooled of a parameter, along its coordinate, by population.

        Populations are all targets, or the batches of each validation set.
        """
        members = self.members(self.parameters()[name].dims)
        if self.spec.law.batches:
            places = batched(range(len(members)), max(len(self.batches), 1))
            return [list(own) for own in places]
        return [[place for place, member in enumerate(members) if self.role(member) == "target"]]

    def members(self, dims: str | None) -> tuple[Member, ...]:
        """Return the members of one of `coords`; None has one, of all validation sets."""
        if dims is None:
            return (Member("all", None),)
        if dims in GROUPED:
            pairs = [(domain, group) for domain in self.domains for group in self.groups[dims]]
            return tuple(Member(f"{domain}, {label(group)}", domain) for domain, group in pairs)
        if dims == POOLED:
            return tuple(Member(name, name) for name in self.pooled)
        return tuple(Member(domain, domain) for domain in self._domain_coords()[dims])

    def role(self, member: Member) -> str | None:
        """Return the role of a member's validation set; None where it is of all."""
        return self._roles.get(member.domain or "")

    def curves(
        self,
        study: Study,
        steps_of: Callable[[Run, str], Iterable[int]],
        runs: Iterable[Run] | None = None,
        form: AreaForm | None = None,
        trunks: Study | None = None,
    ) -> Curves:
        """Return curves of a study or plan on these validation sets, with losses where they were measured.

        `steps_of` gives the steps wanted of a run on a domain; a curve without any is left out. A narrower
        form costs less than the one that the priors allow. `trunks` has the runs that those of a plan
        branch off.
        """
        runs = study.runs if runs is None else tuple(runs)
        check_kind(study, runs, unknown=self.spec.law.unknown_base)
        if self.spec.law.model_size:
            check_sizes(study, runs)
        form, residuals = form or self.area_form, self.spec.residuals
        anchors = None if residuals.kind == "independent" else trunks or study
        curves: list[Curve] = []
        columns: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        for run in runs:
            continual = run.phase == "cpt"
            base = study.base(str(run.base)).schedule if continual else None
            wanted = {d: np.unique(np.array([*steps_of(run, d)], int)) for d in self.domains}
            left = run.branch.step if run.branch else 0
            union = np.unique(np.concatenate([[0, left], *wanted.values()]))
            resets = self.resets if run.optimizer_state is None else run.optimizer_state == "reset"
            if continual:
                areas = continual_areas(base, run.schedule, union, form, reset=resets)
            else:
                areas = pretraining_areas(run.schedule, union, form)
            warmup = run.schedule.warmup_steps if continual else 0
            ahead = np.maximum(warmup - areas.steps, 0) / max(warmup, 1)
            along = vars(areas) | {
                "steps": areas.steps.astype(np.float64),
                "cpt_steps": areas.steps * float(continual),
                "rewarming": residuals.rewarming_error * ahead,
            }
            along["learning_rate"] = along.pop("learning_rates") / self.reference.learning_rate
            size = study.model_size(run) if self.sizes else None
            batch = run_batch(study, run, self.batches)
            of_run: dict[str, Any] = {
                "target_share": 1.0 - (run.replay or 0.0) if continual else 0.0,
                "log_size": 0.0 if size is None else np.log(size / self.reference.model_size),
                "log_batch": self.batch_sizes.log_share(study, run),
                "base_misfit": 0.0,
                "base_rate": 0.0,
            }
            if base is not None:
                onset = ONSET_SHARE * self.reference.steps
                moved = misfit_variance(base.steps, onset, residuals.misfit_memory_pt)
                of_run["base_misfit"] = np.sqrt(moved)
                of_run["base_rate"] = base.final / self.reference.learning_rate
            for index, domain in enumerate(self.domains):
                if continual:
                    base_loss = study.base_loss(str(run.base), domain)
                else:
                    base_loss = None if anchors is None else start_loss(anchors, run, domain)
                known = base_loss is not None
                start = left if known and not continual else 0
                steps = wanted[domain][wanted[domain] > start] if start else wanted[domain]
                if not steps.size:
                    continue
                shares = mixture_columns(study.mixture(run), self.domains, index, run.replay)
                own = of_run | {
                    "curve_index": len(curves),
                    "domain_index": index,
                    **dict(zip(("other_share", "mixture"), shares, strict=True)),
                    "size_member": member_place(self.sizes, size, index),
                    "batch_member": member_place(self.batches, batch, index),
                    "base_known": float(known),
                    "branched": float(known and not continual),
                }
                # Where no loss starts a PT curve any step will do.
                at_start = np.array([start]) if continual or start else union[-1:]
                for table, at, loss in (
                    (columns, steps, losses_at(study, run, domain, steps)),
                    (rows, at_start, np.array([base_loss or 0.0])),
                ):
                    chosen = np.searchsorted(union, at)
                    table.append(
                        {name: np.repeat([value], at.size, axis=0) for name, value in own.items()}
                        | {name: value[chosen] for name, value in along.items()}
                        | {"loss": loss}
                    )
                curves.append(Curve(run.name, domain, continual, known, start))
        return Curves(tuple(curves), Points.joined(columns, form), Points.joined(rows, form))

    def first_step(self, study: Study, run: Run) -> float:
        """Return the step of a run up to which the law does not hold (see `fitted_points.first_step`)."""
        return fitted_points.first_step(study, run, self.spec.residuals)

    def fitted_steps(self, study: Study, run: Run, domain: str) -> list[int]:
        """Return the measured steps of a curve that enter a fit (see `observed_steps`), long logs thinned.

        Neighbouring points tell the same wherever residuals are correlated (see `thinned`); independent
        errors are not thinned.
        """
        residuals = self.spec.residuals
        steps = fitted_points.observed_steps(study, run, domain, residuals)
        if residuals.kind == "independent":
            return steps
        onset, most = ONSET_SHARE * self.reference.steps, fitted_points.most_points(study)
        return fitted_points.thinned(steps, onset, most)

    def residual_scales(
        self, points: Any, pretraining: Any, parameters: Any, coefficients: Any, xp: Any
    ) -> Scales:
        """Return the sizes of the residual parts at points, as the terms of a law take them.

        The fluctuation falls with the learning rate to a floor, and is larger in a re-warm-up. The variance
        of the misfit of a CPT run is ``misfit_cpt²·(1 - misfit_replay·(1 - h))``: replay takes away a part
        of it with the run's replay factor h, more slowly than it takes away the shift itself. What a CPT
        run keeps of how far its base lies off the law counts where nobody measured the base.
        ``pretraining`` is 1 in PT curves, else 0; coefficients are the law's from the parameters.
        """
        law = self.spec.law
        residuals = self.spec.residuals
        names = [*residuals.parameters(law), "reference_slope"]
        sizes = gather(points, {name: parameters[name] for name in names} | coefficients, xp)
        slope = sizes["reference_slope"]
        extrapolation = sizes.get("extrapolation_pt", xp.zeros_like(slope)) * slope
        if residuals.kind == "independent":
            nothing = xp.zeros_like(sizes["error"])
            return Scales(sizes["error"], NO_MEMORY + nothing, nothing, nothing, extrapolation)
        floor = sizes["fluctuation_floor"]
        heat = floor + (1.0 - floor) * points.learning_rate
        # From an unknown base there are no curves of PT, nor any whose start was not measured.
        absent = xp.zeros_like(floor)
        of_pt = ("fluctuation_pt", "misfit_pt", "offset_pt")
        fluctuation, misfit, offset = (sizes.get(name, absent) for name in of_pt)
        if law.continual:
            misfit_cpt = sizes["misfit_cpt"]
            if law.uses_replay:
                shift = next(term for term in self.law.terms if isinstance(term, Shift))
                factor = shift.replay_factor(points.target_share, sizes, xp)
                misfit_cpt = misfit_cpt * xp.sqrt(1.0 - sizes["misfit_replay"] * (1.0 - factor))
            # A base that nobody measured lies off the law as PT does, and runs keep as much of that.
            hot = fluctuation * (floor + (1.0 - floor) * points.base_rate)
            start = xp.sqrt(offset**2 + (misfit * points.base_misfit) ** 2 + hot**2)
            wears_off = self.law.base_offset is not None
            kept = self.law.kept(points, sizes, xp) if wears_off else 1.0
            offset = _chosen(pretraining, offset, start * kept)
            fluctuation = _chosen(pretraining, fluctuation, sizes["fluctuation_cpt"])
            misfit = _chosen(pretraining, misfit, misfit_cpt)
            multiple = sizes.get("extrapolation_cpt", xp.zeros_like(slope))
            extrapolation = _chosen(pretraining, extrapolation, multiple * misfit_cpt)
        fluctuation = fluctuation * heat + points.rewarming
        memory = sizes["fluctuation_memory"] * self.reference.steps
        return Scales(fluctuation, memory, misfit, offset, extrapolation)

    def residual_design(self, curves: Curves, last_step: float | None = None) -> ResidualDesign:
        """Return the residual design of some curves (see `residual_design`)."""
        steps, table = self.reference.steps, self.spec.residuals
        return residual_design(curves, steps, table, self.studied, last_step)


def _chosen(indicator: Any, where_one: Any, where_zero: Any) -> Any:
    return indicator * where_one + (1.0 - indicator) * where_zero


@dataclass(frozen=True)
class Element:
    """One number of a parameter: its value for one validation set, or for all."""

    name: str  # of the parameter
    member: int  # position along the parameter's coordinate; 0 where it has none
    label: str  # of its member of that coordinate
    # Its validation set, or the parameter whose spread it is, and what that set is; None where it is shared
    domain: str | None
    role: str | None
    prior: Distribution
    group: str | None = None  # coordinate of the groups of which it is of one

    def of(self, parameters: Mapping[str, Any]) -> Any:
        """Return its values, shape (...), a view of those of its parameter, (..., members) or (...)."""
        values = parameters[self.name]
        return values if self.domain is None else values[..., self.member]


def elements(frame: BoundModel) -> list[Element]:
    """Return the elements of a frame's parameters, parameter by parameter."""
    listed = []
    for name, info in frame.parameters().items():
        for place, member in enumerate(frame.members(info.dims)):
            role, group = frame.role(member), info.dims if info.dims in GROUPED else None
            own = (member.label, member.domain, role, frame.spec.priors[name].of(role), group)
            listed.append(Element(name, place, *own))
    return listed


def by_parameter(frame: BoundModel, values: Iterable[Floats]) -> dict[str, Floats]:
    """Return parameters, shape (..., members) or (...), from the values of each of `elements`."""
    members: dict[str, list[Floats]] = {}
    for element, value in zip(elements(frame), values, strict=True):
        members.setdefault(element.name, []).append(value)
    infos = frame.parameters()
    return {
        name: np.stack(own, axis=-1) if infos[name].dims else own[0]
        for name, own in members.items()
    }


@dataclass(frozen=True, eq=False)
class Setup:
    """A frame with the points and the residual design of a study."""

    frame: BoundModel
    curves: Curves  # the points that enter the likelihood
    design: ResidualDesign  # of those points


def build_setup(spec: ModelSpec, study: Study) -> Setup:
    """Return law, points and residual design of a study under a specification."""
    fitted_points.check_fits(spec, study)
    fitted_points.note_batches(spec, study)
    spec = for_batches(for_targets(for_base(spec, study), study), study)
    spec = _for_batch_sizes(spec, BatchSizes.of(spec, study))
    spec = _without_idle(spec, roles_of(study, spec.law.domains(study)))
    fitted_points.check_size(spec, study)
    setup = fitted_setup(BoundModel.of(spec, study), study)
    fitted_points.note_thinned(spec.residuals, study, setup.curves)
    return _without_lone_levels(setup)


def _without_lone_levels(setup: Setup) -> Setup:
    """Return the setup with `offset_pt` at its median where no two curves of a loss and a size tell it.

    The level of a lone curve and the sd that it is drawn with are a funnel, in which chains get stuck.
    """
    curves, points, spec = setup.curves.curves, setup.curves.points, setup.frame.spec
    first = np.unique(points.curve_index, return_index=True)[1]
    free = first[[not curve.base_known for curve in curves]]
    like = np.unique(np.column_stack([points.domain_index, points.log_size])[free], axis=0)
    if len(like) < len(free):
        return setup
    priors = spec.priors | at_medians(spec, ("offset_pt",), LONE_LEVELS)
    frame = replace(setup.frame, spec=spec.model_copy(update={"priors": priors}))
    return replace(setup, frame=frame)


def _without_idle(spec: ModelSpec, roles: tuple[str, ...]) -> ModelSpec:
    """Return the specification without what tells nothing of these validation sets.

    That is a slow pace of annealing that none has a share of, and what a target loses of general data where
    nobody measured them.
    """
    idle = [] if "general" in roles else ["target_forgetting"]
    shares = [spec.priors["slow_share"].of(role) for role in roles if "slow_share" in spec.priors]
    if not any(share.is_free or share.center for share in shares):
        idle += ["slow_share", "slow_memory"]
    priors = {name: prior for name, prior in spec.priors.items() if name not in idle}
    return spec.model_copy(update={"priors": priors})


def _for_batch_sizes(spec: ModelSpec, batches: BatchSizes) -> ModelSpec:
    """Return the specification with what batch sizes change at its median where all are one.

    It is left out where no run, or not every run, says its own.
    """
    if GAIN_BY_BATCH not in spec.priors or batches.differ:
        return spec
    priors = spec.priors | at_medians(spec, (GAIN_BY_BATCH,), ONE_BATCH)
    if not batches.tokens:
        del priors[GAIN_BY_BATCH]
    return spec.model_copy(update={"priors": priors})


def fitted_setup(frame: BoundModel, study: Study) -> Setup:
    """Return the points of a study that a fit takes, and their residual design."""
    study, law = with_found_branches(study), frame.spec.law
    alone = law.continual and starts_at_bases(law, study)
    fitted = with_lone_bases(study, frame.domains) if law.continual and not alone else study
    curves = frame.curves(
        fitted,
        lambda run, domain: frame.fitted_steps(fitted, run, domain),
        runs=fitted.continual_runs if alone else law.fitted_runs(fitted),
    )
    return Setup(frame, curves, frame.residual_design(curves))
