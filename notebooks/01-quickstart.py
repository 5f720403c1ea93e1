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
# # Quickstart: from short runs to credible bands
#
# You have a handful of short continual pre-training (CPT) runs and a long one to launch. This notebook
# fits the CPT scaling law to the short ones and predicts the long one, on general data (is the model
# forgetting?) and on target data (is it learning?), with bands that say how far to trust the curve.
#
# It takes about two minutes on two cores, most of it the fit.

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import pandas as pd

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.forecast.predict import table
from bayes_cpt.study.ranges import describe

# Settings: draws kept in each of four chains, how often to try until the fit can be trusted, and the
# seed that makes it all repeatable.
DRAWS = int(os.environ.get("BAYES_CPT_NOTEBOOK_DRAWS", "1000"))
ATTEMPTS = int(os.environ.get("BAYES_CPT_NOTEBOOK_ATTEMPTS", "3"))
SEED = 1

# %% [markdown]
# ## The study
#
# A *study* is a folder: `study.toml` names the runs, their learning-rate schedules and the checkpoints
# they start from; `losses.csv` has one row per validation measurement. The bundled one holds real runs
# of a small transformer that goes from English prose (`general`) to kernel sources and documentation
# (`kernel`).

# %%
study = bayes_cpt.read_study(bayes_cpt.bundled_study())
contents = describe(study)
columns = ["name", "phase", "base", "replay", "steps", "peak_learning_rate", "final_learning_rate"]
pd.DataFrame(contents["runs"])[columns]

# %% [markdown]
# Ten CPT runs of 3,000 steps, from four checkpoints, with 0 to 75 % of general data replayed. What you
# ask of the fit later should not be too far from these ranges, and you will be told where it is.

# %%
pd.DataFrame(contents["ranges"]["cpt"], index=["lowest", "highest"])

# %% [markdown]
# ## The fit
#
# `cpt-replay` is Eq. 8 of [arXiv 2505.07796](https://arxiv.org/abs/2505.07796) with a free replay
# factor, and a model of what no law explains: fluctuations that neighbouring checkpoints share, and a
# slow misfit. `models/cpt-replay.toml` states every prior with its reason.

# %%
posterior = bayes_cpt.fit(study, model="cpt-replay", seed=SEED, draws=DRAWS, attempts=ATTEMPTS)

# %% [markdown]
# Can it be trusted? Every quantity must have converged (R-hat at most 1.01), with 400 independent draws'
# worth of information in its middle and its tails, and without divergences. What falls short is named.

# %%
print("trustworthy" if posterior.trustworthy else "\n".join(posterior.problems))

# %%
summary = posterior.summary(interval=0.9)
summary[["ess_bulk", "ess_tail", "r_hat"]].describe().loc[["min", "max"]]

# %% [markdown]
# The coefficients of the equation, on each validation set. *Contraction* says what the study has taught:
# near 1 it determines the quantity, near 0 the prior does. Do not read much into the latter.

# %%
coefficients = summary[summary["kind"] == "coefficient"].drop(columns=["kind", "ess_tail", "r_hat"])
coefficients.set_index(["quantity", "domain"]).round(3)

# %% [markdown]
# Do the curves lie on the data? Dots are measured; the line is the law's curve; the pale band is what
# another run trained in the same way would show.

# %%
plots.fitted(posterior)

# %% [markdown]
# ## The forecast
#
# Now two runs that nobody has trained. A plan is a TOML file of runs, or a `Study` built in Python.

# %%
plan = bayes_cpt.bundled_study() / "plan-example.toml"
print(plan.read_text(encoding="utf-8"))

# %%
bands = posterior.predict(plan, kind="new_run", seed=SEED)
plots.forecast(posterior, bands)

# %% [markdown]
# The bands are draws of whole curves, an `xarray.Dataset`; as a table they are what `bayes-cpt predict`
# writes. At the last step:

# %%
forecast = table(bands)
last = forecast.groupby(["run", "domain"])["step"].transform("max") == forecast["step"]
forecast[last].drop(columns=["kind", "outside"]).round(3)

# %% [markdown]
# Draws answer any question. How likely is it that the longer run ends with more loss on general data
# than its base had?

# %%
base_loss = study.base_loss("stable_12k", "general")
end = bands["loss"].sel(run="long_r25", domain="general").dropna("step").isel(step=-1)
print(f"base {base_loss:.3f} nats/token; chance of ending above it: {(end > base_loss).mean():.0%}")

# %% [markdown]
# ## Why
#
# What the predicted loss is made of: what the base's training and the further steps give, and what CPT
# adds to it. On general data the shift is forgetting, and annealing pays some of it back.

# %%
plots.decomposition(posterior, plan, "long_r25")

# %% [markdown]
# What the study has taught about each coefficient: a contraction near 1 says that the runs determine it,
# one below 0.5 that it rests on its prior.

# %%
learnt = posterior.summary().query("kind == 'coefficient'")
learnt[["quantity", "domain", "mean", "lower", "upper", "contraction"]].round(2)

# %% [markdown]
# ## Keeping it
#
# One file holds draws, specification, study, versions and seed; what is loaded predicts just the same.

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "fit.nc"
    posterior.save(file)
    again = bayes_cpt.load(file)
assert again.predict(plan, kind="new_run", seed=SEED)["loss"].equals(bands["loss"])
