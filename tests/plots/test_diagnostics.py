import numpy as np
import pytest
from figures import check_figure, drawn_texts
from synthetic import lab_posterior

from bayes_cpt import plots


def test_ridges_are_pairs_of_draws() -> None:
    posterior = lab_posterior()
    figure = plots.ridges(posterior, "general")
    names = ["A", "alpha", "E", "beta", "C2", "C1"]
    pairs = [axes for axes in figure.axes if axes.collections]
    assert len(pairs) == len(names) * (len(names) - 1) // 2
    first = np.vstack([np.asarray(part.get_offsets()) for part in pairs[0].collections])
    drawn = [np.log10(posterior.draws(name, "general")).ravel() for name in names[:2]]
    np.testing.assert_allclose(first, np.column_stack(drawn))
    assert {f"log {name}" for name in names} <= {text.get_text() for text in drawn_texts(figure)}
    assert plots.ridges(posterior).get_suptitle().startswith("Ridges of cpt-replay on kernel")
    check_figure(figure)


def test_what_a_law_fixes_is_on_no_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = lab_posterior()
    draws = posterior.draws
    monkeypatch.setattr(
        type(posterior), "draws", lambda self, name, on: draws(name, on) ** (name != "alpha")
    )
    drawn = {text.get_text() for text in drawn_texts(plots.ridges(posterior, "general"))}
    assert {"log A", "log alpha"}.isdisjoint(drawn)
    assert "log beta" in drawn


def test_ranks_are_those_of_the_parameters_with_the_largest_rhat() -> None:
    posterior = lab_posterior()
    figure = plots.sampling(posterior)
    table = posterior.summary()
    worst = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False).head(3)
    titles = [axes.get_title() for axes in figure.axes]
    assert [float(title.split()[-1]) for title in titles] == pytest.approx(
        worst["r_hat"].to_list(), abs=6e-4
    )
    assert all(len(axes.lines) >= 4 for axes in figure.axes)
    check_figure(figure)
