"""What a decision states, and what would come if like runs were more or less alike than it assumes.

From the repository's root, for a fit of any study::

    PYTHONPATH=research python -m testbench.misfit_lengths fit.nc

Each posterior draw of the law, with a misfit of the size that the draw has, is a truth in its turn: a
thousand of them for each length of the misfit's correlation. No short run is refitted, so this tests the
statements about what no fit can know, not the fit: `testbench.decisions` does both.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.decisions.objective import PRESETS, read_objective
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.inference.posterior import Posterior, load
from bayes_cpt.model.misfit.discrepancy import LENGTHS, SharedMisfit
from testbench.report import markdown_table

CANDIDATES, TOLERANCE, DRAWS = 2048, 0.005, 1000
STATED, TRUE, LAW = "stated", "length {:g}", "law alone"


def outcomes(
    posterior: Posterior, objective: str, candidates: int = CANDIDATES, draws: int = DRAWS
) -> pd.DataFrame:
    """Return regret and nearness of the recommendation as stated, and under other lengths.

    Parameters
    ----------
    posterior : Posterior
    objective : str
        A preset.
    candidates, draws : int

    Returns
    -------
    DataFrame
        objective, case, regret (mnat), error (of its mean), near (share within 5 mnat of the best).
    """
    model = FinalLosses.of(posterior, draws)
    space = SearchSpace.of(read_space(None), posterior.study)
    choices = space.sample(candidates, 0)
    valuation = Valuation.of(model, read_objective(objective), space)
    rows = np.arange(len(choices))
    law = valuation.changes(choices, model.layout(choices).losses(rows))
    chosen = int(law.mean(axis=1).argmin())
    cases = {STATED: model.misfit}
    cases |= {
        TRUE.format(length): SharedMisfit(
            model.draws, model.correlation.misfit, len(model.domains), 1, (length,)
        )
        for length in LENGTHS
    }
    found = []
    for name, misfit in {**cases, LAW: None}.items():
        values = law
        if misfit is not None:
            layout = replace(model, misfit=misfit).layout(choices)
            values = valuation.moved(choices, law, layout.missed(rows))
        regret = values[chosen] - values.min(axis=0)
        found.append(
            {
                "objective": objective,
                "case": name,
                "regret": 1e3 * float(regret.mean()),
                "error": 1e3 * float(regret.std() / np.sqrt(regret.size)),
                "near": float((regret <= TOLERANCE).mean()),
            }
        )
    return pd.DataFrame(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.misfit_lengths", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("fit", type=Path)
    posterior = load(parser.parse_args(arguments).fit)
    tables = [outcomes(posterior, name) for name in PRESETS]
    sys.stdout.write(markdown_table(pd.concat(tables, ignore_index=True).round(3)) + "\n")


if __name__ == "__main__":
    main()
