"""Batch size and sequence length: each batch has a shift of its own (App. F of arXiv 2505.07796)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import FACTOR, Parameter, Values
from bayes_cpt.laws.transfer import OF_BATCH, shift_progress

# Coefficients that single batches have for themselves, and by what a batch multiplies each.
BY_BATCH = {"B": "q_B", "D": "q_D", "E": "q_E", "beta": "q_beta"}


@dataclass(frozen=True)
class Batches:
    """The shift of each batch: its size at the reference, its rate, and its exponent.

    The paper fits B, E and beta anew for another batch size or sequence length, and keeps the rest of the
    law. So does this: what `bayes_cpt.laws.transfer.Shift` samples has a value for every batch of every
    validation set, and these are alike as far as the data say (`bayes_cpt.model.priors.pooling`). B, D, E
    and beta are those of the usual batch, the first; ``q_B`` ... are by what each batch multiplies them.

    Parameters
    ----------
    domains : int
        How many validation sets there are.
    adaptation : bool
        Whether there is a transient.
    """

    domains: int
    adaptation: bool = False

    def parameters(self) -> dict[str, Parameter]:
        """Return how unlike batches are."""
        meaning = "sd of single batches about their mean, in sds of the prior of a parameter"
        return {"batch_spread": Parameter(meaning, dims="pooled")}

    def usual(self, parameters: Values) -> dict[str, Any]:
        """Return the parameters of the law in the usual batch.

        Parameters
        ----------
        parameters : mapping
            Sampled values; those of batches shape (..., validation sets times batches).
        """
        own = {name: parameters[name] for name in OF_BATCH if name in parameters}
        count = own["shift_rate"].shape[-1] // self.domains
        return dict(parameters) | {name: values[..., ::count] for name, values in own.items()}

    def ratios(self, parameters: Values, xp: Any) -> dict[str, Any]:
        """Return by what each batch multiplies B, D, E and beta; nothing where there is one.

        Parameters
        ----------
        parameters : mapping
            As for `usual`.
        xp : module
            `numpy`, or the symbols of generated code.
        """
        count = parameters["shift_rate"].shape[-1] // self.domains
        if count == 1:
            return {}
        usual = self.usual(parameters)

        def both(name: str) -> tuple[Any, Any]:
            return parameters[name], xp.repeat(usual[name], count, axis=-1)

        rate, usual_rate = both("shift_rate")
        exponent, usual_exponent = both("shift_exponent")
        size, usual_size = both("shift_share" if "shift_share" in parameters else "shift_size")
        # How much of its limit the shift has reached at the reference.
        now = shift_progress(rate, 1.0, exponent, xp)
        before = shift_progress(usual_rate, 1.0, usual_exponent, xp)
        found = {
            "q_B": size / usual_size * before / now,
            "q_E": rate / usual_rate,
            "q_beta": exponent / usual_exponent,
        }
        return found | ({"q_D": size / usual_size} if self.adaptation else {})


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
    for name, ratio in BY_BATCH.items():
        if ratio in gathered:
            known = found.get(f"{name}{FACTOR}")
            found[f"{name}{FACTOR}"] = gathered[ratio] if known is None else known * gathered[ratio]
    return found
