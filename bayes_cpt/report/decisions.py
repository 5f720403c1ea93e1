"""What to train, which run comes next and which schedule to follow, in plain words."""

from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.decision import CONSTRAINT, Decision
from bayes_cpt.decisions.next_run import MOST_TELLING, RunValues
from bayes_cpt.decisions.objective import PRESETS
from bayes_cpt.decisions.schedule_choice import COSINE, FREE, PAIRS, WSD, ScheduleChoice
from bayes_cpt.decisions.valuation import OWN, Valuation
from bayes_cpt.forecast.derived import MEANINGS
from bayes_cpt.report.fit import resting, rests_on, unmeasured_words
from bayes_cpt.report.numbers import (
    Estimate,
    alike,
    between,
    chance,
    fixed,
    percent,
    quantity,
    with_error,
)
from bayes_cpt.report.words import Words, notation, paragraphs, render, sentence
from bayes_cpt.study.exports import huggingface_follows
from bayes_cpt.study.resources import MANY_EPOCHS, RESOURCE_WORDS, ROLES, epochs_words
from bayes_cpt.study.runs import Run, mixture_words

QUANTITIES = notation()["quantities"]
# What the power of the learning rate in the forward area bears on.
PEAKS = ("peak", "relative_peak")
# Share of the peak above which the last learning rate is not annealed.
HELD = 0.95
# Monte Carlo errors within which two numbers do not differ.
ERRORS = 2.0
# Shares of variance that are worth a word.
LEAST_SHARE = 0.1
FAMILY_NAMES = {
    FREE: "the free schedule",
    COSINE: "the best cosine",
    WSD: "the best hold-and-decay (WSD)",
}
# Shares of its first learning rate down to which a schedule is kept, and below which it is gone.
KEPT, GONE = 0.95, 0.01


def configuration(candidates: Candidates, row: int, block: str = "configuration") -> str:
    """Return one configuration in words, or ``in_short`` what matters most of it."""
    batch = candidates.schedules
    columns = ("base", "targets", "decay_shape", "relative_peak")
    of_schedule = ("initial", "peak", "last_rate", "warmup_steps", "decay_steps", "steps")
    facts = {name: candidates.column(name)[row] for name in columns}
    facts |= {name: getattr(batch, name)[row] for name in of_schedule}
    facts["replay"] = candidates.replay[row]
    facts["goes_on"] = np.isclose(batch.peak[row], batch.initial[row])
    return sentence("decide.txt", block, facts)


def short_run(run: Run) -> str:
    """Return a short run in words."""
    facts = {"run": run, "rest": mixture_words(run.mixture) if run.mixture else "", "held": HELD}
    return sentence("next_run.txt", "short_run", facts)


