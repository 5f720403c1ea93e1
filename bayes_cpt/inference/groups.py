"""Draws for other runs than the fitted: of further sizes and batches, in one batch, or on one target.

What a further group has for itself is drawn from the population of the fitted ones, draw by draw: a size
lies off the power of size by a normal number times the sd of that draw, a batch has the parameters that the
joint prior gives it beside the known ones (`bayes_cpt.model.joint_priors`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.groups import BATCHES, GROUPED, Group
from bayes_cpt.model.joint_priors import further
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import ROLES
from bayes_cpt.study.batches import Batch

# Sets the draws of new groups apart from all that is drawn with the seed of the fit.
STREAM = 7


@dataclass(frozen=True)
class RunGroups:
    """The runs that draws are for, where they are not those of the fit."""

    # Groups that no fitted run has, beside the fitted ones
    sizes: tuple[float, ...] = ()
    batches: tuple[Batch, ...] = ()
    batch: Batch | None = None  # the one that all runs have
    target: str | None = None  # the one of several that all runs are on

    def frame(self, fitted: BoundModel) -> BoundModel:
        """Return the frame of a fit for these runs."""
        frame = self._extended(fitted)
        if self.target is not None:
            # A study of several targets has a general set.
            domains = (str(frame.general), self.target)
            spec = frame.spec.with_law(targets=1)
            frame = replace(frame, spec=spec, domains=domains, roles=ROLES)
        if self.batch is not None:
            frame = replace(frame, spec=frame.spec.with_law(batches=False), batches=())
        return frame

    def parameters(
        self, found: dict[str, Floats], fitted: BoundModel, seed: int
    ) -> dict[str, Floats]:
        """Return the parameters of these runs, and maybe more, from draws of those of the fit."""
        extended = self._extended(fitted)
        if self.sizes or self.batches:
            found = _with_further(found, fitted, extended, seed)
        infos = extended.parameters()
        if self.target is not None:
            found = self._on_target(found, extended)
        if self.batch is not None:
            known = extended.batches
            own = slice(known.index(self.batch), None, len(known))
            found = {n: v[:, own] if infos[n].dims == BATCHES else v for n, v in found.items()}
        return found

    def _extended(self, fitted: BoundModel) -> BoundModel:
        if not (self.sizes or self.batches):
            return fitted
        sizes, batches = (*fitted.sizes, *self.sizes), (*fitted.batches, *self.batches)
        return replace(fitted, sizes=sizes, batches=batches)

    def _on_target(self, found: dict[str, Floats], frame: BoundModel) -> dict[str, Floats]:
        """Return draws of a law of one target: the shift of the general set is the one that this makes."""
        kept, domains = dict(found), (frame.general, self.target)
        for name, info in frame.parameters().items():
            if info.dims is not None:
                members = frame.members(info.dims)
                places = [i for i, member in enumerate(members) if member.domain in domains]
                kept[name] = found[name][:, places]
        place = frame.domains.index(str(self.target))
        kept["shift_share"][:, 0] *= found["forgetting_factor"][:, place]
        return kept


def _with_further(
    found: dict[str, Floats], fitted: BoundModel, extended: BoundModel, seed: int
) -> dict[str, Floats]:
    """Return draws with those of further groups, which are the same whichever others are asked for."""
    extended_draws, domains = dict(found), len(fitted.domains)
    for place, (name, info) in enumerate(fitted.parameters().items()):
        if info.dims not in GROUPED:
            continue
        count = len(found[name])
        values = found[name].reshape(count, domains, -1)
        known, every = fitted.groups[info.dims], extended.groups[info.dims]
        added = [values]
        for group in every[len(known) :]:
            own = _normal([seed, STREAM, place, *_words(group)], count, domains)
            if name in fitted.pooled:
                shared = _normal([seed, STREAM, place], count, domains)
                own = further(fitted, name, found[name], found[fitted.spread], shared, own)
            elif info.dims == BATCHES:
                # It is known, and the same for all batches.
                own = values[:, :, 0]
            added.append(own[:, :, None])
        extended_draws[name] = np.concatenate(added, axis=2).reshape(count, -1)
    return extended_draws


def _normal(seed: list[int], *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def _words(group: Group) -> list[int]:
    numbers = group.numbers if isinstance(group, Batch) else (group,)
    return [int(word) for word in np.array(numbers, dtype=np.float64).view(np.uint32)]
