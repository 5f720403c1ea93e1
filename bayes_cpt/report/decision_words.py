"""A decision in plain words: what to train and why, what is given up for what, and how sure it is."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.valuation import OWN
from bayes_cpt.report.landmark_words import chance

if TYPE_CHECKING:
    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.decisions.search.candidates import Candidates
    from bayes_cpt.decisions.slices import Slice

type Floats = NDArray[np.floating]

# Loss potentials up to and from which a base is called annealed, or not annealed.
ANNEALED, WHOLE = 0.1, 0.9
# From here on something is as good as certain, and where two are as good as each other.
SURE, EVEN = 0.9, 0.6
# Heading, what it is, and what its values are shares of.
QUANTITIES = {
    "loss_potential": ("Loss potential", "loss potential", ""),
    "replay": ("Replay", "replay ratio", ""),
    "peak": ("Peak LR", "peak LR", ""),
    "relative_peak": ("Peak LR", "peak LR", " of the PT peak"),
    "warmup_steps": ("Re-warm-up", "re-warm-up", " steps"),
    "warmup_share": ("Re-warm-up", "re-warm-up", " of the run"),
    "decay_share": ("Decay", "length of the decay", " of the steps after the re-warm-up"),
    "final": ("Final LR", "final LR", ""),
    "relative_final": ("Final LR", "final LR", " of the peak"),
    "steps": ("Length", "length", " steps"),
}


def advise(decision: "Decision", interval: float = 0.9) -> list[str]:
    """Return what a decision comes to, one paragraph per question.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the intervals in brackets.
    """
    # Of what cannot be chosen, or should not be, nobody asks how sure it is.
    is_choice = decision.feasible and bool(decision.space.searched)
    found = [
        _what(decision),
        _constraints(decision),
        _base(decision),
        *(_quantity(decision, own, interval) for own in decision.slices if own.name in QUANTITIES),
        _shape(decision),
        _trade(decision, interval),
        _coming_back(decision),
        *([_surety(decision), _information(decision)] if is_choice else []),
        _cautions(decision),
    ]
    return [paragraph for paragraph in found if paragraph]


def configuration(candidates: "Candidates", row: int) -> str:
    """Return one configuration in words."""
    batch, base = candidates.schedules, candidates.bases[candidates.base[row]]
    initial, peak, last = batch.initial[row], batch.peak[row], batch.last_rate[row]
    warmup, decay, steps = batch.warmup_steps[row], batch.decay_steps[row], batch.steps[row]
    relative = candidates.column("relative_peak")[row]
    share = f" ({relative:.2g} of the PT peak)" if np.isfinite(relative) else ""
    if warmup:
        way = "re-warm" if peak > initial else "lower the LR"
        parts = [f"{way} in {warmup} steps from {initial:g} to {peak:g}{share}"]
    elif np.isclose(peak, initial):
        parts = [f"go on at {peak:g}{share}"]
    else:
        parts = [f"start at {peak:g}{share} without a re-warm-up"]
    if steps > warmup + decay:
        parts.append(f"stay there for {steps - warmup - decay} steps")
    if decay:
        shape = str(candidates.column("decay_shape")[row]).replace("_", " ")
        parts.append(f"decay in {decay} steps ({shape}) to {last:g}")
    return (
        f"from {base.name}, {steps} steps with {100 * candidates.replay[row]:.3g} % general data: "
        f"{', '.join(parts)}"
    )


def _what(decision: "Decision") -> str:
    valuation = decision.valuation
    weights = dict(zip(valuation.model.domains, valuation.weights, strict=True))
    goal = " + ".join(f"{weight:.3g} {name}" for name, weight in weights.items())
    head = (
        "Train" if decision.feasible else "Nothing keeps the constraints; the nearest is to train"
    )
    text = f"{head} {configuration(decision.contenders.candidates, 0)}."
    if not decision.space.searched:
        return f"{text} The space leaves nothing to choose."
    return f"{text} That is best by {decision.trait.measure.meaning} of {goal}."


def _constraints(decision: "Decision") -> str:
    objective = decision.valuation.objective
    if not objective.constraints:
        return ""
    breaches = decision.contenders.breaches[:, 0]
    parts = [
        f"{own} is {'kept' if breach <= own.probability else 'broken'}, with {chance(breach)}"
        for own, breach in zip(objective.constraints, breaches, strict=True)
    ]
    share = decision.search.feasible.mean()
    tail = f"{100 * share:.0f} % of what was looked at keeps all of them"
    if not decision.feasible:
        tail = (
            "no configuration of the space keeps all of them: allow more, or widen the space "
            "(more replay, a lower peak LR, fewer steps)"
        )
    return f"Constraints: {'; '.join(parts)}; {tail}."


def _base(decision: "Decision") -> str:
    searched, candidates = decision.space.searched, decision.contenders.candidates
    base = candidates.bases[candidates.base[0]]
    potential = base.loss_potential
    if potential is None:
        return ""
    if potential <= ANNEALED:
        why = (
            "annealed: its loss is low at the start, and the re-warm-up gives CPT the learning rate to "
            "learn with"
        )
    elif potential >= WHOLE:
        why = "not annealed: CPT starts at a learning rate to learn with, and annealing is yet to gain"
    else:
        why = "partly annealed: some of the gain of annealing is yet to come"
    text = f"Base: {base.name} has loss potential {potential:.2g} and is {why}."
    if "base" not in searched:
        return text
    owners = decision.optimum.column("base")
    text += f" The best of {chance(float(np.mean(owners == base.name)))} of the draws starts there."
    gaps = _gaps(decision)
    own_gap = gaps.pop(base.name, 0.0)
    parts = []
    for name, gap in sorted(gaps.items(), key=lambda pair: pair[1]):
        share = chance(float(np.mean(owners == name)))
        other = next(own for own in decision.space.bases if own.name == name)
        parts.append(
            f"{name} (loss potential {other.loss_potential:.2g}) {_signed(gap - own_gap)} ({share})"
        )
    return f"{text} At their best the others differ by, in nats: {', '.join(parts)}."


def _gaps(decision: "Decision") -> dict[str, float]:
    """Return the lowest expected objective from each base."""
    search = decision.search
    allowed = np.where(search.feasible | ~search.feasible.any(), search.means, np.inf)
    owners = search.candidates.column("base")
    found = {base.name: float(allowed[owners == base.name].min()) for base in decision.space.bases}
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _quantity(decision: "Decision", own: "Slice", interval: float) -> str:
    head, words, unit = QUANTITIES[own.name]
    chosen = float(decision.contenders.candidates.column(own.name)[0])
    draws = decision.optimum.column(own.name).astype(np.float64)
    marks = np.quantile(draws, [0.5 - interval / 2, 0.5 + interval / 2])
    lower, upper = (_number(float(mark)) for mark in marks)
    where = f"lies between {lower} and {upper}" if lower != upper else f"is {lower}"
    text = f"{head}: {_number(chosen)}{unit}. The best {words} of {100 * interval:g} % of the draws {where}"
    row = decision.optimum_table().set_index("quantity").loc[own.name]
    for end, name in ((row["at_lowest"], "lowest"), (row["at_highest"], "highest")):
        if end >= 1 - SURE:
            text += f"; in {chance(end)} of them it is the {name} allowed"
    flat = np.append(own.within(decision.trait.tolerance), chosen)
    first, last = _number(float(flat.min())), _number(float(flat.max()))
    if first != last:
        cost = f"cost no more than {decision.trait.tolerance:g} nats"
        text += f". With all else as recommended, {first} to {last} {cost}"
    return f"{text}."


def _shape(decision: "Decision") -> str:
    if "decay_shape" not in decision.space.searched:
        return ""
    shapes = decision.optimum.column("decay_shape")
    parts = [
        f"{str(shape).replace('_', ' ')} in {chance(float(np.mean(shapes == shape)))}"
        for shape in np.unique(shapes)
    ]
    return f"Decay shape: the best of the draws is {', '.join(parts)} of them."


def _trade(decision: "Decision", interval: float) -> str:
    contenders, valuation = decision.contenders, decision.valuation
    new_runs = contenders.new_runs(decision.trait.seed)[:, 0]
    starts = np.tile(contenders.starts[:, 0], new_runs.shape[-1] // contenders.starts.shape[-1])
    rises = contenders.probability_above(contenders.starts)[:, 0]
    against = f"against {valuation.reference.name}" if valuation.reference else "against its base"
    parts = []
    for index, domain in enumerate(valuation.model.domains):
        change = new_runs[index] - starts[index]
        median, lower, upper = np.quantile(change, [0.5, 0.5 - interval / 2, 0.5 + interval / 2])
        way = "rises" if median > 0 else "falls"
        sure = rises[index] if median > 0 else 1.0 - rises[index]
        parts.append(
            f"{domain} {way} by {abs(median):.3f} nats ({_signed(lower)} to {_signed(upper)}; it "
            f"{way}: {chance(sure)})"
        )
    return f"Trade: {against} a new run ends so that {' and '.join(parts)}."


def _coming_back(decision: "Decision") -> str:
    """Say whether general loss is back at that of the run's own base."""
    contenders, model = decision.contenders, decision.valuation.model
    candidates = contenders.candidates
    base = candidates.bases[candidates.base[0]]
    starts = model.bases((base,)).loss
    own = 1.0 - contenders.probability_above(starts)[0, 0]
    return (
        f"Coming back: at the end of the run {model.domains[0]} is at or below that of its own base "
        f"({base.name}) with probability {chance(own)}; bayes-cpt landmarks, given this plan, says after "
        "how many steps it would be."
    )


