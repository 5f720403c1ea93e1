import numpy as np
import pandas as pd
import pytest
from figures import check_figure
from synthetic import lab

from bayes_cpt import plots
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import STACK, LawScores

LAWS = ("one", "other")
RUNS = ["a", "b", "c", "d"]


def scores() -> LawScores:
    generator = np.random.default_rng(1)
    log_scores = pd.DataFrame(generator.normal(size=(4, 3)), columns=[*LAWS, STACK])
    log_scores["one"] += 5.0
    points = pd.concat(
        pd.DataFrame(
            {
                "fold": RUNS,
                "run": RUNS,
                "method": method,
                "seen": 0.0,
                "crps": generator.uniform(0.01, 0.02, 4),
                "covered_50": 0.5,
                "covered_90": generator.uniform(0.8, 1.0, 4),
                "width_90": 0.1,
            }
        )
        for method in (*LAWS, STACK)
    )
    return LawScores(
        laws=LAWS,
        points=points,
        log_scores=log_scores.assign(fold=RUNS, run=RUNS, seen=0.0),
        refits=pd.DataFrame({"trustworthy": [True]}),
        weights={"one": 0.8, "other": 0.2},
        fold_weights=pd.DataFrame({"one": 0.8, "other": 0.2}, index=RUNS),
        effective_draws=20.0,
    )


def test_a_row_per_law_and_a_dot_per_run() -> None:
    own = scores()
    figure = plots.comparison(Comparison(lab(), 0, {}, "no reason", own))
    check_figure(figure)
    left, right = figure.axes
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert labels == ["one\n80 % of the stack", "other\n20 % of the stack", STACK]
    dots = [line for line in left.lines if line.get_marker() == "."]
    gaps = own.log_scores["other"] - own.log_scores["one"]
    np.testing.assert_allclose(np.asarray(dots[1].get_xdata(), dtype=np.float64), gaps)
    assert "one" in right.get_title()
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["one run left out", "mean, ± 1 standard error"]
    with pytest.raises(ValueError, match="no run was left out"):
        plots.comparison(Comparison(lab(), 0, {}, "no reason", None))
