"""Score forecasts of single runs from the first part of their logs alone, beside simple extrapolators.

From the repository's root::

    PYTHONPATH=research python -m testbench.one_log data/public -o OUT --jobs 2
    PYTHONPATH=research python -m testbench.one_log data/public -o OUT --studies mpl --runs 2

Of each run a log that ends at 20, 40 and 60 % of its steps is forecast to the last measured step, as
`bayes_cpt.forecast_log` does it. Rivals: the last value; a power law of the last half; least squares on our
law; a Gaussian process in the log of the step (scikit-learn). Stopped, the same command goes on.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import Pool, Records
from bayes_cpt.watch.log_forecast import MODELS, PLANNED, forecast_run, study_of
from testbench.our_areas import OurLaw
from testbench.public import FAMILIES, LAB_TESTS
from testbench.report import markdown_table, public_options

PREFIXES = (0.2, 0.4, 0.6)
# Of a study at most so many curves; of a curve so many points at least in its longest prefix.
RUNS, FEWEST = 6, 8
OURS = "bayes_cpt"
MNAT = 1e3
# What is shown, by the name of its file.
TABLES = {"one-log": ("family",), "one-log-prefix": ("prefix",)}
RIVALS = ("last value", "power law", "least squares", "gaussian process")
STARTS = 8


@dataclass(frozen=True)
class Task:
    """One prefix of one run on one validation set."""

    folder: str
    study: str
    run: str
    domain: str
    prefix: float
    seed: int
    models: Mapping[str, str]

    @property
    def label(self) -> str:
        """What its rows are called."""
        return f"{self.study} {self.run} {self.domain} {self.prefix:g}"


def studies_in(folder: Path) -> dict[str, str]:
    """Return folders of studies by name; of those in two parts both."""
    found = {}
    for path in sorted((*folder.rglob("study.toml"), *LAB_TESTS.glob("*/study.toml"))):
        parts = path.parent.relative_to(folder if folder in path.parents else LAB_TESTS).parts
        found["/".join(parts)] = str(path.parent)
    return found | {"cpt-lab": str(bundled_study())}


def tasks_of(name: str, folder: str, runs: int, seed: int, models: Mapping[str, str]) -> list[Task]:
    """Return the prefixes of some of the runs of a study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = read_study(folder)
    curves = [
        (run.name, domain)
        for run in study.runs
        for domain in study.trained_domains
        if np.sum(study.curve(run.name, domain)[0] <= max(PREFIXES) * run.schedule.steps) >= FEWEST
    ]
    chosen = curves[:: max(1, -(-len(curves) // runs))]
    return [
        Task(folder, name, run, domain, prefix, seed, models)
        for run, domain in chosen
        for prefix in PREFIXES
    ]


def scored(task: Task) -> dict[str, pd.DataFrame]:
    """Return the scores of all methods on a task."""
    warnings.simplefilter("ignore")
    study = read_study(task.folder)
    run = study.run(task.run)
    measured, losses = study.curve(task.run, task.domain)
    steps = measured.astype(np.float64)
    now = round(task.prefix * run.schedule.steps)
    seen = steps <= now
    end, truth = int(steps[-1]), float(losses[-1])
    rows = [(int(s), task.domain, float(v)) for s, v in zip(steps, losses, strict=True) if s <= now]
    about = {"study": task.study, "run": task.run, "domain": task.domain, "prefix": task.prefix}
    found = []

    def add(method: str, mean: float, sd: float, inside: bool | None, fine: bool = True) -> None:
        crps = normal_crps(mean, sd, truth)
        error = {"error": mean - truth, "crps": crps, "inside": inside, "fine": fine}
        found.append(about | {"method": method, "sd": sd} | error)

    try:
        ours = forecast_run(run, rows, now, seed=task.seed, models=task.models)
        planned = ours.curves[ours.curves["way"] == PLANNED]
        last = planned.iloc[int(np.argmin(np.abs(planned["step"] - end)))]
        inside = bool(last["lower"] <= truth <= last["upper"])
        add(OURS, float(last["mean"]), float(last["sd"]), inside, not ours.problems)
    except BayesCPTError as error:
        return {"scores": pd.DataFrame([about | {"method": OURS, "said": str(error)[:200]}])}
    add("last value", float(losses[seen][-1]), 0.0, None)
    trained = seen & (steps > 0)
    add("power law", power_law(steps[trained], losses[trained], end), 0.0, None)
    own = study_of(run, task.domain, pd.DataFrame(rows, columns=["step", "domain", "loss"]))
    add("least squares", least_squares(own, task, end), 0.0, None)
    mean, sd = gaussian_process(steps[trained], losses[trained], end)
    add("gaussian process", mean, sd, bool(abs(truth - mean) < 1.645 * sd))
    return {"scores": pd.DataFrame(found)}


def normal_crps(mean: float, sd: float, truth: float) -> float:
    """Return the CRPS of a normal forecast; of a point forecast its absolute error."""
    if not sd:
        return abs(mean - truth)
    z, unit = (truth - mean) / sd, NormalDist()
    return float(sd * (z * (2 * unit.cdf(z) - 1) + 2 * unit.pdf(z) - 1 / np.sqrt(np.pi)))


def power_law(steps: Floats, losses: Floats, end: int) -> float:
    """Return where L + a·t^-b, fitted to the last half of the points, ends."""
    from scipy.optimize import least_squares

    half = len(steps) // 2 if len(steps) >= 6 else 0
    t, loss = steps[half:] / steps[-1], losses[half:]

    def off(p: Floats) -> Floats:
        return np.asarray(p[0] + np.exp(p[1]) * t ** -np.exp(p[2]) - loss)

    best = least_squares(
        off, [loss[-1] - 0.1, np.log(0.1), np.log(0.5)], bounds=([0, -12, -4], [12, 3, 2])
    )
    return float(best.x[0] + np.exp(best.x[1]) * (end / steps[-1]) ** -np.exp(best.x[2]))


def least_squares(study: Study, task: Task, end: int) -> float:
    """Return where our law ends by Huber loss from many starts."""
    phase = study.runs[0].phase
    law = OurLaw.of(read_spec(task.models[phase]), study, task.domain)
    best = law.best(np.random.default_rng(task.seed), STARTS)
    return float(law.fit.losses(best, law.points(study, at(study, task.domain, end)))[0])


def at(study: Study, domain: str, step: int) -> pd.DataFrame:
    """Return the one point that is asked for."""
    return pd.DataFrame([(study.runs[0].name, domain, step)], columns=["run", "domain", "step"])


def gaussian_process(steps: Floats, losses: Floats, end: int) -> tuple[float, float]:
    """Return mean and sd at the end of a Gaussian process about a line in the log of the step."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    x, scale = np.log(steps / steps[-1])[:, None], losses.std() or 1.0
    kernel = DotProduct(1.0) + ConstantKernel(0.1) * RBF(1.0, (0.2, 10.0)) + WhiteKernel(1e-3)
    process = GaussianProcessRegressor(kernel, normalize_y=False, n_restarts_optimizer=1)
    process.fit(x, (losses - losses[-1]) / scale)
    mean, sd = process.predict([[np.log(end / steps[-1])]], return_std=True)
    return float(mean[0] * scale + losses[-1]), float(sd[0] * scale)


def family_of(study: str) -> str:
    """Return the family of a study: the repository that its runs come from."""
    name = study.split("/")[0].removesuffix("-practice")
    return FAMILIES.get(name.split("-")[0], name)


def summary(scores: pd.DataFrame, keys: Sequence[str] = ("family",)) -> pd.DataFrame:
    """Return scores by family, each run alike: CRPS in mnat, beside the best of the rivals."""
    kept = scores.assign(family=[family_of(name) for name in scores["study"]])
    rows = []
    for values, own in kept.groupby(list(keys), sort=False):
        crps = MNAT * own.groupby("method")["crps"].mean()
        ours = own[own["method"] == OURS]
        rivals = crps.reindex(list(RIVALS)).dropna()
        rows.append(
            dict(zip(keys, values, strict=True))
            | {"logs": len(ours), "in 90 %": round(100 * ours["inside"].astype(float).mean())}
            | {name: round(crps.get(name, np.nan), 1) for name in (OURS, *RIVALS)}
            | {"ratio": round(crps[OURS] / rivals.min(), 2)}
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Score what was asked for."""
    parser = public_options("one_log", __doc__)
    parser.add_argument("--studies", default="", help="names that hold one of these, with commas")
    parser.add_argument("--runs", type=int, default=RUNS, help="curves of a study at most")
    for phase, model in MODELS.items():
        parser.add_argument(f"--{phase}", default=model, help=f"model of {phase} runs")
    asked = parser.parse_args()
    wanted = [name for name in asked.studies.split(",") if name]
    models = {phase: getattr(asked, phase) for phase in MODELS}
    tasks = [
        task
        for name, folder in studies_in(asked.folder).items()
        if not wanted or any(part in name for part in wanted)
        for task in tasks_of(name, folder, asked.runs, asked.seed, models)
    ]
    asked.out.mkdir(parents=True, exist_ok=True)
    records = Records.open(asked.out, {"seed": asked.seed, "models": models}, ["scores"])
    left = [task for task in tasks if task.label not in records.done]
    for rows in Pool(asked.jobs).run(scored, left):
        own = rows["scores"].iloc[0]
        label = f"{own['study']} {own['run']} {own['domain']} {own['prefix']:g}"
        records.add(label, rows)
        sys.stderr.write(f"{label}: {own.get('said', '') or round(own['error'] * 1e3, 1)}\n")
    scores = records.in_order("scores", records.done).dropna(subset=["crps"])
    scores["inside"] = scores["inside"].astype(str) == "True"
    for name, keys in TABLES.items():
        found = summary(scores, keys)
        found.to_csv(asked.out / f"{name}.csv", index=False)
        sys.stdout.write(f"\n{markdown_table(found.astype(str))}\n")


if __name__ == "__main__":
    main()
