"""What was fitted, as tables: bases, runs and priors."""

from typing import TYPE_CHECKING

from bayes_cpt.report.paper.tables import TextTable

if TYPE_CHECKING:
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

NONE = "–"


def runs_table(study: "Study") -> TextTable:
    """Return the runs of a study.

    Parameters
    ----------
    study : Study
    """
    import pandas as pd

    from bayes_cpt.study.ranges import describe

    rows = describe(study)["runs"]
    domains = study.trained_domains
    cells = pd.DataFrame(
        {
            "Run": [row["name"] for row in rows],
            "Phase": [row["phase"].upper() for row in rows],
            "Base": [row["base"] or NONE for row in rows],
            "Replay": [NONE if row["replay"] is None else f"{row['replay']:g}" for row in rows],
            "Steps": [str(row["steps"]) for row in rows],
            "Peak LR": [f"{row['peak_learning_rate']:.3g}" for row in rows],
            "Final LR": [f"{row['final_learning_rate']:.3g}" for row in rows],
            "Losses": [str(sum(row["points"].get(name, 0) for name in domains)) for row in rows],
        }
    )
    return TextTable(
        caption="Runs of the study",
        cells=cells,
        values=pd.DataFrame(rows),
        numbers=5,
        note=f"PT is pre-training, CPT continual pre-training. Losses on {' and '.join(domains)}",
        label="runs",
    )


def bases_table(study: "Study") -> TextTable:
    """Return the checkpoints that the CPT runs of a study start from.

    Parameters
    ----------
    study : Study
    """
    import pandas as pd

    from bayes_cpt.study.ranges import describe

    rows = describe(study)["bases"]
    domains = study.trained_domains

    def text(value: float | None, form: str) -> str:
        return NONE if value is None else format(value, form)

    columns = {
        "Base": [row["name"] for row in rows],
        "PT steps": [text(row["steps"], "d") for row in rows],
        "Loss potential": [text(row["loss_potential"], ".2g") for row in rows],
    }
    columns |= {
        f"Loss on {name}": [text(row["losses"].get(name), ".3f") for row in rows]
        for name in domains
    }
    return TextTable(
        caption="Base checkpoints",
        cells=pd.DataFrame(columns),
        values=pd.DataFrame(rows),
        numbers=len(columns) - 1,
        note="Loss potential: last over peak learning rate of pre-training, 0 where it is annealed. "
        "Losses in nats/token",
        label="bases",
    )


def priors_table(posterior: "Posterior") -> TextTable:
    """Return the priors of a model with their reasons.

    Parameters
    ----------
    posterior : Posterior
    """
    import pandas as pd

    from bayes_cpt.model.joint_priors import prior_table

    table = prior_table(posterior.frame)
    shown = []
    for _, rows in table.groupby("parameter", sort=False):
        alike = rows["distribution"].nunique() == 1
        shown.append(rows.head(1).assign(domain="all") if alike else rows)
    listed = pd.concat(shown)
    repeated = listed["parameter"].duplicated()
    cells = pd.DataFrame(
        {
            "Parameter": listed["parameter"].where(~repeated, ""),
            "On": listed["domain"],
            "Prior": listed["distribution"],
            "Meaning": listed["meaning"].where(~repeated, ""),
            "Reason": listed["reason"].where(~repeated, ""),
        }
    )
    correlations = posterior.frame.spec.correlations
    pairs = [f"{' and '.join(pair.between)} ({pair.value:+.2f})" for pair in correlations]
    correlated = f"; correlated are {', '.join(pairs)}" if pairs else ""
    return TextTable(
        caption=f"Priors, each with its reason{correlated}",
        cells=cells,
        values=table,
        label="priors",
    )
