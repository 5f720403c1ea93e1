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
# # The paper's figures, with uncertainty
#
# The figures of [arXiv 2505.07796](https://arxiv.org/abs/2505.07796) show what one set of coefficients
# says. Here they are drawn again from a posterior, on real runs (`data/cpt-lab`), so that each curve
# has a band: where it is wide, these runs do not determine what the figure is about. Numbers of figures
# and equations are the paper's.

# %%
# %matplotlib inline
from pathlib import Path

import bayes_cpt
from bayes_cpt import landmarks, plots
from bayes_cpt.forecast.third_sets import weight_table
from bayes_cpt.study.schedules import cosine

# The fit is read from `fit.nc` where that lies here. Else it is made, for 02, 03 and 07 alike: a minute.
FIT = Path("fit.nc")
SEED = 1

study = bayes_cpt.read_study(bayes_cpt.bundled_study())
if not FIT.exists():
    bayes_cpt.fit(study, model="cpt-replay", seed=SEED).save(FIT)
posterior = bayes_cpt.load(FIT)
print("trustworthy" if posterior.trustworthy else "`bayes-cpt summary fit.nc` says what to doubt")

DRAWS = 100  # of the posterior, for each of the slower figures

# %% [markdown]
# ## Figure 2: the distribution shift at a constant learning rate
#
# Nothing anneals in `r00_const`, so what moves its loss beyond the base's own curve is the shift alone
# (Eq. 3). Below, each part that is added to the base.

# %%
plots.decomposition(posterior, run="r00_const")

# %% [markdown]
# ## Figure 3: the law on the runs that it was fitted to
#
# Two schedules from one base, and one that is warmed up again from a base annealed to 0. The re-warm-up
# raises the loss first: its annealing area is negative.

# %%
plots.fitted(posterior, runs=["r00_const", "r00_cos", "r25_a0_rewarm"])

# %% [markdown]
# ## Figure 1: the hidden curves
#
# A run goes from one curve that it left, training on general data for ever, towards one that it
# approaches, on which the whole shift has happened.

# %%
plots.hidden_curves(landmarks.hidden_curves(posterior, runs=["r25_cos"], draws=DRAWS))

# %% [markdown]
# ## Figure 5: how far to anneal the base
#
# The last loss of one run from bases of another loss potential, the last over the peak learning rate of
# pre-training: 1 is a base that was not annealed. With and without a re-warm-up to the run's peak.

# %%
plots.response(
    *(
        landmarks.loss_potential_response(
            posterior, run="r25_cos", rewarmed_to_peak=rewarmed, draws=DRAWS
        )
        for rewarmed in (True, False)
    )
)

# %% [markdown]
# ## Figure 7a and b: how high to warm up
#
# A higher peak trades general loss for target loss.

# %%
plots.response(landmarks.peak_response(posterior, run="r25_cos", draws=DRAWS))

# %% [markdown]
# ## Figures 7c and 13: the critical point, and the turning length
#
# Above: after how many steps the general loss is back at that of the base, and how probable it is that this
# happens within the planned run. Below: a base that was trained for longer than this lies lower on general
# data than CPT at that replay ratio can ever end: its general loss does not all come back. The bases of the
# study are vertical lines.

# %%
plots.landmarks(
    landmarks.turning_length(posterior, runs=["r25_cos", "r75_wsd"], draws=DRAWS),
    landmarks.critical_point(posterior, draws=DRAWS),
)

# %% [markdown]
# ## Figures 12 and 19: replay
#
# The same run at four replay ratios. On general data the shift grows steeply as replay goes to 0; on
# target data replay costs little at first.

# %%
schedule = cosine(3000, 2e-3)
ratios = (0.0, 0.1, 0.33, 0.67)
plan = study.without_losses().with_runs(
    [
        bayes_cpt.Run(f"replay {ratio:g}", "cpt", schedule, base="stable_12k", replay=ratio)
        for ratio in ratios
    ]
)
curves = posterior.predict(plan, kind="expected", seed=SEED)
plots.forecast(posterior, curves.sel(run=[f"replay {ratio:g}" for ratio in ratios]))

# %% [markdown]
# ## Figures 4 and 8: which run has the best losses
#
# The star is the run with the lowest balance of both losses. Above, where the best run of each posterior
# draw lies; below, what is traded for what, and what it costs to choose otherwise.

# %%
choice = bayes_cpt.decide(posterior, "balanced", draws=200, candidates=500, seed=SEED)
choice.plot()

# %% [markdown]
# ## Figure 9: other validation sets
#
# The loss on a set that is neither general nor target follows from the two by weights of its own (Eq. 6).
# Here they are learnt from the set's own curves, and have a posterior: C source, which is half of the
# target data, goes with the target; German with general data, less surely. The two losses explain the share
# `explained` of its change; where that is below 0.8 a warning says so. Bands are as wide as that leaves
# them. Dots are measured.

# %%
SETS = ("ccode", "ood_german")
weight_table(posterior, SETS).round(2)

# %%
others = study.subset(["r00_cos", "r25_cos", "r75_wsd"])
curves = posterior.predict(others, sets=SETS, seed=SEED, draws=4 * DRAWS)
plots.forecast(posterior, curves, measured=study)

# %% [markdown]
# ## Other models and data
#
# The paper's further figures repeat these for other models and data. So can you: replace the study at the
# top by your own. For a base whose pre-training is not known see `04-open-weights`.
