import numpy as np
import pytest
from batch_family import BATCHES, NEW, batched, continued, plan
from synthetic import lab_posterior

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.next_run import Affordable, next_run
from bayes_cpt.decisions.search_space import SearchSpace, with_batch
from bayes_cpt.decisions.space import Space, read_space
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.forecast.bands import bands
from bayes_cpt.study.batches import Batch

SPACE = {"replay": [0.0, 0.3], "peak": 2e-3, "warmup_steps": 0, "final": 0, "steps": 1000}
ASKED = SPACE | {"tokens_per_step": NEW.tokens, "sequence_length": NEW.sequence_length}


def test_a_run_is_chosen_for_the_batch_that_the_space_names() -> None:
    choice = decide(batched(), space=ASKED, draws=100, seed=0)
    (run, *_) = choice.plan().runs
    assert (run.batch_tokens, run.sequence_length) == (NEW.tokens, NEW.sequence_length)
    assert all("batch size 524288, studied 65536 to 131072" in note for note, *_ in choice.outside)


def test_without_a_word_it_is_the_batch_of_most_runs() -> None:
    posterior, space = with_batch(batched(), Space(sequence_length=1024))
    assert space.batch == Batch(BATCHES[0].tokens, 1024)
    assert posterior.frame.batches == ()
    _, space = with_batch(batched(), Space())
    assert space.batch == BATCHES[0]
    plain = lab_posterior()
    assert with_batch(plain, Space()) == (plain, Space())


@pytest.mark.parametrize("batch", [BATCHES[1], NEW])
def test_candidates_have_the_losses_that_predict_gives_their_batch(batch: Batch) -> None:
    said = {"tokens_per_step": batch.tokens, "sequence_length": batch.sequence_length}
    settled, space = with_batch(
        batched(), read_space(SPACE | said | {"replay": 0.3, "decay_share": 1.0})
    )
    candidates = SearchSpace.of(space, settled.study).sample(1, 0)
    found = FinalLosses.of(settled, 100, 0).losses(candidates).mean(axis=2)[:, 0]
    table = bands(batched(), plan(continued("asked", batch, 0.3)), "expected", draws=100)
    last = table[table["step"] == 1000].set_index("domain")["mean"]
    np.testing.assert_allclose(found, last[["general", "target"]], atol=1e-9)


def test_a_sequence_length_is_a_whole_number_above_0() -> None:
    with pytest.raises(SpecError, match="key sequence_length"):
        read_space({"sequence_length": 0})


def test_the_worth_of_runs_of_another_batch_is_refused_with_the_fix() -> None:
    runs = Affordable(plan(continued("other", NEW)), {})
    with pytest.raises(StudyError, match=r"run other: it has a batch of 524288.*Give tokens_per"):
        next_run(batched(), runs=runs, draws=40, candidates=64)
