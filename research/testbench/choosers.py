"""Ways to choose the long run from short ones: each predicts the last losses of all choices."""

import warnings
from collections.abc import Callable
from functools import cache

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.final_losses import FinalLosses, OneLaw
from bayes_cpt.forecast.evaluate import Draws
from bayes_cpt.forecast.third_sets import ThirdSet
from bayes_cpt.model.discrepancy import ErrorCorrelation, SharedMisfit
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.baselines import (
    PAPER_EFFORT,
    Inputs,
    inputs_of,
    printed_fit,
)
from testbench.our_areas import OurLaw, parameters_at
from testbench.short_studies import DOMAINS, LONG, MODEL, PEAK, blank, design

# Predicts losses of the choices, shape (domains, candidates), from a study and a seed.
type Predictor = Callable[[Study, int], Floats]

RULE_REPLAY, RULE_PEAK = 0.25, 1.0
GAUSSIAN_PROCESS_STARTS = 4
# Of our law, which starts near its priors' centres.
OUR_STARTS = 6
# Of a single law nothing is asked that hangs on how alike errors are.
UNLIKE = ErrorCorrelation(0.0, 0.0)


def rule_row(candidates: Candidates) -> int:
    """Return the common rule: a re-warm-up to the PT peak over a tenth of the run, a quarter replay."""
    replay, peak = candidates.column("replay"), candidates.column("relative_peak")
    found = np.flatnonzero(np.isclose(replay, RULE_REPLAY) & np.isclose(peak, RULE_PEAK))
    return int(found.item())


@cache
def _choice_inputs() -> Inputs:
    """Return what the printed law takes of the choices: the same in every study."""
    _, candidates = design()
    runs = tuple(candidates.run(row, f"choice {row}") for row in range(len(candidates)))
    plan = blank(runs)
    return Inputs.join([inputs_of(plan, run, [LONG]) for run in runs])


def printed_ends(study: Study, inputs: Inputs, seed: int) -> Floats:
    """Return the losses of the paper's fit to a study at some inputs, shape (domains, inputs)."""
    generator = np.random.default_rng(seed)
    found = []
    for domain in (study.general, str(study.target)):
        fit, fitted, losses = printed_fit(study, domain)
        best = fit.from_many_starts(fitted, losses, generator, PAPER_EFFORT.starts)
        found.append(fit.losses(best, inputs))
    return np.stack(found)


def plug_in(study: Study, seed: int) -> Floats:
    """Return the losses of the paper's fit at the choices."""
    return printed_ends(study, _choice_inputs(), seed)


def our_plug_in(study: Study, seed: int) -> Floats:
    """Return the losses of a point estimate of our own law: all that the package has but its posterior."""
    generator = np.random.default_rng(seed)
    _, candidates = design()
    losses = []
    for domain in DOMAINS:
        law = OurLaw.of(read_spec(MODEL), study, domain)
        parameters = parameters_at(law.frame, law.best(generator, OUR_STARTS)[None])
        draws = Draws.of(law.frame, parameters)

        def measured(base: Base, own: str = domain) -> tuple[float | None, ...]:
            return (study.base_loss(base.name, own),)

        one = OneLaw(draws, SharedMisfit(1, 0.0, 1), UNLIKE)
        model = FinalLosses(study, (one,), measured, _third)
        losses.append(np.asarray(model.losses(candidates)[0, :, 0], np.float64))
    return np.stack(losses)


def _third(name: str) -> ThirdSet:
    raise ValueError(f"studies of the bench have general and target alone, not {name!r}")


def gaussian_process(study: Study, seed: int) -> Floats:
    """Return posterior means of Gaussian processes over replay, peak, steps and the base.

    Trained on what the CPT runs show past their re-warm-up. The kernel has a linear trend, without which
    nothing could be said of more steps than were measured, a Matérn 5/2 part with a length per input, and
    noise; hyperparameters by maximum marginal likelihood.
    """
    _, candidates = design()
    wanted = np.column_stack(
        [
            candidates.column("replay"),
            np.log(candidates.column("relative_peak")),
            np.full(len(candidates), np.log(LONG / 1000.0)),
            np.full(len(candidates), study.base("annealed").loss_potential),
        ]
    )
    return process_losses(study, wanted, PEAK, seed)


def process_losses(study: Study, wanted: Floats, peak: float, seed: int) -> Floats:
    """Return posterior means of Gaussian processes that a study's CPT runs train, shape (domains, wanted).

    Parameters
    ----------
    study : Study
    wanted : ndarray, shape (wanted, 4)
        Replay, log of peak over `peak`, log of thousands of steps, and loss potential of the base.
    peak : float
        Of PT, raw learning rate.
    seed : int
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        ConstantKernel,
        DotProduct,
        Matern,
        WhiteKernel,
    )

    losses = []
    for domain in (study.general, str(study.target)):
        rows, seen = [], []
        for run in study.continual_runs:
            steps, measured = study.curve(run.name, domain)
            kept = steps > run.schedule.warmup_steps
            rows += [process_inputs(study, run, step, peak) for step in steps[kept]]
            seen += list(measured[kept])
        kernel = (
            ConstantKernel(1.0, (1e-3, 1e3)) * Matern([1.0] * 4, (1e-1, 1e2), nu=2.5)
            + ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, "fixed")
            + WhiteKernel(1e-2, (1e-5, 1.0))
        )
        process = GaussianProcessRegressor(
            kernel,
            n_restarts_optimizer=GAUSSIAN_PROCESS_STARTS,
            normalize_y=True,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # A length at its bound says that an input does not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(np.array(rows), np.array(seen))
        losses.append(process.predict(wanted))
    return np.stack(losses)


def process_inputs(study: Study, run: Run, step: float, peak: float) -> tuple[float, ...]:
    """Return what the Gaussian processes take of a step of a run."""
    potential = study.base(str(run.base)).loss_potential
    relative = float(np.log(run.schedule.peak / peak))
    return (float(run.replay or 0.0), relative, float(np.log(step / 1000.0)), potential or 0.0)


PREDICTORS: dict[str, Predictor] = {
    "plug-in": plug_in,
    "plug-in, our law": our_plug_in,
    "Gaussian process": gaussian_process,
}
