"""Simulation-based calibration: parameters from the prior, losses from the model, and the model refitted.

Source: Talts et al. (2018), Validating Bayesian Inference Algorithms with Simulation-Based Calibration,
arXiv 1804.06788. If prior, simulator, density and sampler agree, the rank of the true value among
independent posterior draws is uniform, for every quantity and whatever the design.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.priors import draw_priors
from bayes_cpt.setup import Frame, Setup, build_setup
from bayes_cpt.simulate import simulate
from bayes_cpt.spec import Fixed, ModelSpec
from bayes_cpt.study import Study
from bayes_cpt.validate.design import simulate_setup, with_base_losses
from bayes_cpt.validate.parallel import Pool, task_seed
from bayes_cpt.validate.records import Records, in_words

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Progress = Callable[[str, float], None]

# Posterior draws that a truth is ranked among: as many as a short fit has that are about independent.
RANKED = 100
# Tuning, draws per chain and accept rate of a refit, and of the second attempt where the first falls short.
EFFORTS = ((300, 500, 0.9), (800, 1000, 0.97))
# More refits than this share that miss their diagnostics, and the calibration says nothing.
MOST_UNTRUSTED = 0.05
TABLES = ("ranks",)
# Columns of the table of ranks that are no quantities.
NOTES = ("task", "trustworthy", "problems", "attempts")


@dataclass(frozen=True, eq=False)
class Replicate:
    """One simulated study, fitted again.

    Parameters
    ----------
    truth : dict of str to float
        What was simulated, by quantity.
    draws : dict of str to ndarray, shape (draws,)
        About independent posterior draws of the same; empty where the refit failed.
    problems : tuple of str
        Why the refit is not to be trusted; empty where it is.
    attempts : int
        Of sampling.
    """

    truth: dict[str, float]
    draws: dict[str, Floats]
    problems: tuple[str, ...] = ()
    attempts: int = 1

    def ranks(self) -> dict[str, int | None]:
        """Return how many of its draws lie below the truth of each quantity."""
        return {
            name: int(np.sum(self.draws[name] < truth)) if name in self.draws else None
            for name, truth in self.truth.items()
        }


@dataclass(frozen=True, eq=False)
class ModelReplicates:
    """Simulates a design under a model and fits it again; called with a seed.

    Parameters
    ----------
    spec : ModelSpec
    design : Study
        From `bayes_cpt.validate.design.design_study`; further runs, without losses, are the held-out ones.
    held_out : tuple of str
        Runs of the design whose final loss is predicted.
    ranked : int
        Draws that a truth is ranked among.
    cores : int, optional
        Chains sampled at once.
    """

    spec: ModelSpec
    design: Study
    held_out: tuple[str, ...] = ()
    ranked: int = RANKED
    cores: int | None = None

    def __call__(self, seed: int) -> Replicate:
        """Return the replicate of a seed."""
        from bayes_cpt.density import build_density
        from bayes_cpt.sampling import Effort, sample
        from bayes_cpt.whitening import SamplingError

        for_prior, for_data, for_fit, for_end = np.random.SeedSequence(seed).generate_state(4)
        blank = build_setup(self.spec, self.design)
        frame = blank.frame
        truth = draw_priors(frame, 1, int(for_prior))
        with np.errstate(over="ignore", invalid="ignore"):
            setup = simulate_setup(blank, self.design, truth, np.random.default_rng(for_data))
        true_ends = self._final_losses(setup, truth, int(for_end))
        true_values = _named(frame, truth) | true_ends
        known = {name: float(value[0]) for name, value in true_values.items()}
        if not np.isfinite(setup.curves.points.loss).all():
            return Replicate(known, {}, ("the simulated losses are not finite",), 0)
        efforts = tuple(Effort(*effort) for effort in EFFORTS)
        try:
            found = sample(build_density(setup), int(for_fit), efforts=efforts, cores=self.cores)
        except SamplingError as error:
            return Replicate(known, {}, (str(error),), 0)
        parameters = _thinned(found.values, self.ranked)
        for name, value in truth.items():
            parameters.setdefault(name, np.repeat(value, self.ranked, axis=0))
        ends = self._final_losses(setup, parameters, int(for_end) + 1)
        draws = _named(frame, parameters) | ends
        return Replicate(known, draws, found.diagnostics.problems, found.attempts)

    def _final_losses(
        self, setup: Setup, parameters: dict[str, Floats], seed: int
    ) -> dict[str, Floats]:
        """Return the last loss of each held-out run: the law's, and a measured one, shape (draws,)."""
        if not self.held_out:
            return {}
        runs = [self.design.run(name) for name in self.held_out]
        curves = setup.frame.curves(self.design, lambda run, _: [run.schedule.steps], runs)
        based = with_base_losses(curves, setup.curves, self.design)
        generator = np.random.default_rng(seed)
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = simulate(setup.frame, parameters, based, None, generator)
        found = {}
        for i, curve in enumerate(based.curves):
            found[f"final law[{curve.run}, {curve.domain}]"] = drawn.expected[:, i]
            found[f"final loss[{curve.run}, {curve.domain}]"] = drawn.loss[:, i]
        return found


