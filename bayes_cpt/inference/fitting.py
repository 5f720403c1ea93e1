"""The main job: a study and a model's name in, a posterior out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.checks import check_whole
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.trees import build_posterior
from bayes_cpt.model.setup import BoundModel, Setup, build_setup, fitted_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.ranges import check_evidence
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    from bayes_cpt.inference.density import Density
    from bayes_cpt.inference.metric import Climbed

# The printed memory must have e to this power of the evidence of the other; on four families of real runs
# it has less, by 3 to 190. So many climbs tell the evidence of each.
SURE, CLIMBS = 5.0, 2


def fit(
    study: Study | str | Path,
    model: str | Path | ModelSpec = "cpt-replay",
    seed: int = 0,
    *,
    draws: int | None = None,
    progress: Any = None,
    cores: int | None = None,
    attempts: int | None = None,
) -> Posterior:
    """Fit a model to a study.

    Parameters
    ----------
    study : Study, str or Path
        From `read_study`, or built in Python; or a study folder.
    model : str, Path or ModelSpec
        Name of a shipped model, path of a TOML file, or a specification.
    seed : int
        The same seed gives the same posterior, bit for bit, on the same machine.
    draws : int, optional
        Draws kept in each of the four chains; as many as the diagnostics ask for unless given.
    progress : callable, optional
        Called with a stage and the share of it that is done.
    cores : int, optional
        Chains sampled at once.
    attempts : int, optional
        How often at most to sample until the diagnostics hold; four times unless given. 1 is for a quick
        look.

    Returns
    -------
    Posterior
        Check `Posterior.trustworthy`: a posterior whose diagnostics fall short is returned too, marked.

    Raises
    ------
    StudyError
        If the study lacks what the model needs, or its losses cannot tell anything (see
        `bayes_cpt.study.ranges.check_evidence`).
    SpecError
        If there is no such model.
    SamplingError
        If the posterior cannot be sampled at all.
    """
    from bayes_cpt.inference.sampling import ATTEMPTS, sample

    check_whole(seed, draws=draws, cores=cores, attempts=attempts)
    study = study if isinstance(study, Study) else read_study(study)
    spec = model if isinstance(model, ModelSpec) else read_spec(model)
    setup = build_setup(spec, study)
    check_evidence(study, continual=spec.law.continual)
    density, known = likeliest(setup, study, seed, cores)
    drawn = sample(
        density,
        seed,
        draws=draws,
        attempts=ATTEMPTS[:attempts],
        progress=progress,
        cores=cores,
        known=known,
    )
    return build_posterior(density.setup, study, drawn, seed, draws)


def likeliest(
    setup: Setup, study: Study, seed: int, cores: int | None = None
) -> "tuple[Density, list[Climbed]]":
    """Return the density of a study and climbs in it: with the printed memory where the losses say so."""
    from bayes_cpt.inference.density import Density
    from bayes_cpt.inference.metric import climbed

    spec, density = setup.frame.spec, Density(setup)
    if not spec.law.printed_clock or not spec.law.memory_clock:
        return density, []
    printed = spec.with_law(memory_clock=0.0, carry_memory=False, takes_printed_clock=True)
    other = Density(fitted_setup(BoundModel.of(printed, study), study))
    found = [climbed(form, seed, range(CLIMBS), cores) for form in (density, other)]
    own, theirs = (max((evidence for evidence, _ in ends), default=-np.inf) for ends in found)
    return (other, found[1]) if theirs - own > SURE else (density, found[0])
