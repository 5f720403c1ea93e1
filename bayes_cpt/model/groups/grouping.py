"""Groups of runs that have a part of the law for themselves: runs of one model size, or of one batch.

What a group has for itself is a deviation, standard normal for every group, times a spread that all groups
share: groups are pooled as far as they have turned out alike, and one that never ran draws its own
(`bayes_cpt.inference.new_groups`). Deviations run along a coordinate with every group of every validation
set. What several targets share in part is another thing (`bayes_cpt.model.priors.pooling`): a target has
curves of its own, and no typical target stands behind them.
"""

from collections.abc import Sequence

from bayes_cpt.study.resources.batch import Batch

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
