"""Final losses of many candidates in many posterior draws, block by block so that memory stays bounded."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.layout import (
    BaseTable,
    Block,
    Layout,
    Losses,
    PooledLayout,
    pooled,
)
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import LawSample, base_losses
from bayes_cpt.study.runs import Base
from bayes_cpt.study.study import Study

type Floats = NDArray[np.floating]
type Ints = NDArray[np.int64]

DRAWS = 1000
# Losses in a block: it stays in the cache of a core.
BLOCK = 2**17


@dataclass(frozen=True, eq=False)
class LawDraws:
    """One law in some posterior draws.

    Parameters
    ----------
    sample : LawSample
        The law's coefficients.
    parameters : dict of str to ndarray, shape (draws, ...)
        What was sampled, for the sizes of residuals.
    """

    sample: LawSample
    parameters: dict[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class FinalLosses:
    """The laws of a fit in some posterior draws, to be evaluated at the last step of candidates.

    Parameters
    ----------
    study : Study
        That was fitted.
    laws : tuple of LawDraws
        One, unless the fit is a stack (see `Posterior.shares`).
    measured : callable
        Returns the measured losses of a base on each validation set, None where there is none.
    """

    study: Study
    laws: tuple[LawDraws, ...]
    measured: Callable[[Base], Losses]

    @classmethod
    def of(cls, posterior: Posterior, draws: int = DRAWS) -> Self:
        """Return the laws in about as many draws, spread evenly over the chains.

        Raises
        ------
        SpecError
            If the law knows no CPT phase.
        """
        frame = posterior.frame
        if not frame.spec.law.continual:
            problem = "the law knows no CPT phase, so that there is nothing to decide"
            fix = "fit with --model cpt or cpt-replay"
            raise SpecError([Problem(f"model {frame.spec.name}", problem, fix)])

        def measured(base: Base) -> Losses:
            if any(own.name == base.name for own in posterior.study.bases):
                return base_losses(posterior, posterior.study, base)
            return (None,) * len(frame.domains)

        laws = [
            LawDraws(LawSample.of(law, count or draws), law.parameters(count))
            for law, count in posterior.shares(draws)
        ]
        return cls(posterior.study, tuple(laws), measured)

    @property
    def draws(self) -> int:
        """Number of posterior draws, of all laws together."""
        return sum(law.sample.draws for law in self.laws)

    @property
    def domains(self) -> tuple[str, ...]:
        """The validation sets, general and target."""
        return self.laws[0].sample.frame.domains

    @property
    def law(self) -> LawDraws:
        """The only law: what asks for it has refused stacks (`bayes_cpt.inference.stacked.one_law`)."""
        (law,) = self.laws
        return law

    def bases(self, bases: tuple[Base, ...]) -> tuple[BaseTable, ...]:
        """Return what each law says of bases at the transfer.

        Parameters
        ----------
        bases : tuple of Base
        """
        measured = [self.measured(base) for base in bases]
        return tuple(BaseTable.of(law.sample, bases, measured) for law in self.laws)

    def base_losses(self, bases: tuple[Base, ...]) -> Floats:
        """Return the losses of bases, measured or else the laws', shape (domains, bases, draws).

        Parameters
        ----------
        bases : tuple of Base
        """
        return pooled([table.loss for table in self.bases(bases)])

    def layout(self, candidates: Candidates) -> PooledLayout:
        """Return candidates laid out for the laws; for few, it gives losses in double precision."""
        tables = zip(self.laws, self.bases(candidates.bases), strict=True)
        layouts = [Layout(law.sample, law.parameters, candidates, table) for law, table in tables]
        return PooledLayout(candidates, tuple(layouts))

    def losses(self, candidates: Candidates) -> Floats:
        """Return the laws' expected losses, shape (domains, candidates, draws), nats/token."""
        return self.layout(candidates).losses(np.arange(len(candidates)))

    def map[T](
        self, candidates: Candidates, function: Callable[[Block], T], cores: int | None = None
    ) -> list[T]:
        """Return what a function makes of the losses of all candidates, block by block.

        Parameters
        ----------
        candidates : Candidates
        function : callable
            Called with each `Block`, in several threads at once. Losses are in single precision, within
            1e-5 nats of `losses`.
        cores : int, optional
            Threads; as many as there are cores unless given.

        Returns
        -------
        list
            One entry per block.
        """
        from joblib import cpu_count
        from threadpoolctl import threadpool_limits

        layout = self.layout(candidates)
        layout.prepare()
        size = max(BLOCK // self.draws, 1)
        rows = np.arange(len(candidates))
        blocks = [rows[start : start + size] for start in range(0, rows.size, size)]
        # The threads of a matrix product would wait for those of the blocks.
        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(cores or cpu_count()) as pool,
        ):
            return list(pool.map(lambda own: function(layout.block(own)), blocks))
