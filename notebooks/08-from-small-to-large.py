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
# # From small models to the large one
#
# Nobody runs ten short runs of the 1.7B model. They are run at 50M, 150M and 450M, and the question is
# about the 1.7B: which replay ratio and learning rate, what will its losses be, and what does it cost?
#
# The runs here are made up, so that there is a truth to compare with: the law that the paper prints for
# model sizes (Eq. 7 of [arXiv 2505.07796](https://arxiv.org/abs/2505.07796), coefficients of Fig. 15),
# with noise. The model that is fitted has other areas, more terms and wide priors.

# %%
# %matplotlib inline
import os
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.signal import lfilter

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.report.fit import size_words
from bayes_cpt.study.resources import Compute, UniqueTokens
from bayes_cpt.study.schedules import constant, cosine, linear
from bayes_cpt.study.study import Study

# Draws kept in each of four chains, and how often to try until the fit can be trusted.
DRAWS = int(os.environ.get("BAYES_CPT_NOTEBOOK_DRAWS", "1000"))
ATTEMPTS = int(os.environ.get("BAYES_CPT_NOTEBOOK_ATTEMPTS", "3"))
SEED = 1

# %% [markdown]
# ## Three small models, and the base of the large one
#
# Each small model has a PT run that holds its learning rate, one that anneals, and four short CPT runs
# from the first. Of the large one there is its base alone: where the CPT run is to start. All have the
# same steps and learning rate, as in the paper.

# %%
SMALL, LARGE, PEAK = (50.0, 150.0, 450.0), 1720.0, 2e-4
TRUNK = linear(500, 0.0, PEAK) + constant(19_500, PEAK)
CHOICES = [(0.0, 1.0), (0.25, 1.0), (0.5, 0.5), (0.25, 0.5)]


def continued(name, size, replay, share, steps):
    """Return a CPT run at a share of its base's learning rate."""
    schedule = linear(100, PEAK, share * PEAK) + cosine(steps - 100, share * PEAK)
    return bayes_cpt.Run(name, "cpt", schedule, f"base_{size:g}M", replay)


bases, runs = [], []
for size in (*SMALL, LARGE):
    held = f"held_{size:g}M" if size in SMALL else None
    bases.append(bayes_cpt.Base(f"base_{size:g}M", 20_000, TRUNK, run=held, model_size=size))
for size in SMALL:
    annealed = TRUNK + linear(4000, PEAK, 0.0)
    runs += [
        bayes_cpt.Run(f"held_{size:g}M", "pt", TRUNK, model_size=size),
        bayes_cpt.Run(f"annealed_{size:g}M", "pt", annealed, model_size=size),
    ]
    runs += [
        continued(f"r{100 * r:g}_lr{100 * share:g}_{size:g}M", size, r, share, 3000)
        for r, share in CHOICES
    ]

# %% [markdown]
# The truth, with the areas of the paper (Eq. 1, lambda 0.999); the replay factors are those of Eq. 8,
# normalised to 1 at replay 0.


# %%
def annealing(rates):
    """Return the annealing area after each step, from the peak on."""
    return lfilter([1.0], [1.0, -1.999, 0.999], -np.diff(rates, prepend=PEAK))


def areas(run, steps):
    """Return the forward and the annealing area of PT, and those of CPT."""
    rates = run.schedule.learning_rates()
    forward = np.append(0.0, np.cumsum(rates))[steps]
    if run.phase == "cpt":
        return TRUNK.learning_rates().sum(), 0.0, forward, np.append(0.0, annealing(rates))[steps]
    # The warm-up does not count.
    return forward, np.append(np.zeros(501), annealing(rates[500:]))[steps], 0.0, 0.0


def true_losses(study, run, steps):
    """Return the losses of Eq. 7 by validation set."""
    forward_pt, annealing_pt, forward_cpt, annealing_cpt = areas(run, steps)
    forward, size = forward_pt + forward_cpt, study.model_size(run)
    target_share = 0.0 if run.phase == "pt" else 1.0 - run.replay
    general = (
        1.829 + 0.504 * forward**-0.537 + 3.072 * size**-0.195
        - 0.090 * annealing_pt * size**0.235 - 0.103 * annealing_cpt * size**0.199
        + 0.278 * (1 - (12 * forward_cpt + 1) ** -0.359)
        * np.expm1(-3.238 * target_share) / np.expm1(-3.238)
    )  # fmt: skip
    target = (
        1.860 + 0.438 * forward**-0.585 + 2.718 * size**-0.189
        - 0.333 * annealing_pt * size**0.012 - 0.140 * annealing_cpt * size**0.145
        - 0.552 * (1 - (187 * forward_cpt + 1) ** -0.326)
        * np.expm1(-5.696 * target_share) / np.expm1(-5.696)
    )  # fmt: skip
    return {"web": general, "code": target}


def measured(study, run, count, generator):
    """Return rows of measured losses."""
    first = 0 if run.phase == "cpt" else 2000
    steps = np.unique(np.linspace(first, run.schedule.steps, count).astype(int))
    # The base is one model: its loss is the same for all that start from it.
    return [
        (
            run.name,
            int(step),
            domain,
            float(loss + 0.003 * generator.standard_normal() * (step > 0)),
        )
        for domain, losses in true_losses(study, run, steps).items()
        for step, loss in zip(steps, losses, strict=True)
    ]


