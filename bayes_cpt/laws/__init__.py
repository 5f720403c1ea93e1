"""Law terms and laws: written once, evaluated on NumPy arrays and PyTensor variables alike."""

from bayes_cpt.laws.batch import Batches
from bayes_cpt.laws.law import BaseOffset, Law
from bayes_cpt.laws.mixture import Mixture
from bayes_cpt.laws.peak import PeakLevel
from bayes_cpt.laws.pretraining import Annealing, Power
from bayes_cpt.laws.size import ModelSize
from bayes_cpt.laws.term import Parameter, Reference, Term
from bayes_cpt.laws.transfer import Adaptation, Shift, shift_signs

__all__ = [
    "Adaptation",
    "Annealing",
    "BaseOffset",
    "Batches",
    "Law",
    "Mixture",
    "ModelSize",
    "Parameter",
    "PeakLevel",
    "Power",
    "Reference",
    "Shift",
    "Term",
    "shift_signs",
]
