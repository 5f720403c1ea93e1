"""Simulation-based calibration: whether posteriors of simulated studies hold the truth as they say.

From the repository's root::

    PYTHONPATH=research python -m testbench.calibration --model pretrain -n 300 -o sbc-pretrain

OUT gets ranks.csv, which grows as refits are done, verdict.csv and ranks.png. Run again with a larger -n to
go on.

Source: Talts et al. (2018), arXiv 1804.06788. If prior, simulator, density and sampler agree, the rank of
the true value among independent posterior draws is uniform, for every quantity and whatever the design.
Ranks are judged by their ECDF against simultaneous bands (Säilynoja, Bürkner and Vehtari 2022,
doi:10.1007/s11222-022-10090-6), which are ArviZ's.

What is simulated is just what a fit conditions on. A base's loss enters a fit as given, so it is known only
where it lies on a simulated PT curve at a point that the fit sees too: then it adds nothing to what the
curves say of the parameters, and the posterior is exact. An unknown base has any loss: its law starts there
whatever it is (`bayes_cpt.model.bases`).
"""

import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.forecast.drawn import point_table
from bayes_cpt.identify.determination import FreeParameters
from bayes_cpt.identify.prior_predictive import read_design
from bayes_cpt.model.fitted_points import first_step, observed_steps
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel, Setup, build_setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import styled
from bayes_cpt.study.study import Run, Study
from bayes_cpt.validate.tasks import (
    Pool,
    Progress,
    Records,
    described,
    in_words,
    run_tasks,
    task_seed,
)
from testbench.report import markdown_table, options_of

POINTS = 12
# Stands for every loss until a simulation fills it in, nats/token.
PLACEHOLDER = 3.0
HELD_OUT = "held_out"
# How much longer than a run of the design the held-out run is.
STRETCH = 3
# Where CPT runs are measured first, as a share of their steps, if the design does not say.
FIRST_SHARE = 0.005
# Studies drawn before it is given up: the priors then make next to none that could be measured.
MOST_DRAWN = 200
# Posterior draws that a truth is ranked among: as many as a short fit has that are about independent.
RANKED = 100
# With more refits than this share that fail their diagnostics, the calibration says nothing.
MOST_UNTRUSTED = 0.05
TABLES = ("ranks",)
# Columns of the table of ranks that are not quantities.
NOTES = ("task", "trustworthy", "problems", "attempts", "refused")
# How often bands may raise a false alarm: one quantity's, and those of all quantities together.
FALSE_ALARM = 0.05
# Simulations behind a band: enough for the quantile that its mass stands for.
SIMULATIONS, TAIL_SIMULATIONS = 2_000, 10
# Of the fractions that make discrete ranks continuous; fixed, so that a verdict stays what it is.
SEED = 214
FAILS, EDGE, HOLDS = "fails", "at the edge", "holds"
# Of the figure of ranks: panels in a row and their inches, and the mass of the envelope.
COLUMNS, SIZE, ENVELOPE = 5, (1.7, 1.5), 0.95


def design_study(study: Study, spec: ModelSpec, points: int = POINTS) -> Study:
    """Return a study's runs as a design: placeholders in place of losses, at fewer points a curve.

    Runs of a plan are measured at points spread evenly (PT) or evenly in the logarithm (CPT). Where the law
    knows no replay, only CPT runs of the most frequent replay ratio are kept.
    """
    # A design is simulated run by run: those that branch off another one have a level of their own.
    runs = tuple(replace(run, branch=None) for run in _fitted_runs(study, spec))
    domains = spec.law.domains(study)
    rows = [
        {"run": run.name, "step": step, "domain": domain, "loss": PLACEHOLDER}
        for run in runs
        for domain in domains
        for step in _measured_steps(study, run, str(domain), spec, points)
    ]
    if not rows:
        raise StudyError.at(
            f"study {study.name}, model {spec.name}",
            "the design has no run that the model describes",
            "give runs of its phase, or choose another model",
        )
    kept = {run.name for run in runs}
    bases = tuple(
        base if base.run in kept or base.run is None else replace(base, run=None)
        for base in study.bases
    )
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return replace(
            study,
            target=study.target if spec.law.continual else None,
            runs=runs,
            bases=bases,
            losses=pd.DataFrame(rows),
            is_plan=False,
        )


