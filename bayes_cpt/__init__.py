"""Bayesian scaling laws for continual pre-training: from training runs to credible loss curves.

From a study to an answer:

    read_study, read_plan, write_study    a study folder, or runs to predict, into a `Study` and back
    bundled_study                         where the study lies that comes with the package
    Study, Run, Base                      what a study is made of, to build one in Python
    fit                                   a study and a model's name -> `Posterior`
    load                                  a file that `Posterior.save` wrote -> `Posterior`
    Posterior                             summary(), predict(plan), parameters(), save(path)
    predict, table                        draws of the loss curves of a plan, and their bands as a table
    bands                                 that table at once, of any number of runs
    decide                                what to train: replay, peak, schedule, base; and how sure that is
    compare                               which law predicts held-out runs; a stack of laws
    forecast_log                          one run's log -> where it will end, with no study and no fit
    next_run                              the short run that would improve the decision most
    landmarks                             package: survey, turning_length, critical_point, ...
    plots                                 package: one function per figure, each returns a Matplotlib Figure
    read_spec, build_model                a model's TOML file -> specification -> `pymc.Model`

In use:

    study = bayes_cpt.read_study("data/cpt-lab")
    posterior = bayes_cpt.fit(study, model="cpt-replay", seed=1)
    posterior.summary()
    curves = bayes_cpt.predict(posterior, "data/cpt-lab/plan-example.toml")
    bayes_cpt.table(curves)
    choice = bayes_cpt.decide(posterior, "balanced")
    bayes_cpt.landmarks.survey(posterior)
    bayes_cpt.plots.fitted(posterior)

`help` on any name says what goes in and what comes out. Further rooms, by their full names:
`bayes_cpt.identify` (what a study can and cannot tell), `bayes_cpt.validate` (runs left out, laws),
`bayes_cpt.laws` (the law's terms), `bayes_cpt.errors`. The equations are in docs/law.md, what intervals
promise in docs/contract.md.

>>> import bayes_cpt
>>> study = bayes_cpt.read_study(bayes_cpt.bundled_study())
>>> len(study.continual_runs)
10
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayes_cpt.caches import settle_caches

if TYPE_CHECKING:
    from bayes_cpt import landmarks as landmarks
    from bayes_cpt import plots as plots
    from bayes_cpt.bundled import bundled_study as bundled_study
    from bayes_cpt.decisions.decision import decide as decide
    from bayes_cpt.decisions.next_run import next_run as next_run
    from bayes_cpt.forecast.bands import bands as bands
    from bayes_cpt.forecast.predict import predict as predict
    from bayes_cpt.forecast.predict import table as table
    from bayes_cpt.inference.fitting import fit as fit
    from bayes_cpt.inference.posterior import Posterior as Posterior
    from bayes_cpt.inference.posterior import load as load
    from bayes_cpt.model.build import build_model as build_model
    from bayes_cpt.model.spec import read_spec as read_spec
    from bayes_cpt.study.folder import read_plan as read_plan
    from bayes_cpt.study.folder import read_study as read_study
    from bayes_cpt.study.folder import write_study as write_study
    from bayes_cpt.study.runs import Base as Base
    from bayes_cpt.study.runs import Run as Run
    from bayes_cpt.study.study import Study as Study
    from bayes_cpt.validate.comparison import compare as compare
    from bayes_cpt.watch.log_forecast import forecast_log as forecast_log

# Names are looked up when they are first used: importing the package imports nothing else. A function here
# must not have the name of a room: importing that room would put the room in the function's place.
_HOMES = {
    "bundled": ("bundled_study",),
    "decisions.decision": ("decide",),
    "decisions.next_run": ("next_run",),
    "forecast.bands": ("bands",),
    "forecast.predict": ("predict", "table"),
    "inference.fitting": ("fit",),
    "inference.posterior": ("Posterior", "load"),
    "model.build": ("build_model",),
    "model.spec": ("read_spec",),
    "study.folder": ("read_plan", "read_study", "write_study"),
    "study.runs": ("Base", "Run"),
    "study.study": ("Study",),
    "validate.comparison": ("compare",),
    "watch.log_forecast": ("forecast_log",),
}
_HOME = {name: f"bayes_cpt.{module}" for module, names in _HOMES.items() for name in names}
_ROOMS = ("landmarks", "plots")

settle_caches()

__version__ = "0.1.0"
__all__ = [*_HOME, *_ROOMS]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"bayes_cpt.{name}")
    raise AttributeError(f"module 'bayes_cpt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
