"""Ways to choose between runs from what others showed: each predicts their last losses."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.search_space import Candidates
from bayes_cpt.model.discrepancy import ErrorCorrelation
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from testbench.baselines import PAPER_EFFORT, Inputs, inputs_of, printed_fit
from testbench.our_areas import OurLaw
from testbench.short_studies import MODEL

# Predicts last losses, shape (domains, runs), from a study, runs of a plan and a seed.
type Predictor = Callable[[Study, Study, Sequence[Run], int], Floats]

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


def plug_in(study: Study, plan: Study, runs: Sequence[Run], seed: int) -> Floats:
    """Return the losses of the paper's fit: Huber log loss from many starts."""
    generator = np.random.default_rng(seed)
    inputs = Inputs.join([inputs_of(plan, run, [run.schedule.steps]) for run in runs])
    found = []
    for domain in study.trained_domains:
        fit, fitted, losses = printed_fit(study, domain)
        best = fit.from_many_starts(fitted, losses, generator, PAPER_EFFORT.starts)
        found.append(fit.losses(best, inputs))
    return np.stack(found)


def our_plug_in(study: Study, plan: Study, runs: Sequence[Run], seed: int) -> Floats:
    """Return the losses of a point estimate of our own law: all that the package has but its posterior."""
    generator = np.random.default_rng(seed)
    laws = (OurLaw.of(read_spec(MODEL), study, own) for own in study.trained_domains)
    return np.stack([law.last_losses(law.best(generator, OUR_STARTS), plan, runs) for law in laws])


def gaussian_process(study: Study, plan: Study, runs: Sequence[Run], seed: int) -> Floats:
    """Return posterior means of Gaussian processes over replay, peak, steps and the base.

    Trained on what the CPT runs show past their re-warm-up. The kernel has a linear trend, without which
    nothing could be said of more steps than were measured, a Matérn 5/2 part with a length per input, and
    noise; hyperparameters by maximum marginal likelihood.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

    peak = max(run.schedule.peak for run in study.runs)
    wanted = np.array([_process_inputs(plan, run, run.schedule.steps, peak) for run in runs])
    losses = []
    for domain in (str(study.general), str(study.target)):
        rows, seen = [], []
        for run in study.continual_runs:
            steps, measured = study.curve(run.name, domain)
            kept = steps > run.schedule.warmup_steps
            rows += [_process_inputs(study, run, step, peak) for step in steps[kept]]
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


def _process_inputs(study: Study, run: Run, step: float, peak: float) -> tuple[float, ...]:
    """Return what the Gaussian processes take of a step of a run."""
    potential = study.base(str(run.base)).loss_potential
    relative = float(np.log(run.schedule.peak / peak))
    return (float(run.replay or 0.0), relative, float(np.log(step / 1000.0)), potential or 0.0)


PREDICTORS: dict[str, Predictor] = {
    "plug-in": plug_in,
    "plug-in, our law": our_plug_in,
    "Gaussian process": gaussian_process,
}
