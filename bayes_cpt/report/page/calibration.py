"""How forecasts of held-out runs turned out, read from what `bayes-cpt validate forecast` wrote."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.report.paper.tables import TextTable
from bayes_cpt.validate.held_out import OURS, PAPER, score_table
from bayes_cpt.validate.scores import ALL_DOMAINS, ALL_RUNS
from bayes_cpt.validate.tasks import SETTINGS

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior

POINTS = "points.csv"
METHODS = {OURS: "this package", PAPER: "the paper's method"}


class ValidationError(BayesCPTError):
    """A folder that holds no results of `bayes-cpt validate forecast`."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of forecasts of what no fit saw.

    Parameters
    ----------
    points : DataFrame
        A row per held-out point and method (see `bayes_cpt.validate.held_out.score_folds`).
    summary : DataFrame
        Of `bayes_cpt.validate.held_out.score_table`.
    caution : str
        In what the validated fit differs from the reported one; empty where in nothing.
    """

    points: "pd.DataFrame"
    summary: "pd.DataFrame"
    caution: str

    @classmethod
    def read(cls, folder: str | Path, posterior: "Posterior") -> Self:
        """Return what a folder holds.

        Parameters
        ----------
        folder : path
            That ``bayes-cpt validate forecast STUDY -o FOLDER`` filled.
        posterior : Posterior
            The fit that is reported.

        Raises
        ------
        ValidationError
            If the folder does not hold such results.
        """
        import pandas as pd

        place = Path(folder)
        try:
            points = pd.read_csv(place / POINTS)
            settings = json.loads((place / SETTINGS).read_text(encoding="utf-8"))
            summary = score_table(points)
            model, study = settings["model"], settings["study"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ValidationError(
                Problem(
                    str(place),
                    "this is not what bayes-cpt validate forecast writes",
                    "name the folder of its option -o",
                )
            ) from None
        differs = [
            what
            for what, expected, other in (
                ("model", model, posterior.frame.spec.name),
                ("study", study, posterior.tree.attrs["study_digest"]),
            )
            if expected != other
        ]
        caution = f"The validation is of another {' and '.join(differs)}." if differs else ""
        return cls(points, summary, caution)

    @property
    def _pooled(self) -> "pd.DataFrame":
        return pooled(self.summary)

    def scores(self) -> list[dict[str, Any]]:
        """Return coverage and number of points of this package's forecasts, per share that was seen."""
        return [
            {
                "left_out": left_out(row["seen"]),
                "coverage_90": row["coverage_90"],
                "error": _plus_minus(row["coverage_90_error"]),
                "points": row["points"],
            }
            for row in self._pooled.to_dict("records")
            if row["method"] == OURS
        ]

    def table(self) -> TextTable:
        """Return coverage and CRPS of the methods."""
        import pandas as pd

        rows = self._pooled
        cells = pd.DataFrame(
            {
                "Left out": [left_out(seen) for seen in rows["seen"]],
                "Method": [METHODS.get(name, name) for name in rows["method"]],
                "Points": [str(count) for count in rows["points"]],
                "In 50 %": [f"{100 * share:.0f} %" for share in rows["coverage_50"]],
                "In 90 %": [
                    f"{100 * share:.0f}{_plus_minus(error)} %"
                    for share, error in zip(
                        rows["coverage_90"], rows["coverage_90_error"], strict=True
                    )
                ],
                "CRPS": [f"{value:.4f}" for value in rows["crps"]],
                "Bias": [f"{value:+.4f}".replace("-", "−") for value in rows["bias"]],
            }
        )
        return TextTable(
            caption="Forecasts of points that no fit saw",
            cells=cells,
            values=rows,
            numbers=5,
            note="± is the standard error of the share, each run being one observation. CRPS and bias of "
            "the median in nats/token; lower CRPS is better",
            label="calibration",
        )


def pooled(scores: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of a table of scores that are over all runs and validation sets.

    Parameters
    ----------
    scores : DataFrame
        Of `bayes_cpt.validate.held_out.score_table`.
    """
    of_all = scores[scores["run"] == ALL_RUNS]
    together = of_all[of_all["domain"] == ALL_DOMAINS]
    return together if len(together) else of_all


def left_out(seen: float) -> str:
    """Return in words what of the runs was left out: all, or what follows a share of the steps.

    Parameters
    ----------
    seen : float

    Examples
    --------
    >>> left_out(0.0), left_out(0.25)
    ('whole runs', 'after 25 %')
    """
    return f"after {100 * seen:g} %" if seen else "whole runs"


def _plus_minus(error: float) -> str:
    return f" ± {100 * error:.0f}" if math.isfinite(error) else ""