def decision_words(decision: Decision, interval: float = 0.9) -> Words:
    """Return what to train and why, what is given up for what, and how sure it is."""
    valuation, contenders = decision.valuation, decision.contenders
    candidates, tolerance = contenders.candidates, decision.criterion.tolerance
    value, error = decision.information
    table = decision.table(interval)
    taken = {name: float(amounts[0]) for name, amounts in valuation.taken(candidates).items()}
    breaches = contenders.breaches[:, 0]
    base = candidates.bases[candidates.base[0]]
    general = next(iter(contenders.sets.values()))
    start = valuation.model.base_losses((base,))[0, 0]
    back = risk.probability_below(general.law[:1].T, start, general.sizes[:1].T)[0]
    return render(
        "decide.txt",
        {
            "decision": decision,
            "row": table.iloc[0],
            "feasible": decision.feasible,
            "searched": bool(decision.space.searched),
            "in_short": configuration(candidates, 0, "in_short"),
            "configuration": configuration(candidates, 0),
            "goal": goal_words(valuation),
            "reference": valuation.reference.name if valuation.reference else "its base",
            "outside": list(decision.outside[0]),
            "mass": f"{100 * interval:g} %",
            "tolerance": f"{tolerance:g}",
            "constraints": [
                {
                    "text": str(own),
                    "event": own.event,
                    "most": own.probability,
                    "kept": breach <= own.probability,
                    "breach": float(breach),
                    "binds": place in decision.binding,
                }
                for place, (own, breach) in enumerate(
                    zip(valuation.objective.chances, breaches, strict=True)
                )
            ],
            "edges": edge_words(decision),
            "kept_from": _kept_from(decision),
            "taken": [f"{quantity(own)} {RESOURCE_WORDS[name]}" for name, own in taken.items()],
            "limits": [
                {
                    "text": str(limit),
                    "kept": taken[limit.name] <= limit.most,
                    "taken": quantity(taken[limit.name]),
                }
                for limit in valuation.objective.limits.given
            ],
            "base": None if base.loss_potential is None else _bases(decision, base.name),
            "quantities": _quantities(decision, interval),
            "shapes": _shapes(decision),
            "trades": _trades(decision, interval),
            "general": valuation.model.frame.general,
            "back": float(back),
            "rival": _rival(decision, table),
            "schedule": _schedule_gain(decision, interval),
            "error": error,
            "information": with_error(value, error),
            "stake": quantity(float(np.ptp(decision.search.means[decision.search.allowed])), 2),
            "settled": value <= tolerance,
            "cautions": _cautions(decision, taken),
            "optimum": optimum_sentences(decision, interval) if decision.feasible else [],
            "rests": rests_on(valuation.model.study, continual=True, most=1),
        },
    )


def goal_words(valuation: Valuation) -> str:
    """Return what is minimised, as in "0.5 general + 0.5 kernel"."""
    weights: Any = zip(valuation.weights, valuation.model.domains, strict=True)
    if valuation.thirds:
        weights = ((share, name) for name, share in valuation.objective.shares.items())
    return " + ".join(f"{weight:.3g} {name}" for weight, name in weights)


def _bases(decision: Decision, chosen: str) -> dict[str, Any]:
    """Return how often the chosen base is the best, and what the others would cost at their best."""
    search, owners = decision.search, decision.optimum.column("base")
    allowed = np.where(search.feasible | ~search.feasible.any(), search.means, np.inf)
    bases = search.candidates.column("base")
    lowest = {base.name: float(allowed[bases == base.name].min()) for base in decision.space.bases}
    others = [
        {
            "name": base.name,
            "potential": base.loss_potential,
            "gap": lowest[base.name] - lowest[chosen],
            "best": float(np.mean(owners == base.name)),
        }
        for base in sorted(decision.space.bases, key=lambda base: lowest[base.name])
        if base.name != chosen and np.isfinite(lowest[base.name])
    ]
    return {
        "best": float(np.mean(owners == chosen)),
        "others": others if "base" in decision.space.searched else [],
    }


def _quantities(decision: Decision, interval: float) -> list[dict[str, Any]]:
    """Return what is said of each number that was searched: its row of the optimum's table and its cost."""
    table = decision.optimum_table(interval).set_index("quantity")
    found = []
    for cut in decision.slices:
        if cut.name not in QUANTITIES:
            continue
        row = table.loc[cut.name]
        flat = np.append(cut.within(decision.criterion.tolerance), row["recommended"])
        first, last = quantity(float(flat.min())), quantity(float(flat.max()))
        found.append(
            {
                **QUANTITIES[cut.name],
                "row": row,
                "range": _with_mass(row, QUANTITIES[cut.name]["unit"], interval),
                "flat": f"{first} to {last}" if first != last else "",
                "powers": _by_forward_power(decision, cut.name, row, interval)
                if cut.name in PEAKS
                else None,
            }
        )
    return found


def _lies(lower: float, upper: float, unit: str = "") -> str:
    """Return where the best lies; an end that the space cut is NaN, both where a constraint did."""
    if np.isnan(lower) and np.isnan(upper):
        return "where the constraint lets it"
    if np.isnan(lower):
        return f"at {quantity(upper, 2)}{unit} or less"
    if np.isnan(upper):
        return f"at {quantity(lower, 2)}{unit} or more"
    return between(quantity(lower, 2), quantity(upper, 2)) + unit


