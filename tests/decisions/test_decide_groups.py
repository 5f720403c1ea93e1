"""Decisions for a batch, or a size, that has runs or has none."""

import pytest
from batch_family import BATCHES, NEW, batched, continued, plan
from size_family import LARGE, family_posterior
from synthetic import lab_posterior

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.next_run import Affordable, next_run
from bayes_cpt.decisions.search_space import SearchSpace, with_batch
from bayes_cpt.decisions.space import Space
from bayes_cpt.errors import StudyError
from bayes_cpt.report.results import choices_table
from bayes_cpt.study.batches import Batch

SPACE = {"replay": [0.0, 0.3], "peak": 2e-3, "warmup_steps": 0, "final": 0, "steps": 1000}
ASKED = SPACE | {"tokens_per_step": NEW.tokens, "sequence_length": NEW.sequence_length}


def test_a_run_is_chosen_for_the_batch_that_the_space_names() -> None:
    choice = decide(batched(), space=ASKED, draws=100, seed=0)
    (run, *_) = choice.plan().runs
    assert (run.batch_tokens, run.sequence_length) == (NEW.tokens, NEW.sequence_length)
    assert all("batch size 524288, studied 65536 to 131072" in note for note, *_ in choice.outside)
    said = (choice.verdict()[0], choices_table(choice, choice.table()).note, *choice.sentences())
    assert sum("batch of 524288 tokens in sequences of 1024" in text for text in said) == 4


def test_without_a_word_it_is_the_batch_of_most_runs() -> None:
    posterior, space = with_batch(batched(), Space(sequence_length=1024))
    assert space.batch == Batch(BATCHES[0].tokens, 1024)
    assert posterior.frame.batches == ()
    _, space = with_batch(batched(), Space())
    assert space.batch == BATCHES[0]
    plain = lab_posterior()
    assert with_batch(plain, Space()) == (plain, Space())


def test_the_worth_of_runs_of_another_batch_is_refused_with_the_fix() -> None:
    runs = Affordable(plan(continued("other", NEW)), {})
    with pytest.raises(StudyError, match=r"run other: it has a batch of 524288.*Give tokens_per"):
        next_run(batched(), runs=runs, draws=40, candidates=64)


def test_a_base_of_a_size_that_never_ran_can_be_decided_for() -> None:
    choice = decide(family_posterior(), space=SPACE | {"bases": ["large"]}, draws=100, seed=0)
    chosen = choice.contenders.candidates.run(0, "chosen")
    assert chosen.base == LARGE.name
    assert chosen.model_size == LARGE.model_size
    (notes, *_) = choice.outside
    assert any("model size 3000M, studied 20M to 320M" in note for note in notes)
    # Every run went to the peak of its own base.
    tried = SearchSpace.of(Space(bases=("large",)), family_posterior().study)
    assert tried.quantities["relative_peak"].values == (1.0,)
