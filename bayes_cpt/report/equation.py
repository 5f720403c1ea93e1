"""The letters of the printed equation, each with what it means."""

from bayes_cpt.laws.term import ADDED
from bayes_cpt.model.setup import Frame

# One line per summand: a term's name in the law, and how it is printed; the others say it themselves.
SUMMANDS = {
    "power": "L0 + A·(S1_pt + S1_cpt)^-alpha",
    "annealing": "- C1·S2_pt - C2·S2_cpt·exp(a1·r_cpt)",
    "shift": "+ B·h(r_cpt)·(1 - (1 + E·(r_cpt/h)^omega·S1_cpt)^-beta)",
    "adaptation": "+ D·r_cpt·(1 - exp(-t/tau))",
    "size": "+ F·(n^-gamma_3 - 1) + delta_N",
    "offset": "+ offset of the base·(kappa + (1 - kappa)·exp(-t/tau_0))",
    **{name: term.printed for name, term in ADDED.items()},
}
# What model size changes: as printed without it, and with it.
BY_SIZE = {
    "A·(": "A·n^gamma_A·(",
    "A·S1": "A·n^gamma_A·S1",
    "C1·": "C1·n^gamma_1·exp(epsilon_N)·",
    "C2·": "C2·n^gamma_2·exp(epsilon_N)·",
    "B·": "B·n^gamma_B·",
    "D·": "D·n^gamma_B·",
}
# What a batch changes, in the same way.
BY_BATCH = {"B·": "B·q_B·", "+ E·": "+ E·q_E·", "^-beta)": "^(-beta·q_beta))", "D·": "D·q_D·"}
MILLIONS = "N: parameters without embeddings, millions"
FOLDED = "S2_pt = 0: what annealing gained in PT is a part of L0"
REPLAY_FACTORS = {
    "none": "1",
    "exponential": "expm1(-a·x)/expm1(-a)",
    "saturating": "(1 - (1 + c·x)^-delta)/(1 - (1 + c)^-delta)",
    "power": "x·(1 + b·(1 - x))^-gamma",
}

MIXED = (
    "for each target with h(x) + psi·y in place of h, where x is the share of its own data and y that of "
    "the other targets'; for general data with B and D times the mean of phi over the targets"
)
COEFFICIENTS = {
    "L0": "loss that endless pre-training would approach, nats/token",
    "A": "size of the power law in the forward area",
    "alpha": "exponent of the forward area",
    "rho": "power of the learning rate in the forward area: 1 as printed, 0 counts steps",
    "zeta": "power of the level of the learning rate in the annealing area: 1 as printed",
    "zeta_1": "power of the annealing area of PT: 1 as printed",
    "zeta_2": "power of the annealing area of CPT: 1 as printed",
    "epsilon": "power of the learning rate by which its falls are weighted: 0 as printed",
    "C_mp": "pace at which a fall takes effect at the reference LR, per step",
    "beta_mp": "exponent by which falls take effect",
    "gamma_mp": "by which power of itself a low learning rate speeds its fall up",
    "xi": "power of the peak learning rate of PT that the level is divided by: 0 as printed",
    "lambda": "momentum of the annealing memory, per step of its clock",
    "lambda_slow": "momentum of the slow part of the annealing, per step of its clock",
    "slow_share": "share of the annealing gain that comes at the slow pace",
    "C1": "annealing gain in PT, nats/token per annealing area",
    "C2": "annealing gain in CPT, the same unit",
    "a1": "log change of the CPT annealing gain from full replay to none",
    "S1_base": "forward area of the base, whose schedule is not known, in the unit of S1",
    "eta_0": "learning rate that the base was left at, from which S2_cpt counts",
    "B": "limit of the distribution shift at replay 0, nats/token: + forgets, - learns",
    "E": "rate of the shift per forward area",
    "beta": "exponent of the shift",
    "a": "curvature of the replay factor h, exponential form",
    "c": "rate of the replay factor h, saturating form",
    "delta": "exponent of the replay factor h, saturating form: large is exponential",
    "b": "onset of the replay factor h, power form",
    "gamma": "exponent of the replay factor h, power form",
    "k": "by how many e-folds replay takes away more of the shift than its factor's form does",
    "psi": "what data of other targets do to a target, as a share of what its own do",
    "phi": "by what a target multiplies the shift of the general validation set",
    "R_star": "epochs beyond the first after which a repeated target token is worth 1/e of a new one",
    "U_steps": "steps on target data alone that go through them once",
    "omega": "how replay speeds the shift up: 0 scales the curve, 1 only its limit",
    "D": "size of the early transient at replay 0, nats/token",
    "tau": "time of the early transient, steps",
    "F": "what the power of model size adds to the loss at the reference size, nats/token",
    "gamma_3": "exponent of model size",
    "gamma_A": "exponent of model size in the power of the forward area",
    "gamma_1": "exponent of model size in the annealing gain of PT",
    "gamma_2": "exponent of model size in the annealing gain of CPT",
    "gamma_B": "exponent of model size in the distribution shift, and in the early transient",
    "epsilon_N": "log factor by which one size's annealing gain lies off its power of size",
    "delta_N": "how far one size lies off the power of size, nats/token",
    "q_B": "by what one batch multiplies B: its batch size and sequence length",
    "q_D": "by what one batch multiplies D",
    "q_E": "by what one batch multiplies E",
    "q_beta": "by what one batch multiplies beta",
    "kappa": "share of the base's distance from the law that its runs keep",
    "tau_0": "time in which they lose the rest, steps",
    **{letter: said for term in ADDED.values() for letter, said in term.meanings.items()},
}


