"""A decision in plain words: what to train and why, what is given up for what, and how sure it is."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.valuation import OWN
from bayes_cpt.report.configurations import QUANTITIES, configuration, in_short, quantity_text
from bayes_cpt.report.numbers import SURE, Estimate, between, fixed, listed, signed, with_error
from bayes_cpt.report.paper.sentences import optimum_sentences
from bayes_cpt.report.rendering import Words, render
from bayes_cpt.report.words.law import resting, rests_on
from bayes_cpt.study.resources import MANY_EPOCHS, RESOURCE_WORDS, ROLES, epochs_words

if TYPE_CHECKING:
    from bayes_cpt.decisions.contenders import Slice
    from bayes_cpt.decisions.decision import Decision

# What the power of the learning rate in the forward area bears on.
PEAKS = ("peak", "relative_peak")
# Loss potentials up to and from which a base is called annealed, or not annealed.
ANNEALED, WHOLE = 0.1, 0.9


def words(decision: "Decision", interval: float = 0.9) -> Words:
    """Return what a decision comes to.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the intervals.
    """
    return render(
        "decision.txt",
        {
            **_recommendation(decision),
            "mass": f"{100 * interval:g} %",
            "constraints": _constraints(decision),
            "taken": _taken(decision),
            "limits": _limits(decision),
            "keeping": decision.search.feasible.mean(),
            "base": _base(decision),
            "quantities": _quantities(decision, interval),
            "shapes": _shapes(decision),
            "trades": _trades(decision, interval),
            "back": _back(decision),
            **_certainty(decision),
            "cautions": _cautions(decision),
            "optimum": optimum_sentences(decision, interval) if decision.feasible else [],
            "rests": rests_on(decision.valuation.model.study, continual=True, most=1),
        },
    )


def _recommendation(decision: "Decision") -> dict[str, Any]:
    valuation, candidates = decision.valuation, decision.contenders.candidates
    weights: Any = zip(valuation.weights, valuation.model.domains, strict=True)
    if valuation.thirds:
        total = sum(valuation.objective.weights.values())
        weights = ((share / total, name) for name, share in valuation.objective.weights.items())
    reference = valuation.reference
    return {
        "feasible": decision.feasible,
        "searched": bool(decision.space.searched),
        "in_short": in_short(candidates, 0),
        "configuration": configuration(candidates, 0),
        "measure": decision.criterion.measure.meaning,
        "goal": " + ".join(f"{weight:.3g} {name}" for weight, name in weights),
        "reference": reference.name if reference else "its base",
        "outside": listed(list(decision.outside[0]), 1),
        "edges": listed(decision.edges, 1),
    }


def _constraints(decision: "Decision") -> list[dict[str, Any]]:
    breaches = decision.contenders.breaches[:, 0]
    return [
        {
            "text": str(constraint),
            "kept": breach <= constraint.probability,
            "breach": float(breach),
        }
        for constraint, breach in zip(decision.valuation.objective.chances, breaches, strict=True)
    ]


def _taken(decision: "Decision") -> list[str]:
    """Return what the run takes of data, time and money, where that is known."""
    taken = decision.valuation.taken(decision.contenders.candidates)
    return [
        f"{quantity_text(float(amounts[0]))} {RESOURCE_WORDS[name]}"
        for name, amounts in taken.items()
    ]


def _limits(decision: "Decision") -> list[dict[str, Any]]:
    taken = decision.valuation.taken(decision.contenders.candidates)
    return [
        {
            "text": str(limit),
            "kept": bool(taken[limit.name][0] <= limit.most),
            "taken": quantity_text(float(taken[limit.name][0])),
        }
        for limit in decision.valuation.objective.limits.given
    ]


def _base(decision: "Decision") -> dict[str, Any] | None:
    """Return how far the base is annealed, and what the others would cost; None where nobody knows."""
    candidates = decision.contenders.candidates
    base = candidates.bases[candidates.base[0]]
    potential = base.loss_potential
    if potential is None:
        return None
    owners = decision.optimum.column("base")
    best = _lowest_by_base(decision)
    here = best.pop(base.name, 0.0)
    others = [
        {
            "name": name,
            "potential": decision.space.bases[_names(decision).index(name)].loss_potential,
            "gap": signed(value - here),
            "best": float(np.mean(owners == name)),
        }
        for name, value in sorted(best.items(), key=lambda pair: pair[1])
    ]
    return {
        "name": base.name,
        "potential": potential,
        "annealed": potential <= ANNEALED,
        "whole": potential >= WHOLE,
        "best": float(np.mean(owners == base.name)),
        "others": others if "base" in decision.space.searched else [],
    }


def _names(decision: "Decision") -> list[str]:
    return [base.name for base in decision.space.bases]


def _lowest_by_base(decision: "Decision") -> dict[str, float]:
    """Return the lowest expected objective from each base."""
    search = decision.search
    allowed = np.where(search.feasible | ~search.feasible.any(), search.means, np.inf)
    owners = search.candidates.column("base")
    lowest = {name: float(allowed[owners == name].min()) for name in _names(decision)}
    return {name: value for name, value in lowest.items() if np.isfinite(value)}


def _quantities(decision: "Decision", interval: float) -> list[dict[str, Any]]:
    return [_quantity(decision, cut, interval) for cut in decision.slices if cut.name in QUANTITIES]


def _quantity(decision: "Decision", cut: "Slice", interval: float) -> dict[str, Any]:
    heading, name, unit = QUANTITIES[cut.name]
    chosen = float(decision.contenders.candidates.column(cut.name)[0])
    draws = decision.optimum.column(cut.name).astype(np.float64)
    lower, upper = np.quantile(draws, [0.5 - interval / 2, 0.5 + interval / 2])
    row = decision.optimum_table().set_index("quantity").loc[cut.name]
    ends = (("lowest", float(row["at_lowest"])), ("highest", float(row["at_highest"])))
    powers = _by_forward_power(decision, draws, interval) if cut.name in PEAKS else None
    flat = np.append(cut.within(decision.criterion.tolerance), chosen)
    first, last = quantity_text(float(flat.min())), quantity_text(float(flat.max()))
    return {
        "heading": heading,
        "name": name,
        "unit": unit,
        "chosen": quantity_text(chosen),
        "range": between(quantity_text(float(lower), 2), quantity_text(float(upper), 2)),
        "ends": [{"name": end, "share": share} for end, share in ends if share >= 1.0 - SURE],
        "flat": f"{first} to {last}" if first != last else "",
        "powers": powers,
    }


def _by_forward_power(
    decision: "Decision", best: NDArray[np.float64], interval: float
) -> dict[str, str] | None:
    """Return the best peak learning rate where rho is low and where it is high; None where rho is fixed."""
    powers = decision.valuation.model.parameters.get("forward_power")
    # The draws of a stack are those of several laws, and only some of them may have a power.
    if powers is None or np.size(powers) != best.size or np.ptp(powers) == 0.0:
        return None
    low, high = np.quantile(powers, [1 / 3, 2 / 3])

    def lies(chosen: NDArray[np.float64]) -> str:
        ends = np.quantile(chosen, [0.5 - interval / 2, 0.5 + interval / 2])
        return between(*(quantity_text(float(end), 2) for end in ends))

    return {
        "low": f"{low:.2f}",
        "high": f"{high:.2f}",
        "at_low": lies(best[powers <= low]),
        "at_high": lies(best[powers >= high]),
    }


def _shapes(decision: "Decision") -> list[dict[str, Any]]:
    if "decay_shape" not in decision.space.searched:
        return []
    shapes = decision.optimum.column("decay_shape")
    return [
        {"name": str(shape).replace("_", " "), "share": float(np.mean(shapes == shape))}
        for shape in np.unique(shapes)
    ]


def _trades(decision: "Decision", interval: float) -> list[dict[str, Any]]:
    contenders = decision.contenders
    new_runs = contenders.new_runs(decision.criterion.seed)[:, 0]
    starts = np.tile(contenders.starts[:, 0], new_runs.shape[-1] // contenders.starts.shape[-1])
    rises = contenders.probability_above(contenders.starts)[:, 0]
    trades = []
    for index, domain in enumerate(decision.valuation.model.domains):
        change = Estimate.of(new_runs[index] - starts[index], interval)
        trades.append(
            {
                "domain": domain,
                "change": change,
                "way": "rises" if change.median > 0 else "falls",
                "sure": float(rises[index] if change.median > 0 else 1.0 - rises[index]),
            }
        )
    return trades


def _back(decision: "Decision") -> dict[str, Any]:
    """Return whether general loss is back at that of the run's own base."""
    contenders, model = decision.contenders, decision.valuation.model
    candidates = contenders.candidates
    base = candidates.bases[candidates.base[0]]
    above = contenders.probability_above(model.base_losses((base,)))[0, 0]
    return {"domain": model.domains[0], "base": base.name, "probability": float(1.0 - above)}


