"""What the law's terms make of each distinct replay ratio, length and base of many candidates."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.layout import Layout
from bayes_cpt.laws import Adaptation, Annealing, Power, Shift, Term
from bayes_cpt.laws.law import gather

type Floats = NDArray[np.floating]
type Ints = NDArray[np.int64]

SINGLE = np.float32


@dataclass(frozen=True, eq=False)
class Block:
    """Final losses of some candidates.

    Parameters
    ----------
    rows : ndarray of int, shape (block,)
        Which candidates they are.
    losses : ndarray, shape (domains, block, draws)
        The law's expected losses, nats/token.
    noise : callable
        Returns the sd of a single run about them, of the same shape (see `Layout.noise`).
    """

    rows: Ints
    losses: Floats
    noise: Callable[[], Floats]


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables from which `bayes_cpt.decisions.search.fused.fill_losses` makes losses.

    Parameters
    ----------
    layout : Layout
        All candidates.
    replays, lengths : ndarray
        The distinct replay ratios and numbers of steps, rising: rows of the tables.
    reference : float
        A forward area in the middle of the candidates'.
    domains : list of dict of str to ndarray
        The tables for each validation set, in single precision.
    other : tuple of Term
        Terms of the law that need no table: they are evaluated at every candidate.
    """

    layout: Layout
    replays: Floats
    lengths: Ints
    reference: float
    domains: list[dict[str, Floats]]
    other: tuple[Term, ...]

    @classmethod
    def of(cls, layout: Layout, rows: Ints) -> Self:
        """Return the tables for some candidates."""
        replays = np.unique(layout.candidates.replay[rows])
        lengths = np.unique(layout.candidates.schedules.steps[rows])
        reference = float(np.exp(np.log(_forward(layout, rows)).mean()))
        terms = layout.sample.frame.law.terms
        domains = [
            {
                name: np.ascontiguousarray(table, SINGLE)
                for name, table in _tables(layout, index, replays, lengths, reference).items()
            }
            for index in layout.domains
        ]
        other = tuple(term for term in terms if not _in_tables(term))
        return cls(layout, replays, lengths, reference, domains, other)

    @staticmethod
    def entries(candidates: Candidates, rows: Ints) -> int:
        """Return how many numbers the tables of some candidates hold per validation set and draw."""
        replays = np.unique(candidates.replay[rows]).size
        lengths = np.unique(candidates.schedules.steps[rows]).size
        return 3 * replays + 2 * lengths

    def block(self, rows: Ints) -> Block:
        """Return the losses of some of the candidates."""
        from bayes_cpt.decisions.search.fused import fill_losses

        layout, candidates = self.layout, self.layout.candidates
        columns = {
            "log_forward": np.log(_forward(layout, rows) / self.reference),
            "forward_cpt": layout.columns["forward_cpt"][rows],
            "share": layout.columns["target_share"][rows],
        }
        single = {name: column.astype(SINGLE) for name, column in columns.items()}
        places = {
            "replay": np.searchsorted(self.replays, candidates.replay[rows]),
            "steps": np.searchsorted(self.lengths, candidates.schedules.steps[rows]),
            "base": candidates.base[rows],
        }
        area = layout.series[rows].astype(SINGLE) @ layout.basis.astype(SINGLE)
        losses = np.empty((len(self.domains), rows.size, layout.sample.draws), SINGLE)
        for loss, tables in zip(losses, self.domains, strict=True):
            fill_losses(loss, area=area, **single, **places, **tables)
        for ends in layout.ends(rows) if self.other else ():
            coefficients = gather(ends, layout.sample.coefficients)
            for term in self.other:
                losses[ends.domain_index] += term.loss(ends, coefficients, np)
        return Block(rows, losses, lambda: layout.noise(rows, SINGLE))


def _in_tables(term: Term) -> bool:
    """Return whether tables hold a term: not if S1_pt and eta_0 differ by draw."""
    if isinstance(term, Power | Annealing):
        return not term.unknown_base
    return isinstance(term, Shift | Adaptation)


def _forward(layout: Layout, rows: Ints) -> Floats:
    columns = layout.columns
    return np.asarray(columns["forward_pt"][rows] + columns["forward_cpt"][rows])


def _tables(
    layout: Layout, index: int, replays: Floats, lengths: Ints, reference: float
) -> dict[str, Floats]:
    """Return the tables of one validation set, each filled by the law's own terms."""
    law, bases, draws = layout.sample.frame.law, layout.bases, layout.sample.draws
    own = gather(SimpleNamespace(domain_index=index), layout.sample.coefficients)
    shares, none = (1.0 - replays)[:, None], np.zeros(draws)
    by_replay, by_length = np.zeros((replays.size, draws)), np.zeros((lengths.size, draws))
    found: dict[str, Any] = dict.fromkeys(("level", "excess", "alpha", "beta"), none)
    found |= dict.fromkeys(("limit", "rate", "gain"), by_replay)
    found |= {"transient": by_length, "kept": by_length, "start": np.zeros_like(bases.annealing)}
    for term in filter(_in_tables, law.terms):
        if isinstance(term, Power):
            middle = SimpleNamespace(forward_pt=reference, forward_cpt=0.0)
            level = term.loss(middle, own, np)
            found |= {"level": level, "excess": level - own["L0"], "alpha": own["alpha"]}
        elif isinstance(term, Annealing):
            areas = (bases.annealing, np.zeros_like(bases.annealing))
            start = SimpleNamespace(target_share=0.0, annealing_areas=lambda *_, areas=areas: areas)
            found["start"] = term.loss(start, own, np)
            found["gain"] = by_replay + term.continual_gain(shares, own, np)
        elif isinstance(term, Shift):
            limit, rate = term.scales(shares, own, np)
            found |= {"limit": by_replay + limit, "rate": by_replay + rate, "beta": own["beta"]}
        elif isinstance(term, Adaptation):
            ends = SimpleNamespace(cpt_steps=lengths[:, None], target_share=1.0)
            found["transient"] = term.loss(ends, own, np)
    if law.base_offset is not None:
        ends = SimpleNamespace(cpt_steps=lengths[:, None])
        found["kept"] = law.base_offset.kept(ends, own, np)
    return found | {"offset": bases.offset[index]}