def _fitted_runs(study: Study, spec: ModelSpec) -> tuple[Run, ...]:
    if not spec.law.continual:
        return study.pretraining_runs
    if spec.law.uses_replay or not study.continual_runs:
        return study.runs
    counts = Counter(run.replay for run in study.continual_runs)
    common = counts.most_common(1)[0][0]
    return tuple(run for run in study.runs if run.phase == "pt" or run.replay == common)


def _measured_steps(study: Study, run: Run, domain: str, spec: ModelSpec, points: int) -> list[int]:
    """Return the steps of a curve that a fit sees: thinned, and at the bases that lie on the run.

    Step 0, which a fit conditions on, is among them where the run's base is unknown.
    """
    last = run.schedule.steps
    first = first_step(study, run, spec.residuals) if run.phase == "pt" else 0.0
    steps = observed_steps(study, run, domain, spec.residuals)
    if steps:
        places = np.linspace(0, len(steps) - 1, min(points, len(steps))).round().astype(int)
        chosen = {steps[place] for place in places}
    elif run.phase == "pt":
        even = np.linspace(first, last, points + 1)[1:]
        chosen = {int(step) for step in even.round()}
    else:
        even = np.geomspace(max(1.0, FIRST_SHARE * last), last, points)
        chosen = {int(step) for step in even.round()}
    bases = {int(base.steps or 0) for base in study.bases if base.run == run.name}
    unknown = run.base is not None and study.base(run.base).schedule is None
    start = [0] if unknown and spec.law.base_offset else []
    return start + sorted(step for step in chosen | bases if first < step <= last)


