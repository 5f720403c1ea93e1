"""Models of which all but a few parameters are known, so that a fit takes seconds."""

from collections.abc import Collection

from bayes_cpt.model.priors.families import Fixed
from bayes_cpt.model.priors.tables import Prior
from bayes_cpt.model.spec import ModelSpec, read_spec

NOISE = ("fluctuation_cpt", "fluctuation_pt", "misfit_cpt", "misfit_pt", "offset_pt")
# Of all of these, nats.
NOISE_SIZE = 0.004


def with_few_free(model: str, free: Collection[str]) -> ModelSpec:
    """Return a shipped model with all other parameters at the medians of their priors, and little noise."""
    whole = read_spec(model)
    priors = {}
    for name, prior in whole.priors.items():
        held = NOISE_SIZE if name in NOISE else None
        sides = {
            side: own
            if name in free
            else Fixed(distribution="fixed", value=held or float(own.quantiles(0.5)))
            for side in ("every", "general", "target")
            if (own := getattr(prior, side)) is not None
        }
        priors[name] = Prior(reason=prior.reason, **sides)
    return whole.model_copy(update={"priors": priors})
