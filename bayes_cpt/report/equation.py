"""The letters of the printed equation, each with what it means."""

from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import LawTable

# One line per summand: a term's name in the law, and how it is printed.
SUMMANDS = {
    "power": "L0 + A·(S1_pt + S1_cpt)^-alpha",
    "annealing": "- C1·S2_pt - C2·S2_cpt·exp(a1·r_cpt)",
    "shift": "+ B·h(r_cpt)·(1 - (1 + E·(r_cpt/h)^omega·S1_cpt)^-beta)",
    "adaptation": "+ D·r_cpt·(1 - exp(-t/tau))",
    "offset": "+ offset of the base·(kappa + (1 - kappa)·exp(-t/tau_0))",
}
SLOW = (
    "S2 = (1 - slow_share)·S2(lambda) + slow_share·S2(lambda_slow)·(1 - lambda_slow)/(1 - lambda)"
)
LEVEL = "S2 = (start^zeta - e^zeta)/(1 - lambda), e the level of the learning rate eta"
SLOW_LEVEL = "e = (1 - slow_share)·e(lambda) + slow_share·e(lambda_slow)"
FOLDED = "S2_pt = 0: what annealing gained in PT is a part of L0"
REPLAY_FACTORS = {
    "none": "1",
    "exponential": "expm1(-a·x)/expm1(-a)",
    "saturating": "(1 - (1 + c·x)^-delta)/(1 - (1 + c)^-delta)",
    "power": "x·(1 + b·(1 - x))^-gamma",
}

COEFFICIENTS = {
    "L0": "loss that endless pre-training would approach, nats/token",
    "A": "size of the power law in the forward area",
    "alpha": "exponent of the forward area",
    "rho": "power of the learning rate in the forward area",
    "lambda": "momentum of the annealing memory, per step",
    "lambda_slow": "momentum of the slow part of the annealing, per step",
    "slow_share": "share of the annealing gain that comes at the slow pace",
    "zeta": "power of the learning rate's level in the annealing area",
    "C1": "annealing gain in PT, nats/token per annealing area",
    "C2": "annealing gain in CPT, the same unit",
    "a1": "log change of the CPT annealing gain from full replay to none",
    "S1_base": "forward area of the base, whose schedule is not known, LR·steps",
    "eta_0": "learning rate that the base was left at, from which S2_cpt counts",
    "B": "limit of the distribution shift at replay 0, nats/token: + forgets, - learns",
    "E": "rate of the shift per forward area",
    "beta": "exponent of the shift",
    "a": "curvature of the replay factor h, exponential form",
    "c": "rate of the replay factor h, saturating form",
    "delta": "exponent of the replay factor h, saturating form: large is exponential",
    "b": "onset of the replay factor h, power form",
    "gamma": "exponent of the replay factor h, power form",
    "omega": "how replay speeds the shift up: 0 scales the curve, 1 only its limit",
    "D": "size of the early transient at replay 0, nats/token",
    "tau": "time of the early transient, steps",
    "kappa": "share of the base's distance from the law that its runs keep",
    "tau_0": "time in which they lose the rest, steps",
}


def equation(frame: Frame) -> list[str]:
    """Return the law of a frame as it is printed, one line per summand.

    Examples
    --------
    >>> from bayes_cpt.laws import Reference
    >>> from bayes_cpt.model.spec import read_spec
    >>> reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    >>> equation(Frame(read_spec("pretrain"), ("general",), ("general",), reference))
    ['L = L0 + A·S1_pt^-alpha', '    - C1·S2_pt', 'S2 = (1 - slow_share)·S2(lambda) + ...
    """
    law = frame.spec.law
    names = [*law.terms, "offset"] if law.base_offset else list(law.terms)
    lines = [SUMMANDS[name] for name in names]
    if not law.continual:
        lines = [line.replace("(S1_pt + S1_cpt)", "S1_pt").split(" - C2")[0] for line in lines]
    if not law.replay_gain:
        lines = [line.replace("·exp(a1·r_cpt)", "") for line in lines]
    if not law.replay_rate:
        lines = [line.replace("·(r_cpt/h)^omega", "") for line in lines]
    areas = _areas(law)
    if law.unknown_base:
        lines = [line.replace("S1_pt", "S1_base") for line in lines]
        areas.append(FOLDED)
    if not frame.spec.law.uses_replay:
        return _laid_out([line.replace("·h(r_cpt)", "") for line in lines]) + areas
    factors = [getattr(frame.spec.law.replay_factor, role) for role in frame.roles]
    return (
        _laid_out(lines)
        + areas
        + [
            f"h(x) = {REPLAY_FACTORS[factor]} on {domain}"
            for domain, factor in zip(frame.domains, factors, strict=True)
        ]
    )


def _areas(law: LawTable) -> list[str]:
    """Return how areas differ from the sums that the paper prints."""
    lines = ["S1 = sum of eta^rho"] if law.forward_power else []
    if law.continual and law.shift_power != 1.0:
        lines.append(f"S1_cpt of the shift = eta*·sum of (eta/eta*)^{law.shift_power:g}")
    if law.level_power:
        lines += [LEVEL, SLOW_LEVEL] if law.slow_annealing else [LEVEL]
    elif law.slow_annealing:
        lines.append(SLOW)
    if law.memory_clock:
        lines.append(f"in a step the memory fades by lambda^((eta/eta*)^{law.memory_clock:g})")
    if law.count_warmup and not law.unknown_base:
        lines.append("S2_pt counts from eta*, the warm-up included")
    if law.continual and law.carry_memory and not law.unknown_base:
        lines.append("S2_cpt counts from the level at the transfer")
    return lines


def _laid_out(lines: list[str]) -> list[str]:
    return [f"L = {lines[0]}", *(f"    {line}" for line in lines[1:])]


def meaning(frame: Frame, quantity: str) -> str:
    """Return in one line what a coefficient or a sampled parameter is."""
    if quantity in COEFFICIENTS:
        return COEFFICIENTS[quantity]
    info = frame.parameters()[quantity]
    return info.meaning if info.unit == "1" else f"{info.meaning}, {info.unit}"
