"""Fit laws of PT in the raw and in the angular learning rate by least squares, families left out in turn.

From the repository's root::

    PYTHONPATH=research python -m testbench.angular_rate data/public

Under AdamW the squared norm n of a weight that normalisation makes scale-free is an exponential mean of the
learning rate, with a memory of 1/(2·weight decay) in LR·steps; it turns by eta/sqrt(n) a step. Three laws::

    L0 + A·S1^-alpha + G·(e·n^-xi)^zeta + G1·p + G2·p^2

raw        S1 = sum eta^rho, n the peak (that of `pretrain`)
forgotten  S1 = sum eta^rho, n with memory T, p = log n
angular    S1 = sum (eta·n^-xi)^rho, n with memory T, p = log peak

Each study is fitted with all of its runs under vague priors. What the studies of other families then say
of a parameter is its prior for the forecasts of a study's held-out runs.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from scipy.optimize import least_squares

from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from testbench.families import FORECAST_ONLY
from testbench.public import MULTI_POWER_FITTED, family

LAWS = ("raw", "forgotten", "angular")
# Mean and sd: of logs, but for xi, G1 and G2.
VAGUE = {
    "alpha": (np.log(0.45), 0.4),
    "slope": (np.log(0.2), 1.0),
    "gain": (np.log(0.16), 0.6),
    "memory": (np.log(60.0), 1.0),
    "rho": (np.log(0.6), 0.5),
    "zeta": (np.log(0.8), 0.4),
    "xi": (0.3, 0.4),
    "G1": (0.0, 0.03),
    "G2": (0.012, 0.012),
    "T": (np.log(20.0), 1.5),
}
PLAIN = ("xi", "G1", "G2")
ALPHA = (np.log(0.43), 0.15)  # as `pretrain` has it
ERROR, FORECAST_ERROR = 0.004, 0.003  # nats/token
MOST_POINTS = 120  # of a run; they tell as much as 40 that are independent
CELLS = 900


@dataclass(frozen=True)
class Curve:
    """A run's losses, and its learning rate in cells of time; a warm-up counts as if at the peak."""

    name: str
    losses: Any
    cells: Any  # at which the losses stand
    rates: Any
    steps: Any  # of each cell
    peak: float


def curves_of(study: Study) -> list[Curve]:
    """Return the runs of a study after twelve warm-ups, and a fiftieth of their steps at least."""
    found = []
    for run in study.pretraining_runs:
        at, losses = map(np.asarray, study.curve(run.name, study.trained_domains[0]))
        rates, warmup = run.schedule.learning_rates(), run.schedule.warmup_steps
        kept = (at >= max(12 * warmup, 0.02 * rates.size)) | (at == at.max(initial=0))
        at, losses = at[kept], losses[kept]
        if not at.size:
            continue
        if at.size > MOST_POINTS:
            last = [part[-1] for part in np.array_split(np.arange(at.size), MOST_POINTS)]
            at, losses = at[last], losses[last]
        grid = np.unique([0, warmup, *np.linspace(0, at.max(), CELLS).astype(int), *at])
        grid = grid[grid <= at.max()]
        peak = float(rates.max())
        done = np.concatenate(
            [[0.0], np.cumsum(np.where(np.arange(rates.size) < warmup, peak, rates))]
        )
        steps = np.diff(grid).astype(float)
        cells = np.searchsorted(grid[1:], at)
        found.append(Curve(run.name, losses, cells, np.diff(done[grid]) / steps, steps, peak))
    return found


@numba.njit(cache=True)
def integrals(rates, steps, start, memory, forgets, powers, angular):  # type: ignore[no-untyped-def]
    """Return log S1, the level e and n at the end of each cell; rates are shares of the reference."""
    rho, xi = powers
    area, n, level = 0.0, start, rates[0]
    found = np.empty((3, rates.size))
    for cell in range(rates.size):
        rate, told = rates[cell], rates[cell] * steps[cell]
        left = np.exp(-told / forgets)
        mean = rate + (n - rate) * (1.0 - left) * forgets / told if told > 1e-9 else n
        seen = rate * mean**-xi if angular else rate
        area += steps[cell] * max(seen, 1e-12) ** rho
        n = rate + (n - rate) * left
        level = rate + (level - rate) * np.exp(-told / memory)
        found[0, cell], found[1, cell], found[2, cell] = np.log(area), level, n
    return found


def losses_of(law: str, of: dict[str, float], curve: Curve, reference: float, area: float) -> Any:
    """Return the losses of a curve, less the level of all."""
    peak = curve.peak / reference
    forgets = np.inf if law == "raw" else of["T"] / reference
    powers, angular = (of["rho"], of["xi"]), law == "angular"
    rates = curve.rates / reference
    forgets = min(forgets, 1e12)
    found = integrals(rates, curve.steps, peak, of["memory"], forgets, powers, angular)
    log_area, level, n = found[:, curve.cells]
    p = np.log(n) if law == "forgotten" else np.log(peak)
    power = of["slope"] / of["alpha"] * np.expm1(-of["alpha"] * (log_area - area))
    annealing = of["gain"] * (np.maximum(level, 1e-9) * n ** -of["xi"]) ** of["zeta"]
    return power + annealing + of["G1"] * p + of["G2"] * p * p


