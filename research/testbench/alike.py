"""How alike are the errors of like runs, and those of the two losses of one run?

From the repository's root; a second, from the errors that `testbench.alike_errors` measured::

    PYTHONPATH=research python -m testbench.alike research/testbench/errors.csv

The errors of a set of runs are taken for normal: their variance is that of law, misfit and fluctuation
as the fit states it. The misfit of two runs correlates by
`bayes_cpt.model.misfit.discrepancy.likeness` and by what an e-fold of steps carries over, but for a share
of it that is each run's own; that of the two losses of a run by a constant. Printed: the likelihood of each
length, share and correlation, and how probable each is under a flat prior over those listed.

Of ``cpt-lab-strong`` nothing is taken: its errors are those of the coefficients, for a run at replay 0
that is left out leaves the law to the only other one (they are in the file, and ``--all`` takes them).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt import bundled_study, read_study
from bayes_cpt.arrays import Floats
from bayes_cpt.model.misfit.discrepancy import Configuration, likeness
from bayes_cpt.model.points import reference_of
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study
from testbench.alike_errors import MODEL, TESTS
from testbench.report import markdown_table

LENGTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
CORRELATIONS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
OWN_SHARES = (0.0, 0.25, 0.5, 0.75)
# How many lengths stand for all of them.
EQUALLY = 5
# Sets of runs with the same validation sets, which the law misses alike.
STRONG = "cpt-lab-strong"
TARGETS = {"cpt-lab": "kernel", "cpt-lab-practice": "kernel", STRONG: "ccode"}


def studies() -> dict[str, Study]:
    """Return the studies that the errors are of."""
    others = {name: read_study(TESTS / name) for name in TARGETS if name != "cpt-lab"}
    return {"cpt-lab": read_study(bundled_study()), **others}


def features(errors: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return features of the run of each error, and the logarithm of its steps."""
    known = studies()
    reference = reference_of(known["cpt-lab"])
    rows, steps = [], []
    for name, label in zip(errors["study"], errors["run"], strict=True):
        run = known[name].run(label)
        base = known[name].base(str(run.base)).schedule
        configuration = Configuration.of(base, run.schedule, run.replay or 0.0)
        rows.append(configuration.features(reference)[0])
        steps.append(np.log(run.schedule.steps))
    return np.array(rows), np.array(steps)


def log_likelihoods(errors: pd.DataFrame) -> Floats:
    """Return the log density of the errors, shape (lengths, own shares, correlations)."""
    places, steps = features(errors)
    target = (errors["role"] == "target").to_numpy()
    group = errors["study"].map(TARGETS).to_numpy()
    memory = read_spec(MODEL).residuals.misfit_memory
    apart = memory ** np.abs(steps[:, None] - steps)
    shared = apart * (group[:, None] == group) * np.outer(errors["misfit"], errors["misfit"])
    own = np.diag(errors["law"] ** 2 + errors["fluctuation"] ** 2)
    names = (errors["study"] + errors["run"]).to_numpy()
    same = names[:, None] == names
    error = errors["error"].to_numpy()
    found = np.empty((len(LENGTHS), len(OWN_SHARES), len(CORRELATIONS)))
    for place in np.ndindex(found.shape):
        length, share, correlation = (
            values[at]
            for values, at in zip((LENGTHS, OWN_SHARES, CORRELATIONS), place, strict=True)
        )
        alike = (1.0 - share) * likeness(places, places, length) + share * same
        across = np.where(target[:, None] == target, 1.0, correlation)
        covariance = shared * alike * across + own
        size = np.linalg.slogdet(covariance)[1]
        found[place] = -0.5 * (size + error @ np.linalg.solve(covariance, error))
    return found


def report(errors: pd.DataFrame) -> str:
    """Return how probable each length and each correlation is."""
    density = log_likelihoods(errors)
    mass = np.exp(density - density.max())
    mass /= mass.sum()
    parts = []
    quantities = {"length": LENGTHS, "own share": OWN_SHARES, "correlation": CORRELATIONS}
    for place, (name, values) in enumerate(quantities.items()):
        others = tuple(axis for axis in range(3) if axis != place)
        table = {name: values, "log likelihood, at best": density.max(axis=others).round(2)}
        table |= {"probability": mass.sum(axis=others).round(3)}
        parts.append(markdown_table(pd.DataFrame(table)))
    middle = {
        name: float(np.average(np.log(values) if name == "length" else values,
                               weights=mass.sum(axis=tuple(a for a in range(3) if a != place))))
        for place, (name, values) in enumerate(quantities.items())
    }  # fmt: skip
    chances = np.concatenate([[0.0], np.cumsum(mass.sum(axis=(1, 2)))])
    step = np.log(LENGTHS[1] / LENGTHS[0])
    edges = np.log(LENGTHS[0]) + step * (np.arange(chances.size) - 0.5)
    likely = np.exp(np.interp((np.arange(EQUALLY) + 0.5) / EQUALLY, chances, edges))
    parts.append(
        f"{EQUALLY} lengths, each as likely as the others: "
        + ", ".join(f"{length:.2g}" for length in likely)
        + "."
    )
    parts.append(
        f"Means: length {np.exp(middle['length']):.2f} (of its logarithm), own share "
        f"{middle['own share']:.2f}, correlation {middle['correlation']:.2f}."
    )
    scale = np.sqrt(errors[["law", "misfit", "fluctuation"]].pow(2).sum(axis=1))
    sizes = np.sqrt(((errors["error"] / scale) ** 2).mean())
    pairs = (errors["error"] / scale).to_numpy().reshape(-1, 2)
    products = (pairs[:, 0] * pairs[:, 1]).sum() / np.sqrt((pairs**2).sum(axis=0).prod())
    parts.append(
        f"{len(pairs)} runs. Root mean square of the errors over their stated size: {sizes:.2f}. "
        f"Correlation of the two losses about 0: {products:.2f}."
    )
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.alike", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("errors", type=Path)
    parser.add_argument("--all", action="store_true", help="take cpt-lab-strong too")
    options = parser.parse_args(arguments)
    errors = pd.read_csv(options.errors)
    kept = errors if options.all else errors[errors["study"] != STRONG]
    sys.stdout.write(report(kept))


if __name__ == "__main__":
    main()
