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
# Does the memory of annealing fade with each step, as the printed law has it, or with the learning rate,
# as the models of this package do? Two laws that differ in that alone, on the same runs.

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
# ## A law of your own
#
# A few lines of TOML: what it starts from, and what differs. `docs/results/laws.md` lists the options.

# %%
folder = Path(tempfile.mkdtemp())
other = folder / "step-clock.toml"
other.write_text(
    """
extends = "cpt-replay"
name = "step-clock"
summary = "As cpt-replay, with a memory that fades with each step"

[law]
memory_clock = 0.0
"""
)

# %% [markdown]
# ## The first answer
#
# `quick=True` fits each law once and leaves out curves by importance sampling. It holds only where Pareto k
# is small, and says so where it is not. Without it each run is left out in turn: as many fits as there are
# runs, for each law, and the answer to report (`docs/compare.md`).

# %%
study = bayes_cpt.read_study(bayes_cpt.bundled_study())
result = bayes_cpt.compare(
    study,
    ["cpt-replay", other],
    quick=True,
    draws=DRAWS,
    seed=SEED,
    jobs=1,
    folder=folder,
)
print("\n".join(result.verdict()))

# %% [markdown]
# ## Where they differ
#
# The curves of either law over the measured losses: one that fits leaves no pattern over a run.

# %%
plots.fitted(result.fits["cpt-replay"], ["r00_cos", "r25_cos", "r75_wsd"])

# %%
plots.fitted(result.fits["step-clock"], ["r00_cos", "r25_cos", "r75_wsd"])
