"""`bayes-cpt demo`: the whole way on the bundled study."""

from functools import partial
from pathlib import Path
from shlex import quote

import bayes_cpt
from bayes_cpt.cli.fit import fit_and_save
from bayes_cpt.cli.options import ChainDraws, command
from bayes_cpt.cli.output import Answer, Output, OutputFile, Results, write_numbers
from bayes_cpt.cli.predict import forecast


@command
def demo(
    written: Output,
    *,
    output: Path = Path("bayes-cpt-demo"),
    seed: int = 0,
    draws: ChainDraws = None,
) -> Answer:
    r"""Fit the bundled study, check its forecasts on three held-out runs, and predict two planned ones.

    The study is cpt-lab: ten short continual pre-training runs of a small transformer, from English
    prose to kernel documentation and C. FOLDER gets fit.nc; checked.png, forecasts of three longer,
    held-out runs beside their measured losses; forecast.csv and forecast.png, of a run four times as long
    as any fitted one and of one re-warmed from an annealed checkpoint; fitted.png, the fitted curves; and
    their plan, plan-example.toml, to edit.

    \b
    Example:
    bayes-cpt demo -o bayes-cpt-demo

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  the folder cannot be written

    Parameters
    ----------
    output : FOLDER
        Folder to write into.
    """
    from bayes_cpt.bundled import held_out_runs

    results = Results(output)
    source = bayes_cpt.bundled_study()
    plan = source / "plan-example.toml"
    results.write(plan.name, plan.read_text(encoding="utf-8"))
    file = OutputFile(output / "fit.nc", (".nc",))
    study = bayes_cpt.read_study(source)
    posterior, fitted = fit_and_save(written, study, "cpt-replay", seed, file, draws)
    drawn = posterior.predict(plan, seed=seed)
    bands = bayes_cpt.table(drawn)
    table = bands.assign(interval=bands.attrs["interval"])
    results.write("forecast.csv", partial(write_numbers, table))
    held_out, plots = bayes_cpt.read_study(held_out_runs()), bayes_cpt.plots
    checked = posterior.predict(held_out.without_losses(), seed=seed)
    figures = {
        "checked": lambda: plots.forecast(posterior, checked, held_out),
        "forecast": lambda: plots.forecast(posterior, drawn),
        "fitted": lambda: plots.fitted(posterior),
    }
    results.figures(figures)
    about, verdict, parts = forecast(posterior, bands)
    paths = (file.path, output / "plan-example.toml", output / "own.csv")
    again = "{} --plan {} -o {}".format(*(quote(str(path)) for path in paths))
    told = (
        "checked.png: forecasts of three held-out runs beside their measured losses.",
        f"Edit plan-example.toml and forecast it: bayes-cpt predict {again}",
    )
    return Answer(
        {"fit": fitted.content, "forecast": about | {"verdict": verdict}},
        fitted.verdict,
        [*fitted.parts, "", *verdict, *parts, "", *told],
        fitted.problems,
        written=[file, results],
    )
