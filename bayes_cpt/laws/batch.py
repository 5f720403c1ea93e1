"""Batch size and sequence length: each batch has a shift of its own (App. F of arXiv 2505.07796)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import FACTOR, Parameter, Reference, Values
from bayes_cpt.laws.transfer import shift_progress

# Coefficients that single batches have for themselves, and by what a batch multiplies each.
BY_BATCH = {"B": "q_B", "D": "q_D", "E": "q_E", "beta": "q_beta"}
# What of the shift a batch changes, and the parameters that it multiplies.
CHANGED = {
    "shift": ("shift_share", "shift_size"),
    "rate": ("shift_rate",),
    "exponent": ("shift_exponent",),
}
MEANINGS = {
    "shift": "the shift at the reference",
    "rate": "the rate of the shift",
    "exponent": "the exponent of the shift",
}


@dataclass(frozen=True)
class Batches:
    """Shift, rate and exponent of one batch lie off those of a typical batch by a factor each.

    The paper fits B, E and beta anew for another batch size or sequence length, and keeps the rest of the
    law. Here the logs of three factors are ``spread·deviation``, the deviation standard normal for every
    batch, also for one that never ran: of the shift at the reference forward area (and the transient with
    it), of E, and of beta. B follows from the three: it lies on a ridge with E and beta, and the shift at
    the reference does not.

    Parameters
    ----------
    exponential : bool
        Whether the shift has no beta (see `bayes_cpt.laws.transfer.Shift`).
    adaptation : bool
        Whether there is a transient.
    """

    exponential: bool = False
    adaptation: bool = False

    @property
    def _kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in CHANGED if not (self.exponential and kind == "exponent"))

    def parameters(self) -> dict[str, Parameter]:
        """Return how unlike batches are, and how far each lies off a typical one."""
        found = {}
        for kind in self._kinds:
            said = MEANINGS[kind]
            found[f"batch_{kind}_spread"] = Parameter(f"sd over batches of the log of {said}")
            found[f"batch_{kind}_deviation"] = Parameter(
                f"how far the log of {said} of one batch lies off that of a typical one, in its sds",
                dims="batch_domain",
            )
        return found

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return by what each batch multiplies B, D, E and beta."""
        logs = {kind: log_factor(parameters, kind, xp) for kind in self._kinds}
        count = logs["rate"].shape[-1] // parameters["shift_rate"].shape[-1]
        typical = {"rate": xp.repeat(parameters["shift_rate"], count, axis=-1)}
        if not self.exponential:
            typical["exponent"] = xp.repeat(parameters["shift_exponent"], count, axis=-1)
        own = {kind: value * xp.exp(logs[kind]) for kind, value in typical.items()}
        # How much of its limit the shift has reached at the reference.
        before, now = (
            shift_progress(each["rate"], 1.0, each.get("exponent"), xp) for each in (typical, own)
        )
        found = {"q_B": xp.exp(logs["shift"]) * before / now, "q_E": xp.exp(logs["rate"])}
        if self.adaptation:
            found["q_D"] = xp.exp(logs["shift"])
        if not self.exponential:
            found["q_beta"] = xp.exp(logs["exponent"])
        return found


def log_factor(parameters: Values, kind: str, xp: Any) -> Any:
    """Return the log of the factor by which batches differ in one of `CHANGED`.

    Parameters
    ----------
    parameters : mapping
        Sampled values.
    kind : str
    xp : module
        `numpy`, or the symbols of generated code.

    Returns
    -------
    array, shape (..., members)
        Those of one validation set one after the other.
    """
    spread, deviation = parameters[f"batch_{kind}_spread"], parameters[f"batch_{kind}_deviation"]
    return deviation * xp.repeat(spread, deviation.shape[-1] // spread.shape[-1], axis=-1)


def batch_factors(gathered: Values, factors: dict[str, Any]) -> dict[str, Any]:
    """Return the factors of `bayes_cpt.laws.term.sized` with those of the batch.

    Parameters
    ----------
    gathered : mapping
        Coefficients of each point.
    factors : dict of str to array
        Those of model size and of a mixture of targets.
    """
    found = dict(factors)
    for name, factor in BY_BATCH.items():
        if factor in gathered:
            known = found.get(f"{name}{FACTOR}")
            found[f"{name}{FACTOR}"] = (
                gathered[factor] if known is None else known * gathered[factor]
            )
    return found
