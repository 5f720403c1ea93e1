"""Groups of runs that have a part of the law for themselves: runs of one model size, or of one batch.

What is of one group runs along a coordinate with every group of every validation set, and each curve says
to which it belongs. Groups are pooled as far as they have turned out alike, and one that never ran is drawn
from the population (`bayes_cpt.inference.groups`). Batches, as targets, have whole parameters for
themselves, alike by their joint prior (`bayes_cpt.model.priors.pooling`); sizes lie off a power of size by
standard normal deviations times a spread.
"""

from collections.abc import Sequence

from bayes_cpt.study.batches import Batch

# The coordinates of groups.
SIZES, BATCHES = "size_domain", "batch_domain"
GROUPED = (SIZES, BATCHES)

type Group = float | Batch


def place(known: Sequence[Group], group: Group | None, domain: int) -> int:
    """Return where a group of a validation set stands along its coordinate.

    Parameters
    ----------
    known : sequence of group
        All that the law knows; none where it has no such groups.
    group : group or None
    domain : int
        Place of the validation set.
    """
    return domain * len(known) + list(known).index(group) if known and group is not None else 0


def label(group: Group) -> str:
    """Return a group as it is called beside its validation set.

    Parameters
    ----------
    group : group
    """
    return f"batch {group.label}" if isinstance(group, Batch) else f"{group:g}M"
