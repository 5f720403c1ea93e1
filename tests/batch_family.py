"""A study whose CPT runs have three batches, and plans of a fourth."""

from dataclasses import replace
from functools import cache

from size_family import BLANK, blank_losses
from synthetic import prior_as_posterior
from target_family import BASE, PEAK, TRUNK

from bayes_cpt import Posterior, Run, Study
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.schedules import cosine, linear

BATCHES = (Batch(65536.0, 512), Batch(131072.0, 512), Batch(131072.0, 1024))
NEW = Batch(524288.0, 1024)
MODEL = "cpt-replay-batch"


def continued(name: str, batch: Batch, replay: float = 0.0, steps: int = 1000) -> Run:
    """Return a CPT run from the base."""
    run = Run(name, "cpt", cosine(steps, PEAK), "base", replay)
    return replace(run, batch_tokens=batch.tokens, sequence_length=batch.sequence_length)


def family(batches: tuple[Batch, ...] = BATCHES, measured: int = 12) -> Study:
    """Return the study; its losses mean nothing (see `simulated`), only where they were measured.

    The first batch has a run more than the others.
    """
    runs = [
        Run("trunk", "pt", TRUNK),
        Run("annealed", "pt", TRUNK + linear(1000, PEAK, 0.0)),
        continued("first_0.6", batches[0], 0.6),
        *(
            continued(f"{batch.tokens:g}x{batch.sequence_length}_{replay:g}", batch, replay)
            for batch in batches
            for replay in (0.0, 0.3)
        ),
    ]
    losses = blank_losses(runs, ("general", "target"), measured)
    return Study("batches", "general", "target", (BASE,), tuple(runs), losses)


def plan(*runs: Run) -> Study:
    """Return a plan for the family."""
    return Study("plan", "general", "target", (replace(BASE, run=None),), runs, BLANK, is_plan=True)


@cache
def batched() -> Posterior:
    """Return a posterior of the family, which costs no sampling."""
    return prior_as_posterior(family(), MODEL)