def _certainty(decision: "Decision") -> dict[str, Any]:
    contenders, tolerance = decision.contenders, decision.criterion.tolerance
    regret, within = contenders.expected_regret, contenders.probability_within(tolerance)
    value, error = decision.information
    return {
        "tolerance": f"{tolerance:g}",
        "within": float(within[0]),
        "regret": fixed(float(regret[0]), error),
        "rival": _rival(decision),
        "information": with_error(value, error),
        "settled": value <= tolerance,
    }


def _rival(decision: "Decision") -> dict[str, Any] | None:
    """Return the next best choice that is well apart, None where there is only one."""
    contenders = decision.contenders
    if len(contenders) == 1:
        return None
    regret = contenders.expected_regret
    rival = int(np.argsort(regret[1:])[0]) + 1
    return {
        "configuration": configuration(contenders.candidates, rival),
        "regret": fixed(float(regret[rival]), decision.information[1]),
        "better": float(np.mean(contenders.values[rival] < contenders.values[0])),
        "near": regret[rival] - regret[0] <= decision.criterion.tolerance,
    }


def _cautions(decision: "Decision") -> list[str]:
    valuation, candidates = decision.valuation, decision.contenders.candidates
    base, objective = candidates.bases[candidates.base[0]], valuation.objective
    cautions = [f"{_sentence(edge)}, so that better may lie beyond" for edge in decision.edges]
    cautions += [_sentence(note) for note in decision.space.notes]
    if None in valuation.model.measured(base):
        cautions.append(f"The loss of {base.name} was not measured: it is taken to lie on the law")
    if base.schedule is None:
        cautions.append(
            f"The pre-training of {base.name} is not known. How far it was annealed, and what more "
            "general data would gain, rest on the CPT runs and the priors alone"
        )
    several = len(decision.space.bases) > 1
    if objective.reference == OWN and "base" in decision.space.searched:
        cautions.append(
            "Changes are from each own base, which favours bases that are bad to begin with"
        )
    elif several and valuation.reference is not None and objective.reference is None:
        cautions.append(
            f"Changes are counted from {valuation.reference.name}, the base with the lowest general loss"
        )
    cautions += [
        third.caution.removesuffix(".") for third in valuation.thirds.values() if third.misses
    ]
    taken = valuation.taken(candidates)
    cautions += [
        _sentence(epochs_words(role, float(epochs[0])))
        for role in ROLES
        if (epochs := taken.get(f"{role}_epochs")) is not None and epochs[0] > MANY_EPOCHS
    ]
    if rests := resting(valuation.model.study, continual=True):
        cautions.append(rests.removesuffix("."))
    return cautions


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
