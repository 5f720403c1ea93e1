import pytest
from size_family import LARGE, family_posterior, plan

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.forecast.bands import bands
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import linear

SPACE = {"bases": ["large"], "replay": [0.0, 0.3], "peak": 1e-3, "final": 0, "steps": 1000}


def test_a_base_of_a_size_that_never_ran_can_be_decided_for() -> None:
    choice = decide(family_posterior(), space=SPACE, draws=100, seed=0)
    chosen = choice.contenders.candidates.run(0, "chosen")
    assert chosen.base == LARGE.name
    assert chosen.model_size == LARGE.model_size
    (notes, *_) = choice.outside
    assert any("model size 3000M, studied 20M to 320M" in note for note in notes)


def test_candidates_have_the_losses_that_predict_gives_their_size() -> None:
    posterior = family_posterior()
    model = FinalLosses.of(posterior, 100, 0)
    run = Run("asked", "cpt", linear(1000, 1e-3, 1e-4), "large", 0.3)
    table = bands(posterior, plan(run, bases=(LARGE,)), "expected", draws=100)
    last = table[table["step"] == 1000].set_index("domain")["mean"]
    space = read_space(
        SPACE
        | {
            "replay": 0.3,
            "final": 1e-4,
            "warmup_steps": 0,
            "decay_share": 1.0,
            "decay_shape": "linear",
        }
    )
    found = SearchSpace.of(space, posterior.study)
    candidates = found.sample(1, 0)
    losses = model.losses(candidates).mean(axis=2)[:, 0]
    assert candidates.run(0, "asked").schedule.final == run.schedule.final
    assert losses == pytest.approx(last[["general", "target"]].to_numpy(), abs=1e-9)
