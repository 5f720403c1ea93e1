"""What curves are made of: parts against the printed equations, hidden curves against the law."""

import numpy as np
import pytest
from printed import COEFFICIENTS, PEAK, pretraining, printed_posterior, stepwise_losses, study
from synthetic import lab, lab_posterior, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks import decompose, hidden_curves
from bayes_cpt.study.schedules import cosine


@pytest.mark.parametrize("model", ["cpt-replay", "pretrain"])
def test_the_parts_add_up_to_the_expected_loss(model: str) -> None:
    parts = decompose(lab_posterior(model), practice() if model != "pretrain" else None, draws=40)
    total = sum(parts[name] for name in parts.attrs["parts"])
    np.testing.assert_allclose(total, parts["expected"], rtol=0, atol=1e-12)


def test_the_expected_loss_is_that_of_the_forecast() -> None:
    bands = lab_posterior().predict(practice(), kind="expected", draws=40)
    parts = decompose(lab_posterior(), practice(), draws=40)
    forecast = bands["loss"].stack(sample=("chain", "draw")).transpose("sample", ...)
    np.testing.assert_allclose(parts["expected"], forecast, rtol=0, atol=1e-12)


def first_draw(model: str) -> dict[str, float]:
    """Return the coefficients on the target of the first draw."""
    draw = lab_posterior(model).tree["posterior"].to_dataset().isel(chain=0, draw=0)
    coefficients = draw.drop_vars([name for name in draw if len(str(name)) > 6]).sel(
        domain="kernel"
    )
    return {str(name): float(value) for name, value in coefficients.items() if not value.dims}


def test_each_part_is_what_its_equation_says_at_a_step() -> None:
    name, step, share = "r25_cos_12k", 12000, 0.75
    before = practice().base("stable_12k").schedule
    assert before is not None
    pretrained = before.learning_rates()
    rates = practice().run(name).schedule.learning_rates()
    parts = decompose(lab_posterior("cpt-replay-printed"), practice(), [name], draws=4)
    own = parts.isel(draw=0, run=0).sel(domain="kernel", step=step)
    c = first_draw("cpt-replay-printed")
    power = c["L0"] + c["A"] * (pretrained.sum() + rates.sum()) ** -c["alpha"]
    assert float(own["power"]) == pytest.approx(power)
    # The base never anneals.
    assert float(own["annealing_pt"]) == pytest.approx(0.0, abs=1e-12)
    memory, area, last = 0.0, 0.0, pretrained[-1]
    for rate in rates:
        memory = c["lambda"] * memory + last - rate
        area, last = area + memory, rate
    gain = c["C2"] * area * np.exp(c["a1"] * share)
    assert float(own["annealing_cpt"]) == pytest.approx(-gain)
    factor = np.expm1(-c["a"] * share) / np.expm1(-c["a"])
    shift = c["B"] * factor * (1.0 - (1.0 + c["E"] * rates.sum()) ** -c["beta"])
    assert float(own["shift"]) == pytest.approx(shift)
    assert not own["base_offset"].any()


def test_steps_that_a_run_has_not_are_missing() -> None:
    parts = decompose(lab_posterior(), practice(), draws=4)
    assert np.isnan(parts["shift"].sel(run="r90_wsd_5k").sel(step=slice(5001, None))).all()
    assert np.isfinite(parts["shift"].sel(run="r25_cos_12k", step=12000)).all()


def test_a_run_that_the_plan_has_not_is_named() -> None:
    with pytest.raises(StudyError, match="no run 'r25_cosine'"):
        decompose(lab_posterior(), lab(), ["r25_cosine"])


@pytest.mark.parametrize("shift", COEFFICIENTS)
def test_hidden_curves_are_the_law_without_a_shift_and_with_all_of_it(shift: str) -> None:
    run = cosine(2000, PEAK)
    found = hidden_curves(printed_posterior(shift), study(run)).isel(draw=0, run=0)
    steps = found["step"].to_numpy()
    for own, domain in zip(COEFFICIENTS[shift], ("general", "target"), strict=True):
        limit = own[5]
        without = (*own[:5], 0.0, *own[6:])
        never_left = stepwise_losses(without, pretraining(), run)[steps]
        here = found.sel(domain=domain)
        np.testing.assert_allclose(here["never_left"], never_left, rtol=0, atol=1e-9)
        np.testing.assert_allclose(here["arrived"], never_left + limit, rtol=0, atol=1e-9)
        expected = stepwise_losses(own, pretraining(), run)[steps]
        np.testing.assert_allclose(here["expected"], expected, rtol=0, atol=1e-9)
