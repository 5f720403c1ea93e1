"""The natural parametrisation in Stan, through pystan 3 where that is installed."""

from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.model.likelihood_data import likelihood_data
from bayes_cpt.model.setup import Setup
from benchmarks.natural import BOUNDED, OPTIONAL, bounds, priors
from benchmarks.report import core_seconds_with_children

# What Stan samples in place of a share between 0 and 1.
LOGITS = {
    "slow_share": "slow_share_",
    "fluctuation_floor": "floor_",
    "misfit_replay": "misfit_replay_",
}
# Stan reads no infinity from JSON.
LONGEST_GAP = 1e12


def program(setup: Setup) -> str:
    """Return the Stan program with the priors written in."""
    lines = []
    for name, (kind, center, spread, size) in priors(setup).items():
        law = "lognormal" if kind == "lognormal" else "normal"
        variable = LOGITS.get(name, name)
        if size == 1:
            lines.append(f"{variable} ~ {law}({float(center)!r}, {float(spread)!r});")
            continue
        pairs = zip(np.broadcast_to(center, 2), np.broadcast_to(spread, 2), strict=True)
        for place, (own, width) in enumerate(pairs, start=1):
            lines.append(f"{variable}[{place}] ~ {law}({float(own)!r}, {float(width)!r});")
    source = (Path(__file__).parent / "natural.stan").read_text()
    return source.replace("PRIORS", "\n  ".join(lines))


def data(setup: Setup) -> dict[str, Any]:
    """Return the arrays of the program."""
    points, bases, design = setup.curves.points, setup.curves.bases, setup.design
    starts, law, form = design.first, setup.frame.spec.law, setup.frame.area_form
    arrays = likelihood_data(setup)
    here, base = arrays["point_area"], arrays["base_area"]
    level, forward = arrays["area_level"], arrays["area_forward"]
    momenta, powers = form.momenta.interval, form.powers.interval
    pretraining = design.pretraining.astype(bool)
    # What a law does without has bounds that nothing is drawn from.
    ends = dict.fromkeys(BOUNDED, (1.0, 2.0)) | bounds(setup)
    return {
        "points": points.steps.size, "curves": starts.size, "knots": design.knots,
        "nodes": level.shape[1], "powers": forward.shape[1], "first": starts + 1, "last": design.last,
        "domain": points.domain_index[starts] + 1, "pretraining": design.pretraining[starts],
        "share": points.target_share[starts], "known": bases.base_known, "base_loss": bases.loss,
        "base_forward": forward[base], "base_level": level[base],
        "base_start": bases.start_pt, "start": np.where(pretraining, points.start_pt, points.start_cpt),
        "steps": points.cpt_steps, "rate": points.learning_rate, "forward": forward[here],
        "forward_cpt": points.forward_cpt, "loss": points.loss,
        "gap": np.minimum(design.gap, LONGEST_GAP), "level": level[here], "ramps": design.ramps,
        "middle": momenta.middle, "half_width": momenta.half_width, "power_middle": powers.middle,
        "power_half_width": powers.half_width, "smallest": SMALLEST, "carried": int(law.carry_memory),
        "slow": int(law.slow_annealing), "free_rho": int(law.forward_power),
        "free_zeta": int(law.level_power), **{f"{name}_ends": list(own) for name, own in ends.items()},
        "reference_steps": setup.frame.reference.steps,
    }  # fmt: skip


def sample(
    setup: Setup, start: dict[str, Floats], tune: int, draws: int, seed: int
) -> tuple[dict[str, Floats], float, int]:
    """Return draws of one chain, the seconds of a core they took after tuning, and their gradients.

    Seconds are shared out between tuning and draws by their gradients.
    """
    import stan

    values = {n: v.tolist() if hasattr(v, "tolist") else v for n, v in data(setup).items()}
    model = stan.build(program(setup), data=values, random_seed=seed)
    begin = {}
    for name, (kind, _, _, size) in priors(setup).items():
        value = np.log(start[name] / (1.0 - start[name])) if kind == "logitnormal" else start[name]
        begin[LOGITS.get(name, name)] = (
            value.tolist() if size > 1 or name in OPTIONAL else float(value[0])
        )
    fit, seconds = core_seconds_with_children(
        lambda: model.sample(
            num_chains=1, num_warmup=tune, num_samples=draws, save_warmup=True, init=[begin]
        )
    )
    steps = np.asarray(fit["n_leapfrog__"]).ravel()
    found = {name: np.asarray(fit[name])[:, tune:].T[None] for name in priors(setup)}
    kept = int(steps[tune:].sum())
    return found, seconds * kept / float(steps.sum()), kept
