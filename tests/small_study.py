"""A study of three runs, small enough to follow by hand."""

import pandas as pd

from bayes_cpt import Base, Run, Study
from bayes_cpt.model.points import reference_of
from bayes_cpt.study.schedules import constant, cosine, linear

PEAK = 2e-3
TRUNK = linear(100, 0.0, PEAK) + constant(900, PEAK)
ANNEALED = linear(100, 0.0, PEAK) + constant(700, PEAK) + linear(200, PEAK, 4e-4)
COSINE = cosine(500, PEAK)
REWARMED = linear(50, 4e-4, 1e-3) + linear(250, 1e-3, 0.0)
LOSSES = [
    ("trunk", 50, "g", 5.0),
    ("trunk", 400, "g", 4.0),
    ("trunk", 1000, "g", 3.5),
    ("trunk", 1000, "t", 4.5),
    ("none", 0, "t", 4.45),
    ("none", 10, "t", 4.0),
    ("none", 500, "t", 3.0),
    ("none", 500, "g", 3.9),
    ("half", 300, "g", 3.4),
]
STUDY = Study(
    name="small",
    general="g",
    target="t",
    bases=(Base("stable", 1000, TRUNK, run="trunk"), Base("annealed", 1000, ANNEALED)),
    runs=(
        Run("trunk", "pt", TRUNK),
        Run("none", "cpt", COSINE, base="stable", replay=0.0),
        Run("half", "cpt", REWARMED, base="annealed", replay=0.5),
    ),
    losses=pd.DataFrame(LOSSES, columns=["run", "step", "domain", "loss"]),
)
REFERENCE = reference_of(STUDY)