def _named(frame: Frame, parameters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the sampled parameters by name and validation set, each of shape (draws,)."""
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    found = {}
    for name, info in frame.parameters().items():
        prior = frame.spec.priors[name]
        if info.dims is None:
            if not isinstance(prior.of(None), Fixed):
                found[name] = parameters[name]
            continue
        for i, domain in enumerate(frame.coords()[info.dims]):
            if not isinstance(prior.of(roles[domain]), Fixed):
                found[f"{name}[{domain}]"] = parameters[name][:, i]
    return found


def _thinned(values: Mapping[str, Floats], wanted: int) -> dict[str, Floats]:
    """Return so many draws, spread evenly over and along the chains: about independent."""
    found = {}
    for name, value in values.items():
        chains, draws = value.shape[:2]
        # Chain by chain at each place, so that any number of draws takes of all chains alike.
        places = np.linspace(0, chains * draws - 1, wanted).round().astype(int)
        joined = np.swapaxes(value, 0, 1).reshape(chains * draws, *value.shape[2:])
        found[name] = joined[places]
    return found


class _Done(NamedTuple):
    task: str
    row: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A replicate's row of the table of ranks; called with the task's label and seed."""

    replicate: Callable[[int], Replicate]

    def __call__(self, task: tuple[str, int]) -> _Done:
        import pandas as pd

        label, seed = task
        found = self.replicate(seed)
        row: dict[str, Any] = {
            "trustworthy": not found.problems,
            "problems": in_words(found.problems),
            "attempts": found.attempts,
        }
        return _Done(label, pd.DataFrame([row | found.ranks()]))


def simulated_ranks(
    replicate: Callable[[int], Replicate],
    simulations: int,
    seed: int = 0,
    *,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Return the ranks of true values among posterior draws, over simulations.

    Parameters
    ----------
    replicate : callable
        Of a seed; `ModelReplicates`.
    simulations : int
        How many.
    seed : int
        Each simulation draws its own from it and its number.
    pool : Pool, optional
        Where; on all cores of this machine unless given.
    records : Records, optional
        What is done already, with the table "ranks"; it grows.
    progress : callable, optional
        Called with a stage and the share of it that is done.

    Returns
    -------
    DataFrame
        A row per simulation: task (its number), trustworthy, problems, attempts, and the rank of each
        quantity; no rank where the refit failed.
    """
    kept = records or Records.open(None, {}, TABLES)
    tasks = [
        (str(number), task_seed(seed, f"simulation {number}")) for number in range(simulations)
    ]
    left = [task for task in tasks if task[0] not in kept.done]
    report = progress or (lambda stage, share: None)
    stage = f"refitting, {simulations} times"
    report(stage, 1.0 - len(left) / simulations)
    for number, done in enumerate((pool or Pool()).run(_Ranked(replicate), left), start=1):
        kept.add(done.task, {"ranks": done.row})
        report(stage, 1.0 - (len(left) - number) / simulations)
    table = kept.tables["ranks"]
    order = table["task"].astype(int)
    return (
        table[order < simulations]
        .iloc[np.argsort(order[order < simulations])]
        .reset_index(drop=True)
    )


@dataclass(frozen=True, eq=False)
class Verdict:
    """What simulations say of a model.

    Parameters
    ----------
    quantities : DataFrame
        From `bayes_cpt.validate.uniformity.judge`.
    simulations, failed, untrusted : int
        All refits; those without draws, which have no ranks; those with draws that miss their diagnostics,
        whose ranks count like the others.
    problems : tuple of str
        Why the model is not calibrated, or cannot be said to be; empty where it is.
    """

    quantities: "pd.DataFrame"
    simulations: int
    failed: int
    untrusted: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against calibration."""
        return not self.problems


def quantity_ranks(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the columns of `simulated_ranks` that are ranks, of refits that have them."""
    ranks = table.drop(columns=list(NOTES))
    return ranks.dropna().astype(int)


def verdict(table: "pd.DataFrame", ranked: int = RANKED) -> Verdict:
    """Return what ranks say of a model.

    Parameters
    ----------
    table : DataFrame
        From `simulated_ranks`.
    ranked : int
        Draws that each truth was ranked among.
    """
    from bayes_cpt.validate.uniformity import FAILS, judge

    ranks = quantity_ranks(table)
    failed = len(table) - len(ranks)
    untrusted = int((~table["trustworthy"].astype(bool)).sum()) - failed
    problems = []
    if failed + untrusted > MOST_UNTRUSTED * len(table):
        problems.append(f"{failed + untrusted} of {len(table)} refits miss their diagnostics")
    judged = judge(ranks, ranked)
    if judged.empty:
        problems.append(f"{len(ranks)} refits have ranks, too few to judge")
    bad = judged[judged["verdict"] == FAILS]
    if len(bad):
        problems.append(f"ranks are not uniform: {', '.join(bad['quantity'])}")
    return Verdict(judged, len(table), failed, untrusted, tuple(problems))
