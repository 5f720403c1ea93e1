"""Whether the losses of CPT runs move as they should: mix-ups that no single cell shows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.checks import Check

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.runs import Run

# Changes of the loss over a run that are no accident (nats).
CLEAR = 0.05
# Runs with no more replay forget; what they learn is the target.
LITTLE_REPLAY = 0.05
# Replay ratios that differ by so much change how much is forgotten; runs that it takes to tell.
APART, FEWEST = 0.2, 3


def note_mix_ups(
    cautions: Check,
    losses: "pd.DataFrame",
    runs: Sequence["Run"],
    general: str,
    target: str,
    settings: str,
) -> None:
    """Note validation sets that seem swapped, and replay ratios that seem to count the target's share.

    Parameters
    ----------
    cautions : Check
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    runs : sequence of Run
    general, target : str
    settings : str
        What messages call the settings.
    """
    changes = _changes(losses)
    measured = [run for run in runs if run.replay is not None and (run.name, general) in changes]
    little = [
        (changes[run.name, general], changes[run.name, target])
        for run in measured
        if (run.replay or 0.0) <= LITTLE_REPLAY and (run.name, target) in changes
    ]
    if little and all(
        on_general < -CLEAR and on_target > CLEAR for on_general, on_target in little
    ):
        cautions.add(
            f"{settings}, table study",
            f"in all {len(little)} CPT runs with little replay the loss of {general} falls and that of "
            f"{target} rises, as if {general} were what they train on",
            "swap general, the data of pre-training, and target, that of CPT, if they are mixed up",
        )
        return
    if len(measured) < FEWEST:
        return
    ratios = np.array([run.replay for run in measured], dtype=np.float64)
    rises = np.array([changes[run.name, general] for run in measured])
    if np.ptp(ratios) < APART:
        return
    least = float(rises[ratios <= ratios.min() + APART / 2].max())
    most = float(rises[ratios >= ratios.max() - APART / 2].min())
    if most > least + CLEAR:
        cautions.add(
            f"{settings}, table runs, key replay",
            f"the loss of {general} changes by {most:+.2f} or more at replay {ratios.max():g}, by "
            f"{least:+.2f} or less at {ratios.min():g}, though replay should keep it down",
            "give as replay the share of general data in the batches, not that of target data; or swap "
            "general and target, if they are mixed up",
        )


def _changes(losses: "pd.DataFrame") -> dict[tuple[str, str], float]:
    """Return by run and validation set how far the last loss lies above the first."""
    ordered = losses.sort_values("step", kind="stable").groupby(["run", "domain"])["loss"]
    ends = ordered.agg(["first", "last", "size"])
    ends = ends[ends["size"] > 1]
    return dict(zip(ends.index, ends["last"] - ends["first"], strict=True))
