"""Final losses of many candidates in many posterior draws, block by block so that memory stays bounded."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.search.base_table import BaseTable, Losses
from bayes_cpt.decisions.search.block import Block
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.layout import Layout
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.evaluate import paired_normals
from bayes_cpt.forecast.third_sets.weights import ThirdSet, third_sets
from bayes_cpt.inference.new_groups import as_fitted
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import LawSample, base_losses
from bayes_cpt.model.misfit.discrepancy import Configuration, ErrorCorrelation, SharedMisfit
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

DRAWS = 1000
# Losses in a block: few enough to stay near a core, so many that what is done once a block counts little.
BLOCK = 2**19


@dataclass(frozen=True, eq=False)
class FinalLosses:
    """The law of a fit in some posterior draws, to be evaluated at the last step of candidates.

    Parameters
    ----------
    study : Study
        That was fitted.
    sample : LawSample
        The law's coefficients.
    parameters : dict of str to ndarray, shape (draws, ...)
        What was sampled, for the sizes of residuals.
    measured : callable
        Returns the measured losses of a base on each validation set, None where there is none.
    correlation : ErrorCorrelation
        How alike the errors of the two losses of a run are.
    misfit : SharedMisfit
        What the law misses as a function of the configuration, in each draw.
    third : callable
        Returns a third validation set of the study, by name, in the same draws.
    """

    study: Study
    sample: LawSample
    parameters: dict[str, NDArray[np.float64]]
    measured: Callable[[Base], Losses]
    correlation: ErrorCorrelation
    misfit: SharedMisfit
    third: Callable[[str], ThirdSet]

    @classmethod
    def of(cls, posterior: Posterior, draws: int = DRAWS, seed: int = 0) -> Self:
        """Return the law in about as many draws, spread evenly over the chains.

        Parameters
        ----------
        posterior : Posterior
        draws : int
        seed : int
            Of what the law misses.

        Raises
        ------
        SpecError
            If the law knows no CPT phase.
        """
        frame = posterior.frame
        if not frame.spec.law.continual:
            problem = "the law knows no CPT phase, so that there is nothing to decide"
            fix = "fit with --model cpt or cpt-replay"
            raise SpecError.at(f"model {frame.spec.name}", problem, fix)

        def measured(base: Base) -> Losses:
            if any(known.name == base.name for known in posterior.study.bases):
                return base_losses(posterior, posterior.study, base)
            return (None,) * len(frame.domains)

        sample = LawSample.of(posterior, draws)
        parameters = posterior.parameters(draws)
        correlation = error_correlation(posterior)
        misfit = SharedMisfit(sample.draws, correlation.misfit, len(frame.domains), seed)

        def third(name: str) -> ThirdSet:
            fitted = as_fitted(posterior)
            return third_sets(fitted, (name,), fitted.parameters(draws), seed)[0]

        return cls(posterior.study, sample, parameters, measured, correlation, misfit, third)

    def innovations(self, base: Base, run: Run, knots: int) -> Floats:
        """Return the innovations of a run's misfit, shape (domains, draws, knots).

        Parameters
        ----------
        base : Base
            Of the run.
        run : Run
        knots : int
            How many innovations.
        """
        configuration = Configuration.of(base.schedule, run.schedule, run.replay or 0.0)
        features = configuration.features(self.sample.frame.reference)
        return self.misfit.innovations(features, knots)[:, 0]

    @property
    def draws(self) -> int:
        """Number of posterior draws."""
        return self.sample.draws

    def normals(self, seed: int) -> NDArray[np.float64]:
        """Return what each draw's new run lies off the law by, in sds: as forecasts pair them.

        Parameters
        ----------
        seed : int
            As of `bayes_cpt.forecast.bands.bands`.
        """
        return paired_normals(self.draws, seed)

    @property
    def domains(self) -> tuple[str, ...]:
        """The validation sets, general and target."""
        return self.sample.frame.domains

    def bases(self, bases: tuple[Base, ...]) -> BaseTable:
        """Return what the law says of bases at the transfer.

        Parameters
        ----------
        bases : tuple of Base
        """
        return BaseTable.of(self.sample, bases, [self.measured(base) for base in bases])

    @property
    def levels(self) -> Floats:
        """How far a base that nobody measured lies off the law, over its sd, shape (domains, draws)."""
        return self.misfit.levels

    def base_levels(self, bases: tuple[Base, ...]) -> Floats:
        """Return the sd of the loss of bases about the law's, 0 where measured, (domains, bases, draws).

        Parameters
        ----------
        bases : tuple of Base
        """
        return self.bases(bases).unmeasured(self.sample.frame, self.parameters, bases)

    def layout(self, candidates: Candidates) -> Layout:
        """Return candidates laid out for the law; for few of them, it gives losses in double precision.

        Parameters
        ----------
        candidates : Candidates
        """
        return Layout(
            self.sample,
            self.parameters,
            candidates,
            self.bases(candidates.bases),
            self.misfit,
            self.correlation,
        )

    def losses(self, candidates: Candidates) -> Floats:
        """Return the law's expected losses, shape (domains, candidates, draws), nats/token.

        Parameters
        ----------
        candidates : Candidates
        """
        return self.layout(candidates).losses(np.arange(len(candidates)))

    def expected(self, candidates: Candidates) -> Floats:
        """Return the law's losses and what it misses, of the shape of `losses`.

        Parameters
        ----------
        candidates : Candidates
        """
        layout, rows = self.layout(candidates), np.arange(len(candidates))
        return layout.losses(rows) + layout.missed(rows)

    def map[T](
        self, candidates: Candidates, function: Callable[[Block], T], cores: int | None = None
    ) -> list[T]:
        """Return what a function makes of the losses of all candidates, block by block.

        Parameters
        ----------
        candidates : Candidates
        function : callable
            Called with each `Block`, in several threads at once. Losses are in single precision, within
            1e-5 nats of `losses`; of very many a few are off by up to twice that.
        cores : int, optional
            Threads; as many as there are cores unless given.

        Returns
        -------
        list
            One entry per block.
        """
        from joblib import cpu_count

        layout = self.layout(candidates)
        layout.prepare()
        size = max(BLOCK // self.draws, 1)
        # What depends on the base, or on the length, alone is computed once where a block has but one.
        rows = np.lexsort((candidates.schedules.steps, candidates.base))
        blocks = [rows[start : start + size] for start in range(0, rows.size, size)]
        # The threads of a matrix product would wait for those of the blocks.
        with (
            one_thread("blas"),
            ThreadPoolExecutor(cores or cpu_count()) as pool,
        ):
            return list(pool.map(lambda block: function(layout.block(block)), blocks))
