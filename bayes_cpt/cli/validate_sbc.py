"""`bayes-cpt validate sbc`: simulation-based calibration of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import Json, Quiet, Seed, option
from bayes_cpt.cli.output import Output, Results, columns, make_folder
from bayes_cpt.cli.validate import Dask, Folder, Jobs, Model, settings

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study
    from bayes_cpt.validate.calibration import Verdict

FEWEST = 10
# Above this share of studies with losses below 0 the priors are at fault.
MOST_REFUSED = 0.01
TOO_WIDE = " It should be less than 1 %: the priors are too wide for these losses."


def sbc(
    model: Model = "cpt-replay",
    simulations: Annotated[
        int, typer.Option("-n", "--simulations", min=FEWEST, help="Simulated studies to fit.")
    ] = 300,
    design: Annotated[
        Path | None,
        option(
            "STUDY",
            "Runs to simulate: a study, or one TOML file of runs, with their bases.",
            default="the bundled study",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        option(
            "PLAN",
            "Runs whose final loss is predicted from each fit.",
            default="a run of the design, three times as long",
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=3, help="Points of each simulated curve at the most.")
    ] = 12,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    output: Folder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Check that posteriors of simulated studies hold the truth as often as they say.

    Draws parameters from the priors, simulates the losses of a study from them, fits the model again, and
    ranks each true value among posterior draws. If priors, simulator, density and sampler agree, ranks are
    uniform for every parameter and for the final loss of a run that was not simulated. The verdict allows
    for how many quantities there are: a calibrated model fails one time in twenty at the most.

    FOLDER gets ranks.csv, which grows as refits are done, verdict.csv and ranks.png. Run again with a
    larger -n to go on. Numbers do not depend on --jobs and --dask.

    \b
    Example:
    bayes-cpt validate sbc --model pretrain -n 300 -o sbc-pretrain

    \b
    Exit codes:
    0  the model is calibrated as far as so many simulations can tell
    1  it is not, or more than 5 % of the refits fall short of their diagnostics
    2  bad input: what is wrong, where, and the fix are on stderr
    """
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.words.calibration import verdict as words
    from bayes_cpt.validate import calibration
    from bayes_cpt.validate.calibration import RANKED, ModelReplicates, design_study, read_design
    from bayes_cpt.validate.tasks import Pool, Records

    written = Output(quiet, json)
    spec = read_spec(model)
    with written.cautions():
        source = read_design(design or bundled_study())
        simulated = design_study(source, spec, points)
        whole, held_out = _with_plan(simulated, plan)
    if output is not None:
        make_folder(output)
    described = settings([spec], seed, design=whole.digest(), ranked=RANKED)
    pool = Pool(jobs, dask)
    replicate = ModelReplicates(spec, whole, held_out, pool.cores(simulations))
    records = Records.open(output, described, calibration.TABLES)
    with written.progress() as tell:
        ranks = calibration.simulated_ranks(
            replicate, simulations, seed, pool=pool, records=records, progress=tell
        )
    verdict = calibration.verdict(ranks)
    said = words(spec.name, simulated.name, verdict)
    for problem in verdict.problems:
        written.error(f"Not calibrated: {problem}.")
    written.verdict(said)
    _show(written, spec, simulated, verdict)
    files = _write(ranks, verdict, output) if output else {}
    for path in files.values():
        written.text(f"Written to {path}")
    written.result(
        {
            "model": spec.name,
            "design": simulated.name,
            "seed": seed,
            "verdict": said,
            "simulations": verdict.simulations,
            "failed": verdict.failed,
            "untrusted": verdict.untrusted,
            "refused": verdict.refused,
            "passed": verdict.passed,
            "problems": list(verdict.problems),
            "quantities": verdict.quantities.to_dict("records"),
            "files": files,
        }
    )
    return 0 if verdict.passed else 1


def _with_plan(design: "Study", plan: Path | None) -> "tuple[Study, tuple[str, ...]]":
    """Return the design with the runs to predict, and their names."""
    from bayes_cpt.study.folder import read_plan
    from bayes_cpt.validate.calibration import held_out_run, with_runs

    if plan is None:
        whole = with_runs(design, [held_out_run(design)])
    else:
        planned = read_plan(plan, design)
        whole = with_runs(design, planned.runs, planned.bases)
    return whole, tuple(run.name for run in whole.runs[len(design.runs) :])


def _show(written: Output, spec: "ModelSpec", design: "Study", verdict: "Verdict") -> None:
    from bayes_cpt.validate.calibration import HOLDS, RANKED

    judged = verdict.quantities
    written.heading(f"Simulation-based calibration of {spec.name}")
    trusted = verdict.simulations - verdict.failed - verdict.untrusted
    written.text(
        f"{verdict.simulations} simulated studies of {len(design.runs)} runs and "
        f"{len(design.losses)} points (design {design.name}), each fitted again. {trusted} refits meet "
        f"their diagnostics, {verdict.untrusted} do not (their ranks count as well), {verdict.failed} "
        f"failed. Truths are ranked among {RANKED} posterior draws."
    )
    if verdict.refused > 0:
        written.text(
            f"{verdict.refused:.1%} of the studies that the priors made held a loss below 0 and were drawn "
            "again, truth and losses together: that leaves ranks uniform."
            + (TOO_WIDE if verdict.refused > MOST_REFUSED else "")
        )
    outside = judged[judged["verdict"] != HOLDS]
    if len(outside):
        written.heading("Quantities outside their own 95 % band")
        written.table(_table(outside))
        written.text(
            "A mean rank above 0.5: posteriors lie too low. A spread above 1: they are too narrow."
        )


def _table(rows: "pd.DataFrame") -> Any:
    from bayes_cpt.validate.calibration import FAILS

    table = columns("quantity", "verdict", "mean rank", "spread", numbers=2)
    for row in rows.sort_values("verdict", ascending=False, kind="stable").to_dict("records"):
        style = "red" if row["verdict"] == FAILS else ""
        numbers = (f"{row['mean']:.3f}", f"{row['spread']:.3f}")
        table.add_row(row["quantity"], row["verdict"], *numbers, style=style)
    return table


def _write(ranks: "pd.DataFrame", verdict: "Verdict", output: Path) -> dict[str, str]:
    from bayes_cpt import plots
    from bayes_cpt.validate.calibration import quantity_ranks

    results = Results(output)
    results.tables({"verdict": verdict.quantities})
    if len(verdict.quantities):
        results.figure("ranks", plots.calibration(quantity_ranks(ranks)), "ranks.png")
    names = ["ranks.csv", *(path.name for path in results.paths.values())]
    return {name: str(output / name) for name in names}
