"""A fit in an experiment tracker, and back: MLflow and Weights & Biases.

What the fit was made of goes into the parameters, its diagnostics into the metrics; tables, figures and the
fit's file itself are kept beside. The file is all that is read back, so the posterior is the same.
"""

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_cpt.errors import SpecError
from bayes_cpt.inference.posterior import Posterior, load

if TYPE_CHECKING:
    from collections.abc import Callable

FIT_FILE = "fit.nc"
SUMMARY = "summary.csv"
PROJECT = "bayes-cpt"


def check_installed(*, mlflow: bool, wandb: bool) -> None:
    """Refuse before a fit is made what could not be logged after it.

    Parameters
    ----------
    mlflow, wandb : bool
        Whether each is asked for.

    Raises
    ------
    SpecError
        If a library is not installed.
    """
    for name, asked in (("mlflow", mlflow), ("wandb", wandb)):
        # None stands in for a module that may not be imported.
        known = sys.modules[name] if name in sys.modules else find_spec(name)
        if asked and known is None:
            raise _missing(name)


def logged_parameters(posterior: Posterior) -> dict[str, Any]:
    """Return what a fit was made of, flat: model, study, seed, attempts, reference, versions.

    Parameters
    ----------
    posterior : Posterior
    """
    attributes = posterior.tree.attrs
    values: dict[str, Any] = {
        str(name): str(attributes[name])
        for name in ("model", "study_name", "study_digest", "seed", "attempts", "created")
        if name in attributes
    }
    for name in ("reference", "versions"):
        values |= {f"{name}.{key}": number for key, number in json.loads(attributes[name]).items()}
    return values


def logged_metrics(posterior: Posterior) -> dict[str, float]:
    """Return the diagnostics of a fit as numbers.

    Parameters
    ----------
    posterior : Posterior
    """
    from bayes_cpt.report.paper.convergence import Convergence

    reached = Convergence.of(posterior)
    return {
        "max_r_hat": float(reached.largest_rhat),
        "min_ess_bulk": float(reached.smallest_bulk),
        "min_ess_tail": float(reached.smallest_tail),
        "divergences": float(reached.divergences),
        "problems": float(len(posterior.problems)),
        "trustworthy": float(posterior.trustworthy),
    }


def write_files(posterior: Posterior, folder: Path) -> list[Path]:
    """Write the fit, its tables and figures into a folder, and return the files.

    Parameters
    ----------
    posterior : Posterior
    folder : Path
        Exists.
    """
    from bayes_cpt import plots
    from bayes_cpt.forecast.quality import fit_quality

    posterior.save(folder / FIT_FILE)
    posterior.summary().to_csv(folder / SUMMARY, index=False)
    fit_quality(posterior).to_csv(folder / "quality.csv", index=False)
    drawn: dict[str, Callable[[Posterior], Any]] = {
        "fitted": plots.fitted,
        "residuals": plots.residuals,
        "prior-posterior": plots.prior_posterior,
    }
    for name, plot in drawn.items():
        plot(posterior).savefig(folder / f"{name}.png")
    return sorted(folder.iterdir())


def log_to_mlflow(posterior: Posterior, uri: str, experiment: str = PROJECT) -> str:
    """Log a fit to MLflow.

    Parameters
    ----------
    posterior : Posterior
    uri : str
        Of the tracking store: ``sqlite:///mlflow.db``, a folder, or a server.
    experiment : str
        Made where it does not exist.

    Returns
    -------
    str
        Id of the run.

    Raises
    ------
    SpecError
        If MLflow is not installed.
    """
    client = _mlflow_client(uri)
    known = client.get_experiment_by_name(experiment)
    place = known.experiment_id if known else client.create_experiment(experiment)
    run = client.create_run(place, run_name=str(posterior.tree.attrs["model"])).info.run_id
    for name, value in logged_parameters(posterior).items():
        client.log_param(run, name, value)
    for name, number in logged_metrics(posterior).items():
        client.log_metric(run, name, number)
    with tempfile.TemporaryDirectory() as folder:
        for file in write_files(posterior, Path(folder)):
            client.log_artifact(run, str(file))
    client.set_terminated(run)
    return str(run)


def fit_from_mlflow(uri: str, run: str) -> Posterior:
    """Return the posterior that `log_to_mlflow` logged.

    Parameters
    ----------
    uri : str
    run : str
        Its id.
    """
    with tempfile.TemporaryDirectory() as folder:
        return load(_mlflow_client(uri).download_artifacts(run, FIT_FILE, folder))


def log_to_wandb(posterior: Posterior, project: str = PROJECT, folder: str | Path = ".") -> Path:
    """Log a fit to Weights & Biases, offline where ``WANDB_MODE`` says so.

    Parameters
    ----------
    posterior : Posterior
    project : str
    folder : path
        Where W&B keeps its ``wandb`` folder.

    Returns
    -------
    Path
        The folder of the run.

    Raises
    ------
    SpecError
        If wandb is not installed.
    """
    wandb = _wandb()
    run = wandb.init(project=project, dir=str(folder), config=logged_parameters(posterior))
    with tempfile.TemporaryDirectory() as kept:
        for file in write_files(posterior, Path(kept)):
            if file.suffix == ".png":
                run.log({file.stem: wandb.Image(str(file))})
            run.save(str(file), base_path=kept, policy="now")
        table = posterior.summary()
        table = table.astype({name: str for name in table if table[name].dtype == object})
        run.log({"summary": wandb.Table(dataframe=table)})
        run.summary.update(logged_metrics(posterior))
        # Links to the files are followed while they are there.
        where = Path(run.dir)
        for name in (FIT_FILE, SUMMARY):
            content = (Path(kept) / name).read_bytes()
            (where / name).unlink(missing_ok=True)
            (where / name).write_bytes(content)
        run.finish()
    return where.parent


def fit_from_wandb(run: str | Path) -> Posterior:
    """Return the posterior that `log_to_wandb` logged.

    Parameters
    ----------
    run : str or Path
        Folder of an offline run, or ``ENTITY/PROJECT/RUN`` on the server.
    """
    if Path(run).is_dir():
        return load(Path(run) / "files" / FIT_FILE)
    with tempfile.TemporaryDirectory() as folder:
        _wandb().Api().run(str(run)).file(FIT_FILE).download(root=folder)
        return load(Path(folder) / FIT_FILE)


def _mlflow_client(uri: str) -> Any:
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise _missing("mlflow") from None
    return MlflowClient(tracking_uri=uri)


def _wandb() -> Any:
    try:
        import wandb
    except ImportError:
        raise _missing("wandb") from None
    return wandb


def _missing(library: str) -> SpecError:
    problem, fix = f"{library} is not installed", "install it: pip install 'bayes-cpt[logs]'"
    return SpecError.at(f"--{library}", problem, fix)
