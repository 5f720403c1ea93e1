from pathlib import Path

import pytest
from lab.budget import cost, flops_per_token, main, needed_tokens
from lab.training.run_list import ModelSize, read_run_list

LISTS = Path(__file__).parents[2] / "research" / "lab"
GPT2_SMALL = ModelSize(layers=12, width=768, heads=12, vocabulary=16_384, context=1024)


def test_parameters_are_counted_matrix_by_matrix() -> None:
    feed_forward = 2048
    layer = 3 * 768 * 768 + 768 * 768 + 768 * 2 * feed_forward + feed_forward * 768 + 2 * 768
    assert GPT2_SMALL.feed_forward == feed_forward
    assert GPT2_SMALL.non_embedding_parameters == 12 * layer + 768
    assert GPT2_SMALL.parameters == 12 * layer + 768 + 16_384 * 768


def test_a_run_costs_its_tokens_and_a_third_for_measuring() -> None:
    listed = read_run_list(LISTS / "toy.toml")
    one = cost(listed, listed.runs["r50_cosine"])
    assert one.training_tokens == 60 * 8 * 64
    assert one.validation_tokens == 8 * 2 * 32 * 64
    per_token = flops_per_token(listed.model)
    assert one.flops == pytest.approx(per_token * (one.training_tokens + one.validation_tokens / 3))
    # PT to step 150 and its branch share their tokens; the longest-fed CPT run is the long one.
    assert needed_tokens(listed) == (150 * 512, 0.75 * 180 * 512)


def test_the_verdict_depends_on_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    plan = [str(LISTS / "cpt-100m.toml"), "--minutes", "25", "--tflops"]
    assert main([*plan, "250"]) == 0
    assert "390 k tokens/s" in capsys.readouterr().out
    assert main([*plan, "150"]) == 1
