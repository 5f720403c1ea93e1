"""`bayes-cpt demo`: the whole way on the bundled study."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_cpt.cli.fit import fit_and_save
from bayes_cpt.cli.predict import write_and_show
from bayes_cpt.cli.shared.console import Output
from bayes_cpt.cli.shared.options import Json, Quiet, Seed, option
from bayes_cpt.cli.shared.outputs import make_folder, save_figure, writing
from bayes_cpt.files import replacing

MODEL = "cpt-replay"
INTERVAL = 0.9
FILES = ("fit.nc", "forecast.csv", "forecast.png", "fitted.png")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write into.")
    ] = Path("bayes-cpt-demo"),
    seed: Seed = 0,
    draws: Annotated[
        int | None, option(None, "Draws kept in each of the four chains.", default="1000", min=10)
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Fit the bundled study and predict two runs that it does not have.

    The study is cpt-lab: ten short continual pre-training runs of a small transformer, from English
    prose to kernel documentation and C. The plan is a launch four times as long as any of them, and
    one re-warmed from an annealed checkpoint. FOLDER gets fit.nc, forecast.csv, forecast.png (the
    predicted curves) and fitted.png (the fitted ones), and the plan, plan-example.toml, to play with.

    \b
    Example:
    bayes-cpt demo -o bayes-cpt-demo

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  the folder cannot be written
    """
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.study.readers.folder import read_study

    written = Output(quiet, json)
    make_folder(output)
    with written.cautions():
        study = read_study(bundled_study())
    with writing(output / "plan-example.toml"), replacing(output / "plan-example.toml") as partial:
        partial.write_bytes((bundled_study() / "plan-example.toml").read_bytes())
    posterior, fitted = fit_and_save(written, study, MODEL, seed, output / "fit.nc", draws)
    from bayes_cpt import plots
    from bayes_cpt.forecast.bands import bands

    written.text()
    plan = output / "plan-example.toml"
    dataset = posterior.predict(plan, seed=seed)
    forecast_bands = bands(posterior, plan, seed=seed, interval=INTERVAL)
    forecast = write_and_show(written, posterior, forecast_bands, output / "forecast.csv")
    figures = {
        "forecast.png": plots.forecast(posterior, dataset),
        "fitted.png": plots.fitted(posterior),
    }
    for name, figure in figures.items():
        save_figure(figure, output / name)
        written.text(f"Written to {output / name}")
    written.text(f"The plan, to change and predict again: {output / 'plan-example.toml'}")
    files = {name: str(output / name) for name in (*FILES, "plan-example.toml")}
    written.result({"fit": fitted, "forecast": forecast, "files": files})
    return 0 if posterior.trustworthy else 1
