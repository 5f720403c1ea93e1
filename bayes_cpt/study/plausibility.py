"""Whether losses are as they should be: units, flat curves, and mix-ups that no single cell shows."""

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, suggestion
from bayes_cpt.study.tables import TableCheck

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.runs import Base, Run


# ln of 268,000: more than guessing uniformly among the tokens of any vocabulary in use.
HIGHEST_LOSS = 12.5
# Losses that differ by less are one number with rounding errors: one evaluation alone varies more (nats).
SAME_NUMBER = 1e-5
# So many equal losses are no accident, even if they are rounded to two digits.
FLAT = 5
# Changes of the loss over a run that are no accident (nats).
CLEAR = 0.05
# Runs with no more replay forget; what they learn is the target.
LITTLE_REPLAY = 0.05
# Replay ratios that differ by so much change how much is forgotten.
APART = 0.2
# Two measurements of one checkpoint differ by rounding and evaluation batches, not by more (nats).
SAME_LOSS = 0.005
# A PT run and the CPT runs from it may be evaluated on slightly different sequences (nats).
SIMILAR_LOSS = 0.05
# Runs that it takes to tell.
FEWEST = 3


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


def note_unmeasured_targets(
    cautions: Check, losses: "pd.DataFrame", targets: object, place: str
) -> None:
    """Note which of several targets no row of the losses has.

    Parameters
    ----------
    cautions : Check
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    targets : object
        A sequence of names where there are several.
    place : str
        What messages call the losses.
    """
    measured = sorted(losses["domain"].unique().tolist())
    for name in targets if isinstance(targets, list | tuple) else ():
        if isinstance(name, str) and name not in measured:
            cautions.add(
                f"{place}, domain {name}",
                f"no row has the target {name!r}{suggestion(name, measured)}: what is said of it is what "
                "the other targets lead to expect",
                "add its losses, at step 0 at least, or leave it so",
            )


def _changes(losses: "pd.DataFrame") -> dict[tuple[str, str], float]:
    """Return by run and validation set how far the last loss lies above the first."""
    ordered = losses.sort_values("step", kind="stable").groupby(["run", "domain"])["loss"]
    ends = ordered.agg(["first", "last", "size"])
    ends = ends[ends["size"] > 1]
    return dict(zip(ends.index, ends["last"] - ends["first"], strict=True))


def note_base_losses(
    cautions: TableCheck, losses: "pd.DataFrame", bases: "Sequence[Base]", runs: "Sequence[Run]"
) -> None:
    """Note measurements of one base that disagree.

    Parameters
    ----------
    cautions : TableCheck
        Of the losses as they were given.
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    bases : sequence of Base
    runs : sequence of Run
    """
    base_of = {run.name: run.base for run in runs if run.base is not None}
    measured: dict[tuple[str, str], list[tuple[Hashable, str, float]]] = {}
    for label, run, domain, loss in _rows(losses[losses["step"] == 0]):
        if run in base_of:
            measured.setdefault((base_of[run], domain), []).append((label, run, loss))
    known = {base.name: base for base in bases}
    trunks = losses[losses["run"].isin([base.run for base in bases])]
    pretraining = {
        base.name: {domain: loss for _, run, domain, loss in _rows(there) if run == base.run}
        for base in bases
        if len(there := trunks[trunks["step"] == base.steps])
    }
    for (base_name, domain), rows in sorted(measured.items()):
        _, first_run, first = rows[0]
        far = [(label, loss) for label, _, loss in rows if abs(loss - first) > SAME_LOSS]
        if far:
            cautions.add(
                cautions.place(far[0][0]),
                f"the loss {far[0][1]:g} of the base {base_name} is {first:g} in run {first_run}",
                "step 0 is the base itself: give every run from it the same loss there",
            )
        there = pretraining.get(base_name, {}).get(domain)
        if there is None or abs(first - there) <= SIMILAR_LOSS:
            continue
        base = known[base_name]
        ratio = first / there
        bits = min(abs(ratio * math.log(2) - 1), abs(ratio / math.log(2) - 1)) < 0.02
        cautions.add(
            cautions.place(rows[0][0]),
            f"the base {base_name} has loss {first:g} here but {there:g} at step {base.steps} of its "
            f"PT run {base.run}",
            f"one is in bits: multiply it by {math.log(2):.4f}"
            if bits
            else "measure both on the same sequences",
        )


