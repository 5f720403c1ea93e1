import numpy as np
import pytest
from printed import COEFFICIENTS, PEAK, printed_posterior, stepwise_losses
from synthetic import lab, lab_posterior

from bayes_cpt.landmarks import critical_point
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant


@pytest.mark.parametrize(
    ("shift", "steps"), [("moderate", 8994), ("strong", 663), ("weak", 462_545)]
)
def test_the_critical_point_of_printed_coefficients(shift: str, steps: int) -> None:
    found = critical_point(printed_posterior(shift), [0.0])
    size, alpha, limit = (COEFFICIENTS[shift][0][i] for i in (1, 2, 5))
    assert found.draws["forward_area"].item() == pytest.approx((size / limit) ** (1.0 / alpha))
    assert found.draws["steps"].item() == pytest.approx(steps, abs=0.5)
    assert found.draws["rise"].item() == pytest.approx(limit)


def test_past_it_the_loss_starts_below_the_level_that_cpt_goes_to() -> None:
    # With the shift all there, what is left of the power after endless CPT is nothing.
    general = COEFFICIENTS["moderate"][0]
    level = general[0] + general[5]
    steps = critical_point(printed_posterior("moderate")).draws["steps"].item()
    for factor, below in ((0.97, False), (1.03, True)):
        base = constant(round(factor * steps), PEAK)
        assert (stepwise_losses(general, base, constant(1, PEAK))[0] < level) == below


def limit_of(c: dict[str, np.ndarray], replay: float) -> np.ndarray:
    """Return the most that general loss rises by at a replay ratio, from coefficients on general data."""
    factor = (1.0 - replay) * (1.0 + c["b"] * replay) ** -c["gamma"] * np.exp(-c["k"] * replay)
    return np.asarray(c["B"] * factor)


def test_in_every_draw_the_limit_of_all_that_cpt_adds_counts() -> None:
    posterior, replay = lab_posterior(), 0.25
    found = critical_point(posterior, [replay], draws=100)
    c = {
        name: np.asarray(value)[..., 0]
        for name, value in posterior.frame.law.coefficients(posterior.parameters(100), np).items()
        if name != "lambda"
    }
    rise = limit_of(c, replay)
    np.testing.assert_allclose(found.draws["rise"][:, 0], rise)
    positive = rise > 0
    assert positive.any()
    with np.errstate(over="ignore"):
        area = (c["A"][positive] / rise[positive]) ** (1.0 / c["alpha"][positive])
    np.testing.assert_allclose(found.draws["forward_area"][positive, 0], area, rtol=1e-10)
    assert np.isinf(found.draws["forward_area"][~positive, 0]).all()
    assert found.table()["exists"].item() == pytest.approx(positive.mean())


def test_pure_replay_has_no_critical_point() -> None:
    found = critical_point(lab_posterior(), [1.0])
    assert found.table()["exists"].item() == 0.0
    assert np.isinf(found.table()["median"].item())
    assert float(found.past(lab().base("stable_12k"))[0]) == 0.0


def total(powers: np.ndarray) -> np.ndarray:
    """Return S1_pt of a base for some forward powers, as the plain sum."""
    schedule = lab().base("stable_12k").schedule
    assert schedule is not None
    return np.array([np.sum(schedule.learning_rates() ** power) for power in powers])


def test_steps_are_those_of_the_area_at_the_reference_learning_rate() -> None:
    found = critical_point(lab_posterior(), [0.0], draws=20)
    rate = lab_posterior().frame.reference.learning_rate
    steps, power = (found.draws[name].to_numpy() for name in ("steps", "power"))
    np.testing.assert_allclose(found.draws["forward_area"], steps * rate ** power[:, None])


def test_bases_are_past_it_with_a_probability_that_grows_with_pretraining() -> None:
    found = critical_point(lab_posterior(), draws=100)
    assert found.draws["replay"].to_numpy().tolist() == [0.0, 0.1, 0.25, 0.5, 0.75]
    early, late = (found.past(lab().base(name)) for name in ("stable_6k", "stable_12k"))
    assert (early <= late).all()
    area, power = (found.draws[name].to_numpy() for name in ("forward_area", "power"))
    assert np.unique(power).size == power.size
    np.testing.assert_allclose(late, (area < total(power)[:, None]).mean(axis=0))
    with pytest.raises(ValueError, match="base open is not known"):
        found.past(Base("open", known=False))


def test_where_it_lies_outside_the_pretraining_that_was_studied() -> None:
    table = critical_point(printed_posterior("moderate")).table()
    assert table["outside"].item() == "PT steps 8993.52, studied 40000"


def test_what_the_prior_says_stands_beside_what_the_data_add() -> None:
    """The sign of the shift fixes that there is a critical point, at any replay short of pure replay."""
    found = critical_point(lab_posterior(), [0.0, 0.5])
    table = found.table()
    frame = lab_posterior().frame
    with np.errstate(over="ignore", invalid="ignore"):
        c = frame.law.coefficients(draw_priors(frame, 2000, seed=0), np)
    c = {name: c[name][:, 0] for name in ("B", "b", "gamma", "k")}
    for replay, share in zip([0.0, 0.5], table["exists_prior"], strict=True):
        assert share == pytest.approx(np.mean(limit_of(c, replay) > 0), abs=0.001)
    assert (table["exists_prior"] == 1.0).all()
    assert (table["exists"] == 1.0).all()
    base = lab().base("stable_12k")
    area = total(found.prior["power"].to_numpy())[:, None]
    np.testing.assert_allclose(
        found.past(base, by_prior=True), (found.prior["forward_area"] < area).mean("draw")
    )
    assert float(found.past(base)[1]) < float(found.past(base, by_prior=True)[1])