def _with_mass(row: Any, unit: str, interval: float) -> str:
    """Return where the best lies and how surely: with one end, as surely as it is beyond the other."""
    mass = 50 + 50 * interval if row["edge"] else 100 * interval
    shown = f" ({mass:g} %)" if row["edge"] != CONSTRAINT else ""
    return _lies(row["lower"], row["upper"], unit) + shown


def edge_words(decision: Decision) -> list[str]:
    """Return where the best lies at or beyond an end of the space, a clause per quantity."""
    clauses = []
    for edge in decision.edges:
        what, unit = (_called(edge.quantity)[key] for key in ("name", "unit"))
        why = f"the {edge.end} allowed" if edge.given else "as far as these runs let one look"
        clauses.append(
            f"the best {what} lies at or beyond {quantity(edge.value)}{unit}, {why} "
            f"({chance(edge.share)} of the draws)"
        )
    return clauses


def _kept_from(decision: Decision) -> str:
    """Return from which replay ratio on the constraints are kept, all else as recommended."""
    for cut in decision.slices:
        if cut.name == "replay" and decision.binding and cut.allowed.any():
            least = float(cut.values[cut.allowed].min())
            return f"{100 * least:.0f} %" if least > cut.values.min() else ""
    return ""


def _by_forward_power(
    decision: Decision, name: str, row: pd.Series, interval: float
) -> dict[str, str] | None:
    """Return the best peak learning rate where rho is low and where it is high; None where rho is fixed."""
    best = decision.optimum.column(name).astype(np.float64)
    powers = decision.valuation.model.parameters.get("forward_power")
    # The draws of a stack are those of several laws, and only some of them may have a power.
    if powers is None or np.size(powers) != best.size or np.ptp(powers) == 0.0:
        return None
    low, high = np.quantile(powers, [1 / 3, 2 / 3])

    def lies(chosen: Floats) -> str:
        lower, upper = np.quantile(chosen, [0.5 - interval / 2, 0.5 + interval / 2])
        lower, upper = lower + 0.0 * row["lower"], upper + 0.0 * row["upper"]
        return _lies(float(lower), float(upper))

    return {
        "low": f"{low:.2f}",
        "high": f"{high:.2f}",
        "at_low": lies(best[powers <= low]),
        "at_high": lies(best[powers >= high]),
    }


def _shapes(decision: Decision) -> dict[str, float]:
    if "decay_shape" not in decision.space.searched:
        return {}
    shapes, counts = np.unique(decision.optimum.column("decay_shape"), return_counts=True)
    return dict(zip(shapes.tolist(), (counts / counts.sum()).tolist(), strict=True))


def _trades(decision: Decision, interval: float) -> dict[str, Estimate]:
    """Return by how much a new run ends above the reference, by validation set."""
    normals = decision.valuation.model.normals(decision.criterion.seed)
    return {
        domain: Estimate.of(decision.contenders.sets[domain].changes(normals)[0], interval)
        for domain in decision.valuation.model.domains
    }


def _schedule_gain(decision: Decision, interval: float) -> dict[str, Any] | None:
    """Return what another course of the learning rate could gain, and what to ask; None if not known."""
    if not decision.feasible or decision.schedule_gain is None:
        return None
    chosen, goal = decision.chosen, decision.valuation.objective.name
    steps, base = chosen.schedules.steps[0], chosen.column("base")[0]
    asked = [f"bayes-cpt schedule FIT --steps {steps} --base {base} --replay {chosen.replay[0]:g}"]
    if mixture := chosen.mixtures[chosen.mixture[0]]:
        asked.append("--targets " + ",".join(f"{name}={own:g}" for name, own in mixture.items()))
    if goal != "balanced":
        asked.append(f"--objective {goal if goal in PRESETS else 'FILE'}")
    return {
        "moved": Estimate.of(-decision.schedule_gain, interval).moved,
        "matters": decision.schedule_matters,
        "command": " ".join(asked),
    }


