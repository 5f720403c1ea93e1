"""Simulation-based calibration: whether posteriors of simulated studies hold the truth as they say.

Source: Talts et al. (2018), Validating Bayesian Inference Algorithms with Simulation-Based Calibration,
arXiv 1804.06788. If prior, simulator, density and sampler agree, the rank of the true value among
independent posterior draws is uniform, for every quantity and whatever the design.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_cpt.validate.parallel import Pool, task_seed
from bayes_cpt.validate.records import Records, in_words
from bayes_cpt.validate.replicates import RANKED, Replicate

if TYPE_CHECKING:
    import pandas as pd

type Progress = Callable[[str, float], None]

# More refits than this share that miss their diagnostics, and the calibration says nothing.
MOST_UNTRUSTED = 0.05
TABLES = ("ranks",)
# Columns of the table of ranks that are no quantities.
NOTES = ("task", "trustworthy", "problems", "attempts", "refused")


class _Done(NamedTuple):
    task: str
    row: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A replicate's row of the table of ranks; called with the task's label and seed."""

    replicate: Callable[[int], Replicate]

    def __call__(self, task: tuple[str, int]) -> _Done:
        import pandas as pd

        label, seed = task
        refit = self.replicate(seed)
        row: dict[str, Any] = {
            "trustworthy": not refit.problems,
            "problems": in_words(refit.problems),
            "attempts": refit.attempts,
            "refused": refit.refused,
        }
        return _Done(label, pd.DataFrame([row | refit.ranks()]))


def simulated_ranks(
    replicate: Callable[[int], Replicate],
    simulations: int,
    seed: int = 0,
    *,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Return the ranks of true values among posterior draws, over simulations.

    Parameters
    ----------
    replicate : callable
        Of a seed; `ModelReplicates`.
    simulations : int
        How many.
    seed : int
        Each simulation draws its own from it and its number.
    pool : Pool, optional
        Where; on all cores of this machine unless given.
    records : Records, optional
        What is done already, with the table "ranks"; it grows.
    progress : callable, optional
        Called with a stage and the share of it that is done.

    Returns
    -------
    DataFrame
        A row per simulation: task (its number), trustworthy, problems, attempts, refused (studies drawn
        before that held a loss below 0), and the rank of each quantity; no rank where the refit failed.
    """
    kept = records or Records.open(None, {}, TABLES)
    tasks = [
        (str(number), task_seed(seed, f"simulation {number}")) for number in range(simulations)
    ]
    left = [task for task in tasks if task[0] not in kept.done]
    report = progress or (lambda stage, share: None)
    stage = f"refitting, {simulations} times"
    report(stage, 1.0 - len(left) / simulations)
    for number, done in enumerate((pool or Pool()).run(_Ranked(replicate), left), start=1):
        kept.add(done.task, {"ranks": done.row})
        report(stage, 1.0 - (len(left) - number) / simulations)
    table = kept.tables["ranks"]
    order = table["task"].astype(int)
    return (
        table[order < simulations]
        .iloc[np.argsort(order[order < simulations])]
        .reset_index(drop=True)
    )


@dataclass(frozen=True, eq=False)
class Verdict:
    """What simulations say of a model.

    Parameters
    ----------
    quantities : DataFrame
        From `bayes_cpt.validate.uniformity.judge`.
    simulations, failed, untrusted : int
        All refits; those without draws, which have no ranks; those with draws that miss their diagnostics,
        whose ranks count like the others.
    refused : float
        Share of all simulated studies that held a loss below 0, and were drawn again.
    problems : tuple of str
        Why the model is not calibrated, or cannot be said to be; empty where it is.
    """

    quantities: "pd.DataFrame"
    simulations: int
    failed: int
    untrusted: int
    refused: float
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against calibration."""
        return not self.problems


def quantity_ranks(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the columns of `simulated_ranks` that are ranks, of refits that have them.

    Parameters
    ----------
    table : DataFrame
        From `simulated_ranks`.
    """
    ranks = table.drop(columns=list(NOTES))
    return ranks.dropna().astype(int)


def verdict(table: "pd.DataFrame", ranked: int = RANKED) -> Verdict:
    """Return what ranks say of a model.

    Parameters
    ----------
    table : DataFrame
        From `simulated_ranks`.
    ranked : int
        Draws that each truth was ranked among.
    """
    from bayes_cpt.validate.uniformity import FAILS, judge

    ranks = quantity_ranks(table)
    failed = len(table) - len(ranks)
    untrusted = int((~table["trustworthy"].astype(bool)).sum()) - failed
    problems = []
    if failed + untrusted > MOST_UNTRUSTED * len(table):
        problems.append(f"{failed + untrusted} of {len(table)} refits miss their diagnostics")
    judged = judge(ranks, ranked)
    if judged.empty:
        problems.append(f"{len(ranks)} refits have ranks, too few to judge")
    bad = judged[judged["verdict"] == FAILS]
    if len(bad):
        problems.append(f"ranks are not uniform: {', '.join(bad['quantity'])}")
    again = int(table["refused"].sum())
    refused = again / (again + len(table))
    return Verdict(judged, len(table), failed, untrusted, refused, tuple(problems))
