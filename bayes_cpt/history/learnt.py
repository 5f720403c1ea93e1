"""A model whose priors are those of a population, and its file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.history.evidence import SHARED, Label, labels_of
from bayes_cpt.history.population import Pair, Population
from bayes_cpt.model.priors import (
    Correlation,
    Distribution,
    Prior,
    correlation_matrix,
    is_correlation,
)
from bayes_cpt.model.spec import ROLES, ModelSpec, sampled_labels
from bayes_cpt.study.folder import table_lines
from bayes_cpt.toml_files import toml_value

# Bounds of a lognormal are kept: its median stays inside by this factor.
INSIDE = 1.01
# Studies named in a reason; the head of the file names all.
NAMED = 3


@dataclass(frozen=True, eq=False)
class Learnt:
    """A model with learnt priors."""

    spec: ModelSpec
    before: ModelSpec  # the model it was made from
    population: Population
    labels: tuple[Label, ...]  # parameters and roles whose priors were learnt

    @property
    def changed(self) -> tuple[str, ...]:
        """Parameters whose priors were learnt, for one role at least."""
        return tuple(dict.fromkeys(name for name, _ in self.labels))

    def table(self) -> pd.DataFrame:
        """Return one row per parameter and role.

        Columns parameter, on, studies (that determine it), learnt, and of the prior before and now the
        central 90 % interval and the median: was_lower, was_median, was_upper, lower, median, upper.
        """
        labels = self.population.labels
        table = pd.DataFrame(labels, columns=["parameter", "on"])
        table["studies"] = [len(self.population.telling[label]) for label in labels]
        table["learnt"] = [label in self.labels for label in labels]
        for model, which in ((self.before, "was_"), (self.spec, "")):
            priors = labels_of(model)
            ends = [priors[label].quantiles([0.05, 0.5, 0.95]) for label in labels]
            table[[f"{which}{end}" for end in ("lower", "median", "upper")]] = ends
        return table


def learnt_model(
    spec: ModelSpec,
    population: Population,
    name: str,
    seed: int = 0,
    labels: Sequence[Label] | None = None,
) -> Learnt:
    """Return a model whose priors are what a further study of the population is expected to have.

    What too few studies determine keeps the model's own prior. Parameters of which it is nearly sure that
    they go together are correlated. `labels` are the parameters and roles whose priors are learnt, those of
    `Population.learnt` unless given.
    """
    before = labels_of(spec)
    learnt: dict[Label, Distribution] = {}
    chosen = population.learnt if labels is None else tuple(labels)
    for label in chosen:
        center, spread = population.predictive(label, seed)
        prior = before[label]
        learnt[label] = _inside(prior, prior.center + center * prior.spread, spread * prior.spread)
    priors = dict(spec.priors)
    for parameter in dict.fromkeys(parameter for parameter, _ in learnt):
        was = spec.priors[parameter]
        parts = []
        for label in (label for label in chosen if label[0] == parameter):
            names = population.telling[label]
            on = "" if label[1] == SHARED else f" on {label[1]} data"
            parts.append(f"{len(names)}{on} {_named(names)}")
        reason = f"Learnt from studies: {'; '.join(parts)}. Before: {was.reason}"
        own = {role: learnt.get((parameter, role), was.of(role)) for role in ROLES}
        if (parameter, SHARED) in learnt:
            own = {"every": learnt[parameter, SHARED]}
        priors[parameter] = Prior(reason=reason, **own)
    summary = f"{spec.summary}; priors learnt from {len(population.studies)} studies"
    changed = {"name": name, "summary": summary, "priors": priors}
    independent = spec.model_copy(update=changed | {"correlations": ()})
    pairs = [own for own in population.pairs if own.shown and {own.first, own.second} <= {*chosen}]
    correlations = _correlations(spec.correlations, pairs, sampled_labels(independent))
    new = independent.model_copy(update={"correlations": correlations})
    return Learnt(new, spec, population, chosen)


def _correlations(
    before: Sequence[Correlation], pairs: Sequence[Pair], sampled: Sequence[tuple[str, str | None]]
) -> tuple[Correlation, ...]:
    """Return the correlations of a model, and after them those that the population shows: these count.

    One of the model's that they replace on every validation set is left out.
    """
    stated = list(before)
    for pair in pairs:
        names = f"{len(pair.studies)} studies {_named(pair.studies)}"
        correlation = Correlation(
            between=(_end(pair.first), _end(pair.second)),
            value=round(pair.correlation, 2),
            reason=f"Learnt from {names}, probability {pair.probability:.3f}.",
        )
        # The likeliest come first: one that no distribution has beside these is left out.
        if is_correlation(correlation_matrix(sampled, [*stated, correlation])):
            stated.append(correlation)
    whole = correlation_matrix(sampled, stated)
    for correlation in before:
        others = [other for other in stated if other is not correlation]
        if np.array_equal(correlation_matrix(sampled, others), whole):
            stated = others
    return tuple(stated)


def _end(label: Label) -> str:
    return label[0] if label[1] == SHARED else "/".join(label)


def _named(studies: Sequence[str]) -> str:
    """Return the first of some studies by name, in brackets."""
    more = f" and {len(studies) - NAMED} more" if len(studies) > NAMED else ""
    return f"({', '.join(studies[:NAMED])}{more})"


def _inside(prior: Distribution, center: float, spread: float) -> Distribution:
    """Return the prior moved, its median within its bounds."""
    lower, upper = prior.bounds
    if np.isfinite(upper) and lower > 0.0:
        edges = prior.to_scale(np.array([lower * INSIDE, upper / INSIDE]))
        center = float(np.clip(center, *edges))
    return prior.moved(center, spread)


def learnt_text(
    found: Learnt, extends: str, digests: dict[str, str], seed: int, wrong: Sequence[str] = ()
) -> str:
    """Return the TOML of a learnt model, to be given to ``--model``.

    It extends the model it was made from: a shipped one by name, or a path as seen from the new file. What
    is wrong with it, if anything, is told whenever it is read.
    """
    kept = [label for label in found.population.labels if label not in found.labels]
    studies = found.population.studies
    lines = [
        "# Priors learnt by bayes-cpt learn-priors: what a further such study is expected to have.",
        f"# Learnt from these {len(studies)} studies, seed {seed} (name, SHA-256 of what was fitted):",
        *(f"# - {name} {digests[name]}" for name in studies),
    ]
    if kept:
        names = ", ".join(map(_end, kept))
        lines.append(f"# Too few of them determine these, which keep their priors: {names}.")
    about: dict[str, Any] = {"extends": extends, "name": found.spec.name}
    about |= {"summary": found.spec.summary} | ({"problems": list(wrong)} if wrong else {})
    lines += ["", *(f"{key} = {toml_value(value)}" for key, value in about.items()), ""]
    for parameter in found.changed:
        keys = found.spec.priors[parameter].model_dump(mode="json")
        lines += table_lines(["priors", parameter], keys)
    for pair in found.spec.correlations:
        keys = pair.model_dump(mode="json")
        lines += table_lines(["correlations"], keys, one_of_several=True)
    return "\n".join(lines)
