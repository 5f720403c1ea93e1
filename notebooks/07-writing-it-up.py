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
# # Writing it up
#
# Sentences, tables, figures and a methods paragraph for a paper, from one fit.

# %%
# %matplotlib inline
import tempfile
from pathlib import Path

import bayes_cpt
from bayes_cpt import plots
from bayes_cpt.identify.determination import determination

# The fit is read from `fit.nc` where that lies here. Else it is made, for 02, 03 and 07 alike: a minute.
FIT = Path("fit.nc")
SEED = 1

study = bayes_cpt.read_study(bayes_cpt.bundled_study())
if not FIT.exists():
    bayes_cpt.fit(study, model="cpt-replay", seed=SEED).save(FIT)
posterior = bayes_cpt.load(FIT)
print("trustworthy" if posterior.trustworthy else "`bayes-cpt summary fit.nc` says what to doubt")

# %% [markdown]
# ## Sentences
#
# They carry the digits that the posterior supports, and name the interval.

# %%
folder = Path(tempfile.mkdtemp())
report = posterior.report(folder / "report.html", objective="balanced", draws=200)
print("\n\n".join(report.sentences))

# %% [markdown]
# ## Methods
#
# Of this very fit: model, priors, sampler, diagnostics, versions. Keys in brackets are entries of
# `references.bib`.

# %%
print("\n\n".join(report.methods))

# %% [markdown]
# ## Tables
#
# As printed; `.values` has the numbers whole. `bayes-cpt report FIT --paper FOLDER` writes all of them
# as LaTeX, Markdown and CSV, with the figures as PDF at a column's width.

# %%
sorted(report.tables)

# %%
choices = report.tables["choices"]
choices.cells

# %% [markdown]
# ## What a reviewer asks for
#
# Did the chains mix? Which coefficients are determined only together? Those on a ridge should be
# reported by what is determined, such as the effect table, not one by one.

# %%
plots.sampling(posterior)

# %%
told = determination(posterior)
told = told[told["kind"] == "coefficient"]
partners = [
    ", ".join(f"{name} ({domain}) {correlation:+.2f}" for name, domain, correlation in own)
    for own in told["moves_with"]
]
told[["quantity", "domain", "contraction"]].assign(moves_with=partners)

# %% [markdown]
# Two pages stand behind these numbers: what the intervals promise is in `docs/contract.md`, how they
# held on held-out runs in `docs/results/held-out.md`. Report the latter beside a forecast.
