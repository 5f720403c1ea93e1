"""The law and the residuals as a model's TOML names them: terms, options and settings."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from bayes_cpt.laws.groups import Batches, Mixture, ModelSize
from bayes_cpt.laws.law import BaseOffset, Law
from bayes_cpt.laws.pretraining import Annealing, Power
from bayes_cpt.laws.term import ADDED, Parameter, Reference, Term
from bayes_cpt.laws.transfer import Jump, Shift
from bayes_cpt.strict import Strict
from bayes_cpt.study.study import Run, Study

# Terms with options of their own below; the others need but their name.
WITH_OPTIONS = ("power", "annealing", "shift")
# Keys of the table of a law that no model's file has.
SET_BY_FIT = {"takes_printed_clock", "unknown_base", "starts_at_base", "targets"}


def _known_term(name: str) -> str:
    known = (*WITH_OPTIONS, *ADDED)
    if name not in known:
        raise ValueError(f"there is no term {name!r}, only {', '.join(map(repr, known))}")
    return name


TermName = Annotated[str, AfterValidator(_known_term)]


# Factors with parameters of their own, along "NAME_domain".
REPLAY_FACTORS = ("exponential", "saturating", "power")


class ReplayFactor(Strict):
    """Which replay factor h each role has (docs/law.md, "Replay factors")."""

    general: Literal["none", "exponential", "saturating", "power"] = "none"
    target: Literal["none", "exponential", "saturating", "power"] = "none"


class LawTable(Strict):
    """The law: its terms and their options. What is not named is as printed.

    Which of its parameters are free the priors say (`bayes_cpt.model.spec.ModelSpec`).
    """

    # No text is a truth value.
    model_config = ConfigDict(strict=True)
    terms: tuple[TermName, ...] = Field(min_length=1, strict=False)
    replay_factor: ReplayFactor = ReplayFactor()
    # Whether CPT curves keep the distance of their measured base from the law
    base_offset: bool = False
    carry_memory: bool = False  # whether the memory of the annealing is carried across the transfer
    # Whether the rise of the learning rate in a PT warm-up counts in S2_pt, as it does in CPT
    count_warmup: bool = False
    # nu: the memory fades with the learning rate to this power; 0 counts steps
    memory_clock: float = Field(default=0.0, ge=0, le=2)
    # Whether a fit takes 0 for that, and no memory across the transfer, where the losses of a study say so
    printed_clock: bool = False
    # Whether the size of the model is a part of the law; runs then say theirs (docs/sizes.md)
    model_size: bool = False
    # Whether runs of different batch size or sequence length have a shift of their own (docs/batch.md)
    batches: bool = False
    # `SET_BY_FIT`: whether it took the printed clock,
    takes_printed_clock: bool = False
    # whether its base has ``known = false`` (see `bayes_cpt.model.bases`)
    unknown_base: bool = False
    # whether CPT alone was measured (see `bayes_cpt.model.bases`)
    starts_at_base: bool = False
    # and how many target domains there are (see `bayes_cpt.model.groups`)
    targets: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _terms_and_options_go_together(self) -> Self:
        if "power" not in self.terms:
            raise ValueError(
                "there is no term power, and the others change a level that it alone gives; add the term"
            )
        if "annealing" not in self.terms:
            raise ValueError(
                "there is no term annealing, whose memory every schedule is reduced by; add the term, and "
                "fix annealing_gain at 0 to do without its gain"
            )
        if len({*self.terms}) < len(self.terms):
            raise ValueError("a term is named twice, and would count twice; name each once")
        if self.batches and not self.continual:
            raise ValueError("batches differ in the shift of CPT; name the term shift too")
        return self

    @property
    def continual(self) -> bool:
        """Whether the law knows a CPT phase."""
        return "shift" in self.terms

    def domains(self, study: Study) -> tuple[str, ...]:
        """Return the validation sets of a study that the law describes, the general one first."""
        return study.trained_domains if self.continual else study.trained_domains[:1]

    def fitted_runs(self, study: Study) -> tuple[Run, ...]:
        """Return the runs of a study that the law describes."""
        return study.runs if self.continual else study.pretraining_runs

    def last_phase_runs(self, study: Study) -> tuple[Run, ...]:
        """Return the runs of the last phase that the law knows: CPT, or PT where there is none."""
        return study.continual_runs if self.continual else study.pretraining_runs

    @property
    def uses_replay(self) -> bool:
        """Whether the law depends on the replay ratio."""
        factor = self.replay_factor
        return factor.general != "none" or factor.target != "none"

    def build(self, roles: tuple[str, ...], reference: Reference, free: Iterable[str] = ()) -> Law:
        """Return the law for validation sets of these roles, in which these parameters have a prior."""
        terms: dict[str, Term] = {
            "power": Power(self.unknown_base),
            "annealing": Annealing(self.continual, self.unknown_base),
            "shift": Shift(
                tuple(1.0 if role == "general" else -1.0 for role in roles),
                tuple(getattr(self.replay_factor, role) for role in roles),
                self.unknown_base,
                self.batches,
            ),
            **{name: build() for name, build in ADDED.items()},
        }
        chosen = tuple(terms[name] for name in self.terms)
        if self.starts_at_base:
            chosen += (Jump(),)
        if self.model_size:
            chosen += (ModelSize(self.continual, self.starts_at_base),)
        return Law(
            chosen,
            reference,
            BaseOffset() if self.base_offset else None,
            Mixture() if self.targets > 1 else None,
            Batches(len(roles)) if self.batches else None,
            frozenset(free),
        )


class ResidualTable(Strict):
    """The residuals: ``curve`` (autocorrelated, with misfit) or ``independent``."""

    kind: Literal["curve", "independent"] = "curve"
    # Share of each PT run, from its start, that does not enter the fit
    skip_pretraining: float = Field(default=0.0, ge=0, lt=1)
    # How many times the longest PT warm-up of the study does not enter either, and the share of its longest
    # PT run that is left out so at most (see `bayes_cpt.model.fitted_points.first_step`)
    skip_warmups: float = Field(default=0.0, ge=0)
    skip_longest: float = Field(default=0.2, ge=0, lt=1)
    # What the fluctuation of a CPT run is larger by at the start of its re-warm-up, nats/token; it falls
    # linearly to 0 at the end of the re-warm-up
    rewarming_error: float = Field(default=0.0, ge=0)
    # Share of the misfit that is carried over an e-fold of steps, in CPT and in PT; 1 is a random walk
    misfit_memory: float = Field(default=0.5, ge=0, le=1)
    misfit_memory_pt: float = Field(default=0.5, ge=0, le=1)
    # Whether bands widen beyond the last step that was measured, and in PT above the highest peak: by the
    # share `extrapolation_pt` of the law's slope, in CPT by the multiple `extrapolation_cpt` of the misfit.
    # Nothing but their priors tells of these parameters.
    extrapolation: bool = False

    def parameters(self, law: LawTable) -> dict[str, Parameter]:
        """Return what is sampled for the residuals of a law, by name."""
        extrapolation = {}
        if self.extrapolation and not law.continual:
            meaning = "sd of the law's slope beyond the measured PT steps, as a share of it"
            extrapolation["extrapolation_pt"] = Parameter(meaning)
        if self.kind == "independent":
            return {"error": Parameter("sd of independent errors", "nats/token")} | extrapolation
        parameters = {
            "fluctuation_floor": Parameter("share of the fluctuation left at learning rate 0"),
            "fluctuation_memory": Parameter(
                "correlation time of the fluctuation, as a share of the reference steps"
            ),
        }
        if not law.unknown_base:
            parameters |= {
                "fluctuation_pt": Parameter(
                    "sd of PT fluctuations at the reference LR", "nats/token"
                ),
                "misfit_pt": Parameter("misfit of the law in PT per e-fold of steps", "nats/token"),
                "offset_pt": Parameter(
                    "sd of the level of a curve with no measured start", "nats/token"
                ),
            }
        if law.continual:
            parameters |= {
                "fluctuation_cpt": Parameter(
                    "sd of CPT fluctuations at the reference LR", "nats/token"
                ),
                "misfit_cpt": Parameter(
                    "misfit of the law in CPT at replay 0 per e-fold of steps", "nats/token"
                ),
            }
            if self.extrapolation:
                meaning = "sd of the law's slope beyond the measured CPT steps, over the misfit"
                parameters["extrapolation_cpt"] = Parameter(meaning)
        if law.uses_replay:
            parameters["misfit_replay"] = Parameter("share of its variance that replay takes away")
        return parameters | extrapolation