def equation(frame: Frame) -> list[str]:
    """Return the law of a frame as it is printed, one line per summand.

    Parameters
    ----------
    frame : Frame

    Examples
    --------
    >>> from bayes_cpt.laws import Reference
    >>> from bayes_cpt.model.spec import read_spec
    >>> reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    >>> equation(Frame(read_spec("pretrain"), ("general",), ("general",), reference))[:3]
    ['L = L0 + A·S1_pt^-alpha', '    - C1·S2_pt', '    + G1·p + G2·p^2']
    """
    law = frame.spec.law
    names = [*law.terms, *(["size"] * law.model_size), *(["offset"] * law.base_offset)]
    lines = [SUMMANDS[name] for name in names]
    if not law.continual:
        lines = [line.replace("(S1_pt + S1_cpt)", "S1_pt").split(" - C2")[0] for line in lines]
    if not law.replay_gain:
        lines = [line.replace("·exp(a1·r_cpt)", "") for line in lines]
    if not law.replay_rate:
        lines = [line.replace("·(r_cpt/h)^omega", "") for line in lines]
    if _shift_area(frame):
        lines = [line.replace("·S1_cpt)^-beta", "·T_cpt)^-beta") for line in lines]
    if law.repeated_tokens:
        lines = [line.replace("_cpt)^-beta", "_cpt·w)^-beta") for line in lines]
    if law.unknown_base:
        lines = [line.replace("S1_pt", "S1_base") for line in lines]
    areas = _areas(frame)
    if law.model_size:
        for printed, of_size in BY_SIZE.items():
            lines = [line.replace(printed, of_size, 1) for line in lines]
        areas = [f"n = N/{frame.reference.model_size:.3g}", MILLIONS, *areas]
    if law.batches:
        for printed, of_batch in BY_BATCH.items():
            lines = [line.replace(printed, of_batch, 1) for line in lines]
    if not law.uses_replay:
        return _laid_out([line.replace("·h(r_cpt)", "") for line in lines]) + areas
    factors = [getattr(law.replay_factor, role) for role in frame.roles]
    diluted = "·exp(-k·(1 - x))" if law.replay_dilution else ""
    # Words alone are read as a remark on the equation before them.
    mixed = [MIXED] if law.targets > 1 else []
    return (
        _laid_out(lines)
        + mixed
        + areas
        + [
            f"h(x) = {REPLAY_FACTORS[factor]}{diluted} on {domain}"
            for domain, factor in zip(frame.domains, factors, strict=True)
        ]
    )


