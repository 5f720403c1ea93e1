"""The posterior of a fit of several targets, for runs on one of them: that of a law of one target."""

from dataclasses import dataclass, replace

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior, StackedPosterior
from bayes_cpt.laws.mixture import Mixture
from bayes_cpt.model.groups.targets import check_one_target, check_target, roles_of, study_of_target
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.study import Study

# What is sampled of the size of a shift: B and D are in proportion to it.
SHIFT_SIZES = ("shift_size", "shift_share")


def in_target(posterior: Posterior, name: str | None, asked: str = "this") -> Posterior:
    """Return the posterior of runs on one target alone, as a fit of one target has it.

    Of such runs the law of several targets is the law of one (docs/targets.md): the shift of the general
    set is the one that this target makes.

    Parameters
    ----------
    posterior : Posterior
    name : str or None
        A target of the fitted study; None is for studies of one.
    asked : str
        What is asked, for the error.

    Returns
    -------
    Posterior
        The same one where the study has one target. Else its study is `study_of_target`.

    Raises
    ------
    StudyError
        If there is no such target, or no run on it alone; or if there are several and none is named.
    """
    study = posterior.study
    if name is None:
        check_one_target(study, asked)
        return posterior
    check_target(study, name)
    if len(study.targets) == 1:
        return posterior
    own = study_of_target(study, name)
    if isinstance(posterior, StackedPosterior):
        laws = tuple(_of_law(law, own, name) for law in posterior.laws)
        return replace(posterior, study=own, frame=_frame(posterior.frame, name), laws=laws)
    return _of_law(posterior, own, name)


def _of_law(posterior: Posterior, study: Study, name: str) -> Posterior:
    return OneTargetPosterior(posterior.tree, study, _frame(posterior.frame, name), posterior)


def _frame(frame: Frame, name: str) -> Frame:
    """Return a frame of several targets for one of them: the same law and reference, two sets."""
    law = frame.spec.law.model_copy(update={"targets": 1})
    of_several = Mixture().parameters()
    priors = {own: prior for own, prior in frame.spec.priors.items() if own not in of_several}
    spec = frame.spec.model_copy(update={"law": law, "priors": priors})
    domains = (frame.domains[0], name)
    return replace(frame, spec=spec, domains=domains, roles=roles_of(domains))


@dataclass(frozen=True, eq=False)
class OneTargetPosterior(Posterior):
    """A posterior of runs on one target; `tree` is that of the fit, `study` is of one target.

    Parameters
    ----------
    known : Posterior
        As it came from the fit.
    """

    known: Posterior

    def parameters(self, draws: int | None = None) -> dict[str, Floats]:
        """Return sampled (and fixed) parameters of a law of one target.

        Parameters
        ----------
        draws : int, optional
            As in `Posterior.parameters`.
        """
        every, frame = self.known.parameters(draws), self.known.frame
        found = {}
        for name, info in self.frame.parameters().items():
            kept = [
                place
                for place, member in enumerate(frame.members(info.dims))
                if member.domain in self.frame.domains
            ]
            found[name] = every[name] if info.dims is None else every[name][:, kept]
        factor = every["forgetting_factor"][:, frame.domains.index(self.frame.domains[1])]
        for name in SHIFT_SIZES:
            if name in found:
                found[name][:, 0] *= factor
        return found
