"""What to train, which run comes next and which schedule to follow, in plain words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.checks import Check
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.decision import CONFIGURATION, Decision
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.next_run import MOST_TELLING, RunValues
from bayes_cpt.decisions.objective import PRESETS, read_objective
from bayes_cpt.decisions.schedule_choice import ScheduleChoice
from bayes_cpt.decisions.search import Edge
from bayes_cpt.decisions.search_space import Candidates
from bayes_cpt.decisions.space import LENGTHS
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.report.fit import resting, rests_on, unmeasured_words
from bayes_cpt.report.numbers import Estimate, chance, number, spread_of, supported
from bayes_cpt.report.words import Words, notation, paragraphs, render, sentence
from bayes_cpt.study.exports import training_arguments
from bayes_cpt.study.resources import MANY_EPOCHS, RESOURCE_WORDS, ROLES, epochs_words
from bayes_cpt.study.runs import Run, mixture_words

# Share of the peak above which the last learning rate is not annealed.
HELD = 0.95
# Monte Carlo errors within which two numbers do not differ.
ERRORS = 2.0


def configuration(
    model: FinalLosses, candidates: Candidates, row: int, block: str = "configuration", **said: Any
) -> str:
    """Return one configuration in words, or ``in_short`` what matters most of it."""
    columns = (*CONFIGURATION, "initial", "last_rate")
    facts = {name: candidates.column(name)[row] for name in columns} | {"batch": model.batch}
    return sentence("decide.txt", block, facts | said)


def short_run(run: Run) -> str:
    """Return a short run in words."""
    facts = {"run": run, "rest": mixture_words(run.mixture) if run.mixture else "", "held": HELD}
    return sentence("next_run.txt", "short_run", facts)


def decision_words(
    decision: Decision, table: pd.DataFrame, optimum: pd.DataFrame, interval: float = 0.9
) -> Words:
    """Return what to train and why, what is given up, and how sure it is; tables are of the interval."""
    valuation, contenders = decision.valuation, decision.contenders
    model, normals = valuation.model, valuation.model.normals(decision.criterion.seed)
    candidates, longest = contenders.candidates, not decision.space.length_given
    base = candidates.bases[candidates.base[0]]
    taken = {name: float(amounts[0]) for name, amounts in valuation.taken(candidates).items()}
    breaches = zip(valuation.chances, contenders.breaches[:, 0].tolist(), strict=True)
    general = next(iter(contenders.sets.values()))
    start = model.base_losses((base,), candidates.batch.tokens)[0, 0]
    back = risk.probability_below(general.law[:1].T, start, general.sizes[:1].T)[0]
    alike = [(name, _called(name)) for name in decision.space.alike]
    left = _edges(decision.edges) | {"alike": alike, "outside": decision.outside[0]}
    roles = dict(zip(model.domains, model.frame.roles, strict=True))
    presets = [name for name in PRESETS if read_objective(name) == valuation.objective]
    chosen = decision.space.given - {*LENGTHS, "tokens_per_step", "sequence_length"}
    worth, error = decision.information
    reference = valuation.reference.name if valuation.reference else "its own base"
    facts = {
        "decision": decision,
        "valuation": valuation,
        "row": table.iloc[0],
        "in_short": configuration(model, candidates, 0, "in_short", longest=longest),
        "configuration": configuration(model, candidates, 0),
        "goal": goal_words(valuation),
        "priced": bool(valuation.objective.cost(1.0, decision.space.resources)),
        "presets": presets,
        # What next-run has to be given as well, besides a preset and the length. The batch of a study is
        # in every space.
        "same": [
            *([] if presets else ["the same --objective"]),
            *(["a --space of the same choices"] if chosen else []),
        ],
        # No short run is worth more than the tolerance, as far as the Monte Carlo error tells.
        "settled": worth - ERRORS * error <= decision.criterion.tolerance,
        "constraints": [
            {
                "own": own,
                "counted": f", counted from {reference}," if own.relative else "",
                "role": roles.get(name := getattr(own, "domain", ""), name),
                "breach": breach,
                "broken": breach > own.probability,
                "binds": place in decision.binding,
            }
            for place, (own, breach) in enumerate(breaches)
        ],
        "edges": edge_words(decision.edges),
        "alike": alike,
        "unsearched": paragraphs("decide.txt", "unsearched", left),
        "kept_from": _kept_from(decision),
        "taken": taken,
        "exceeds": any(taken[own] > most for own, most in valuation.objective.limits.given.items()),
        "resources": RESOURCE_WORDS,
        **_optimum(decision, optimum, interval),
        # By how much a new run ends above the reference.
        "trades": {
            domain: Estimate.of(contenders.sets[domain].changes(normals)[0], interval)
            for domain in model.domains
        },
        "back": float(back),
        "stake": float(np.ptp(decision.search.means[decision.search.allowed])),
        "rests": rests_on(model.study, continual=True, most=1),
        # What is to be minded.
        "base": base,
        "unmeasured": unmeasured_words(model.frame),
        "torch_alone": Check().run("", training_arguments, decision.chosen.run(0, "chosen"))
        is None,
        "epochs": [
            epochs_words(role, taken[f"{role}_epochs"])
            for role in ROLES
            if taken.get(f"{role}_epochs", 0.0) > MANY_EPOCHS
        ],
        "resting": resting(model.study, continual=True),
    }
    return render("decide.txt", facts)


def goal_words(valuation: Valuation) -> str:
    """Return what is minimised, as in "0.5 general + 0.5 kernel"."""
    shares = valuation.shares.items()
    return " + ".join(f"{share:.3g} {name}".removeprefix("1 ") for name, share in shares if share)


def edge_words(edges: Sequence[Edge]) -> list[str]:
    """Return where the best lies at or beyond an end of the space, a clause per quantity."""
    return paragraphs("decide.txt", "edges", _edges(edges))


def _edges(edges: Sequence[Edge]) -> dict[str, Any]:
    return {"edges": [(edge, _called(edge.quantity)) for edge in edges]}


def _kept_from(decision: Decision) -> str:
    """Return from which replay ratio on the constraints are kept, all else as recommended."""
    for cut in decision.slices:
        if cut.name == "replay" and decision.binding and not decision.binding_limits:
            # The slice has steps, between which the recommendation may lie.
            least = float(min([*cut.values[cut.allowed], decision.chosen.replay[0]]))
            return f"{100 * least:.0f} %" if least > cut.values.min() else ""
    return ""


def _called(name: str) -> dict[str, Any]:
    """Return what a quantity is called, what its values are multiplied by, and their unit then."""
    named: dict[str, dict[str, Any]] = notation()["quantities"]
    usual = {"name": name.replace("_", " "), "times": 1, "unit": "", "decimals": None}
    return usual | named.get(name, {})


def optimum_sentences(decision: Decision, interval: float = 0.9) -> list[str]:
    """Return what the best choice is, a sentence per quantity that was searched.

    As in "Optimal replay ratio: 0.33 (90 % credible interval 0.29 to 0.38)."; an optimum at an end of what
    was searched is said to be one.
    """
    if not decision.feasible:
        return decision.verdict(interval)[:1]
    facts = _optimum(decision, decision.optimum_table(interval), interval)
    return paragraphs("decide.txt", "optimum", facts)


def _optimum(decision: Decision, optimum: pd.DataFrame, interval: float) -> dict[str, Any]:
    """Return where the best of each quantity lies, and between which numbers it hardly matters."""
    cuts, tolerance = {own.name: own for own in decision.slices}, decision.criterion.tolerance
    found = []
    for name, rows in optimum.groupby("quantity", sort=False):
        likely = rows.sort_values("probability", ascending=False).to_dict("records")
        said: dict[str, Any] = {**_called(str(name)), "rows": likely}
        said |= dict.fromkeys(("reach", "flat", "numbers"), "")
        row = likely[0]
        if rows["value"].isna().all():
            times = said["times"]
            near = [*cuts[name].within(tolerance), row["recommended"]]
            if not row["edge"]:
                ends = [times * row[end] for end in ("median", "lower", "upper")]
                said["numbers"] = [supported(value, spread_of(*ends)) for value in ends]
            said["reach"] = sentence("decide.txt", "reach", said | {"row": row, "mass": interval})
            low, high = (number(float(times * end), 3) for end in (min(near), max(near)))
            said["flat"] = f"{low} to {high}" if low != high else ""
        found.append(said)
    batch = decision.valuation.model.batch
    return {"found": found, "batch": batch, "mass": f"{100 * interval:g} %"}


def run_words(values: RunValues, interval: float = 0.9) -> Words:
    """Return which run comes next, what it would change, and whether it pays."""
    first = values.order[0]
    worth, hurdle = values.values[first], values.hurdle(first)
    margin = worth.value - hurdle
    facts = {
        "values": values,
        "name": first,
        "errors": ERRORS,
        "steps": values.candidates.column("steps")[values.now],
        # None where the Monte Carlo error leaves that open.
        "pays": None if abs(margin) <= ERRORS * worth.error else bool(margin > 0),
        "now": configuration(values.valuation.model, values.candidates, values.now),
        "mass": f"{100 * interval:g} %",
        "moves": _moves(values, first, interval),
        "as_good": values.as_good(first, ERRORS),
        "telling": MOST_TELLING if MOST_TELLING in values.order[1:] else "",
        "in_words": {run.name: short_run(run) for run in values.runs},
        "edges": edge_words(values.edges),
        "alike": [_called(name)["name"] for name in values.space.alike],
    }
    return render("next_run.txt", facts)


def _moves(values: RunValues, name: str, interval: float) -> list[str]:
    """Return where the quantities that may be chosen would go after a run."""
    moves = []
    for searched in values.space.searched:
        after, before = values.after(name, searched), values.candidates.column(searched)[values.now]
        if not np.issubdtype(after.dtype, np.number):
            other = float(np.mean(after != before))
            what = f"another {searched.replace('_', ' ')} than {before}"
            moves += [f"{what} with probability {chance(other)}"] if other >= 0.01 else []
            continue
        lower, upper = np.quantile(after, [0.5 - interval / 2, 0.5 + interval / 2])
        if upper > lower:
            named = _called(searched)
            low, high, old = (float(named["times"] * end) for end in (lower, upper, before))
            ends = f"{number(low, 2)} to {number(high, 2)}{named['unit']}"
            moves.append(f"{named['name']} {ends} (now {number(old, 3)})")
    return moves


def schedule_words(choice: ScheduleChoice, interval: float = 0.9) -> Words:
    """Return which schedule to follow, and what it gains."""
    facts = {
        "choice": choice,
        "mixture": mixture_words(choice.run.mixture),
        "goal": goal_words(choice.valuation),
        "edges": edge_words([edge for edge in [choice.edges[choice.advised]] if edge]),
        "gain": Estimate.of(choice.gains, interval),
        "moved": Estimate.of(-choice.gains, interval).moved,
        "rests": rests_on(choice.valuation.model.study, continual=True, most=1),
    }
    return render("schedule.txt", facts)