def _rival(decision: Decision, table: pd.DataFrame) -> dict[str, Any] | None:
    """Return the next best choice that is well apart, None where there is only one."""
    if len(table) == 1:
        return None
    rival, values = int(table["regret"][1:].idxmin()), decision.contenders.values
    return {
        "configuration": configuration(decision.contenders.candidates, rival),
        "regret": table["regret"][rival],
        "better": float(np.mean(values[rival] < values[0])),
    }


def _cautions(decision: Decision, taken: dict[str, float]) -> str:
    valuation, base = decision.valuation, decision.chosen.bases[decision.chosen.base[0]]
    searched = "base" in decision.space.searched
    given = valuation.objective.reference
    facts = {
        "decision": decision,
        "edges": edge_words(decision),
        "base": base,
        "unmeasured": unmeasured_words(valuation.model.frame),
        "on_law": None in valuation.model.measured(base),
        "torch_alone": not huggingface_follows(decision.chosen.run(0, "chosen")),
        "own": given == OWN and searched,
        "lowest": given is None and len(decision.space.bases) > 1 and valuation.reference,
        "first": valuation.model.frame.roles[0],
        "epochs": [
            epochs_words(role, taken[f"{role}_epochs"])
            for role in ROLES
            if taken.get(f"{role}_epochs", 0.0) > MANY_EPOCHS
        ],
        "rests": resting(valuation.model.study, continual=True),
    }
    return " ".join(paragraphs("decide.txt", "cautions", facts))


def _called(name: str) -> dict[str, str]:
    """Return what a quantity is called, and what its values are shares of."""
    words: dict[str, str] = QUANTITIES.get(name, {"name": name.replace("_", " "), "unit": ""})
    return words


def optimum_sentences(decision: Decision, interval: float = 0.9) -> list[str]:
    """Return what the best choice is, a sentence per quantity that was searched.

    As in "Optimal replay ratio 0.33 (90 % credible interval 0.29 to 0.38)."; an optimum at an end of what
    was searched is said to be one.
    """
    found = []
    for name, rows in decision.optimum_table(interval).groupby("quantity", sort=False):
        likely = rows.sort_values("probability", ascending=False).to_dict("records")
        named = _called(str(name))
        row, is_number = likely[0], bool(rows["value"].isna().all())
        ends = [row[end] for end in ("median", "lower", "upper")]
        numbers = alike(ends) if is_number and not row["edge"] else None
        reach = _with_mass(row, named["unit"], interval).removeprefix("at ") if is_number else ""
        found.append({**named, "rows": likely, "numbers": numbers, "reach": reach})
    facts = {"found": found, "mass": f"{100 * interval:g} %"}
    return paragraphs("decide.txt", "optimum", facts)


def run_words(values: RunValues, interval: float = 0.9) -> Words:
    """Return which run comes next, what it would change, whether it pays, and what it would tell."""
    name = values.order[0]
    worth, (perfect, error) = values.values[name], values.perfect
    now = values.candidates.take(slice(values.now, values.now + 1))
    run = values.affordable.plan.run(name)
    return render(
        "next_run.txt",
        {
            "values": values,
            "name": name,
            "run": short_run(run),
            "cost": f"{values.affordable.cost(run):g}",
            "worth": with_error(worth.value, worth.error),
            "hurdle": f"{values.hurdle(name):.2g}",
            "pays": pays(values, name),
            "hopeless": perfect < values.hurdle(name),
            "perfect": with_error(perfect, error),
            "share": percent(worth.value / perfect) if perfect > 0 else "",
            "now": configuration(now, 0),
            "mass": f"{100 * interval:g} %",
            "moves": _moves(values, name, interval),
            "as_good": values.as_good(name, ERRORS),
            "learnt": _learnt(values),
            "telling": _most_telling(values),
        },
    )


def _most_telling(values: RunValues) -> dict[str, str] | None:
    """Return what the run is worth that tells most of what the fit leaves open; None without such a run."""
    names = [run.name for run in values.runs]
    if MOST_TELLING not in names or values.order[0] == MOST_TELLING:
        return None
    worth = values.values[MOST_TELLING]
    return {
        "run": short_run(values.affordable.plan.run(MOST_TELLING)),
        "worth": with_error(worth.value, worth.error),
        "hurdle": f"{values.hurdle(MOST_TELLING):.2g}",
    }


