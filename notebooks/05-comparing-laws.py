# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which law?
#
# The printed law with independent errors, beside the law of this package, on the same runs: which of
# them predicts better, and is a mixture of both better than either?

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import bayes_cpt
from bayes_cpt import plots

DRAWS = int(os.environ.get("BAYES_CPT_NOTEBOOK_DRAWS", "1000"))
SEED = 1

# %% [markdown]
# `quick=True` fits each law once and leaves out curves by importance sampling: minutes. Without it each
# run is left out in turn: as many fits as there are runs, and the answer to report. `docs/compare.md`
# has that answer.

# %%
study = bayes_cpt.read_study(bayes_cpt.bundled_study())
with tempfile.TemporaryDirectory() as folder:
    result = bayes_cpt.compare(
        study,
        ["cpt-replay", "cpt-replay-printed"],
        quick=True,
        draws=DRAWS,
        seed=SEED,
        jobs=1,
        folder=Path(folder),
    )
print("\n".join(result.verdict()))

# %% [markdown]
# The log score is the density that a law gives to what it did not see, larger is better; a difference
# counts where it is several standard errors. Each run is one observation.

# %%
result.table()

# %%
plots.comparison(result)

# %% [markdown]
# ## Where they differ
#
# The same figure of residuals (measured less expected) for either: a law that fits leaves no pattern
# over a run.

# %%
plots.residuals(result.fits["cpt-replay-printed"])

# %%
plots.residuals(result.fits["cpt-replay"])
