"""Priors learnt from earlier studies, in plain words: three lines."""

from typing import TYPE_CHECKING

from bayes_cpt.history.population import FEWEST
from bayes_cpt.report.numbers import percent

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.history.learnt import Learnt
    from bayes_cpt.history.population import Pair


def verdict(
    learnt: "Learnt", file: str, scores: "pd.DataFrame | None", *, trustworthy: bool
) -> list[str]:
    """Return whether to use learnt priors, how sure that is, and what would change it.

    Parameters
    ----------
    learnt : Learnt
    file : str
        Of the model.
    scores : DataFrame, optional
        Of `bayes_cpt.history.leave_one_out.score_left_out`; None where no study was left out.
    trustworthy : bool
        Whether nothing is wrong with what was learnt.

    Returns
    -------
    list of str
        Three lines.
    """
    population = learnt.population
    count, told = len(population.studies), len(learnt.labels)
    every = len(population.labels)
    if not trustworthy:
        use = f"Do not use {file} yet: what is wrong stands above."
    elif not told:
        use = f"Keep {learnt.before.name}: these {count} studies change none of its priors."
    else:
        use = (
            f"Use {file} for studies like these {count}: {told} of {every} priors are learnt, the others "
            f"stay those of {learnt.before.name}."
        )
    change = "more studies" if trustworthy else "fixing that, and more studies"
    return [
        use,
        f"How sure: {_sure(scores)}",
        f"What would change it: {change}; a prior is learnt where {FEWEST} determine its parameter.",
    ]


def together(learnt: "Learnt") -> str:
    """Return which parameters go together over studies, in a sentence.

    Parameters
    ----------
    learnt : Learnt
    """
    pairs = learnt.population.pairs
    if not pairs:
        return f"No two parameters are determined by {FEWEST} studies: none is said to go with another."
    shown = [pair for pair in pairs if pair.shown]
    if not shown:
        likeliest = pairs[0]
        return (
            f"Of {len(pairs)} pairs of parameters none is shown to go together over studies; the likeliest "
            f"are {_pair(likeliest)} (probability {likeliest.probability:.2f})."
        )
    listed = "; ".join(f"{_pair(pair)}, correlation {pair.correlation:+.2f}" for pair in shown)
    return f"Of {len(pairs)} pairs of parameters these go together over studies: {listed}."


def _pair(pair: "Pair") -> str:
    return " and ".join(f"{name} ({role})" for name, role in (pair.first, pair.second))


def _sure(scores: "pd.DataFrame | None") -> str:
    from bayes_cpt.history.leave_one_out import LEARNT, crps_ratio

    if scores is None:
        return "not looked at; --leave-one-out forecasts each study from the others."
    if scores.empty:
        return "not to be told, as no study has a second run or a folder predict/."
    ours = scores[scores["method"] == LEARNT]
    ratio = crps_ratio(scores)
    return (
        f"each of {len(ours)} studies left out in turn, the error of forecasts (CRPS) is {ratio:.2f} times "
        f"that under the old priors, and the 90 % bands hold {percent(float(ours['coverage_90'].mean()))}."
    )