@dataclass(frozen=True)
class Fit:
    """A law's parameters, and what they are counted from."""

    law: str
    raw: dict[str, float]  # as `VAGUE` has them
    sds: dict[str, float]
    reference: float
    area: float
    level: float = 0.0

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters themselves."""
        return {k: v if k in PLAIN else float(np.exp(v)) for k, v in self.raw.items()}

    def errors(self, curve: Curve) -> Any:
        """Return forecast less measured losses of a curve."""
        fitted = losses_of(self.law, self.parameters, curve, self.reference, self.area)
        return self.level + fitted - curve.losses


def fit(law: str, curves: list[Curve], prior: dict[str, tuple[float, float]], error: float) -> Fit:
    """Return the likeliest parameters."""
    names = [name for name in prior if name != "T" or law != "raw"]
    means, sds = np.array([prior[name] for name in names]).T
    reference = float(np.median([curve.peak for curve in curves]))
    area = float(np.log(np.median([curve.steps.sum() for curve in curves])))
    weights = [np.sqrt(min(1.0, 40 / curve.losses.size)) / error for curve in curves]
    whole = sum(w**2 * curve.losses.size for w, curve in zip(weights, curves, strict=True))

    def at(deviations: Any) -> tuple[Fit, list[Any]]:
        raw = dict(zip(names, means + sds * deviations, strict=True))
        found = Fit(law, raw, {}, reference, area)
        return found, [found.errors(curve) for curve in curves]

    def level_of(errors: list[Any]) -> float:
        return -float(sum(w**2 * own.sum() for w, own in zip(weights, errors, strict=True)) / whole)

    def residuals(deviations: Any) -> Any:
        _, errors = at(deviations)
        level = level_of(errors)
        own = [w * (one + level) for w, one in zip(weights, errors, strict=True)]
        return np.concatenate([*own, deviations])

    best = least_squares(residuals, np.zeros(len(names)), max_nfev=60)
    found, errors = at(best.x)
    spread = sds * np.sqrt(np.diag(np.linalg.inv(best.jac.T @ best.jac)))
    widths = dict(zip(names, spread.tolist(), strict=True))
    return Fit(law, found.raw, widths, reference, area, level_of(errors))


def learnt(fits: dict[str, Fit], left_out: str) -> dict[str, tuple[float, float]]:
    """Return priors by the fits of all families but one, each family weighing the same."""
    found = dict(VAGUE, alpha=ALPHA)
    for name in set(VAGUE) - {"alpha", "slope"}:
        vague, told = VAGUE[name][1], []
        for study, own in fits.items():
            if family(study) == left_out or name not in own.raw:
                continue
            known = 1.0 - (own.sds[name] / vague) ** 2
            alike = sum(family(other) == family(study) for other in fits)
            if known > 0.3:
                told.append((own.raw[name], known / alike))
        if len(told) < 2:
            continue
        values, weights = np.array(told).T
        mean = np.average(values, weights=weights)
        between = np.average((values - mean) ** 2, weights=weights) * len(told)
        sd = 1.15 * np.sqrt((between + 2 * (0.4 * vague) ** 2) / (len(told) + 2))
        found[name] = (float(mean), float(sd))
    return found


def studies_in(folder: Path) -> dict[str, tuple[list[Curve], list[Curve]]]:
    """Return the fitted and the held-out curves of each study."""
    found = {}
    for path in sorted(folder.iterdir()):
        if (path / "fit").is_dir() and path.name not in FORECAST_ONLY:
            found[path.name] = tuple(
                curves_of(read_study(path / part)) for part in ("fit", "predict")
            )
    for path in sorted(folder.glob("mpl-*")):
        every = curves_of(read_study(path))
        found[path.name] = tuple(
            [curve for curve in every if (curve.name in MULTI_POWER_FITTED) == fitted]
            for fitted in (True, False)
        )
    return found  # type: ignore[return-value]


def main() -> None:
    """Print the parameters of all runs, and the errors of held-out ones in mnat."""
    studies = studies_in(Path(sys.argv[1]))
    for law in LAWS:
        fits = {n: fit(law, [*a, *b], VAGUE, ERROR) for n, (a, b) in studies.items()}
        means = []
        for name, (fitted, held_out) in studies.items():
            own = fit(law, fitted, learnt(fits, family(name)), FORECAST_ERROR)
            errors = [1e3 * own.errors(curve) for curve in held_out]
            means.append(np.mean([np.abs(one).mean() for one in errors]))
            last, inside = np.mean([one[-1] for one in errors]), fits[name]
            mean = 1e3 * np.mean(
                [np.abs(inside.errors(one)).mean() for one in (*fitted, *held_out)]
            )
            told = " ".join(f"{key} {value:.2f}" for key, value in inside.parameters.items())
            sys.stdout.write(
                f"{law:9} {name:20} all runs {mean:4.1f}: {told}; "
                f"held out {means[-1]:5.1f}, last {last:+6.1f}\n"
            )
        sys.stdout.write(f"{law}: geometric mean, held out {np.exp(np.mean(np.log(means))):.1f}\n")


if __name__ == "__main__":
    main()
