from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from printed import COEFFICIENTS, PEAK, pretraining, printed_posterior, stepwise_losses, study
from strategies import schedules
from synthetic import lab, lab_posterior, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks import Response, base_response, loss_potential_response, peak_response
from bayes_cpt.landmarks.responses import main_run
from bayes_cpt.landmarks.trials import at_its_peak, held, rewarmed, started_at
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear


def rewarming(share: float, from_share: float, *, steps: int = 2000) -> Schedule:
    return cosine(steps, share * PEAK, warmup_steps=100, start=from_share * PEAK)


# What is asked, the printed set that answers, and bases and runs of the answers one by one.
BY_HAND: dict[str, tuple[Callable[[], Response], str, list[tuple[Schedule, Schedule]]]] = {
    # A base that is annealed to 0 has no learning rate to go on at.
    "loss potentials, without a re-warm-up": (
        lambda: loss_potential_response(
            printed_posterior("moderate"),
            study(linear(2000, PEAK, 0.0)),
            rewarmed_to_peak=False,
            potentials=[0.0, 0.3, 1.0],
        ),
        "moderate",
        [(pretraining(40_000, p), linear(2000, p * PEAK, 0.0)) for p in (0.3, 1.0)],
    ),
    "loss potentials, with one to the run's peak": (
        lambda: loss_potential_response(
            printed_posterior("strong"),
            study(rewarming(0.5, 0.0)),
            rewarmed_to_peak=True,
            potentials=[0.0, 0.5],
        ),
        "strong",
        [(pretraining(40_000, p), rewarming(0.5, p)) for p in (0.0, 0.5)],
    ),
    "peaks, from the base": (
        lambda: peak_response(
            printed_posterior("moderate"),
            study(rewarming(1.0, 0.0), pretraining(40_000, 0.1)),
            peaks=[0.5 * PEAK, 0.9 * PEAK],
        ),
        "moderate",
        [(pretraining(40_000, 0.1), rewarming(share, 0.1)) for share in (0.5, 0.9)],
    ),
}


@pytest.mark.parametrize("asked", BY_HAND)
def test_responses_are_steps_summed_by_hand(asked: str) -> None:
    respond, shift, runs = BY_HAND[asked]
    draws = respond().draws
    assert draws.sizes["value"] == len(runs)
    for domain, own in enumerate(COEFFICIENTS[shift]):
        expected = np.array([stepwise_losses(own, *run)[[0, -1]] for run in runs]).T
        for name, losses in zip(("start", "loss"), expected, strict=True):
            np.testing.assert_allclose(draws[name][0, :, domain], losses, rtol=0, atol=1e-9)


def test_bases_bring_their_measured_losses() -> None:
    found = base_response(lab_posterior(), practice(), "r60_lin05_a0_8k", draws=40)
    names = [base.name for base in lab().bases]
    assert found.draws["value"].to_numpy().tolist() == names
    assert names[found.reference] == "annealed_0pct"
    for i, name in enumerate(names):
        measured = [lab().base_loss(name, domain) for domain in ("general", "kernel")]
        start = found.draws["start"][:, i].to_numpy()
        np.testing.assert_allclose(start, np.tile(measured, (40, 1)), atol=1e-8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "respond",
    [
        lambda: loss_potential_response(lab_posterior(), rewarmed_to_peak=True, draws=40),
        lambda: peak_response(lab_posterior(), practice(), draws=40),
        lambda: base_response(lab_posterior(), practice(), draws=40),
    ],
)
def test_tables_compare_draw_by_draw(respond: Callable[[], Response]) -> None:
    found = respond()
    table = found.table(0.8)
    loss = found.draws["loss"].to_numpy()
    for domain, rows in enumerate(("general", "kernel")):
        own = table[table["domain"] == rows]
        gaps = loss[:, :, domain] - loss[:, [found.reference], domain]
        np.testing.assert_allclose(own["difference"], np.median(gaps, axis=0))
        np.testing.assert_allclose(own["difference_upper"], np.quantile(gaps, 0.9, axis=0))
        np.testing.assert_allclose(own["lower_than_reference"], (gaps < 0).mean(axis=0))
        assert own["difference"].iloc[found.reference] == 0.0
        assert own["best"].sum() == pytest.approx(1.0)


