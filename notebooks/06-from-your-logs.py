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
# # From your logs to a forecast
#
# What a trainer wrote becomes a study. So that this runs anywhere, we first write logs as a Hugging
# Face Trainer does, from real runs of the bundled study; yours lie in the output folders of your
# trainer.

# %%
# %matplotlib inline
import json
import tempfile
from pathlib import Path

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.cli import run  # what `bayes-cpt` runs in a terminal
from bayes_cpt.model.setup import build_setup

SEED = 1
folder = Path(tempfile.mkdtemp())
bundled = bayes_cpt.read_study(bayes_cpt.bundled_study())
RUNS = {"r00_cos": 0.0, "r25_cos": 0.25, "r50_cos": 0.5}
for name in RUNS:
    rates = bundled.run(name).schedule.learning_rates()
    history = [
        {"step": step, "learning_rate": float(rates[step - 1])}
        for step in range(10, len(rates) + 1, 10)
    ]
    for domain in ("general", "kernel"):
        steps, losses = bundled.curve(name, domain)
        history += [
            {"step": int(step), f"eval_{domain}_loss": float(loss)}
            for step, loss in zip(steps, losses, strict=True)
        ]
    state = {
        "global_step": len(rates),
        "max_steps": len(rates),
        "log_history": sorted(history, key=lambda entry: entry["step"]),
    }
    (folder / name).mkdir()
    (folder / name / "trainer_state.json").write_text(json.dumps(state))

# %% [markdown]
# ## A study from three logs
#
# The logs tell steps, losses and learning rates. They cannot tell which validation set is the general
# one, how much general data was in the batches, or how the base was trained: that is given. All that is
# assumed is printed.

# %%
replays = [part for name, ratio in RUNS.items() for part in ("--replay", f"{name}={ratio}")]
logs = [str(folder / name) for name in RUNS]
target = str(folder / "study")
given = ["--open-base", "base", "--general", "general", "--target", "kernel", *replays]
assert run(["init", target, *logs, *given]) == 0

# %% [markdown]
# The schedules were recognised from the logged learning rates, though only every tenth step is there.

# %%
print((folder / "study" / "study.toml").read_text())

# %% [markdown]
# ## What can these three runs tell?

# %%
assert run(["check", target]) == 0

# %% [markdown]
# From here all is as with any study: `bayes-cpt fit`, `predict`, `decide`. The losses, as they were
# read:

# %%
study = bayes_cpt.read_study(target)
study.losses.pivot_table(
    index="run", columns="domain", values="loss", aggfunc=["first", "last"]
).round(3)

# %% [markdown]
# Before any fit: what the model expects of such runs, beside what they did. Curves far outside would
# mean that a log was read wrongly, or that the priors do not suit.

# %%
frame = build_setup(bayes_cpt.read_spec("cpt-replay"), study).frame
plots.prior_predictive(frame, study)