def _areas(frame: Frame) -> list[str]:
    """Return how the areas differ from those printed in the paper, one line each."""
    law = frame.spec.law
    lines = ["S1 = sum eta^rho"] if law.forward_power else []
    lines += _shift_area(frame)
    if "annealing" in law.terms:
        lines += _levels(frame)
        if law.unknown_base:
            lines.append(FOLDED)
    if law.repeated_tokens:
        lines.append("w = (1 + R_star·(1 - exp(-R/R_star)))/(1 + R)")
        lines.append(
            "R = t·r_cpt/U_steps - 1, epochs over target data beyond the first, not below 0"
        )
    if law.peak_power or "peak" in law.terms:
        rate = f"{frame.reference.learning_rate:.3g}"
        lines.append(f"p = log(eta_peak/{rate}), eta_peak the highest LR of PT so far")
    return lines


def _shift_area(frame: Frame) -> list[str]:
    """Return the forward area of the shift where it is another than that of the power."""
    law = frame.spec.law
    if "shift" not in law.terms or not (law.forward_power or law.shift_power != 1.0):
        return []
    if law.shift_power == 1.0:
        return ["T_cpt = sum eta, over CPT"]
    rate = f"{frame.reference.learning_rate:.3g}"
    return [f"T_cpt = {rate}·sum (eta/{rate})^{law.shift_power:g}, over CPT"]


def _levels(frame: Frame) -> list[str]:
    """Return the annealing areas by the level of the learning rate; nothing where they are as printed."""
    law = frame.spec.law
    options = (law.slow_annealing, law.level_power, law.count_warmup, law.carry_memory)
    level, power = ("(e·P)" if law.peak_power else "e"), "^zeta" if law.level_power else ""
    if not any(options) and law.memory_clock == 0.0:
        return []
    rate = f"{frame.reference.learning_rate:.3g}"
    last = "eta_0" if law.unknown_base else "eta at the transfer"
    starts = (
        {} if law.unknown_base else {"S2_pt": rate if law.count_warmup else "eta after warm-up"}
    )
    if law.continual:
        carried = law.carry_memory and not law.unknown_base
        starts["S2_cpt"] = ("e at the transfer" if carried else last) + "·P" * law.peak_power
    brackets = {
        name: f"({start})" if power and set(start) & {" ", "·"} else start
        for name, start in starts.items()
    }
    lines = [
        f"{area} = ({start}{power} - {level}{power})/(1 - lambda)"
        for area, start in brackets.items()
    ]
    if law.peak_power:
        lines.append("P = exp(-xi·p)")
    if law.slow_annealing:
        lines.append("e = (1 - slow_share)·e(lambda) + slow_share·e(lambda_slow)")
    clock = f"^((eta/{rate})^{law.memory_clock:g})" if law.memory_clock else ""
    before = _before(frame)
    return [*lines, f"e: in each step e + (1 - lambda{clock})·(eta - e),", f"    {before}"]


def _before(frame: Frame) -> str:
    """Return in words where the level of the learning rate starts."""
    law = frame.spec.law
    if law.unknown_base:
        return "from eta_0"
    start = "from 0 before the warm-up" if law.count_warmup else "from eta after warm-up"
    if not law.continual:
        return start
    return f"{start}, and in CPT from {'the level' if law.carry_memory else 'eta'} at the transfer"


def _laid_out(lines: list[str]) -> list[str]:
    return [f"L = {lines[0]}", *(f"    {line}" for line in lines[1:])]


def meaning(frame: Frame, quantity: str) -> str:
    """Return in one line what a coefficient or a sampled parameter is.

    Parameters
    ----------
    frame : Frame
    quantity : str
        Name of the coefficient or parameter.
    """
    if quantity in COEFFICIENTS:
        return COEFFICIENTS[quantity]
    info = frame.parameters()[quantity]
    return info.meaning if info.unit == "1" else f"{info.meaning}, {info.unit}"
