"""How unlike real runs are to the ones that are drawn: what fitted runs tell of a run that no fit saw.

Sizes of residuals that are each run's own (`bayes_cpt.watch.learnt.curve_sizes`) are one way in which runs
are unlike; what the law misses may also begin sooner, drift, or come of a configuration that is the first
of its kind. A search over a whole run finds any of it. So the fitted runs are watched, each as though the
fit had not seen it (`bayes_cpt.watch.learnt.left_out`), and the shares p of drawn runs that depart as far
are kept. If departures of real runs are larger by a factor, p is uniform to a power, ``p^a ~ U(0, 1)``
(the tail of a normal score falls as ``exp(-z²/2)``: a is the inverse square of the factor). With the
conjugate prior ``a ~ Gamma(n0, s0)`` and n runs, ``s = sum(-log p)``, the share of real runs that depart
as far is

    E[p^a] = ((s0 + s)/(s0 + s - log p))^(n0 + n):

a power, not an exponential, of the squared departure, as few runs tell little of the factor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.watch.learnt.curve_sizes import Sizes, curve_likelihoods
from bayes_cpt.watch.learnt.left_out import LeftOut, left_out_runs
from bayes_cpt.watch.predictive import Predictive
from bayes_cpt.watch.stretches import watched_steps

# Runs of another study, `data/cpt-lab`, each watched by a fit of the others, and the sum of -log p of them:
# python -m testbench.watch --unseen.
OTHER_RUNS, OTHER_SURPRISE = 10.0, 21.6
# Fitted runs that are watched at most, and curves drawn of each for moments, and to say what is usual.
MOST_RUNS, CURVES = 12, 800
# Draws that tell a posterior from others.
DIGEST_DRAWS = 40


@dataclass(frozen=True, eq=False)
class Experience:
    """What the fitted runs tell of a run that no fit saw.

    Parameters
    ----------
    sizes : Sizes
        How unlike runs are in the size of their residuals.
    runs : float
        How many runs tell how much further real runs depart than drawn ones, other studies' included; 0 for
        none, where drawn runs are as real ones are.
    surprise : float
        Sum of -log of the share of drawn runs that depart as far as they do.
    """

    sizes: Sizes
    runs: float
    surprise: float

    @classmethod
    def none(cls) -> Self:
        """Return that runs are just as the fit says."""
        return cls(Sizes.same(), 0.0, 0.0)

    @classmethod
    def of(cls, posterior: Posterior, *, continual: bool) -> Self:
        """Learn from the fitted runs of a phase, and from other studies.

        Parameters
        ----------
        posterior : Posterior
            Of several laws the one with the largest weight counts.
        continual : bool
            Whether runs of CPT are asked for.
        """
        law = max(posterior.shares(), key=lambda share: share[1] or 0)[0]
        runs = left_out_runs(law, continual=continual)
        likelihoods = [curve_likelihoods(run) for run in runs]
        watched = np.unique(np.linspace(0, len(runs) - 1, min(len(runs), MOST_RUNS)).astype(int))
        surprise = 0.0
        for place in watched:
            others = [own for i, run in enumerate(likelihoods) if i != place for own in run]
            surprise -= np.log(drawn_share(law, runs[place], Sizes.of(others)))
        return cls(
            Sizes.of([own for run in likelihoods for own in run]),
            OTHER_RUNS + watched.size,
            OTHER_SURPRISE + float(surprise),
        )

    def share(self, drawn: Floats) -> Floats:
        """Return the shares of real runs on track that depart as far as shares of drawn ones do.

        Parameters
        ----------
        drawn : ndarray
            Above 0.
        """
        if not self.runs:
            return drawn
        return np.asarray((self.surprise / (self.surprise - np.log(drawn))) ** self.runs)

    def drawn(self, share: float) -> float:
        """Return the share of drawn runs of which `share` says that of real ones.

        Parameters
        ----------
        share : float
            Above 0.
        """
        if not self.runs:
            return share
        return float(np.exp(self.surprise * (1.0 - share ** (-1.0 / self.runs))))

    def state(self, posterior: Posterior) -> dict[str, Any]:
        """Return this, ready for JSON, with what tells of which draws it was learnt.

        Parameters
        ----------
        posterior : Posterior
            That it was learnt from.
        """
        return {
            "draws": _digest(posterior),
            "fluctuation": self.sizes.fluctuation.tolist(),
            "misfit": self.sizes.misfit.tolist(),
            "runs": self.runs,
            "surprise": self.surprise,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any] | None, posterior: Posterior) -> Self | None:
        """Return what `state` gave, None where there is none or it is of other draws.

        Parameters
        ----------
        state : mapping or None
        posterior : Posterior
        """
        if state is None or state["draws"] != _digest(posterior):
            return None
        sizes = Sizes(np.array(state["fluctuation"]), np.array(state["misfit"]))
        return cls(sizes, state["runs"], state["surprise"])


def drawn_share(posterior: Posterior, run: LeftOut, sizes: Sizes) -> float:
    """Return the share of drawn runs that depart as far, at any time, as a run that the fit did not see.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    run : LeftOut
    sizes : Sizes
        How unlike runs are.
    """
    steps = set(watched_steps(run.steps.tolist(), run.run.schedule.steps)) | {int(run.steps.max())}
    seen = run.at([place for place, step in enumerate(run.steps.tolist()) if step in steps])
    predictive = Predictive.left_out(posterior, seen, sizes, CURVES)
    measured = dict(
        zip(zip(seen.steps.tolist(), seen.domains, strict=True), seen.losses, strict=True)
    )
    losses = [measured[row.step, row.domain] for row in predictive.rows]
    return predictive.outlook(range(len(losses)), losses).probability


def _digest(posterior: Posterior) -> str:
    """Return what tells draws from others."""
    digest = sha256()
    for law, weight in posterior.shares():
        digest.update(repr(weight).encode())
        for name, values in sorted(law.parameters(DIGEST_DRAWS).items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
