from functools import cache

import numpy as np
import pytest
from scipy import special
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.stacked import stack
from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.comparison.log_scores import LogScore, log_score
from bayes_cpt.validate.folds import Fold, leave_run_out, leave_tail_out

SPEC = read_spec("cpt-replay")
RUN = "r25_cos"


@cache
def whole() -> Fold:
    return leave_run_out(lab(), SPEC, [RUN])[0]


def of_fold(posterior: Posterior, fold: Fold) -> LogScore:
    return log_score(posterior, fold.question, fold.measured)


def test_a_head_and_a_tail_make_the_whole() -> None:
    """With one draw there is nothing to learn from the head but the residuals: densities multiply."""
    tail = leave_tail_out(lab(), SPEC, 0.5, [RUN])[0]
    seeing = prior_as_posterior(tail.question.study, SPEC, draws=1, spread=0.0)
    blind = prior_as_posterior(whole().question.study, SPEC, draws=1, spread=0.0)
    measured = whole().measured
    head = measured[measured["step"] <= 1500]
    parts = (of_fold(seeing, tail).value, log_score(blind, whole().question, head).value)
    assert len(head) + len(tail.measured) == len(measured)
    assert sum(parts) == pytest.approx(of_fold(blind, whole()).value, rel=1e-6)


def test_a_stack_has_the_mixture_of_the_densities() -> None:
    laws = {name: lab_posterior(name) for name in ("cpt-replay", "cpt-replay-printed")}
    mixture = stack(laws, {"cpt-replay": 0.5, "cpt-replay-printed": 0.5}, 0)
    scores = [of_fold(law, whole()).value for law in laws.values()]
    assert of_fold(mixture, whole()).value == pytest.approx(
        special.logsumexp(scores) - np.log(2.0), abs=1e-9
    )


def test_draws_count_by_their_densities() -> None:
    alike = prior_as_posterior(lab(), SPEC, draws=3, spread=0.0)
    assert of_fold(alike, whole()).effective_draws == pytest.approx(12.0)
    assert 1.0 <= of_fold(lab_posterior(), whole()).effective_draws < 50.0


def test_a_law_that_is_off_scores_lower() -> None:
    off = whole().measured.assign(loss=whole().measured["loss"] + 0.3)
    right = of_fold(lab_posterior(), whole()).value
    assert log_score(lab_posterior(), whole().question, off).value < right
