"""What a fitted law says beside its curves: landmarks of continual pre-training, with their posteriors.

All are computed draw by draw; no point estimate is plugged in. A PlanError or StudyError names what cannot
be computed of a plan, a ValueError impossible numbers.
"""

from bayes_cpt.landmarks.critical import CriticalPoint, critical_point
from bayes_cpt.landmarks.decomposition import decompose, hidden_curves
from bayes_cpt.landmarks.responses import (
    Response,
    base_response,
    loss_potential_response,
    peak_response,
)
from bayes_cpt.landmarks.survey import Survey, survey
from bayes_cpt.landmarks.turning import TurningLength, turning_length

__all__ = [
    "CriticalPoint",
    "Response",
    "Survey",
    "TurningLength",
    "base_response",
    "critical_point",
    "decompose",
    "hidden_curves",
    "loss_potential_response",
    "peak_response",
    "survey",
    "turning_length",
]