def with_losses(study, count=12):
    """Return a study or plan with its runs measured."""
    generator = np.random.default_rng(SEED)
    rows = [row for run in study.runs for row in measured(study, run, count, generator)]
    columns = ["run", "step", "domain", "loss"]
    return replace(study, losses=pd.DataFrame(rows, columns=columns), is_plan=False)


# %%
BLANK = pd.DataFrame(columns=["run", "step", "domain", "loss"])
blank = Study("small models", "web", "code", tuple(bases), tuple(runs), BLANK, is_plan=True)
study = replace(
    with_losses(blank),
    # What a step of the large model takes.
    tokens_per_step=1_048_576.0,
    unique_tokens=UniqueTokens(target=12e9),
    compute=Compute(seconds_per_step=8.0, gpus=64, price=2.5),
)
study.losses.groupby("run")["loss"].agg(["size", "first", "last"]).round(3)

# %% [markdown]
# ## What can these runs tell?
#
# `bayes-cpt check STUDY --model cpt-replay-sizes` on a command line. It says nothing of model sizes where
# there are enough of them; with the two larger sizes alone it would ask for a third.

# %%
MODEL = "cpt-replay-sizes"
larger = study.subset([run.name for run in study.runs if "_50M" not in run.name])
print("All three:", *size_words(study, continual=True) or ["enough."])
print("Without the smallest:", *size_words(larger, continual=True))

# %% [markdown]
# ## The fit
#
# It knows of the large model by its base alone: a schedule and a size, no loss.

# %%
posterior = bayes_cpt.fit(study, model=MODEL, seed=SEED, draws=DRAWS, attempts=ATTEMPTS)
print("trustworthy" if posterior.trustworthy else "`bayes-cpt summary fit.nc` says what to doubt")

# %% [markdown]
# What it makes of size, on each validation set. The truth is `gamma_3` = 0.195 and 0.189; where the
# contraction is near 0 the prior speaks.

# %%
summary = posterior.summary()
exponents = ["size_exponent", "annealing_by_size", "ratio_by_size", "shift_by_size"]
summary[summary["quantity"].isin(exponents)].round(3)[
    ["quantity", "domain", "mean", "lower", "upper", "contraction"]
]

# %% [markdown]
# ## A forecast of a size that never ran
#
# The large model for 12,000 steps, and a run like those of the 450M beside it. Dots: the truth, which the
# fit never saw. Titles say what lies beyond the studied runs; the band of the large model is wider, for
# nobody knows how far its size lies off the power of the others.

# %%
launch = [
    continued("450M", 450.0, 0.25, 1.0, 3000),
    continued("1720M", LARGE, 0.25, 1.0, 12_000),
]
plan = Study(
    "launch",
    "web",
    "code",
    tuple(replace(b, run=None) for b in bases),
    tuple(launch),
    BLANK,
    is_plan=True,
)
bands = posterior.predict(plan, kind="new_run", seed=SEED)
truth = with_losses(plan)
plots.forecast(posterior, bands, measured=truth)

# %% [markdown]
# The last losses of the large model, against the truth.

# %%
columns = ["median", "lower", "upper"]
last = bands[columns].sel(run="1720M", step=12_000).to_dataframe()[columns]
last["truth"] = [float(own[0]) for own in true_losses(plan, launch[1], [12_000]).values()]
last.round(3)

# %% [markdown]
# ## Replay and learning rate of the large run
#
# `bases` names what is to be launched. Each draw of the posterior has its own size effect, so that the
# answer counts what is not known of the large model. The objective weighs both losses alike; general
# loss and target loss of every choice share the level of the size, and it cancels between choices.

# %%
space = {
    "bases": ["base_1720M"],
    "replay": {"low": 0.0, "high": 0.5},
    "relative_peak": {"low": 0.4, "high": 1.0},
    "steps": 12_000,
}
choice = bayes_cpt.decide(posterior, "balanced", space, draws=400, candidates=500, seed=SEED)
print("\n".join(choice.verdict()))

# %%
columns = ["option", "base", "replay", "peak", "decay_steps", "regret", "p_best", "p_within"]
choice.table()[columns].round(4)

# %%
plots.decision(choice)

# %% [markdown]
# ## What it costs
#
# `seconds_per_step` was measured on the large model; a smaller one takes less, in proportion to its size
# here. Epochs over the target data are counted at the tokens of a step.

# %%
resources = study.resources
best = choice.plan().runs[0]
cost = resources.of_one(best)
small = sum(
    resources.costs(run.schedule.steps)["money"] * study.model_size(run) / LARGE
    for run in study.runs
)
print(f"The launch: {cost['gpu_hours']:,.0f} GPU-hours, {cost['money']:,.0f} in money,")
print(f"{cost['target_epochs']:.2f} epochs over the target data.")
print(f"All small runs together, their pre-training too: {float(small):,.0f} in money.")
