"""A model whose priors depend on each other, some of them with bounds, some of one validation set."""

from bayes_cpt.model.priors import Correlation
from bayes_cpt.model.spec import ModelSpec, read_spec

PAIRS = {
    ("exponent/general", "memory"): -0.6,
    ("reference_slope", "exponent"): 0.5,
    ("fluctuation_floor/target", "gain_replay/target"): 0.3,
}


def correlated_spec() -> ModelSpec:
    """Return cpt-replay with these correlations, checked as a file's are."""
    correlations = tuple(
        Correlation(between=between, value=value, reason="For tests.")
        for between, value in PAIRS.items()
    )
    return ModelSpec.model_validate(dict(read_spec("cpt-replay")) | {"correlations": correlations})
