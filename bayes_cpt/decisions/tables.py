"""A decision as tables."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.candidates import Candidates

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision


CONFIGURATION = (
    "base", "loss_potential", "replay", "targets", "peak", "relative_peak", "warmup_steps", "decay_shape",
    "decay_steps", "final", "steps",
)  # fmt: skip


def contender_table(decision: "Decision", interval: float = 0.9) -> "pd.DataFrame":
    """Return one row per contender, the recommendation first.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the central intervals.

    Returns
    -------
    DataFrame
        option; its configuration, ``base`` to ``steps``, learning rates raw; ``general_epochs``,
        ``target_epochs``, ``gpu_hours`` and ``money`` where study or space says what a step takes; for each
        validation set its median ``<set>`` with ``_lower``, ``_upper`` of what a new run would show,
        ``_change`` from the
        reference and ``_rises``, the probability that a new run ends above it, also for third sets that the
        objective names; for each benchmark whose scores were given the median ``<benchmark>`` of a single
        evaluation of a new run, ``_lower``, ``_upper`` and ``_change``; the ``objective`` with
        ``_lower``, ``_upper`` of the law's expected value;
        ``score`` of the risk measure; ``regret``
        expected; ``p_best`` among these; ``p_within`` the tolerance of the best in the space; ``breach_1``
        and so on, how probably each constraint is broken; ``outside`` what the runs covered.
    """
    import pandas as pd

    contenders, valuation = decision.contenders, decision.valuation
    columns: dict[str, Any] = {"option": decision.names}
    columns |= configuration(contenders.candidates)
    columns |= valuation.taken(contenders.candidates)
    last = contenders.last_losses(valuation.model.normals(decision.criterion.seed))
    changes, rises = contenders.changes(), contenders.probability_above(contenders.starts)
    for index, domain in enumerate(valuation.model.domains):
        columns |= _banded(domain, last[index], interval)
        columns[f"{domain}_change"] = np.median(changes[index], axis=1)
        columns[f"{domain}_rises"] = rises[index]
    for name, third in contenders.thirds.items():
        columns |= _banded(name, third.new_runs(decision.criterion.seed), interval)
        columns[f"{name}_change"] = np.median(third.changes, axis=1)
        columns[f"{name}_rises"] = third.probability_of_rise()
    scores = contenders.scores(valuation.model.domains, decision.criterion.seed)
    for name, (shown, before) in scores.items():
        columns |= _banded(name, shown, interval)
        repeats = shown.shape[-1] // before.shape[-1]
        columns[f"{name}_change"] = np.median(shown - np.tile(before, repeats), axis=1)
    columns |= _banded("objective", contenders.values, interval)
    columns |= {
        "score": decision.search.scores[decision.rows],
        "regret": contenders.expected_regret,
        "p_best": contenders.probability_best,
        "p_within": contenders.probability_within(decision.criterion.tolerance),
    }
    for index, probability in enumerate(contenders.breaches, start=1):
        columns[f"breach_{index}"] = probability
    columns["outside"] = ["; ".join(notes) for notes in decision.outside]
    return pd.DataFrame(columns)


def optimum_table(decision: "Decision", interval: float = 0.9) -> "pd.DataFrame":
    """Return the posterior of the optimum: where the best of each draw lies.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the central credible interval.

    Returns
    -------
    DataFrame
        One row per quantity that was searched, and per value of one that is no number: quantity, value,
        probability (of that value; NaN for numbers), median, lower, upper, at_lowest and at_highest (how
        often the best lies at an end of what is allowed), near_lowest and near_highest (between which the
        expected objective is within the tolerance of its best), recommended.
    """
    import pandas as pd

    rows = []
    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    for name in decision.space.searched:
        values, near = decision.optimum.column(name), decision.near.column(name)
        chosen = decision.contenders.candidates.column(name)[0]
        if not np.issubdtype(values.dtype, np.number):
            rows += [
                {
                    "quantity": name,
                    "value": value,
                    "probability": float(np.mean(values == value)),
                    "recommended": value == chosen,
                }
                for value in sorted(set(decision.search.candidates.column(name).tolist()))
            ]
            continue
        whole = decision.search.candidates.column(name)
        # Learning rates are rounded to three digits: an end may be met by the last of them.
        slack = 0.005 * np.ptp(whole)
        median, lower, upper = np.quantile(values, marks)
        rows.append(
            {
                "quantity": name,
                "median": median,
                "lower": lower,
                "upper": upper,
                "at_lowest": float(np.mean(values <= whole.min() + slack)),
                "at_highest": float(np.mean(values >= whole.max() - slack)),
                "near_lowest": near.min(),
                "near_highest": near.max(),
                "recommended": chosen,
            }
        )
    columns = [
        "quantity", "value", "probability", "median", "lower", "upper", "at_lowest", "at_highest",
        "near_lowest", "near_highest", "recommended",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def front_table(decision: "Decision", interval: float = 0.9) -> "pd.DataFrame":
    """Return the Pareto front, from the lowest general loss to the lowest target loss.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the central intervals.

    Returns
    -------
    DataFrame
        The configuration, and for each validation set the mean of the law's expected loss, which is what
        the front is of, with ``_lower`` and ``_upper``, and ``_change`` from the reference.
    """
    import pandas as pd

    front = decision.front
    columns: dict[str, Any] = dict(configuration(front.candidates))
    changes = front.losses - front.starts
    for index, domain in enumerate(decision.valuation.model.domains):
        columns |= _banded(domain, front.losses[index], interval)
        columns[domain] = front.losses[index].mean(axis=1)
        columns[f"{domain}_change"] = changes[index].mean(axis=1)
    return pd.DataFrame(columns)


def configuration(candidates: Candidates) -> dict[str, Any]:
    """Return the columns that say what candidates are.

    Parameters
    ----------
    candidates : Candidates
    """
    left_out = () if any(candidates.mixtures) else ("targets",)
    return {name: candidates.column(name) for name in CONFIGURATION if name not in left_out}


def _banded(name: str, draws: Floats, interval: float) -> dict[str, Floats]:
    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    median, lower, upper = np.quantile(draws, marks, axis=-1)
    return {name: median, f"{name}_lower": lower, f"{name}_upper": upper}
