from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed import COEFFICIENTS, PEAK, printed_posterior, stepwise_losses, study
from synthetic import lab_posterior, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks import turning_length
from bayes_cpt.landmarks.trials import Trial, held, law_draws, trial_losses
from bayes_cpt.landmarks.turning import _changes, last_return
from bayes_cpt.study.schedules import Schedule, constant, cosine

# Between two lengths that are evaluated the answer is interpolated.
CLOSE = 5e-3


def turned(
    shift: str, base_steps: int, course: str, balance: float = 1.0, horizon: int | None = None
) -> float:
    plan = study(cosine(10_000, PEAK), constant(base_steps, PEAK))
    found = turning_length(
        printed_posterior(shift),
        plan,
        balances=[balance],
        courses=[course],  # type: ignore[list-item]
        horizon=horizon,
    )
    return float(found.draws["length"].item())


def changes(shift: str, base_steps: int, schedule: Schedule, balance: float) -> np.ndarray:
    """Return the balance's change from the base after each step, in plain NumPy."""
    before = constant(base_steps, PEAK)
    losses = [stepwise_losses(own, before, schedule) for own in COEFFICIENTS[shift]]
    general, target = (own - own[0] for own in losses)
    return np.asarray(balance * general + (1.0 - balance) * target)


def brute_return(change: np.ndarray) -> float:
    """Return the fewest steps from which on no step is above 0, looking at every step."""
    for step in range(len(change)):
        if (change[step:] <= 1e-12).all():
            return float(step)
    return np.inf


@pytest.mark.parametrize(
    ("shift", "base_steps", "balance"),
    [
        ("moderate", 1500, 1.0),
        ("moderate", 5000, 1.0),
        ("strong", 600, 1.0),
        ("strong", 40_000, 0.8),
        ("weak", 10_000, 1.0),
        ("weak", 5000, 1.0),
    ],
)
def test_held_lengths_are_those_of_looking_at_every_step(
    shift: str, base_steps: int, balance: float
) -> None:
    steps = 12_000
    expected = brute_return(changes(shift, base_steps, constant(steps, PEAK), balance))
    found = turned(shift, base_steps, "held", balance)
    if np.isinf(expected):
        assert found > steps
    else:
        assert found == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize(("shift", "base_steps"), [("moderate", 2000), ("strong", 430)])
def test_stretched_lengths_are_those_of_trying_every_length(shift: str, base_steps: int) -> None:
    schedule = cosine(10_000, PEAK)
    ends = [changes(shift, base_steps, schedule.stretched(n), 1.0)[-1] for n in range(1, 560)]
    expected = brute_return(np.array([0.0, *ends]))
    assert 0 < expected < 560
    assert turned(shift, base_steps, "stretched") == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("course", ["held", "stretched"])
def test_beyond_the_horizon_only_the_forward_area_grows(course: str) -> None:
    whole = turned("moderate", 8000, course, horizon=400_000)
    prolonged = turned("moderate", 8000, course, horizon=20_000)
    assert whole > 20_000
    # A cosine of 20 memories has a little of its annealing area still to come.
    assert prolonged == pytest.approx(whole, rel=2 * CLOSE if course == "held" else 0.05)


def test_the_table_tells_what_becomes_of_the_loss_and_how_surely() -> None:
    runs = ["r25_cos_12k", "r90_wsd_5k"]
    found = turning_length(
        lab_posterior(), practice(), runs, balances=[1.0, 0.5], horizon=20_000, draws=40
    )
    table = found.table()
    assert len(table) == 2 * 2 * 2
    np.testing.assert_allclose(table[["never_rises", "returns", "never_returns"]].sum(axis=1), 1.0)
    lengths = found.draws["length"].to_numpy()
    for row, own in zip(table.itertuples(), lengths.reshape(40, -1).T, strict=True):
        returning = own[(own > 0) & np.isfinite(own)]
        assert row.returns == returning.size / 40
        assert row.never_returns == np.isinf(own).mean()
        if returning.size:
            assert row.median == np.median(returning)
            assert row.upper == pytest.approx(np.quantile(returning, 0.95))
        else:
            assert np.isnan(row.median)
    own = table.iloc[0]
    assert own["run"] == "r25_cos_12k"
    assert "12000 steps, 4.0x the longest run" in own["outside"]
    bands = lab_posterior().predict(practice(), kind="expected", draws=40)["loss"]
    end = bands.sel(run="r25_cos_12k", domain="general", step=12_000).to_numpy().ravel()
    base = practice().base_loss("stable_12k", "general")
    assert base is not None
    assert own["change"] == pytest.approx(float(np.median(end - base)), abs=1e-8)
    assert own["back"] == pytest.approx(float(np.mean(end <= base)))


def test_far_beyond_the_longest_run_is_said_so() -> None:
    plan = study(cosine(10_000, PEAK), constant(8000, PEAK))
    table = turning_length(printed_posterior("moderate"), plan, courses=["held"]).table()
    assert "where it turns, after 4.6x the longest run" in table["outside"].item()


def test_balances_and_models_are_checked() -> None:
    with pytest.raises(ValueError, match="give weights of the general loss"):
        turning_length(lab_posterior(), balances=[1.5])
    with pytest.raises(StudyError, match="knows no CPT phase"):
        turning_length(lab_posterior("pretrain"))


@given(
    st.lists(
        st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=6, max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_on_whole_steps_the_last_return_is_found_exactly(rows: list[list[float]]) -> None:
    steps = np.arange(1.0, 7.0)
    expected = [brute_return(np.array([0.0, *row])) for row in rows]
    np.testing.assert_array_equal(last_return(steps, np.array(rows)), expected)


def test_a_run_that_dips_when_it_is_short_and_ends_above_has_not_turned() -> None:
    # A cosine of one step is at learning rate 0.
    ends = [changes("strong", 40_000, cosine(n, PEAK), 1.0)[-1] for n in range(1, 100)]
    assert ends[0] < 0 < min(ends[1:])
    assert np.isinf(turned("strong", 40_000, "stretched"))


def test_between_distant_steps_the_return_is_interpolated_in_the_logarithm() -> None:
    found = last_return(np.array([100.0, 10_000.0]), np.array([[1.0, -1.0], [3.0, -1.0]]))
    np.testing.assert_array_equal(found, [1000.0, np.ceil(100.0 * 100.0**0.75)])


@pytest.mark.parametrize("course", ["held", "stretched"])
def test_far_ahead_the_losses_are_those_of_the_law_at_such_a_length(course: Any) -> None:
    """Also with powers of the learning rate: its areas grow as their own means, not as that of the rate."""
    posterior = lab_posterior()
    (draws,) = law_draws(posterior, 20)
    assert "rho" in draws.coefficients
    # Its level has settled at the end, so that areas alone go on.
    schedule = cosine(2000, 2e-3, 1e-3) + constant(10_000, 1e-3)
    trial = Trial.of(posterior, practice(), practice().run("r25_cos_12k"))
    trial = trial.with_schedule(schedule)
    horizon = 96_000
    steps, changes = _changes(draws, trial, course, horizon)
    place = int(np.searchsorted(steps, 2.5 * horizon))
    length = round(steps[place])
    assert length > 2 * horizon
    longer = held(trial.run, length) if course == "held" else schedule.stretched(length)
    ends = trial_losses(draws, [trial.with_schedule(longer)], [[0, length]])[:, 0]
    np.testing.assert_allclose(changes[..., place], ends[..., 1] - ends[..., 0], rtol=0, atol=1e-5)
