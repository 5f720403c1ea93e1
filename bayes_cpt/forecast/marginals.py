"""Mean, spread and quantiles of losses at points, over posterior draws: three ways to the same summary.

NumPy serves small forecasts in double precision, compiled code large ones in single precision, and draws of
whole curves those of runs in the study, given their measured points.
"""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from types import ModuleType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.predict import observed_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.momentum import MomentumRange, annealing_basis
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import expected_loss, simulate

type Floats = NDArray[np.float64]

# What is found at each point.
SUMMARY = ("mean", "sd", "median", "lower", "upper")


def paired_normals(draws: int, seed: int) -> Floats:
    """Return a standard normal number for each draw: the middles of equal masses, in random order."""
    normal = NormalDist()
    middles = np.array([normal.inv_cdf((i + 0.5) / draws) for i in range(draws)])
    return np.random.default_rng(seed).permutation(middles)


@dataclass(frozen=True, eq=False)
class Marginals:
    """Posterior draws, and what summarises the losses in them point by point.

    Parameters
    ----------
    posterior : Posterior
    parameters : dict of str to ndarray, shape (draws, ...)
    kind, seed, interval
        As in `bayes_cpt.forecast.bands.bands`.
    """

    posterior: Posterior
    parameters: dict[str, Floats]
    kind: str
    seed: int
    interval: float

    @cached_property
    def coefficients(self) -> dict[str, Floats]:
        """The law's coefficients in each draw."""
        return self.posterior.frame.law.coefficients(self.parameters, np)

    @cached_property
    def momentum_range(self) -> MomentumRange:
        """The momenta of these draws: fewer nodes than for all that the prior allows."""
        return MomentumRange.of(self.coefficients)

    @property
    def draws(self) -> int:
        """How many there are."""
        return int(self.coefficients["lambda"].shape[0])

    @cached_property
    def noise(self) -> Floats:
        """The standard normal number of each draw; zeros for the law's own curve."""
        if self.kind == "expected":
            return np.zeros(self.draws)
        return paired_normals(self.draws, self.seed)

    @property
    def fractions(self) -> Floats:
        """The quantiles of `SUMMARY`."""
        return np.array([0.5, 0.5 - self.interval / 2, 0.5 + self.interval / 2])

    def summary(self, curves: Curves, number: int, *, compiled: bool = False) -> Floats:
        """Return `SUMMARY` at every point of some curves.

        Parameters
        ----------
        curves : Curves
            With areas for `momentum_range`.
        number : int
            Of these curves among others: what is random about known runs comes from it and the seed.
        compiled : bool
            Whether compiled code in single precision is worth its loading.

        Returns
        -------
        ndarray, shape (points, 5)
        """
        if self.kind == "known_run":
            return self._of_known(curves, number)
        if compiled and all(curve.continual for curve in curves.curves):
            return self._of_new_compiled(curves)
        return self._of_new(curves)

    def compile(self) -> None:
        """Compile, or load, what `summary` may need: threads need not wait for each other then."""
        if self.kind != "known_run" and self.posterior.frame.spec.law.continual:
            _ = self._laws, self._padded_basis, self.noise

    def _of_known(self, curves: Curves, number: int) -> Floats:
        observed = observed_curves(self.posterior, curves)
        generator = np.random.default_rng([self.seed, number])
        frame = self.posterior.frame
        loss = simulate(frame, self.parameters, curves, observed, generator).loss
        spread = loss.std(axis=0, ddof=1)
        return np.stack([loss.mean(axis=0), spread, *self._quantiles(loss)], axis=1)

    def _of_new(self, curves: Curves) -> Floats:
        expected = expected_loss(self.posterior.frame, self.parameters, curves)
        variance = expected.var(axis=0, ddof=1)
        loss = expected
        if self.noise.any():
            noise = self._variance(curves)
            variance = variance + noise.mean(axis=0)
            loss = expected + np.sqrt(noise) * self.noise[:, None]
        columns = [expected.mean(axis=0), np.sqrt(variance), *self._quantiles(loss)]
        return np.stack(columns, axis=1)

    def _quantiles(self, loss: Floats) -> Floats:
        return np.asarray(np.quantile(loss, self.fractions, axis=0))

    def _variance(self, curves: Curves) -> Floats:
        """Return the variance of a loss about the law's curve, shape (draws, points)."""
        frame, points = self.posterior.frame, curves.points
        design = frame.residual_design(curves)
        scales = frame.residual_scales(
            points, design.pretraining, self.parameters, self.coefficients, np
        )
        faded = (1.0 - design.floating) * np.exp(-2.0 * points.steps / scales.memory)
        innovations = (design.ramps**2).sum(axis=1)
        return np.asarray(
            scales.fluctuation**2 * (1.0 - faded)
            + scales.misfit**2 * innovations
            + scales.offset**2 * design.floating
            + scales.extrapolation**2 * design.beyond**2
        )

    def _of_new_compiled(self, curves: Curves) -> Floats:
        from bayes_cpt.model.compiled.band_kernel import workspace

        points, bases = curves.points, curves.bases
        first = np.searchsorted(points.curve_index, np.arange(len(curves.curves) + 1))
        innovations = (self.posterior.frame.residual_design(curves).ramps ** 2).sum(axis=1)
        columns = np.column_stack(
            [points.cpt_steps, points.learning_rate, points.forward_cpt, innovations]
        )
        reference = self.posterior.frame.reference
        shared = [
            reference.learning_rate,
            reference.forward_pt,
            reference.forward_cpt,
            reference.steps,
        ]
        found = np.empty((columns.shape[0], len(SUMMARY)))
        workspaces = [workspace(self.draws, law.module) for law in self._laws]
        for c in range(len(curves.curves)):
            law = self._laws[bases.domain_index[c]]
            rows = slice(int(first[c]), int(first[c + 1]))
            base = (bases.forward_pt, bases.target_share, bases.loss, bases.base_known)
            law.module.summarise(
                law.prepared,
                self._basis @ bases.annealing_pt[c],
                self.noise,
                np.array([*(float(own[c]) for own in base), *shared]),
                columns[rows],
                points.annealing_cpt[rows].astype(np.float32) @ self._padded_basis,
                self.fractions,
                workspaces[bases.domain_index[c]],
                found[rows],
            )
        return found

    @cached_property
    def _basis(self) -> Floats:
        return np.asarray(annealing_basis(self.coefficients, self.momentum_range))

    @cached_property
    def _padded_basis(self) -> NDArray[np.float32]:
        """The momentum's part of S2, shape (nodes, draws), the last draw repeated to whole blocks."""
        from bayes_cpt.model.compiled.band_source import BLOCK

        more = -self.draws % BLOCK
        padded = np.pad(self._basis, ((0, more), (0, 0)), mode="edge")
        return np.ascontiguousarray(padded.T, dtype=np.float32)

    @cached_property
    def _laws(self) -> list["_CompiledLaw"]:
        return [
            _CompiledLaw.of(self.posterior.frame, domain, self.parameters)
            for domain in range(len(self.posterior.frame.domains))
        ]


@dataclass(frozen=True, eq=False)
class _CompiledLaw:
    """The compiled law of one validation set, and what depends on draws alone."""

    module: ModuleType
    prepared: Floats

    @classmethod
    def of(cls, frame: Frame, domain: int, parameters: dict[str, Floats]) -> Self:
        from bayes_cpt.model.compiled.band_kernel import band_module
        from bayes_cpt.model.compiled.symbolic import parameters_of

        role, infos = frame.roles[domain], frame.parameters()
        rows = []
        for name in parameters_of(frame.spec, role):
            dims, values = infos[name].dims, parameters[name]
            members = frame.coords()[dims] if dims else ()
            rows.append(values[:, members.index(frame.domains[domain])] if dims else values)
        module = band_module(frame.spec, role)
        prepared = np.empty((module.SIZES[0], rows[0].size))
        module.prepare(np.ascontiguousarray(rows, dtype=np.float64), prepared)
        return cls(module, prepared)
