from pathlib import Path

import numpy as np
from figures import check_figure, legend_texts
from synthetic import lab, lab_posterior

from bayes_cpt import plots
from bayes_cpt.forecast.quality import STAGES, residuals
from bayes_cpt.study.folder import read_study

PRACTICE = Path(__file__).parents[1] / "data" / "cpt-lab-practice"


def test_each_run_is_a_line_of_its_residuals() -> None:
    posterior = lab_posterior()
    figure = plots.residuals(posterior)
    table = residuals(posterior)
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


def test_other_runs_show_what_lies_beyond_the_fit() -> None:
    practice = read_study(PRACTICE)
    figure = plots.residuals(lab_posterior(), practice)
    assert len(figure.axes[0].lines) == len(practice.continual_runs) + 5
    assert "beyond the fitted steps" in legend_texts(figure)
    check_figure(figure)
