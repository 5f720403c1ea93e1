"""What the batch sizes and sequence lengths of a study can tell, in plain words."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bayes_cpt.model.groups import checked_batches
from bayes_cpt.report.numbers import enumerated
from bayes_cpt.study.batches import UNSAID, Batch, batch_of
from bayes_cpt.study.ranges import ALIKE_RATIO, ALIKE_REPLAY, LENGTH, REPLAY, factors

if TYPE_CHECKING:
    from bayes_cpt.study.ranges import Factor
    from bayes_cpt.study.study import Study

# With fewer batches how unlike they are rests on its prior.
FEWEST = 3


def batch_words(study: "Study") -> list[str]:
    """Return which batches there are, what is told apart, and which runs would tell more.

    Parameters
    ----------
    study : Study

    Returns
    -------
    list of str
        A line for each thing that is to be said.
    """
    batches = checked_batches(study)
    if batches == (UNSAID,):
        said = "No CPT run says its batch size or sequence length: all count as one batch"
        return [f"{said}. Add batch_tokens and sequence_length to the runs if they differ."]
    if len(batches) == 1:
        said = f"All CPT runs have one batch, {batches[0].words}"
        told = "the fit is that of the law without batches, and a plan with another one is flagged"
        return [f"{said}: {told}. Add runs of another to compare them."]
    members = {
        batch: [run.name for run in study.continual_runs if batch_of(study, run) == batch]
        for batch in batches
    }
    counted = ", ".join(
        f"{batch.words} ({len(runs)} run{'s' * (len(runs) > 1)})" for batch, runs in members.items()
    )
    lines = [f"The CPT runs have {len(batches)} batches: {counted}."]
    if len(batches) < FEWEST:
        lines.append(
            "Two batches tell how they differ, but hardly how unlike batches are, which sets the band of "
            "one that never ran: that rests on its prior. Add a run of a third."
        )
    return lines + list(_confounded(study, members))


def _confounded(study: "Study", members: dict[Batch, list[str]]) -> Iterator[str]:
    """Yield of each batch what sets its runs apart from all others too."""
    differing = [
        factor for factor in factors(study, "cpt") if factor.differs and factor.name != LENGTH
    ]
    for batch, runs in members.items():
        others = [name for other, names in members.items() if other != batch for name in names]
        apart = [
            factor.name
            for factor in differing
            if not any(_alike(factor, run, other) for run in runs for other in others)
        ]
        if apart:
            listed = enumerated(apart)
            yield (
                f"No run of another batch shares the {listed} of the runs with {batch.words}: what they do "
                f"and what the batch does cannot be told apart. Add a run of this batch with the {listed} "
                "of another's."
            )


def _alike(factor: "Factor", one: str, other: str) -> bool:
    """Return whether two runs have one value of a factor, or values that tell as much as one."""
    if not factor.graded:
        return factor.values[one] == factor.values[other]
    if factor.name == REPLAY:
        return abs(factor.place(one) - factor.place(other)) <= ALIKE_REPLAY
    ratio = float(factor.values[one]) / float(factor.values[other])
    return 1 / ALIKE_RATIO <= ratio <= ALIKE_RATIO
