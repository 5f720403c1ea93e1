"""Bases that lie on no measured PT run, whose loss is all that is known of their pre-training."""

from collections.abc import Sequence

from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.study import Study


def with_lone_bases(study: Study, domains: Sequence[str]) -> Study:
    """Return the study with a PT run, measured once, for each base that lies on no measured one.

    A base's measured loss is a loss of pre-training like any other. Where it lies on a PT run the curve of
    that run has told it; elsewhere nothing would tie the level of the law to it, and only its product with
    the share of the offset that a run keeps would be known.

    Parameters
    ----------
    study : Study
    domains : sequence of str
        Validation sets that are modelled.

    Returns
    -------
    Study
        The study itself where every base lies on a measured run.
    """
    runs, rows = [], []
    taken = {run.name for run in study.runs}
    for base in study.bases:
        losses = _losses(study, base, domains)
        if not losses or base.schedule is None:
            continue
        name = base.name
        while name in taken:
            name += "+"
        taken.add(name)
        runs.append(Run(name, "pt", base.schedule, model_size=base.model_size))
        step = base.schedule.steps
        rows += [(name, step, domain, loss) for domain, loss in losses.items()]
    return study.with_runs(runs, rows) if runs else study


def _losses(study: Study, base: Base, domains: Sequence[str]) -> dict[str, float]:
    """Return the base's loss on each validation set that no curve of its PT run tells."""
    on_runs = {
        domain
        for domain in domains
        if base.run in study and study.curve(str(base.run), domain)[0].size
    }
    losses = {domain: study.base_loss(base.name, domain) for domain in domains}
    return {
        domain: loss
        for domain, loss in losses.items()
        if loss is not None and domain not in on_runs
    }
