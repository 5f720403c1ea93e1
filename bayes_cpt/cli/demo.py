"""`bayes-cpt demo`: the whole way on the bundled study."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_cpt.cli.fit import fit_and_save, show_fit
from bayes_cpt.cli.options import FitDraws, Json, Quiet, Seed
from bayes_cpt.cli.output import Output, OutputFile, make_folder, save_figure, write
from bayes_cpt.cli.predict import show_forecast, write_forecast

FILES = ("fit.nc", "forecast.csv", "forecast.png", "fitted.png", "plan-example.toml")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write into.")
    ] = Path("bayes-cpt-demo"),
    seed: Seed = 0,
    draws: FitDraws = None,
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
    from bayes_cpt.study.folder import read_study

    written = Output(quiet, json)
    make_folder(output)
    with written.cautions():
        study = read_study(bundled_study())
    plan = output / "plan-example.toml"
    write(plan, (bundled_study() / plan.name).read_text(encoding="utf-8"))
    file = OutputFile(output / "fit.nc", (".nc",))
    posterior, fitted = fit_and_save(written, study, "cpt-replay", seed, file, draws)
    from bayes_cpt import plots
    from bayes_cpt.forecast.bands import bands

    dataset = posterior.predict(plan, seed=seed)
    target = OutputFile(output / "forecast.csv", (".csv",))
    forecast = write_forecast(posterior, bands(posterior, plan, seed=seed), target)
    save_figure(plots.forecast(posterior, dataset), output / "forecast.png")
    save_figure(plots.fitted(posterior), output / "fitted.png")
    show_fit(written, posterior, fitted, verbose=False)
    written.text()
    show_forecast(written, posterior, forecast)
    written.text(
        f"\nWritten to {output}: {', '.join(FILES)}. Change the plan and predict it again."
    )
    files = {name: str(output / name) for name in FILES}
    written.result({"fit": fitted, "forecast": forecast, "files": files})
    return 0 if posterior.trustworthy else 1
