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
# # A base with open weights
#
# Somebody else trained the base, and its learning rates and data are not known (Sec. 6 and App. G of
# [arXiv 2505.07796](https://arxiv.org/abs/2505.07796)). Its forward area and the learning rate that it
# was left at are then parameters. Here we take a base of the bundled study and *forget* how it was
# made, so that the answer can be compared with the truth.

# %%
# %matplotlib inline
import os

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.study.study import Study

# Draws kept in each of four chains, and how often to try until the fit can be trusted.
DRAWS = int(os.environ.get("BAYES_CPT_NOTEBOOK_DRAWS", "1000"))
ATTEMPTS = int(os.environ.get("BAYES_CPT_NOTEBOOK_ATTEMPTS", "3"))
SEED = 1

# %% [markdown]
# ## The study without its pre-training
#
# The runs from one base, and the base by name alone: `known=False`. Its loss at step 0 stays, as you
# would measure it. One run, at a peak that no other has, is kept aside, to be predicted.

# %%
whole = bayes_cpt.read_study(bayes_cpt.bundled_study())
BASE, ASIDE = "stable_12k", "r25_lin05"
runs = tuple(run for run in whole.continual_runs if run.base == BASE)
losses = whole.losses[whole.losses["run"].isin([run.name for run in runs])]
open_base = bayes_cpt.Base(BASE, known=False)
everything = Study("open weights", whole.general, whole.target, (open_base,), runs, losses)
study = everything.subset([run.name for run in runs if run.name != ASIDE])
[run.name for run in study.runs]

# %%
posterior = bayes_cpt.fit(study, model="cpt-replay", seed=SEED, draws=DRAWS, attempts=ATTEMPTS)
posterior.trustworthy

# %% [markdown]
# ## What it believes of the base
#
# `base_forward_area` is the base's forward area in units of that of a typical CPT run, `base_potential`
# the learning rate that it was left at over the peak. Where the contraction is near 0 the runs say
# nothing of it, and the prior speaks.

# %%
summary = posterior.summary()
summary[summary["quantity"].isin(["base_forward_area", "base_potential"])].round(3)

# %% [markdown]
# ## The run that was kept aside
#
# Dots: what it really did. The forecast starts at the measured loss of the base, so that what is not
# known of its pre-training matters little.

# %%
aside = everything.subset([ASIDE])
bands = posterior.predict(aside, kind="new_run", seed=SEED)
plots.forecast(posterior, bands, measured=aside)
