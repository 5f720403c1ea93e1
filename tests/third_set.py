"""A third validation set that is made of the losses on others."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from bayes_cpt.study.study import Study

# Weights of the losses of the lab, and how far the level of the set lies off.
MADE, LEVEL = {"general": 0.7, "kernel": 0.5}, -0.3


def with_mix(
    study: Study, weights: Mapping[str, float] = MADE, level: float = LEVEL, noise: float = 0.0
) -> Study:
    """Return a study with a set that is a weighted sum of its losses, nearly where there is noise."""
    wide = study.losses.pivot(index=["run", "step"], columns="domain", values="loss")
    mix = sum(weight * wide[name] for name, weight in weights.items()) + level
    # A base is one number, in every run that starts from it.
    off = noise * np.random.default_rng(0).standard_normal(len(wide))
    mix += np.where(wide.index.get_level_values("step") > 0, off, 0.0)
    rows = mix.rename("loss").reset_index().assign(domain="mix")
    return replace(study, losses=pd.concat([study.losses, rows], ignore_index=True))
