import numpy as np
import pytest
from figures import check_figure, legend_texts
from synthetic import lab_posterior

from bayes_cpt import plots
from bayes_cpt.decisions.next_run import Affordable, RunValues, next_run

SPACE = {"bases": "stable_12k", "relative_peak": 1.0}


def values(count: int, **options: object) -> RunValues:
    posterior = lab_posterior()
    every = Affordable.default(posterior.frame, posterior.study, 60)
    runs = Affordable(every.plan.subset([run.name for run in every.plan.runs[:count]]))
    return next_run(posterior, "balanced", SPACE, runs, draws=80, candidates=16, **options)  # type: ignore[arg-type]


def test_the_best_runs_are_drawn_from_the_top() -> None:
    found = values(18)
    figure = plots.next_run(found)
    worth, told, _ = figure.axes
    labels = [text.get_text() for text in worth.get_yticklabels()]
    assert labels == found.order[:16]
    dots = next(line for line in worth.lines if line.get_marker() == "o")
    expected = found.table()["per_1000_steps"].to_numpy()[:16]
    # What is not above 0 lies at the edge of the logarithmic axis.
    low = worth.get_xlim()[0]
    np.testing.assert_allclose(np.asarray(dots.get_xdata()), np.maximum(expected, low))
    notes = [text.get_text() for text in worth.texts if text.get_text().endswith(("%", "free"))]
    assert len(notes) == 16
    hurdles = (
        found.table()["hurdle"].to_numpy()[:16] * expected / found.table()["value"].to_numpy()[:16]
    )
    for note, own, price in zip(notes, expected, hurdles, strict=True):
        if note[0].isdigit():
            assert float(note.removesuffix(" %")) == pytest.approx(
                100 * own / price, rel=0.1, abs=0.06
            )
    shares = np.asarray(told.collections[0].get_array()).reshape(16, -1)
    effects = [i for i, (name, _) in enumerate(found.quantities) if name.endswith("_effect")]
    best = 100 * np.clip(found.told[found.order[0]].share[effects], 0, 1)
    assert np.isin(np.round(best, 9), np.round(shares[-1], 9)).all()
    assert "value, ± 2 Monte Carlo errors" in legend_texts(figure)
    check_figure(figure)


def test_one_run_and_one_quantity_make_a_figure() -> None:
    check_figure(plots.next_run(values(1, about=["lambda"])))
