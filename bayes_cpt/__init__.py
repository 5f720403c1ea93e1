"""Bayesian scaling laws for continual pre-training: from training runs to credible loss curves.

>>> import bayes_cpt
>>> study = bayes_cpt.read_study(bayes_cpt.bundled_study())
>>> len(study.continual_runs)
10
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.decisions.decision import decide
    from bayes_cpt.inference.fitting import fit
    from bayes_cpt.inference.posterior import Posterior, load
    from bayes_cpt.study.readers.folder import read_plan, read_study
    from bayes_cpt.study.study import Base, Run, Study
    from bayes_cpt.study.writer import write_study

# Names are looked up when they are first used: reading a study must not import PyMC.
_HOMES = {
    "Base": "bayes_cpt.study.study",
    "Posterior": "bayes_cpt.inference.posterior",
    "Run": "bayes_cpt.study.study",
    "Study": "bayes_cpt.study.study",
    "bundled_study": "bayes_cpt.bundled",
    "decide": "bayes_cpt.decisions.decision",
    "fit": "bayes_cpt.inference.fitting",
    "load": "bayes_cpt.inference.posterior",
    "read_plan": "bayes_cpt.study.readers.folder",
    "read_study": "bayes_cpt.study.readers.folder",
    "write_study": "bayes_cpt.study.writer",
}

__version__ = "0.1.0"
__all__ = [
    "Base",
    "Posterior",
    "Run",
    "Study",
    "bundled_study",
    "decide",
    "fit",
    "load",
    "read_plan",
    "read_study",
    "write_study",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bayes_cpt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
