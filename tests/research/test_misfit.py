import numpy as np
import pandas as pd
import pytest
from figures import check_figure, legend_texts
from synthetic import lab, lab_posterior, practice
from testbench.misfit import STAGES, draw_residuals, staged, stages, systematic

from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import constant, cosine, warmup_stable_decay


def test_stages_follow_the_schedule() -> None:
    stable = warmup_stable_decay(1000, 2e-3, warmup_steps=100, decay_steps=200)
    rewarmed = Run("run", "cpt", stable, base="base", replay=0.0)
    steps = np.array([1, 100, 101, 800, 821, 959, 961, 1000])
    expected = [*["re-warm-up"] * 2, *["plateau"] * 2, *["decay"] * 2, *["end of decay"] * 2]
    assert list(stages(rewarmed, steps)) == expected
    straight = Run("run", "cpt", cosine(1000, 2e-3), base="base", replay=0.0)
    assert list(stages(straight, np.array([50, 51, 500, 1000]))) == [
        "start", "plateau", "decay", "end of decay",
    ]  # fmt: skip
    flat = Run("run", "cpt", constant(1000, 2e-3), base="base", replay=0.0)
    assert set(stages(flat, np.arange(1, 1001))) == {"start", "plateau"}


def test_a_lean_is_told_from_scatter_by_the_runs_not_the_points() -> None:
    rows = [
        (f"run {k}", "general", stage, sign * size)
        for k, size in enumerate((0.9, 1.0, 1.1, 1.0))
        for stage, sign in (("start", 1.0), ("decay", (-1.0) ** k))
        for _ in range(50)
    ]
    table = pd.DataFrame(rows, columns=["run", "domain", "stage", "residual"])
    found = systematic(table).set_index("stage")
    assert found.loc["start", "mean"] == pytest.approx(1.0)
    assert found.loc["start", "error"] == pytest.approx(np.std([0.9, 1.0, 1.1, 1.0], ddof=1) / 2.0)
    assert found.loc["start", "runs"] == 4
    assert found.loc["start", "systematic"]
    assert not found.loc["decay", "systematic"]
    assert found.loc["decay", "size"] == pytest.approx(
        np.sqrt(np.mean(np.square([0.9, 1.0, 1.1, 1.0])))
    )
    alone = systematic(table[table["run"] == "run 0"]).set_index("stage")
    assert np.isnan(alone.loc["start", "error"])
    assert not alone["systematic"].any()


def test_each_run_is_a_line_of_its_residuals() -> None:
    posterior = lab_posterior()
    figure = draw_residuals(posterior)
    table = staged(posterior)
    names = [run.name for run in lab().continual_runs]
    for axes, domain in zip(figure.axes[:2], posterior.frame.domains, strict=True):
        assert axes.get_title() == f"validation set: {domain}"
        for line, name in zip(axes.lines, names, strict=False):
            own = table[(table["run"] == name) & (table["domain"] == domain)]
            np.testing.assert_array_equal(line.get_xdata(), own["step"])
            np.testing.assert_allclose(np.asarray(line.get_ydata()), own["residual"])
    words = [text.get_text().replace("\n", " ") for text in figure.axes[2].get_xticklabels()]
    assert words == list(STAGES)
    assert "beyond the fitted steps" not in legend_texts(figure)
    check_figure(figure)


def test_held_out_runs_show_what_lies_beyond_the_fit() -> None:
    figure = draw_residuals(lab_posterior(), practice())
    assert len(figure.axes[0].lines) == len(practice().continual_runs) + 5
    assert "beyond the fitted steps" in legend_texts(figure)
    check_figure(figure)
