"""What else could be trained in as many steps: what regret is counted from, and the Pareto front.

The balance of the page is linear in the two losses, so that the lowest of it in a draw, whatever the
weight, lies on the lower hull of the draw's losses: a few points each stand for thousands of runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.search import LOOKS, nondominated
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.planner.controls import Controls
from bayes_cpt.planner.drawn import packed

CANDIDATES = 3072
# Weights of the general loss at which the best run of each draw is looked for.
WEIGHTS = np.linspace(0.0, 1.0, 21)
# Points of the front that are kept.
FRONT = 40


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The runs of one length that are best in some draw for some weight, and those on the Pareto front.

    Parameters
    ----------
    candidates : Candidates
    losses : ndarray, shape (domains, candidates, draws)
        Expected losses at the last step in each draw, nats/token: the law's, and what it misses as a
        function of the configuration, whose mean over draws is 0.
    """

    candidates: Candidates
    losses: Floats

    @classmethod
    def of(
        cls, model: FinalLosses, controls: Controls, length: int, count: int, seed: int
    ) -> "Alternatives":
        """Return the best of what the controls can say of runs of one length.

        Parameters
        ----------
        model : FinalLosses
        controls : Controls
        length : int
            Steps.
        count : int
            Runs of the first look; each nearer one about the best has half as many.
        seed : int
        """
        space = SearchSpace.of(controls.space(length), controls.study)
        best = _best(model, space.sample(count, seed))
        spacing = (count / space.combinations) ** (-1.0 / len(space.ranges))
        for number, width in enumerate(LOOKS, start=1):
            near = space.around(best, width * spacing, count // 2, seed + number)
            best = _best(model, best.joined(near))
        block = model.at(best)
        return cls(best, block.losses + block.discrepancy)

    def lowest(self, weight: float) -> Floats:
        """Return the lowest balance of each draw, shape (draws,).

        Parameters
        ----------
        weight : float
            Of the general loss, 0 to 1.
        """
        return np.asarray((weight * self.losses[0] + (1.0 - weight) * self.losses[1]).min(axis=0))

    def front(self) -> Ints:
        """Return which candidates no other beats in both mean losses, by rising general loss."""
        means = self.losses.mean(axis=2)
        rows = nondominated(means[0], means[1])
        kept = np.unique(np.linspace(0, rows.size - 1, min(FRONT, rows.size)).round().astype(int))
        return np.asarray(rows[kept])

    def for_page(self, controls: Controls) -> dict[str, Any]:
        """Return the hull of each draw, and the front with the settings of its runs.

        Parameters
        ----------
        controls : Controls
        """
        hulls = [lower_hull(*self.losses[:, :, draw]) for draw in range(self.losses.shape[2])]
        rows = self.front()
        means, chosen = self.losses.mean(axis=2)[:, rows], self.candidates.take(rows)
        names = [base.name for base in controls.bases]
        settings = {
            "base": [names.index(name) for name in chosen.column("base")],
            "replay": chosen.column("replay").tolist(),
            "peak": chosen.column("peak").tolist(),
            "warmup": chosen.column("warmup_share").tolist(),
            "decay": chosen.column("decay_share").tolist(),
            "final": chosen.column("relative_final").tolist(),
            "shape": chosen.column("decay_shape").tolist(),
        }
        return {
            "counts": [len(hull) for hull in hulls],
            "hulls": packed(np.concatenate(hulls)),
            "front": {"general": means[0].tolist(), "target": means[1].tolist(), **settings},
        }


def lower_hull(first: Floats, second: Floats) -> Floats:
    """Return the points that are lowest in some weighting of two losses, shape (points, 2).

    Parameters
    ----------
    first, second : ndarray, shape (candidates,)

    Examples
    --------
    >>> lower_hull(np.array([0.0, 1.0, 0.6, 0.2]), np.array([1.0, 0.0, 0.6, 0.3])).tolist()
    [[0.0, 1.0], [0.2, 0.3], [1.0, 0.0]]
    """
    hull: list[tuple[float, float]] = []
    for row in nondominated(first, second):
        x, y = float(first[row]), float(second[row])
        while len(hull) > 1 and _bends_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    return np.array(hull)


def _bends_up(one: tuple[float, float], two: tuple[float, float], new: tuple[float, float]) -> bool:
    return (two[0] - one[0]) * (new[1] - one[1]) <= (two[1] - one[1]) * (new[0] - one[0])


def _best(model: FinalLosses, candidates: Candidates) -> Candidates:
    """Return the candidates that are best in some draw for some weight, or on the front."""
    blocks = model.map(candidates, lambda block: (block.rows, block.losses + block.discrepancy))
    order = np.argsort(np.concatenate([rows for rows, _ in blocks]))
    general, target = np.concatenate([losses for _, losses in blocks], axis=1)[:, order]
    winners = [
        (np.float32(weight) * general + np.float32(1.0 - weight) * target).argmin(axis=0)
        for weight in WEIGHTS
    ]
    front = nondominated(general.mean(axis=1), target.mean(axis=1))
    return candidates.take(np.unique(np.concatenate([*winners, front])))
