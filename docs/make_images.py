"""Draw the pictures of the README from a fit of the bundled study.

Run ``python docs/make_images.py FIT``, with the file of ``bayes-cpt fit data/cpt-lab -o FIT``.
"""

import argparse
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

import bayes_cpt
from bayes_cpt import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
PRACTICE = ROOT / "tests" / "data" / "cpt-lab-practice"
COLOURS = 128


def main() -> None:
    """Write fitted.png, forecast.png and decision.png."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the README.")
    parser.add_argument("fit", type=Path, help="a fit of data/cpt-lab")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    posterior = bayes_cpt.load(arguments.fit)
    practice = bayes_cpt.read_study(PRACTICE)
    # The losses of these runs are drawn, and are nowhere else used.
    bands = posterior.predict(practice.without_losses())
    arguments.output.mkdir(parents=True, exist_ok=True)
    save(plots.fitted(posterior), arguments.output / "fitted.png")
    save(plots.forecast(posterior, bands, practice), arguments.output / "forecast.png")
    save(bayes_cpt.decide(posterior, "balanced").plot(), arguments.output / "decision.png")


def save(figure: "Figure", path: Path) -> None:
    """Write a PNG with a palette, a third of the size of one without."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    drawn.seek(0)
    image = Image.open(drawn).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
