"""Laws as sums of terms: where coefficients meet points.

The CPT law of arXiv 2505.07796, Eq. 4 with the replay factors of Eq. 8, reads here

    L = L0 + A·(S1_pt + S1_cpt)^-alpha                       power        (pretraining.py)
        - C1·S2_pt - C2·S2_cpt·exp(a1·r_cpt)                 annealing    (pretraining.py)
        + B·h(r_cpt)·(1 - (1 + E·S1_cpt)^-beta)              shift        (transfer.py)
        + Q·r_cpt·S3_cpt + Z·g(r_cpt)·S1_cpt/(S1_cpt + S1*)  damage       (transfer.py)
        + J·(1 - exp(-t/tau_0))                              jump         (transfer.py)
        + F·(n^-gamma_3 - 1) + delta_N                       size         (groups.py; Eq. 7)

where ``S1 = sum eta^rho`` and ``S2 = (eta_0^zeta - e^zeta)/(1 - lambda)`` with e the level of the learning
rate, an exponential mean of what it was (`bayes_cpt.laws.areas`), and ``S3 = sum eta^2``: rho = zeta = 1
and Q = Z = J = 0 is the printed law.
"""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.groups import BY_BATCH, OF_SIZES, Batches, Mixture, factors
from bayes_cpt.laws.term import Parameter, Reference, Term, Values, not_worn_off

# Coefficients without a domain axis.
SHARED = ("lambda", "lambda_slow", "rho", "zeta", "xi")
# Coefficients of groups of runs, and the coordinate they run along.
ALONG = dict.fromkeys(OF_SIZES, "size_domain") | dict.fromkeys(BY_BATCH.values(), "batch_domain")


def along(coefficient: str) -> str | None:
    """Return the coordinate that a coefficient runs along; None where validation sets share it."""
    return None if coefficient in SHARED else ALONG.get(coefficient, "domain")


@dataclass(frozen=True)
class BaseOffset:
    """How much of a base's distance from the law its CPT runs keep.

    A base measured above or below the law by delta moves the curves that start from it by
    ``delta·(kappa + (1 - kappa)·exp(-t/tau_0))``, so every curve starts at its base's measured loss.
    """

    def parameters(self) -> dict[str, Parameter]:
        """Return the share kept and the time in which the rest is lost."""
        return {
            "offset_kept": Parameter("kappa, share of the base's offset kept to the end"),
            "offset_time": Parameter("tau_0 as a share of the reference CPT steps"),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return kappa and tau_0."""
        return {
            "kappa": parameters["offset_kept"],
            "tau_0": parameters["offset_time"] * reference.steps,
        }

    def kept(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return the share of the offset left at each point, 1 at the transfer."""
        kappa = coefficients["kappa"]
        return kappa + (1.0 - kappa) * not_worn_off(points, coefficients, xp)


@dataclass(frozen=True)
class Law:
    """A sum of terms for the validation sets of one study."""

    terms: tuple[Term, ...]
    reference: Reference  # where the sampled parameters are values of the law
    # How CPT curves keep the distance of their base from the law; None ignores measured bases
    base_offset: BaseOffset | None = None
    mixture: Mixture | None = None  # how several targets act together; None where there is one
    # How batch sizes and sequence lengths differ in the shift; None where they do not
    batches: Batches | None = None
    # Parameters that have a prior; others stand at their printed values, where they have one
    free: frozenset[str] = frozenset()

    @property
    def _components(self) -> tuple[Any, ...]:
        beside = (self.base_offset, self.mixture, self.batches)
        return (*self.terms, *(part for part in beside if part is not None))

    def known(self) -> dict[str, Parameter]:
        """Return all parameters that may be sampled, by name."""
        parts = (part.parameters().items() for part in self._components)
        return {name: info for own in parts for name, info in own}

    def parameters(self) -> dict[str, Parameter]:
        """Return all sampled parameters, by name."""
        known = self.known()
        printed = {name for name, info in known.items() if info.printed is not None} - self.free
        return {
            name: info
            for name, info in known.items()
            if name not in printed and info.beside not in printed
        }

    def coefficients(self, parameters: Values, xp: Any) -> dict[str, Any]:
        """Return the coefficients of the printed equation from the sampled parameters (see `Term`)."""
        coefficients: dict[str, Any] = {}
        usual = parameters if self.batches is None else self.batches.usual(parameters)
        for part in self._components:
            values = parameters if part is self.batches else usual
            coefficients |= part.coefficients(values, self.reference, xp)
        return coefficients

    def loss(self, points: Any, gathered: Values, xp: Any) -> Any:
        """Return the law's loss at the points, nats/token, given as for a term."""
        return sum(term.loss(points, gathered, xp) for term in self.terms)

    def kept(self, points: Any, gathered: Values, xp: Any) -> Any:
        """Return the share of the offset of a curve's measured start that is left at each point.

        A base offset wears off over the steps of CPT, of which PT has none.
        """
        if self.base_offset is None:
            return points.branched
        return self.base_offset.kept(points, gathered, xp)


def gather(points: Any, values: Values, xp: Any) -> dict[str, Any]:
    """Return values of the validation set of some points, and `bayes_cpt.laws.groups.factors` of them.

    By name they have the shape (..., domains), or (...) those of `SHARED`; those of `ALONG` run along their
    coordinate.
    """
    gathered = {name: _of_points(points, name, value) for name, value in values.items()}
    return gathered | factors(points, gathered, xp)


def _of_points(points: Any, name: str, value: Any) -> Any:
    if name in SHARED:
        return value
    if name == "phi":
        return points.of_mixture(value)
    if name in ALONG:
        return points.of_group(ALONG[name], value)
    return value[..., points.domain_index]