def test_values_outside_what_was_studied_are_said_so() -> None:
    table = peak_response(lab_posterior(), practice(), peaks=[1e-4, 1e-3], draws=10).table()
    notes = table[table["domain"] == "kernel"]["outside"].tolist()
    assert notes == ["peak LR 0.0001, studied 0.0006 to 0.002", ""]


def test_the_peaks_that_runs_tried_are_among_those_compared() -> None:
    tried = {run.schedule.peak for run in lab().continual_runs}
    values = peak_response(lab_posterior(), draws=10).draws["value"].to_numpy()
    assert tried <= set(values)
    assert (values[1:] / values[:-1]).min() > 1.1


def test_the_run_that_is_varied_is_the_first_that_anneals() -> None:
    assert main_run(lab_posterior(), None, None)[1].name == "r00_cos"
    assert main_run(lab_posterior(), practice(), None)[1].name == practice().runs[0].name
    assert main_run(lab_posterior(), None, "r00_const")[1].name == "r00_const"
    with pytest.raises(StudyError, match="no run 'r99'"):
        main_run(lab_posterior(), None, "r99")


def test_loss_potentials_are_shares() -> None:
    with pytest.raises(ValueError, match="give shares from 0 to 1"):
        loss_potential_response(lab_posterior(), rewarmed_to_peak=True, potentials=[2e-3, 1.2])


def cpt(schedule: Schedule) -> Run:
    return Run("run", "cpt", schedule, base="base", replay=0.25)


def test_a_run_that_falls_to_its_own_peak_at_first_is_led_there_from_any_base() -> None:
    schedule = linear(60, 2e-3, 8e-4) + linear(940, 8e-4, 0.0)
    assert rewarmed(cpt(schedule), 2e-3, 8e-4) == schedule
    assert rewarmed(cpt(schedule), 0.0, 8e-4) == linear(60, 0.0, 8e-4) + linear(940, 8e-4, 0.0)
    assert started_at(cpt(schedule), 2e-3) == linear(1000, 2e-3, 0.0)
    assert held(cpt(schedule), 5000) == linear(60, 2e-3, 8e-4) + constant(4940, 8e-4)


@given(schedules())
def test_a_rewarmed_run_keeps_its_length_and_peaks_after_its_warmup(
    schedule: Schedule,
) -> None:
    run = rewarmed(cpt(schedule), 1e-5, 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)
    approach = cpt(schedule).approach_steps
    if 0 < approach < schedule.steps:
        assert run.learning_rates()[approach - 1] == pytest.approx(3e-3)


@given(schedules())
def test_a_started_run_has_its_own_length_and_no_warmup(schedule: Schedule) -> None:
    run = started_at(cpt(schedule), 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)


def test_a_run_without_a_warmup_gets_a_fortieth() -> None:
    for steps, warmup in ((1000, 25), (3, 1)):
        assert rewarmed(cpt(linear(steps, 2e-3, 0.0)), 0.0, 1e-3).warmup_steps == warmup


def test_a_run_that_only_rises_is_held_at_its_peak() -> None:
    assert at_its_peak(cpt(linear(50, 0.0, 1e-3))) == constant(50, 1e-3)


def test_the_warmup_of_a_log_is_cut_off() -> None:
    log = Schedule.from_log([1, 2, 3, 4, 5], [1e-4, 2e-4, 3e-4, 2e-4, 1e-4])
    np.testing.assert_allclose(at_its_peak(cpt(log)).learning_rates(), [2e-4, 1e-4])
