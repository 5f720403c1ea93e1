"""Law terms and laws: written once, evaluated on arrays and on symbols alike."""

from pathlib import Path

from bayes_cpt.files import drop_stale_code
from bayes_cpt.laws.groups import Batches, Mixture, ModelSize
from bayes_cpt.laws.law import BaseOffset, Law
from bayes_cpt.laws.pretraining import Annealing, PeakLevel, Power
from bayes_cpt.laws.term import Parameter, Reference, Term
from bayes_cpt.laws.transfer import Damage, Shift, shift_signs

__all__ = [
    "Annealing",
    "BaseOffset",
    "Batches",
    "Damage",
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

# Before any of it is loaded.
drop_stale_code(Path(__file__).parents[1])
