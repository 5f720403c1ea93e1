"""Model sizes that no run had: how far they lie off the power of size is drawn from the population."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.inference.posterior import Posterior, StackedPosterior
from bayes_cpt.laws.size import ALONG
from bayes_cpt.model.setup import SIZES
from bayes_cpt.study.ranges import ALIKE_RATIO
from bayes_cpt.study.study import Run, Study

type Floats = NDArray[np.float64]

# Sets the draws of new sizes apart from all that is drawn with the seed of the fit.
STREAM = 7


def plan_sizes(plan: Study, runs: Iterable[Run]) -> list[float | None]:
    """Return the model sizes of some runs of a plan.

    Parameters
    ----------
    plan : Study
    runs : iterable of Run
    """
    return [plan.model_size(run) for run in runs]


def covering_sizes(posterior: Posterior, sizes: Iterable[float | None]) -> Posterior:
    """Return a posterior that knows further model sizes.

    In each posterior draw a new size lies off the power of size by a normal number times the sd of that
    draw, as the sizes of the study do.

    Parameters
    ----------
    posterior : Posterior
    sizes : iterable of float or None
        Millions of parameters; known ones and None are passed over.

    Returns
    -------
    Posterior
        The same one if there is no new size, or no law has a size.

    Raises
    ------
    StudyError
        If the law has no size, and one is asked for that no fitted run has.
    """
    asked = sorted({size for size in sizes if size is not None})
    if isinstance(posterior, StackedPosterior):
        laws = tuple(covering_sizes(law, asked) for law in posterior.laws)
        frame = replace(posterior.frame, sizes=max((law.frame.sizes for law in laws), key=len))
        return replace(posterior, laws=laws, frame=frame)
    if not posterior.frame.spec.law.model_size:
        _check_alike(posterior, asked)
        return posterior
    new = tuple(size for size in asked if size not in posterior.frame.sizes)
    if not new:
        return posterior
    frame = replace(posterior.frame, sizes=(*posterior.frame.sizes, *new))
    return CoveringPosterior(posterior.tree, posterior.study, frame, posterior)


def _check_alike(posterior: Posterior, asked: list[float]) -> None:
    """Raise if a size is asked for that a law without sizes was not fitted to."""
    study = posterior.study
    fitted = [size for size in plan_sizes(study, study.runs) if size is not None]
    if not fitted:
        return
    low, high = min(fitted) / ALIKE_RATIO, max(fitted) * ALIKE_RATIO
    for size in asked:
        if not low <= size <= high:
            name = posterior.frame.spec.name
            problem = (
                f"model_size is {size:g}, the fit is of {min(fitted):g} to {max(fitted):g}, and its law "
                "has no term for model size"
            )
            fix = "fit runs of two sizes or more with --model cpt-replay-sizes or pretrain-sizes"
            raise StudyError([Problem(f"plan, model {name}", problem, fix)])


@dataclass(frozen=True, eq=False)
class CoveringPosterior(Posterior):
    """A posterior with model sizes that were not fitted; `tree` and `study` are those of the fit.

    Parameters
    ----------
    fitted : Posterior
        As it came from the fit.
    """

    fitted: Posterior

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters, those of new sizes drawn from the population.

        Parameters
        ----------
        draws : int, optional
            As in `Posterior.parameters`.
        """
        parameters = self.fitted.parameters(draws)
        known = len(self.fitted.frame.sizes)
        domains = len(self.frame.domains)
        for place, (name, info) in enumerate(self.frame.parameters().items()):
            if info.dims == SIZES:
                values = parameters[name].reshape(-1, domains, known)
                shape = (len(values), domains, 1)
                added = [self._of_size(size, place, shape) for size in self.frame.sizes[known:]]
                every = np.concatenate([values, *added], axis=2)
                parameters[name] = every.reshape(len(values), -1)
        return parameters

    def members(self, quantity: str) -> tuple[str, ...]:
        """Return the validation sets of a quantity, with every model size where it is of one size.

        Parameters
        ----------
        quantity : str
        """
        infos = self.frame.parameters()
        dims = infos[quantity].dims if quantity in infos else ALONG.get(quantity)
        if dims != SIZES:
            return self.fitted.members(quantity)
        return tuple(member.label for member in self.frame.members(SIZES))

    def _of_size(self, size: float, place: int, shape: tuple[int, ...]) -> Any:
        """Return standard normal numbers, the same whenever a parameter of this size is asked for."""
        generator = np.random.default_rng([self.seed, STREAM, place, *_words(size)])
        return generator.standard_normal(shape)


def _words(size: float) -> list[int]:
    return [int(word) for word in np.frombuffer(np.float64(size).tobytes(), dtype=np.uint32)]
