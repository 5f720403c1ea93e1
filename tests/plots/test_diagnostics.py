import pytest
from figures import check_figure
from synthetic import lab_posterior

from bayes_cpt import plots


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
