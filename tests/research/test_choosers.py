from dataclasses import replace

import numpy as np
import pytest
from testbench.choosers import gaussian_process, plug_in
from testbench.short_studies import LONG, PEAK, blank, design, package_noise, simulated_study
from testbench.simulation import TRUTH
from testbench.truths import draw_truth

from bayes_cpt.study.study import Study
from bayes_cpt.validate import baselines
from bayes_cpt.validate.baselines import inputs_of, printed_losses


@pytest.fixture(scope="module")
def study() -> Study:
    frame, _ = design()
    truth = draw_truth(frame, "moderate", np.random.default_rng(1))
    return simulated_study(frame, truth, package_noise, np.random.default_rng(2))


def test_the_plug_in_is_the_fitted_law_at_the_end_of_each_choice(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, choices = design()
    truths = iter(TRUTH.values())
    monkeypatch.setattr(baselines.PointFit, "from_many_starts", lambda *_: next(truths))
    runs = [choices.run(row, f"choice {row}") for row in (0, 123)]
    found = plug_in(study, blank(tuple(runs)), runs, 0)
    assert found.shape == (2, 2)
    inputs = inputs_of(blank((runs[1],)), runs[1], [LONG])
    for index, is_target in enumerate((False, True)):
        expected = printed_losses(TRUTH[is_target], inputs, is_target=is_target)
        assert found[index, 1] == pytest.approx(expected.item())


# General loss falls in this made-up trend, which the package finds odd.
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
def test_the_gaussian_process_follows_a_trend_beyond_the_measured_steps(study: Study) -> None:
    pytest.importorskip("sklearn")
    _, choices = design()
    runs = {run.name: run for run in study.continual_runs}
    losses = study.losses.copy()
    for place, row in losses.iterrows():
        if row["run"] in runs and row["step"] > 0:
            run = runs[row["run"]]
            falls = 0.1 * np.log(row["step"]) + 0.05 * np.log(run.schedule.peak / PEAK)
            losses.loc[place, "loss"] = 3.0 + 0.3 * float(run.replay or 0.0) - falls
    asked = [choices.run(row, f"choice {row}") for row in range(len(choices))]
    found = gaussian_process(replace(study, losses=losses), blank(tuple(asked)), asked, 0)
    replay, peak = choices.column("replay"), np.log(choices.column("relative_peak"))
    expected = 3.0 + 0.3 * replay - 0.1 * np.log(LONG) - 0.05 * peak
    np.testing.assert_allclose(found, np.stack([expected, expected]), atol=0.01)
