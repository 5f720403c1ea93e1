import numpy as np
import pytest
from area_values import plain_levels
from stand_in import medians
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.derived import (
    DECAYING,
    LONG,
    REWARMED,
    SLOWER,
    STEADY,
    UNANNEALED,
    Typical,
    annealed,
    base_schedule,
    derived_quantities,
    effects_of,
    plan_of,
    trial_runs,
)
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule, constant


def frame_of(model: str, *runs: str) -> BoundModel:
    return build_setup(read_spec(model), lab().subset(runs) if runs else lab()).frame


def s1(rates: Floats, one: dict[str, float]) -> float:
    return float(np.sum(rates ** one["rho"]))


def level(rates: Floats, before: float, momentum: float, reference: float, clock: float) -> float:
    """Return the level of the learning rate after the last step, step by step."""
    levels = plain_levels(rates, momentum, before, (rates / reference) ** clock)
    return float(levels[-1]) if levels.size else before


def felt(paces: list[float], one: dict[str, float]) -> float:
    """Return what the model feels of the levels at the fast and at the slow pace."""
    return (1.0 - one["w_slow"]) * paces[0] + one["w_slow"] * paces[1]


def s2(start: float, end: float, one: dict[str, float]) -> float:
    return float((start ** one["zeta"] - end ** one["zeta"]) / (1.0 - one["lambda"]))


def after_cpt(
    base: Schedule | None, rates: Floats, one: dict[str, float], reference: float, clock: float
) -> float:
    """Return the printed loss after CPT at some learning rates."""
    assert base is not None
    before, momenta = base.learning_rates(), (one["lambda"], one["lambda_slow"])
    carried = [level(before, 0.0, momentum, reference, clock) for momentum in momenta]
    pairs = zip(carried, momenta, strict=True)
    ended = [level(rates, own, momentum, reference, clock) for own, momentum in pairs]
    seen = reference * ((rates / reference) ** one["rho_s"]).sum()
    return float(
        one["A"] * s1(np.r_[before, rates], one) ** -one["alpha"]
        - one["C1"] * s2(reference, felt(carried, one), one)
        - one["C2"] * s2(felt(carried, one), felt(ended, one), one)
        + one["B"] * (1 - (1 + one["E"] * seen) ** -one["beta"])
    )


def test_typical_is_the_median_of_the_cpt_runs() -> None:
    base = lab().base("stable_12k")
    assert Typical.of(lab()) == Typical(3000, 0.002, 0.25, Base("own", base.steps, base.schedule))
    assert Typical.of(lab().subset(["pt_trunk"])) == Typical(steps=16000, peak=0.002, replay=0.0)


def test_the_effects_of_pretraining_are_the_printed_law() -> None:
    frame = frame_of("pretrain")
    clock = frame.spec.law.memory_clock
    draws = draw_priors(frame, 4, seed=3)
    found = derived_quantities(frame, lab(), draws)
    law = frame.law.coefficients(draws, np)
    base = base_schedule(frame.reference).learning_rates()
    fall = annealed(constant(base.size, base[0])).learning_rates()
    for i in range(4):
        one = {name: float(np.ravel(value[i])[0]) for name, value in law.items()}

        def loss(rates: Floats, one: dict[str, float] = one) -> float:
            rate = frame.reference.learning_rate
            peak = np.log(rates.max() / rate)
            end = level(rates, 0.0, one["lambda"], rate, clock) * np.exp(-one["xi"] * peak)
            annealed, lasting = s2(rate, end, one), one["G1"] * peak + one["G2"] * peak**2
            return float(
                one["A"] * s1(rates, one) ** -one["alpha"] - one["C1"] * annealed + lasting
            )

        longer = loss(np.tile(base, 4)) - loss(base)
        assert found["length_effect"][i, 0] == pytest.approx(longer, rel=1e-6)
        assert found["anneal_effect"][i, 0] == pytest.approx(loss(fall) - loss(base), rel=1e-6)
        assert found["rate_effect"][i, 0] == pytest.approx(loss(fall / 2) - loss(fall), rel=1e-6)


def test_the_effects_of_cpt_are_the_printed_law() -> None:
    frame = frame_of("cpt", "pt_trunk", "r25_cos")
    clock = frame.spec.law.memory_clock
    draws = draw_priors(frame, 2, seed=5)
    typical = Typical.of(lab())
    found = derived_quantities(frame, lab(), draws)
    law = frame.law.coefficients(draws, np)
    plan = plan_of(frame, trial_runs(frame, typical))
    rate = frame.reference.learning_rate
    for i, j in ((0, 0), (1, 1)):
        one = {k: float(v[i, j] if v.ndim == 2 else v[i]) for k, v in law.items()}
        last = {}
        for run in plan.continual_runs:
            base, rates = plan.base(str(run.base)).schedule, run.schedule.learning_rates()
            last[run.name] = after_cpt(base, rates, one, rate, clock)
        start = after_cpt(plan.base("own").schedule, np.empty(0), one, rate, clock)
        wanted = {
            "run_change": last[DECAYING] - start,
            "rate_effect": last[SLOWER] - last[DECAYING],
            "decay_effect": last[DECAYING] - last[STEADY],
            "base_effect": last[REWARMED] - last[UNANNEALED],
            "length_effect": last[LONG] - last[DECAYING],
        }
        assert {effect.name for effect in effects_of(frame)} == set(wanted)
        for name, value in wanted.items():
            # The base's steps are whole, so that its area is the reference only nearly.
            assert found[name][i, j] == pytest.approx(value, rel=1e-3, abs=1e-4), name


def test_replay_lessens_forgetting_and_learning() -> None:
    frame = frame_of("cpt-replay")
    assert "replay_effect" in {effect.name for effect in effects_of(frame)}
    found = derived_quantities(frame, lab(), medians("cpt-replay", lab()))["replay_effect"]
    assert found[0, 0] < 0 < found[0, 1]


def test_a_base_of_one_step_is_annealed_whole() -> None:
    assert annealed(constant(1, 1e-3)).learning_rates().tolist() == [0.0]
    assert annealed(constant(10, 1e-3)).learning_rates()[-2:].tolist() == [5e-4, 0.0]
