"""Draw the pictures of the README and of docs/results/misfit.md from fits of the bundled study.

Run ``PYTHONPATH=research python docs/make_images.py FIT PRINTED``, with the files of ``bayes-cpt fit
data/cpt-lab -o FIT`` and ``bayes-cpt fit data/cpt-lab --model cpt-replay-printed -o PRINTED``.
"""

import argparse
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from PIL import Image
from testbench.misfit import STAGES, draw_residuals, staged, systematic

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.plots.curves import log_forecast
from bayes_cpt.watch.log_forecast import forecast_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

ROOT = Path(__file__).parent.parent
PRACTICE = ROOT / "tests" / "data" / "cpt-lab-practice"
COLOURS = 128


def main() -> None:
    """Write the pictures, and print the table of docs/results/misfit.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("fit", type=Path, help="a fit of data/cpt-lab")
    parser.add_argument("printed", type=Path, help="one by the model cpt-replay-printed")
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
    save(one_log(), arguments.output / "one-log.png")
    printed = bayes_cpt.load(arguments.printed)
    save(draw_residuals(posterior), arguments.output / "misfit.png")
    save(draw_residuals(printed), arguments.output / "misfit-printed.png")
    save(draw_residuals(posterior, practice), arguments.output / "misfit-beyond.png")
    fits = {"the printed law": printed, "cpt-replay": posterior}
    sys.stdout.write(misfit_table(fits, {"fitted runs": None, "practice runs": practice}))


def one_log() -> "Figure":
    """Return the forecast of a run by the first 40 % of its log, with what it showed later."""
    study = bayes_cpt.read_study(ROOT / "data" / "public" / "delphi" / "9e19")
    run = study.run("p50m50_lr33")
    rows = study.losses[study.losses["run"] == run.name][["step", "domain", "loss"]]
    seen = rows["step"] <= 0.4 * run.schedule.steps
    told = list(rows[seen].itertuples(index=False, name=None))
    found = forecast_run(run, told, int(rows[seen]["step"].max()))
    figure = log_forecast(found)
    later = rows[~seen]
    for axes, domain in zip(figure.axes, found.on_priors, strict=False):
        own = later[later["domain"] == domain]
        axes.plot(own["step"], own["loss"], "ko", markerfacecolor="none", markersize=4)
    return figure


def misfit_table(fits: "dict[str, Posterior]", studies: "dict[str, Study | None]") -> str:
    """Return the mean residuals of each stage as a Markdown table, mnat."""
    columns = {}
    for study_name, study in studies.items():
        for name, posterior in fits.items():
            found = systematic(staged(posterior, study))
            mean, error = (1000.0 * found[key] for key in ("mean", "error"))
            cells = mean.map("{:+.0f}".format) + " ± " + error.map("{:.0f}".format)
            cells = cells.where(error.notna(), mean.map("{:+.0f} (one run)".format))
            cells = cells.where(~found["systematic"], "**" + cells + "**")
            places = pd.MultiIndex.from_frame(found[["domain", "stage"]])
            columns[f"{study_name}, {name}"] = pd.Series(cells.to_numpy(), index=places)
    table = pd.DataFrame(columns)
    lines = [
        f"| loss | part of the run | {' | '.join(table.columns)} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for domain in dict.fromkeys(place[0] for place in table.index):
        for stage in STAGES:
            if (domain, stage) in table.index:
                row = table.loc[(domain, stage)].fillna("")
                lines.append(f"| {domain} | {stage} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def save(figure: "Figure", path: Path) -> None:
    """Write a PNG with a palette, a third of the size of one without."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    drawn.seek(0)
    image = Image.open(drawn).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


if __name__ == "__main__":
    main()
