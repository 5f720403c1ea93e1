"""Figures inside a page: as SVG in the text itself, so that the page is one file."""

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# The same figure gives the same bytes.
SETTINGS = {"svg.hashsalt": "bayes_cpt"}
PIXELS_PER_INCH = 96
# Of parts with more points than are worth a path each.
DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Drawing:
    """A figure of a page.

    Parameters
    ----------
    source : str
        Address that holds the figure itself.
    width, height : int
        Pixels of a screen.
    alternative : str
        What it shows, for those who do not see it.
    caption : str
        What is drawn, bands and their mass included.
    """

    source: str
    width: int
    height: int
    alternative: str
    caption: str

    @classmethod
    def of(cls, figure: "Figure", alternative: str, caption: str) -> Self:
        """Return a drawing of a figure.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            Its backgrounds are transparent from then on.
        alternative, caption : str
        """
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        buffer = io.BytesIO()
        # Transparent: the page's own background shows, light or dark.
        parts: list[Figure | SubFigure | Axes] = [figure, *figure.subfigs, *figure.axes]
        for part in parts:
            part.patch.set(facecolor="none", edgecolor="none")
        with mpl.rc_context(SETTINGS):
            # By the canvas: Figure.savefig lays a figure out twice and draws it twice.
            figure.set_dpi(DOTS_PER_INCH)
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
        text = base64.b64encode(buffer.getvalue()).decode("ascii")
        width, height = (round(PIXELS_PER_INCH * inches) for inches in figure.get_size_inches())
        return cls(f"data:image/svg+xml;base64,{text}", width, height, alternative, caption)