def pays(values: RunValues, name: str) -> bool | None:
    """Return whether a run is worth its cost; None where the Monte Carlo error leaves that open."""
    worth = values.values[name]
    margin = worth.value - values.hurdle(name)
    return None if abs(margin) <= ERRORS * worth.error else bool(margin > 0)


def _moves(values: RunValues, name: str, interval: float) -> list[str]:
    """Return where the quantities that may be chosen would go after a run."""
    now = values.candidates.take(slice(values.now, values.now + 1))
    moves = []
    for searched in values.space.searched:
        after, before = values.after(name, searched), now.column(searched)[0]
        if not np.issubdtype(after.dtype, np.number):
            other = float(np.mean(after != before))
            if other >= 0.01:
                what = searched.replace("_", " ")
                moves.append(f"another {what} than {before} with probability {percent(other)}")
            continue
        lower, upper = np.quantile(after, [0.5 - interval / 2, 0.5 + interval / 2])
        if upper > lower:
            named = _called(searched)
            ends = f"{quantity(float(lower), 2)} to {quantity(float(upper), 2)}"
            moves.append(f"{named['name']} {ends}{named['unit']} (now {quantity(float(before))})")
    return moves


def _learnt(values: RunValues) -> dict[str, list[str]]:
    """Return by run the effects that it tells most about, or quantities where few are asked about."""
    table = values.information_table()
    effects = table["quantity"].isin(list(MEANINGS))
    if effects.any() and not effects.all():
        table = table[effects]
    best = table.loc[table.groupby(["quantity", "domain"])["per_1000_steps"].idxmax()]
    least = np.maximum(LEAST_SHARE, ERRORS * best["error"])
    best = best[best["variance"] >= least].sort_values("variance", ascending=False)
    return {
        str(name): [
            f"{row['quantity'].replace('_', ' ')} on {row['domain']} ({percent(row['variance'])})"
            for row in rows.to_dict("records")
        ]
        for name, rows in best.groupby("run", sort=False)
    }


def schedule_words(choice: ScheduleChoice, interval: float = 0.9) -> Words:
    """Return which schedule to follow, what it gains, and what another shape could gain at most."""
    advised = choice.advised
    return render(
        "schedule.txt",
        {
            "choice": choice,
            "mixture": mixture_words(choice.mixture),
            "goal": goal_words(choice.valuation),
            "schedule": choice.schedules[advised],
            "course": _course(choice),
            "gain": Estimate.of(choice.gains(WSD, COSINE), interval),
            "bound": Estimate.of(choice.gains(FREE, advised), interval),
            "pairs": [
                {
                    "name": FAMILY_NAMES[family],
                    "against": FAMILY_NAMES[against],
                    "gain": f"ends {Estimate.of(-choice.gains(family, against), interval).moved}",
                }
                for family, against in PAIRS
            ],
            "noise": fixed(choice.noise, 0.3 * choice.noise),
            "runs": choice.runs_needed(WSD, COSINE),
        },
    )


def _course(choice: ScheduleChoice) -> dict[str, Any]:
    """Return the course of the free schedule, which falls and may begin to after the warm-up."""
    rates, warmup = choice.schedules[FREE].learning_rates(), choice.warmup
    first = float(rates[max(warmup - 1, 0)])
    # How long the learning rate stays at some share of its first one or above.
    reached = {
        name: int(np.flatnonzero(rates >= share * first)[-1]) + 1
        for name, share in (("kept", KEPT), ("half", 0.5), ("gone", GONE))
    }
    initial = choice.base.schedule.final if choice.base.schedule else 0.0
    goes_on = bool(np.isclose(first, initial, rtol=0.01))
    rises, last = first > initial, float(rates[-1])
    about = {"first": first, "last": last, "steps": rates.size, "warmup": warmup}
    return reached | about | {"goes_on": goes_on, "rises": rises}
