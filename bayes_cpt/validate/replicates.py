"""Replicates of a study: parameters from the prior, losses from the model, and the model refitted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.priors.families import Fixed
from bayes_cpt.model.setup import Frame, Setup, build_setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.design import simulate_setup, with_base_losses

# Studies drawn before it is given up: the priors then make next to none that could be measured.
MOST_DRAWN = 200
# Posterior draws that a truth is ranked among: as many as a short fit has that are about independent.
RANKED = 100
# Tuning, draws per chain at most and accept rate of a refit, and of further attempts where the first
# falls short: what a prior draws is harder to fit than what is measured. Where a posterior has two humps
# only more draws help.
EFFORTS = ((300, 1000, 0.9), (500, 3000, 0.97), (1500, 4000, 0.99))


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
    refused : int
        Studies drawn before this one that held a loss that no model can have.
    """

    truth: dict[str, float]
    draws: dict[str, Floats]
    problems: tuple[str, ...] = ()
    attempts: int = 1
    refused: int = 0

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
        from bayes_cpt.inference.density import density_of
        from bayes_cpt.inference.geometry.whitening import SamplingError
        from bayes_cpt.inference.sampling import Effort, sample
        from bayes_cpt.model.build import model_of

        for_prior, for_data, for_fit, for_end = np.random.SeedSequence(seed).generate_state(4)
        blank = build_setup(self.spec, self.design)
        frame = blank.frame
        truth, setup, refused = self._simulated(blank, int(for_prior), int(for_data))
        true_ends = self._final_losses(setup, truth, int(for_end))
        true_values = _named(frame, truth) | true_ends
        known = {name: float(value[0]) for name, value in true_values.items()}
        if refused >= MOST_DRAWN:
            problem = f"none of {MOST_DRAWN} simulated studies had finite losses above 0"
            return Replicate(known, {}, (problem,), 0, refused)
        efforts = tuple(Effort(*effort) for effort in EFFORTS)
        try:
            refit = sample(
                density_of(model_of(setup)), int(for_fit), efforts=efforts, cores=self.cores
            )
        except SamplingError as error:
            return Replicate(known, {}, (str(error),), 0, refused)
        parameters = _thinned(refit.values, self.ranked)
        for name, value in truth.items():
            parameters.setdefault(name, np.repeat(value, self.ranked, axis=0))
        ends = self._final_losses(setup, parameters, int(for_end) + 1)
        draws = _named(frame, parameters) | ends
        return Replicate(known, draws, refit.diagnostics.problems, refit.attempts, refused)

    def _simulated(
        self, blank: Setup, for_prior: int, for_data: int
    ) -> tuple[dict[str, Floats], Setup, int]:
        """Return a truth, the study that it made, and how many before it were refused.

        A study with a loss below 0 is one that nobody can measure. Truth and study are drawn again
        together: whether a study is kept hangs on its losses alone, so that given the losses of one that is
        kept the truth has the density that the fit says, and ranks stay uniform.
        """
        for refused in range(MOST_DRAWN):
            truth = draw_priors(blank.frame, 1, _seed(for_prior, refused))
            generator = np.random.default_rng(_seed(for_data, refused))
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


def _seed(seed: int, refused: int) -> int:
    return (
        seed if refused == 0 else int(np.random.SeedSequence([seed, refused]).generate_state(1)[0])
    )


def _named(frame: Frame, parameters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the sampled parameters by name and validation set, each of shape (draws,)."""
    quantities = {}
    for name, info in frame.parameters().items():
        prior = frame.spec.priors[name]
        if info.dims is None:
            if not isinstance(prior.of(None), Fixed):
                quantities[name] = parameters[name]
            continue
        for i, member in enumerate(frame.members(info.dims)):
            if not isinstance(prior.of(frame.role(member)), Fixed):
                quantities[f"{name}[{member.label}]"] = parameters[name][:, i]
    return quantities


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