def _surety(decision: "Decision") -> str:
    contenders, tolerance = decision.contenders, decision.trait.tolerance
    regret, within = contenders.expected_regret, contenders.probability_within(tolerance)
    text = (
        f"How sure: this is within {tolerance:g} nats of the best there is with probability "
        f"{chance(within[0])}, and costs {regret[0]:.4f} nats more than that on average."
    )
    if len(contenders) == 1:
        return text
    rival = int(np.argsort(regret[1:])[0]) + 1
    better = float(np.mean(contenders.values[rival] < contenders.values[0]))
    text += (
        f" The nearest other choice is {configuration(contenders.candidates, rival)}; it costs "
        f"{regret[rival]:.4f} nats on average and is the better of the two with probability "
        f"{chance(better)}."
    )
    if regret[rival] - regret[0] <= tolerance:
        text += " Between them it hardly matters: choose the one that is easier to train."
    return text


def _information(decision: "Decision") -> str:
    value, error = decision.information
    tolerance = decision.trait.tolerance
    text = (
        f"Further runs: to know the law's coefficients exactly would lower the objective by {value:.4f} ± "
        f"{error:.4f} nats on average; no short run can be worth more"
    )
    if value <= tolerance:
        return f"{text}, so that none is needed for this choice."
    return f"{text}. One that tells the contenders apart may be worth its cost."


def _cautions(decision: "Decision") -> str:
    notes = [f"extrapolates: {note}" for note in decision.outside[0]]
    notes += [f"{note}, so that better may lie beyond" for note in decision.edges]
    notes += list(decision.space.notes)
    reference = decision.valuation.reference
    base = decision.contenders.candidates
    name = base.bases[base.base[0]].name
    if not decision.valuation.model.bases(base.bases).known[:, base.base[0]].all():
        notes.append(f"the loss of {name} was not measured: it is taken to lie on the law")
    if base.bases[base.base[0]].schedule is None:
        notes.append(
            f"the pre-training of {name} is not known: how far it was annealed, and what more general data "
            "would gain, rest on the CPT runs and the priors alone"
        )
    if decision.valuation.objective.reference == OWN and "base" in decision.space.searched:
        notes.append(
            "changes are from each own base, which favours bases that are bad to begin with"
        )
    several = len(decision.space.bases) > 1
    if several and reference is not None and decision.valuation.objective.reference is None:
        notes.append(
            f"changes are counted from {reference.name}, the base with the lowest general loss"
        )
    return f"Mind: {'; '.join(notes)}." if notes else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
