"""Whether ranks are uniform: rank ECDFs against simultaneous bands, and a verdict on many quantities.

Source: Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its applications
in goodness-of-fit evaluation and multiple sample comparison, doi:10.1007/s11222-022-10090-6. The bands are
ArviZ's.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd


# How often bands may raise a false alarm: one quantity's, and those of all quantities together.
FALSE_ALARM = 0.05
# Simulations behind a band: enough for the quantile that its mass stands for.
SIMULATIONS, TAIL_SIMULATIONS = 2_000, 10
# Of the fractions that make discrete ranks continuous; fixed, so that a verdict stays what it is.
SEED = 214
FAILS, EDGE, HOLDS = "fails", "at the edge", "holds"


@cache
def ecdf_bands(count: int, mass: float) -> tuple[Floats, Floats, Floats]:
    """Return a simultaneous band of the ECDF of uniform values.

    Parameters
    ----------
    count : int
        Number of values.
    mass : float
        Probability that their ECDF lies inside everywhere.

    Returns
    -------
    points, lower, upper : ndarray, shape (count + 1,)
        Where the ECDF is looked at, and the band there.
    """
    from arviz_stats.ecdf_utils import ecdf_pit

    uniform = (np.arange(count) + 0.5) / count
    simulations = max(SIMULATIONS, round(TAIL_SIMULATIONS / (1.0 - mass)))
    generator = np.random.default_rng(SEED)
    points, _, lower, upper = ecdf_pit(uniform, mass, simulations, rng=generator)
    return points, lower, upper


def ecdf(values: ArrayLike) -> Floats:
    """Return the ECDF of values at the points of their `ecdf_bands`.

    Parameters
    ----------
    values : array_like, shape (values,)
    """
    from arviz_stats.ecdf_utils import compute_ecdf

    sample = np.asarray(values, dtype=np.float64)
    inner = np.arange(1, sample.size) / sample.size
    return np.concatenate([[0.0], compute_ecdf(sample, inner), [1.0]])


def transforms(ranks: "pd.DataFrame", draws: int) -> "pd.DataFrame":
    """Return ranks as values that are uniform on 0...1 just where ranks are uniform on 0...draws.

    Parameters
    ----------
    ranks : DataFrame
        Of a truth among posterior draws; a row per simulation, a column per quantity.
    draws : int
        How many there are to rank it among.
    """
    fractions = np.random.default_rng(SEED).uniform(size=ranks.shape)
    return (ranks + fractions) / (draws + 1)


def judge(ranks: "pd.DataFrame", draws: int, false_alarm: float = FALSE_ALARM) -> "pd.DataFrame":
    """Return a verdict per quantity on the uniformity of its ranks.

    A quantity fails where its ECDF leaves the band that those of all quantities together leave with
    probability `false_alarm` at most (Bonferroni: right however they depend on each other). One that
    leaves only its own band is at the edge: of a hundred that are calibrated about five do.

    Parameters
    ----------
    ranks, draws
        As for `transforms`.
    false_alarm : float

    Returns
    -------
    DataFrame
        Columns quantity, verdict (fails, at the edge, holds), mean and spread: of the ranks over their
        number, with 0.5 and 1 where they are uniform. A mean above 0.5: posteriors lie too low; a spread
        above 1 (in sds of the uniform distribution): they are too narrow. Of fewer than two simulations
        there is none.
    """
    import pandas as pd

    columns = ["quantity", "verdict", "mean", "spread"]
    values = transforms(ranks, draws)
    count = len(values)
    if count < 2:
        return pd.DataFrame(columns=columns)
    alone = ecdf_bands(count, 1.0 - false_alarm)
    all_together = ecdf_bands(count, family_mass(values.shape[1], false_alarm))
    rows = []
    for name in values:
        sample = values[name].to_numpy()
        curve = ecdf(sample)
        verdict = (
            HOLDS if _inside(curve, alone) else EDGE if _inside(curve, all_together) else FAILS
        )
        spread = float(np.sqrt(12.0 * np.mean((sample - 0.5) ** 2)))
        rows.append((name, verdict, float(sample.mean()), spread))
    return pd.DataFrame(rows, columns=columns)


def family_mass(quantities: int, false_alarm: float = FALSE_ALARM) -> float:
    """Return the mass of each quantity's band by which all of them are judged together.

    Parameters
    ----------
    quantities : int
        Judged together.
    false_alarm : float
        How often a calibrated model may fail.
    """
    return 1.0 - false_alarm / max(1, quantities)


def _inside(curve: Floats, bands: tuple[Floats, Floats, Floats]) -> bool:
    _, lower, upper = bands
    return bool(np.all((lower <= curve) & (curve <= upper)))