def _rows(losses: "pd.DataFrame") -> Iterator[tuple[Hashable, str, str, float]]:
    """Return label, run, domain and loss of each row."""
    return zip(losses.index, losses["run"], losses["domain"], losses["loss"], strict=True)


def check_scale(table: TableCheck, losses: "pd.DataFrame") -> None:
    """Refuse validation sets most of whose losses are in another unit: no law of losses fits those.

    Parameters
    ----------
    table : TableCheck
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    """
    if not (losses["loss"] > HIGHEST_LOSS).any():
        return
    for domain, rows in losses.groupby("domain", sort=False):
        high = rows[rows["loss"] > HIGHEST_LOSS]
        if 2 * len(high) > len(rows):
            first = high["loss"].iloc[0]
            table.add(
                table.place(high.index[0]),
                f"{len(high)} of {len(rows)} losses of {domain} are above {HIGHEST_LOSS:g}, more than a "
                "uniform guess costs in any vocabulary: these look like perplexities",
                "give nats/token, the natural logarithm of perplexity: "
                f"{math.log(first):.4g} for {first:g}",
            )


def note_high_losses(cautions: TableCheck, losses: "pd.DataFrame") -> None:
    """Note single losses that are higher than any guess costs.

    Parameters
    ----------
    cautions : TableCheck
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    """
    high = losses[losses["loss"] > HIGHEST_LOSS]
    for domain, rows in high.groupby("domain", sort=False) if len(high) else ():
        cautions.add(
            cautions.place(rows.index[0]),
            f"the loss is {rows['loss'].iloc[0]:g}, more than a uniform guess costs in any "
            f"vocabulary ({len(rows)} rows of {domain} above {HIGHEST_LOSS:g} nats/token)",
            f"give nats/token: multiply bits by {math.log(2):.4f}, take the log of perplexity",
        )


def is_one_number(losses: "Floats") -> bool:
    """Return whether losses (nats/token, at least one) are the same but for rounding errors.

    Parameters
    ----------
    losses : ndarray, shape (points,)
    """
    return bool(np.ptp(losses) <= SAME_NUMBER)


def note_disorder(cautions: TableCheck, losses: "pd.DataFrame") -> None:
    """Note curves whose rows are not in rising order: often a log of a restarted run.

    Parameters
    ----------
    cautions : TableCheck
    losses : DataFrame
        Columns run, step, domain, loss; clean, in the order in which they were given.
    """
    curves = ["run", "domain"]
    falls = losses[losses.groupby(curves, sort=False)["step"].diff() < 0]
    firsts = falls.index[~falls.duplicated(curves)].tolist()
    if firsts:
        cautions.add(
            cautions.place(firsts[0]),
            f"its step is below that of an earlier row of its curve; {len(firsts)} curves are out "
            "of order and were sorted by step",
            "check that each log is of one run without a restart, and sort the rows",
        )


def note_flat_curves(cautions: TableCheck, losses: "pd.DataFrame") -> None:
    """Note curves that never move: often the last loss of a run, repeated by an export.

    Parameters
    ----------
    cautions : TableCheck
    losses : DataFrame
        Columns run, step, domain, loss; clean.
    """
    if losses.empty:
        return
    curves = losses.groupby(["run", "domain"], sort=False)["loss"]
    sizes = curves.size()
    flat = sizes[(sizes >= FLAT) & (curves.max() - curves.min() <= SAME_NUMBER)]
    if len(flat):
        (run, domain), count = flat.index[0], flat.iloc[0]
        first = losses.index[(losses["run"] == run) & (losses["domain"] == domain)][0]
        others = f"; so it is in {len(flat) - 1} more curves" if len(flat) > 1 else ""
        cautions.add(
            cautions.place(first),
            f"all {count} losses of this curve are {losses.at[first, 'loss']:g}{others}",
            "give the validation loss that was measured at each step, not one value repeated",
        )
