from typing import Any

import numpy as np
import pytest

from bayes_cpt.errors import StudyError
from bayes_cpt.study.exports import torch_source, training_arguments, warmup_departure
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import (
    Schedule,
    Segment,
    constant,
    cosine,
    linear,
    warmup_stable_decay,
)

SCHEDULES = {
    "constant": constant(300, 1e-3),
    "warmed up": linear(30, 0, 1e-3) + constant(270, 1e-3),
    "cosine": cosine(300, 1e-3, warmup_steps=30),
    "cosine to a tenth": cosine(300, 1e-3, 1e-4, warmup_steps=30),
    "linear": linear(30, 0, 1e-3) + linear(270, 1e-3, 0),
    "linear to a tenth": linear(30, 0, 1e-3) + linear(270, 1e-3, 1e-4),
    "wsd": warmup_stable_decay(300, 1e-3, decay_steps=60, warmup_steps=30),
    "wsd, 1 - sqrt": warmup_stable_decay(
        300, 1e-3, decay_steps=60, warmup_steps=30, decay_shape="one_minus_sqrt"
    ),
    "wsd to a tenth": warmup_stable_decay(300, 1e-3, 1e-4, decay_steps=60),
}
# Warm-ups that Hugging Face begins elsewhere.
REWARMED = {
    "re-warmed": linear(30, 2e-4, 1e-3) + cosine(270, 1e-3),
    "wsd to a tenth, warmed up": warmup_stable_decay(
        300, 1e-3, 1e-4, decay_steps=60, warmup_steps=30
    ),
}
OTHERS = {
    "exponential": Schedule((Segment("exponential", 300, 1e-3, 1e-5),)),
    "two decays": linear(100, 1e-3, 5e-4) + linear(200, 5e-4, 0),
    "logged": Schedule.from_log([1, 50, 300], [1e-3, 9e-4, 1e-4]),
}


def run_of(schedule: Schedule) -> Run:
    return Run("long", "cpt", schedule, base="base", replay=0.5)


def huggingface_rates(arguments: dict[str, Any]) -> Any:
    """Return the learning rate after each step by the formulas of transformers' optimization.py."""
    steps, warmup, peak = (arguments[k] for k in ("max_steps", "warmup_steps", "learning_rate"))
    kind, options = arguments["lr_scheduler_type"], arguments.get("lr_scheduler_kwargs", {})
    count = np.arange(1, steps + 1, dtype=np.float64)
    decay = options.get("num_decay_steps", steps - warmup)
    share = np.clip((count - (steps - decay)) / max(1, decay), 0.0, 1.0)
    lowest = options.get("min_lr_ratio", options.get("min_lr", options.get("lr_end", 0.0)) / peak)
    if kind.startswith("constant"):
        factor = np.ones(steps)
    else:
        shape = options.get("decay_type", "cosine" if kind.startswith("cosine") else "linear")
        courses = {"linear": share, "1-sqrt": np.sqrt(share)}
        done = courses.get(shape, 0.5 * (1.0 - np.cos(np.pi * share)))
        factor = lowest + (1.0 - lowest) * (1.0 - done)
    rising = count / max(1, warmup)
    if kind == "warmup_stable_decay":
        rising = lowest + (1.0 - lowest) * rising
    return peak * np.where(count < warmup, rising, factor)


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_trainers_know_is_written_for_them(name: str) -> None:
    run = run_of(SCHEDULES[name])
    arguments = training_arguments(run)
    assert arguments["max_steps"] == 300
    assert not warmup_departure(run)
    np.testing.assert_allclose(
        huggingface_rates(arguments), run.schedule.learning_rates(), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("name", "begins"),
    [("re-warmed", "0, not at 0.0002"), ("wsd to a tenth, warmed up", "0.0001, not at 0")],
)
def test_a_warm_up_that_begins_elsewhere_is_said(name: str, begins: str) -> None:
    run = run_of(REWARMED[name])
    assert f"begins at {begins}: 30 of 300 steps differ" in warmup_departure(run)
    rates = huggingface_rates(training_arguments(run))
    np.testing.assert_allclose(rates[30:], run.schedule.learning_rates()[30:], rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SCHEDULES, *REWARMED, *OTHERS])
def test_the_real_lambda_lr_follows_the_function(name: str) -> None:
    torch = pytest.importorskip("torch")
    schedule = (SCHEDULES | REWARMED | OTHERS)[name]
    space: dict[str, object] = {}
    exec(torch_source(run_of(schedule)), space)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=space["PEAK"])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, space["factor"])
    rates = []
    for _ in range(schedule.steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(rates, schedule.learning_rates(), rtol=1e-12)


@pytest.mark.parametrize("name", [*SCHEDULES, *REWARMED, *OTHERS])
def test_the_function_for_torch_is_exact(name: str) -> None:
    schedule = (SCHEDULES | REWARMED | OTHERS)[name]
    space: dict[str, object] = {}
    exec(torch_source(run_of(schedule)), space)
    rates = [space["learning_rate"](step) for step in range(1, 301)]  # type: ignore[operator]
    np.testing.assert_allclose(rates, schedule.learning_rates(), rtol=1e-12, atol=1e-18)
    assert space["factor"](0) == rates[0] / schedule.peak  # type: ignore[operator]


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_trainer_cannot_follow_is_refused_and_torch_named(name: str) -> None:
    with pytest.raises(StudyError, match=r"cannot follow this schedule\. Export it for torch"):
        training_arguments(run_of(OTHERS[name]))


@pytest.mark.parametrize("name", SCHEDULES)
def test_transformers_itself_follows_the_schedule(name: str) -> None:
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    run = run_of(SCHEDULES[name])
    arguments = training_arguments(run)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=arguments["learning_rate"])
    scheduler = transformers.get_scheduler(
        arguments["lr_scheduler_type"],
        optimizer,
        num_warmup_steps=arguments["warmup_steps"],
        num_training_steps=arguments["max_steps"],
        scheduler_specific_kwargs=arguments.get("lr_scheduler_kwargs", {}),
    )
    rates = []
    for _ in range(arguments["max_steps"]):
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    np.testing.assert_allclose(rates, run.schedule.learning_rates(), rtol=0, atol=1e-9)