def held_out_run(design: Study) -> Run:
    """Return the run to predict: one of the design's, three times as long."""
    runs = design.continual_runs or design.pretraining_runs
    model = runs[len(runs) // 2]
    stretched = model.schedule.stretched(STRETCH * model.schedule.steps)
    return replace(model, name=HELD_OUT, schedule=stretched)


def simulate_setup(
    setup: Setup, design: Study, parameters: dict[str, Floats], generator: np.random.Generator
) -> Setup:
    """Return a design's setup with simulated losses in place of the placeholders.

    PT curves come first; bases take their losses from them; CPT curves start there.

    Parameters
    ----------
    setup : Setup
        Of the design.
    design : Study
    parameters : dict of str to ndarray
        One draw: each of shape (1, ...).
    generator : numpy.random.Generator
    """
    frame, curves = setup.frame, setup.curves
    pretraining = simulate(frame, parameters, curves, None, generator).loss[0]
    filled = replace(curves, points=replace(curves.points, loss=pretraining))
    based = with_base_losses(curves, filled, design)
    continual = simulate(frame, parameters, based, None, generator).loss[0]
    is_continual = np.array([curve.continual for curve in curves.curves])
    loss = np.where(is_continual[curves.points.curve_index], continual, pretraining)
    return Setup(frame, replace(based, points=replace(curves.points, loss=loss)), setup.design)


def with_base_losses(curves: Curves, simulated: Curves, design: Study) -> Curves:
    """Return curves whose known bases have the losses of the simulated PT curves they lie on."""
    table = point_table(simulated).assign(loss=simulated.points.loss)
    measured = table.set_index(["run", "domain", "step"])["loss"]
    losses = curves.bases.loss.copy()
    for i, curve in enumerate(curves.curves):
        if curve.continual and curve.base_known:
            base = design.base(str(design.run(curve.run).base))
            if base.schedule is not None:
                losses[i] = measured[str(base.run), curve.domain, int(base.steps or 0)]
    return replace(curves, bases=replace(curves.bases, loss=losses))


def ranked(
    truth: Mapping[str, float],
    draws: Mapping[str, Floats],
    problems: Sequence[str] = (),
    attempts: int = 1,
    refused: int = 0,
) -> dict[str, Any]:
    """Return the row of a simulated study that was fitted again, in the table of `simulated_ranks`.

    Parameters
    ----------
    truth : mapping of str to float
        What was simulated, by quantity.
    draws : mapping of str to ndarray, shape (draws,)
        About independent posterior draws of the same; empty where the refit failed.
    problems : sequence of str
        Why the refit is not to be trusted; empty where it is.
    attempts : int
        Of sampling.
    refused : int
        Studies drawn before this one that held a loss that no model can have.
    """
    notes = (not problems, in_words(problems), attempts, refused)
    return dict(zip(NOTES[1:], notes, strict=True)) | {
        name: int(np.sum(draws[name] < own)) if name in draws else None
        for name, own in truth.items()
    }


@dataclass(frozen=True, eq=False)
class ModelReplicates:
    """Simulates a design under a model and fits it again; called with a seed, returns a row of ranks.

    Parameters
    ----------
    spec : ModelSpec
    design : Study
        From `design_study`; further runs, without losses, are the held-out ones.
    held_out : tuple of str
        Runs of the design whose final loss is predicted.
    cores : int, optional
        Chains sampled at once.
    """

    spec: ModelSpec
    design: Study
    held_out: tuple[str, ...] = ()
    cores: int | None = None

    def __call__(self, seed: int) -> dict[str, Any]:
        """Return the row of a seed (see `ranked`)."""
        from bayes_cpt.inference.density import Density
        from bayes_cpt.inference.metric import SamplingError
        from bayes_cpt.inference.sampling import sample

        for_prior, for_data, for_fit, for_end = np.random.SeedSequence(seed).generate_state(4)
        blank = build_setup(self.spec, self.design)
        frame = blank.frame
        truth, setup, refused = self._simulated(blank, int(for_prior), int(for_data))
        true_values = _named(frame, truth) | self._final_losses(setup, truth, int(for_end))
        known = {name: float(value[0]) for name, value in true_values.items()}
        if refused >= MOST_DRAWN:
            problem = f"none of {MOST_DRAWN} simulated studies had finite losses above 0"
            return ranked(known, {}, (problem,), 0, refused)
        try:
            refit = sample(Density(setup), int(for_fit), cores=self.cores)
        except SamplingError as error:
            return ranked(known, {}, (str(error),), 0, refused)
        parameters = _thinned(refit.values, RANKED)
        for name, value in truth.items():
            parameters.setdefault(name, np.repeat(value, RANKED, axis=0))
        ends = self._final_losses(setup, parameters, int(for_end) + 1)
        draws = _named(frame, parameters) | ends
        return ranked(known, draws, refit.diagnostics.problems, refit.attempts, refused)

    def _simulated(
        self, blank: Setup, for_prior: int, for_data: int
    ) -> tuple[dict[str, Floats], Setup, int]:
        """Return a truth, the study that it made, and how many before it were refused.

        A study with a loss below 0 is one that nobody can measure. Truth and study are drawn again
        together: whether a study is kept depends on its losses alone, so that given the losses of one that
        is kept the truth has the density that the fit says, and ranks stay uniform.
        """
        for refused in range(MOST_DRAWN):
            (again,) = np.random.SeedSequence([for_prior, refused]).generate_state(1)
            truth = draw_priors(blank.frame, 1, int(again))
            generator = np.random.default_rng([for_data, refused])
            with np.errstate(over="ignore", invalid="ignore"):
                setup = simulate_setup(blank, self.design, truth, generator)
            losses = setup.curves.points.loss
            if np.isfinite(losses).all() and losses.min() > 0.0:
                return truth, setup, refused
        return truth, setup, MOST_DRAWN

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
        quantities = {}
        for i, curve in enumerate(based.curves):
            quantities[f"final law[{curve.run}, {curve.domain}]"] = drawn.expected[:, i]
            quantities[f"final loss[{curve.run}, {curve.domain}]"] = drawn.loss[:, i]
        return quantities


def _named(frame: BoundModel, parameters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the sampled parameters by name and validation set, each of shape (draws,)."""
    return {
        name if member == "all" else f"{name}[{member}]": own.of(parameters)
        for (name, member), own in FreeParameters(frame).elements.items()
    }


def _thinned(values: Mapping[str, Floats], wanted: int) -> dict[str, Floats]:
    """Return so many draws, spread evenly over and along the chains: about independent."""
    thinned = {}
    for name, value in values.items():
        chains, draws = value.shape[:2]
        # Chain by chain at each place, so that any number of draws takes of all chains alike.
        places = np.linspace(0, chains * draws - 1, wanted).round().astype(int)
        joined = np.swapaxes(value, 0, 1).reshape(chains * draws, *value.shape[2:])
        thinned[name] = joined[places]
    return thinned


def simulated_ranks(
    replicate: Callable[[int], dict[str, Any]],
    simulations: int,
    seed: int = 0,
    *,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the ranks of true values among posterior draws, over simulations.

    Returns
    -------
    DataFrame
        A row per simulation: task (its number), trustworthy, problems, attempts, refused (studies drawn
        before that held a loss below 0), and the rank of each quantity; no rank where the refit failed.
    """
    kept = records or Records.open(None, {}, TABLES)
    numbers = range(simulations)
    tasks = {str(number): task_seed(seed, f"simulation {number}") for number in numbers}
    run_tasks(partial(_table, replicate), tasks, pool, kept, progress)
    return kept.in_order("ranks", list(tasks))


def _table(replicate: Callable[[int], dict[str, Any]], seed: int) -> dict[str, pd.DataFrame]:
    return {TABLES[0]: pd.DataFrame([replicate(seed)])}


@dataclass(frozen=True, eq=False)
class Verdict:
    """What simulations say of a model.

    Parameters
    ----------
    quantities : DataFrame
        From `judge`.
    simulations, failed, untrusted : int
        All refits; those without draws, which have no ranks; those whose draws fail their diagnostics,
        whose ranks count like the others.
    refused : float
        Share of all simulated studies that held a loss below 0, and were drawn again.
    problems : tuple of str
        Why the model is not calibrated, or cannot be said to be; empty where it is.
    """

    quantities: pd.DataFrame
    simulations: int
    failed: int
    untrusted: int
    refused: float
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against calibration."""
        return not self.problems


def quantity_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `simulated_ranks` that are ranks, of refits that have them."""
    return table.drop(columns=list(NOTES)).dropna().astype(int)


def verdict(table: pd.DataFrame) -> Verdict:
    """Return what the ranks of `simulated_ranks` say of a model."""
    ranks = quantity_ranks(table)
    failed = len(table) - len(ranks)
    untrusted = int((~table["trustworthy"].astype(bool)).sum()) - failed
    problems = []
    if failed + untrusted > MOST_UNTRUSTED * len(table):
        problems.append(f"{failed + untrusted} of {len(table)} refits fail their diagnostics")
    judged = judge(ranks, RANKED)
    if judged.empty:
        problems.append(f"{len(ranks)} refits have ranks, too few to judge")
    bad = judged[judged["verdict"] == FAILS]
    if len(bad):
        problems.append(f"ranks are not uniform: {', '.join(bad['quantity'])}")
    again = int(table["refused"].sum())
    refused = again / (again + len(table))
    return Verdict(judged, len(table), failed, untrusted, refused, tuple(problems))


@cache
def ecdf_bands(count: int, mass: float) -> tuple[Floats, Floats]:
    """Return a simultaneous band for the ECDF of so many uniform values, at the points of `ecdf`.

    Returns
    -------
    lower, upper : ndarray, shape (count + 1,)
        With the probability `mass` the ECDF lies inside everywhere.
    """
    from arviz_stats.ecdf_utils import ecdf_pit

    uniform = (np.arange(count) + 0.5) / count
    simulations = max(SIMULATIONS, round(TAIL_SIMULATIONS / (1.0 - mass)))
    generator = np.random.default_rng(SEED)
    _, _, lower, upper = ecdf_pit(uniform, mass, simulations, rng=generator)
    return lower, upper


def ecdf(values: ArrayLike) -> Floats:
    """Return the ECDF of values at as many even points from 0 to 1, shape (values + 1,)."""
    from arviz_stats.ecdf_utils import compute_ecdf

    sample = np.asarray(values, dtype=np.float64)
    inner = np.arange(1, sample.size) / sample.size
    return np.concatenate([[0.0], compute_ecdf(sample, inner), [1.0]])


def judge(ranks: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Return a verdict per quantity on the uniformity of its ranks.

    A quantity fails where its ECDF leaves the band that those of all quantities together leave with
    probability `FALSE_ALARM` at most (Bonferroni: right however they depend on each other). One that
    leaves only its own band is at the edge: of a hundred that are calibrated about five do.

    Returns
    -------
    DataFrame
        Columns quantity, verdict (fails, at the edge, holds), mean and spread: of the ranks over their
        number, with 0.5 and 1 where they are uniform. A mean above 0.5: posteriors lie too low; a spread
        above 1 (in sds of the uniform distribution): they are too narrow. Empty for fewer than two
        simulations.
    """
    columns = ["quantity", "verdict", "mean", "spread"]
    count, quantities = ranks.shape
    if count < 2:
        return pd.DataFrame(columns=columns)
    # Values that are uniform on 0...1 just where ranks are on 0...draws.
    fractions = np.random.default_rng(SEED).uniform(size=ranks.shape)
    values = (ranks + fractions) / (draws + 1)
    curves = values.apply(ecdf, result_type="expand").to_numpy()
    outside = [
        ((curves < lower[:, None]) | (curves > upper[:, None])).any(axis=0)
        for lower, upper in (
            ecdf_bands(count, 1.0 - FALSE_ALARM / together) for together in (1, max(1, quantities))
        )
    ]
    words = np.array([HOLDS, EDGE, FAILS])[np.where(outside[0], 1 + outside[1], 0)]
    spreads = np.sqrt(12.0 * ((values - 0.5) ** 2).mean())
    found = {"verdict": words, "mean": values.mean(), "spread": spreads}
    return pd.DataFrame(found).rename_axis("quantity").reset_index()


@styled
def draw_ranks(ranks: pd.DataFrame) -> Figure:
    """Return the ECDF of each quantity's ranks, less that of uniform ranks, with a 95 % envelope.

    Parameters
    ----------
    ranks : DataFrame
        A row per simulation, a column per quantity: from `quantity_ranks`.

    Returns
    -------
    matplotlib.figure.Figure
        Of `arviz_plots.plot_ecdf_pit`, a panel per quantity. A curve that rises at first: truths lie low,
        posteriors too high. One that rises at both ends and sinks between them: posteriors too narrow.

    Raises
    ------
    ValueError
        If there are fewer than two simulations.
    """
    from arviz_base import rc_context
    from arviz_plots import plot_ecdf_pit

    count = len(ranks)
    if count < 2:
        raise ValueError(f"there are {count} simulations with ranks: give at least two")
    shares = ((ranks + 0.5) / (RANKED + 1)).rename_axis("simulation")
    titled = shares.rename(columns=lambda name: str(name).replace("[", "\n["))
    columns = min(COLUMNS, len(titled.columns))
    rows = math.ceil(len(titled.columns) / columns)
    with rc_context({"plot.max_subplots": None}):
        drawn = plot_ecdf_pit(
            xr.DataTree.from_dict({"prior_sbc": titled.to_xarray()}),
            sample_dims=["simulation"],
            envelope_prob=ENVELOPE,
            backend="matplotlib",
            visuals={"xlabel": {"text": f"rank of the truth / {RANKED + 1}"}},
            col_wrap=columns,
            figure_kwargs=panels.layout(max(SIZE[0] * columns, 5.0), SIZE[1] * rows + 0.4),
        )
    return panels.of_arviz(drawn)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; it exits with 1 where a model is not calibrated."""
    parser = options_of("calibration", __doc__)
    parser.add_argument("--model", default="cpt-replay", help="default: %(default)s")
    parser.add_argument("-n", "--simulations", type=int, default=300, help="default: %(default)s")
    parser.add_argument("--design", type=Path, default=bundled_study(), help="runs to simulate")
    parser.add_argument("--points", type=int, default=POINTS, help="of a curve, at the most")
    parser.add_argument("-o", "--out", type=Path, help="folder for what is found")
    options = parser.parse_args(arguments)
    spec, pool = read_spec(options.model), Pool(options.jobs)
    design = design_study(read_design(options.design), spec, options.points)
    whole = design.with_runs([held_out_run(design)])
    replicates = ModelReplicates(spec, whole, (HELD_OUT,), pool.cores(options.simulations))
    settings = described([spec], options.seed, design=whole.digest(), ranked=RANKED)
    records = Records.open(options.out, settings, TABLES)
    ranks = simulated_ranks(
        replicates, options.simulations, options.seed, pool=pool, records=records
    )
    found = verdict(ranks)
    if options.out:
        found.quantities.to_csv(options.out / "verdict.csv", index=False)
        draw_ranks(quantity_ranks(ranks)).savefig(options.out / "ranks.png")
    sys.stdout.write(markdown_table(found.quantities) + "\n")
    if not found.passed:
        sys.exit("\n".join(f"Not calibrated: {problem}." for problem in found.problems))


if __name__ == "__main__":
    main()
