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
# # Which replay ratio, which learning rate?
#
# A decision from ten short runs: what to train, how sure that is, and what would reduce its uncertainty.

# %%
# %matplotlib inline
from pathlib import Path

import bayes_cpt
from bayes_cpt import plots

# The fit is read from `fit.nc` where that lies here. Else it is made, for 02, 03 and 07 alike: a minute.
FIT = Path("fit.nc")
SEED = 1

study = bayes_cpt.read_study(bayes_cpt.bundled_study())
if not FIT.exists():
    bayes_cpt.fit(study, model="cpt-replay", seed=SEED).save(FIT)
posterior = bayes_cpt.load(FIT)
print("trustworthy" if posterior.trustworthy else "`bayes-cpt summary fit.nc` says what to doubt")

# %% [markdown]
# ## The choice
#
# `balanced` weighs general and target loss alike. Every posterior draw has its own best run; their
# distribution is the answer, and the recommendation is the run that costs least on average over all of
# them.

# %%
choice = bayes_cpt.decide(posterior, "balanced", draws=400, candidates=500, seed=SEED)
print("\n".join(choice.verdict()))

# %% [markdown]
# Runner-ups are well apart from the recommendation and from each other. *Regret* is what a choice costs
# on average above the best run there is, nats/token.

# %%
columns = ["option", "base", "replay", "peak", "decay_steps", "regret", "p_best", "p_within"]
choice.table()[columns].round(4)

# %% [markdown]
# How the optimum itself is distributed: central 90 % intervals. An interval that reaches over all that
# was searched says that it hardly matters, or that these runs cannot tell.

# %%
choice.optimum_table().round(4)

# %%
plots.decision(choice)

# %% [markdown]
# ## With a limit on forgetting
#
# What if the general loss may rise by no more than 0.03 nats above that of the base `annealed_0pct`,
# with a probability of 90 %? A constraint is kept by the whole distribution of a new run, not by its
# mean.

# %%
careful = bayes_cpt.decide(
    posterior,
    {
        "name": "little forgetting",
        "weights": {"target": 1.0},
        "reference": "annealed_0pct",
        "constraints": [{"domain": "general", "rise": 0.03, "probability": 0.1}],
    },
    draws=400,
    candidates=500,
    seed=SEED,
)
print("\n".join(careful.verdict()))

# %%
careful.plot()

# %% [markdown]
# ## Would another short run help?
#
# What each of some affordable runs would be worth to the first decision: by how much the expected loss
# of the choice would fall once it was trained and the law fitted again.

# %%
worth = bayes_cpt.next_run(posterior, "balanced", draws=100, candidates=200, seed=SEED)
print("\n".join(worth.verdict()))

# %%
plots.next_run(worth)
