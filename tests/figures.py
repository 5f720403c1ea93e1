"""What every figure owes its reader, checked on what is drawn."""

import re

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bayes_cpt import plots
from bayes_cpt.arrays import Floats

EDGE = 1.0
# What a band or an interval may be of: its mass alone does not say.
KINDS = (
    "credible", "predictive", "posterior", "of prior draws", "uniform", "inside the", "all at once",
    "this quantity",
)  # fmt: skip


# Scales that are not linear, and the word by which a figure says so.
SCALES = {"log": "log", "symlog": "symmetric", "function": "square-root"}


def draw_nothing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave figures empty, all or some by name: what they show is asked where figures are tested."""
    for name in names or plots.__all__:
        monkeypatch.setattr(plots, name, lambda *_, **__: Figure())


def check_figure(figure: Figure) -> None:
    """Fail where axes are empty or hide their scale, text is cut off or covered, or a band says no kind."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    assert figure.axes
    for axes in figure.axes:
        assert axes.lines or axes.collections or axes.patches, "empty axes"
    for legend in figure.legends:
        for entry in (text.get_text() for text in legend.get_texts()):
            if re.search(r"\d %", entry):
                assert any(kind in entry for kind in KINDS), f"{entry!r} does not say of what"
    texts = drawn_texts(figure)
    words = " ".join(text.get_text() for text in texts)
    for scale in {own for axes in figure.axes for own in (axes.get_xscale(), axes.get_yscale())}:
        assert scale == "linear" or SCALES[scale] in words, f"no word says that axes are {scale}"
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]
    whole = figure.bbox.padded(EDGE)
    for name, box in boxes:
        assert Bbox.union([whole, box]).bounds == whole.bounds, f"{name!r} is cut off"
    for i, (name, box) in enumerate(boxes):
        for other, its in boxes[:i]:
            width = min(box.x1, its.x1) - max(box.x0, its.x0)
            height = min(box.y1, its.y1) - max(box.y0, its.y0)
            # Boxes hold room for descenders: a line of text may reach a little into its neighbour's.
            overlaps = width > EDGE and height > 0.25 * min(box.height, its.height)
            assert not overlaps, f"{name!r} lies over {other!r}"


def drawn_texts(figure: Figure) -> list[Text]:
    """Return the texts that a reader sees."""
    ticks = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not _shown(axes, tick.get_loc(), axis is axes.xaxis)
    }
    return [
        item
        for item in figure.findobj(Text)
        if item.get_visible() and item.get_text().strip() and item not in ticks
    ]


def _shown(axes: Axes, place: float, horizontal: bool) -> bool:
    low, high = sorted(axes.get_xlim() if horizontal else axes.get_ylim())
    return low <= place <= high


def band_edges(axes: Axes, index: int, steps: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper edge of the axes' band of that index at some of its steps."""
    bands = [item for item in axes.collections if isinstance(item, FillBetweenPolyCollection)]
    vertices = np.asarray(bands[index].get_paths()[0].vertices)
    edges = [vertices[vertices[:, 0] == step, 1] for step in steps]
    return np.array([edge.min() for edge in edges]), np.array([edge.max() for edge in edges])


def dots_of(axes: Axes) -> Floats:
    """Return the measured points drawn in the axes, shape (points, 2)."""
    found = [item.get_offsets() for item in axes.collections if isinstance(item, PathCollection)]
    return np.concatenate([np.asarray(offsets) for offsets in found]) if found else np.empty((0, 2))


def legend_texts(figure: Figure) -> list[str]:
    """Return the entries of the figure's legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]
