from dataclasses import replace

from batch_family import BATCHES, family
from synthetic import lab

from bayes_cpt.report.words.batch import batch_words


def test_batches_are_counted_and_those_apart_from_all_others_are_named() -> None:
    study = family()
    lines = batch_words(study)
    assert lines == [
        "The CPT runs have 3 batches: batch of 65536 tokens in sequences of 512 (3 runs), batch of "
        "131072 tokens in sequences of 512 (2 runs), batch of 131072 tokens in sequences of 1024 (2 runs)."
    ]
    runs = tuple(
        replace(run, replay=0.9) if run.sequence_length == 1024 else run for run in study.runs
    )
    (_, apart) = batch_words(replace(study, runs=runs))
    assert apart.startswith(
        "No run of another batch shares the replay ratio of the runs with batch"
    )
    assert "sequences of 1024" in apart


def test_two_batches_do_not_tell_how_unlike_batches_are() -> None:
    (_, line) = batch_words(family(BATCHES[:2]))
    assert line.startswith("Two batches tell how they differ, but hardly how unlike")


def test_one_batch_or_none_that_is_said_is_told() -> None:
    unsaid = replace(lab(), tokens_per_step=None, unique_tokens=None)
    (one,), (none,) = batch_words(family(BATCHES[:1])), batch_words(unsaid)
    assert one.startswith("All CPT runs have one batch, batch of 65536 tokens in sequences of 512")
    assert none.startswith("No CPT run says its batch size")
