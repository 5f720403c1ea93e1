"""A fit -> the planner's page: its data, the law as JavaScript, and the files of `assets/` in one HTML."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from markupsafe import Markup

import bayes_cpt
from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.objective import Objective
from bayes_cpt.decisions.space import Space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.derived import check_continual
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import check_measured
from bayes_cpt.model.groups import check_one_target
from bayes_cpt.model.spec import ROLES
from bayes_cpt.planner.choices import CANDIDATES, SHAPES, Alternatives, Controls
from bayes_cpt.planner.law import LawCode, base_states, environment, law_code, law_draws
from bayes_cpt.report.equation import mathml_equations
from bayes_cpt.report.fit import warning
from bayes_cpt.study.runs import Base
from bayes_cpt.toml_files import toml_value

DRAWS = 200
# What computes, in the order in which it is read; the law stands before the forecast.
COMPUTING = ("numbers.js", "schedule.js", "areas.js", "forecast.js", "choice.js")
SHOWING = ("charts.js", "words.js", "page.js")


@dataclass(frozen=True, eq=False)
class Planner:
    """All that the page knows."""

    data: dict[str, Any]  # as `forecast.js` opens it: plain numbers, texts, and doubles in base64
    codes: tuple[LawCode, ...]  # the law of each validation set
    equations: list[tuple[Markup, Markup]]  # the law as MathML, with remarks

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        objective: Objective,
        *,
        fit: str = "fit.nc",
        draws: int = DRAWS,
        interval: float = 0.9,
        candidates: int = CANDIDATES,
        seed: int = 0,
    ) -> Self:
        """Return the planner of a fit.

        Refused if the law has something that the page does not compute, or the study no target data.
        """
        page = "the planner's page"
        posterior.check_one_law(page)
        posterior = posterior.in_batch()
        frame = posterior.frame
        check_continual(frame, "there is nothing to plan")
        check_one_target(posterior.study, page)
        check_measured(frame, ROLES, page)
        codes = tuple(law_code(frame.spec, role, f"{role}Law") for role in frame.roles)
        controls = Controls.of(posterior.study, knows_replay=frame.spec.law.uses_replay)
        space = Space(bases=tuple(base.name for base in controls.bases))
        looked: Any = {"draws": draws, "candidates": candidates, "seed": seed}
        decision = decide(posterior, objective, space, **looked)
        valuation, model = decision.valuation, decision.valuation.model
        named = dict(zip(frame.roles, frame.domains, strict=True))
        data = {
            "about": _about(posterior, fit, interval, seed) | {"batch": model.batch},
            "domains": list(frame.domains),
            "law": law_draws(model, codes, model.normals(seed)),
            "bases": base_states(model, controls.bases),
            "lengths": list(controls.lengths),
            "peaks": list(controls.peaks),
            "shapes": SHAPES,
            "ranges": controls.ranges(),
            "studied": controls.studied(),
            "reference": _place(valuation.reference, controls),
            "start": {
                **controls.start(decision.chosen),
                "weight": _weight(valuation, objective),
                "constraints": [
                    own.model_dump()
                    | {"domain": named.get(own.domain, own.domain)}
                    | {"share": objective.share(own.domain, frame.domains).tolist()}
                    for own in objective.constraints
                ],
            },
            "alternatives": [
                Alternatives.of(model, controls, length, candidates, seed).for_page(controls)
                for length in controls.lengths
            ],
        }
        return cls(data, codes, mathml_equations(frame))

    def script(self) -> str:
        """Return what computes: JavaScript that needs no browser, with the law as `LAWS`."""
        names = [f"{role}Law" for role in self.data["about"]["roles"]]
        law = [code.source for code in self.codes] + [f"const LAWS = [{', '.join(names)}];\n"]
        return "\n".join([*law, *map(_asset, COMPUTING)])

    def html(self) -> str:
        """Return the page: one file that asks for nothing else."""
        script = "\n".join([self.script(), *map(_asset, SHOWING)])
        template = environment().get_template("planner.html")
        return template.render(
            **self.data["about"],
            known=self.data,
            equations=self.equations,
            style=_asset("planner.css"),
            script=script,
            # A text of the study must not end the element that it stands in.
            data=json.dumps(self.data).replace("<", "\\u003c"),
        )


def _asset(name: str) -> str:
    return (files("bayes_cpt.planner") / "assets" / name).read_text(encoding="utf-8")


def _about(posterior: Posterior, fit: str, interval: float, seed: int) -> dict[str, Any]:
    frame = posterior.frame
    # A plan of one of several targets has to say which it is.
    of_several = posterior.laws[0].groups.target is not None
    return {
        "fit": fit,
        "study": posterior.study.name,
        "targets": toml_value(frame.domains[1]) if of_several else None,
        "model": frame.spec.name,
        "roles": list(frame.roles),
        "doubts": warning(posterior),
        "interval": interval,
        "seed": seed,
        "fit_seed": posterior.seed,
        "digest": str(posterior.tree.attrs["study_digest"]),
        "version": bayes_cpt.__version__,
    }


def _place(reference: Base | None, controls: Controls) -> int | None:
    """Return where among the page's bases the one stands that rises are counted from."""
    if reference is None:
        return None
    if reference not in controls.bases:
        problem = f"rises are counted from the base {reference.name}, which the page does not offer"
        fix = f"name one of {', '.join(base.name for base in controls.bases)} as reference"
        raise SpecError.at("objective, key reference", problem, fix)
    return controls.bases.index(reference)


def _weight(valuation: Valuation, objective: Objective) -> float:
    if valuation.thirds:
        problem = f"it names {', '.join(valuation.thirds)}, and the page knows general and target"
        fix = "leave it out, or give its weights as [mixtures.NAME] and name that in a constraint"
        raise SpecError.at(f"objective {objective.name}", problem, fix)
    general, target = (float(weight) for weight in valuation.combination.weights)
    if general < 0 or target < 0 or general + target <= 0:
        problem = "its balance has a negative weight, and that of the page goes from 0 to 1"
        fix = "give weights of general and target; a mixture may stand in a constraint"
        raise SpecError.at(f"objective {objective.name}", problem, fix)
    return general / (general + target)
