import numpy as np
from figures import band_edges, check_figure, legend_texts
from synthetic import lab_posterior, practice

from bayes_cpt import plots
from bayes_cpt.landmarks import decompose


def test_a_column_per_validation_set_with_the_loss_above_its_parts() -> None:
    figure = plots.decomposition(lab_posterior(), practice(), "r25_cos_12k")
    assert len(figure.axes) == 4
    assert figure.axes[0].get_ylabel() == "validation loss (nats/token)"
    assert figure.axes[1].get_ylabel() == "added to the base (nats/token)"
    assert figure.axes[3].get_xlabel() == "CPT step (square-root axis)"
    assert set(legend_texts(figure)) == {
        "expected loss",
        "base: forward area and PT annealing",
        "CPT annealing",
        "distribution shift",
        "adaptation",
        "base offset",
        "90 % credible band",
    }
    check_figure(figure)


def test_what_is_drawn_are_medians_of_the_parts_inside_their_bands() -> None:
    figure = plots.decomposition(lab_posterior(), practice(), "r25_cos_12k")
    parts = decompose(lab_posterior(), practice(), ["r25_cos_12k"]).isel(run=0).sel(domain="kernel")
    upper, lower = figure.axes[2], figure.axes[3]
    np.testing.assert_allclose(
        np.asarray(upper.lines[0].get_ydata()), parts["expected"].median("draw")
    )
    base = (parts["power"] + parts["annealing_pt"]).median("draw")
    np.testing.assert_allclose(np.asarray(upper.lines[1].get_ydata()), base)
    # The first line is the zero.
    for k, name in enumerate(["annealing_cpt", "shift", "adaptation", "base_offset"]):
        steps, median = (np.asarray(part) for part in lower.lines[k + 1].get_data())
        np.testing.assert_allclose(median, parts[name].median("draw"))
        low, high = band_edges(lower, k, steps)
        assert (low <= median).all()
        assert (median <= high).all()


def test_the_first_cpt_run_is_taken_where_none_is_named() -> None:
    assert "of r00_const is" in plots.decomposition(lab_posterior()).get_suptitle()
    figure = plots.decomposition(lab_posterior(), practice())
    assert f"of {practice().runs[0].name} is" in figure.get_suptitle()


def test_a_law_without_transfer_shows_only_its_own_terms() -> None:
    figure = plots.decomposition(lab_posterior("pretrain"), run="pt_cosine")
    parts = ["expected loss", "base: forward area and PT annealing"]
    assert legend_texts(figure) == [*parts, "90 % credible band"]
    assert len(figure.axes) == 1
    assert figure.axes[0].get_xlabel() == "PT step (square-root axis)"
    check_figure(figure)
