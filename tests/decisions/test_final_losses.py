"""Final losses against `bayes_cpt.model.simulate` and the dense residual model, candidate by
candidate."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from batch_family import BATCHES, NEW, batched
from dense_residuals import curve_covariance
from every_option import spec_with
from open_weights import open_study
from printed import printed_posterior
from size_family import family_posterior
from synthetic import lab, lab_posterior, prior_as_posterior
from target_family import several

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import final_losses as module
from bayes_cpt.decisions.final_losses import FinalLosses, Spread
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.derived import annealed
from bayes_cpt.forecast.plans import prepare
from bayes_cpt.inference.posterior import Posterior, stack
from bayes_cpt.laws.law import Law
from bayes_cpt.model.discrepancy import KNOTS_PT
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.study import Study

DRAWS = 100
ANY_REPLAY, ANY_PEAK = {"low": 0.0, "high": 1.0}, {"low": 0.1, "high": 2.0}
ANY_LENGTH = {"low": 200, "high": 12_000}
SPACES: dict[str, dict[str, Any]] = {
    "bases of the study": {
        "replay": ANY_REPLAY, "relative_peak": ANY_PEAK, "steps": ANY_LENGTH,
        "decay_shape": ["linear", "cosine", "one_minus_sqrt", "exponential"],
        "decay_share": {"low": 0.0, "high": 1.0},
    },
    "hypothetical bases": {
        "bases": "annealed_0pct", "warmup_share": {"low": 0.0, "high": 0.5}, "final": 0.0,
    },
    "one base and length": {
        "bases": "annealed_0pct", "replay": ANY_REPLAY, "relative_peak": ANY_PEAK, "steps": 3000,
    },
    "no base named": {"replay": ANY_REPLAY, "steps": ANY_LENGTH, "warmup_share": 0.1},
    "replay as fitted": {"relative_peak": ANY_PEAK, "steps": ANY_LENGTH},
    "a base of a size that never ran": {
        "bases": "large", "replay": ANY_REPLAY, "steps": 1000, "tokens_per_step": 4e6,
    },
    "mixtures of targets": {
        "replay": {"low": 0.0, "high": 0.5}, "steps": 1000,
        "targets": ["code", {"code": 0.5, "law": 0.5}, {"law": 0.25, "news": 0.75}],
    },
}  # fmt: skip
SPACES_OF_THE_LAB = [*SPACES][:3]


def sampled(posterior: Posterior, space: str, count: int, seed: int = 0) -> Candidates:
    """Return some candidates of a space, its corners among them."""
    found = SearchSpace.of(read_space(SPACES[space]), posterior.study).sample(512, seed)
    kept = np.random.default_rng(seed).choice(len(found), count, replace=False)
    found = found.take(np.sort(kept))
    if space != "hypothetical bases":
        return found
    # Annealed elsewhere, and measured by nobody.
    [base], potentials = found.bases, (0.0, 0.4, 1.0)
    assert base.schedule is not None
    others = tuple(
        replace(base, name=f"{own:g}", schedule=annealed(base.schedule, own), run=None)
        for own in potentials
    )
    return replace(found, bases=others, base=np.arange(count) % len(others))


def in_blocks(model: FinalLosses, candidates: Candidates) -> Floats:
    return model.each(candidates, lambda block: block.losses.swapaxes(0, 1)).swapaxes(0, 1)


def by_plan(posterior: Posterior, candidates: Candidates) -> Floats:
    """Return the losses of a plan of all candidates at their last steps, as predict would."""
    names = [f"run {row}" for row in range(len(candidates))]
    plan, domains = candidates.plan(posterior.study, names), posterior.frame.domains
    last = [(run.name, run.schedule.steps, own) for run in plan.runs for own in domains]
    at = pd.DataFrame(last, columns=["run", "step", "domain"])
    curves = prepare(posterior, plan, at=at).curves(posterior.frame)
    losses = expected_loss(posterior.frame, posterior.parameters(DRAWS), curves)
    return losses.reshape(-1, len(names), len(domains)).transpose(2, 1, 0)


def reset(study: Study) -> Study:
    """Return a study whose CPT runs start with a new optimiser."""
    runs = (replace(run, optimizer_state="reset") if run.base else run for run in study.runs)
    return replace(study, runs=tuple(runs))


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "cpt-replay": lab_posterior,
    "cpt-replay-printed": lambda: lab_posterior("cpt-replay-printed"),
    "cpt": lambda: prior_as_posterior(lab().subset(["pt_trunk", "r00_const", "r00_cos"]), "cpt"),
    "memory restarted": lambda: prior_as_posterior(lab(), spec_with(carry_memory=False)),
    # What a plan does not say is as in the fitted runs.
    "optimiser reset": lambda: prior_as_posterior(reset(lab())),
    "steps as the clock, one pace, no power of the shift": lambda: prior_as_posterior(
        lab(), spec_with(memory_clock=0.0, slow_share="printed", shift_power="printed")
    ),
    "repeated tokens": lambda: lab_posterior("cpt-replay-repeats"),
    "unknown base": lambda: prior_as_posterior(open_study()),
    "one printed draw": lambda: printed_posterior("moderate"),
    "a batch": lambda: batched().in_batch(BATCHES[1]),
    "a batch that never ran": lambda: batched().in_batch(NEW),
    "sizes": family_posterior,
    "targets": lambda: prior_as_posterior(several()),
}
OF_OTHERS = {
    **dict.fromkeys(
        ("unknown base", "one printed draw", "a batch", "a batch that never ran"), "no base named"
    ),
    "cpt": "replay as fitted",
    "sizes": "a base of a size that never ran",
    "targets": "mixtures of targets",
}
OF_THE_LAB = [name for name in POSTERIORS if name not in OF_OTHERS]


@pytest.mark.parametrize(
    ("name", "space"),
    [
        *product(("cpt-replay", "cpt-replay-printed"), SPACES_OF_THE_LAB),
        *((own, "bases of the study") for own in OF_THE_LAB[2:]),
        *OF_OTHERS.items(),
    ],
)
def test_losses_are_those_of_a_plan(name: str, space: str) -> None:
    posterior = POSTERIORS[name]()
    candidates = sampled(posterior, space, 25)
    model = FinalLosses.of(posterior, DRAWS)
    wanted = by_plan(posterior, candidates)
    np.testing.assert_allclose(model.at(candidates).losses, wanted, rtol=0, atol=1e-9)
    # What is fast is in single precision.
    np.testing.assert_allclose(in_blocks(model, candidates), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_single_precision_costs_less_than_a_hundred_thousandth_of_a_nat(seed: int) -> None:
    """On draws as wide as the prior, whose ridges are longer than any posterior's."""
    posterior = prior_as_posterior(lab(), "cpt-replay", draws=100, spread=1.0)
    model = FinalLosses.of(posterior, 400)
    candidates = sampled(posterior, "bases of the study", 150, seed)
    errors = np.abs(in_blocks(model, candidates) - model.at(candidates).losses)
    assert np.quantile(errors, 0.999) < 1e-5
    narrow = FinalLosses.of(lab_posterior(), DRAWS)
    assert np.abs(in_blocks(narrow, candidates) - narrow.at(candidates).losses).max() < 3e-6


def test_each_law_of_a_stack_has_its_own_draws() -> None:
    names = ("cpt-replay", "cpt-replay-printed")
    laws = {name: prior_as_posterior(lab(), name, draws=60) for name in names}
    model = FinalLosses.of(stack(laws, dict.fromkeys(names, 0.5), seed=1), draws=100)
    candidates = SearchSpace.of(read_space(SPACES["one base and length"]), lab()).sample(32, 0)
    block = model.at(candidates)
    assert block.losses.shape == (2, len(candidates), model.draws)
    assert block.discrepancy.shape == block.spread.own.shape == block.losses.shape
    alone = [replace(model, laws=(law,), _tables={}).at(candidates) for law in model.laws]
    for name in ("losses", "discrepancy"):
        parts = [getattr(own, name) for own in alone]
        np.testing.assert_array_equal(getattr(block, name), np.concatenate(parts, axis=-1))
    assert np.abs(in_blocks(model, candidates) - block.losses).max() < 1e-5


def test_blocks_hold_every_candidate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = sampled(lab_posterior(), "bases of the study", 200)
    model = FinalLosses.of(lab_posterior(), DRAWS)
    whole = in_blocks(model, candidates)
    monkeypatch.setattr(module, "BLOCK", 7 * DRAWS)
    rows = model.map(candidates, lambda block: block.rows, cores=3)
    assert max(own.size for own in rows) <= 7
    assert sorted(np.concatenate(rows).tolist()) == list(range(200))
    np.testing.assert_allclose(in_blocks(model, candidates), whole, rtol=0, atol=2e-6)


def test_bases_are_at_their_measured_losses() -> None:
    posterior = lab_posterior()
    model = FinalLosses.of(posterior, DRAWS)
    found = model.base_losses(posterior.study.bases)
    for index, base in enumerate(posterior.study.bases):
        for domain, name in enumerate(model.domains):
            measured = posterior.study.base_loss(base.name, name)
            if measured is not None:
                np.testing.assert_allclose(found[domain, index], measured)
                assert not model.base_levels((base,))[domain].any()
    hypothetical = sampled(posterior, "hypothetical bases", 5)
    [table] = model.tables(hypothetical.bases)
    assert not table.known.any()
    assert not table.offset.any()
    assert (table.level > 0).all()


def test_changes_are_counted_from_a_base_as_runs_in_the_batch_of_the_space_leave_it() -> None:
    """A base that nobody measured: the gain of PT is that of the batch too, at the base and after it."""
    posterior = family_posterior()
    model = FinalLosses.of(posterior, DRAWS)
    space = read_space(SPACES["a base of a size that never ran"])
    starts = []
    for tokens in (4e6, None):
        of_batch = space.model_copy(update={"tokens_per_step": tokens})
        whole = SearchSpace.of(of_batch, posterior.study)
        valuation = Valuation.of(model, read_objective("balanced"), whole)
        starts.append(valuation.start(whole.sample(2, 0))[:, 0])
        [table] = model.tables(whole.bases, tokens)
        np.testing.assert_array_equal(starts[-1], table.loss[:, 0])
    assert np.abs(starts[0] - starts[1]).mean() > 1e-3


def single_run(spread: Spread) -> Floats:
    """Return the sd of each loss of a single run, shape (domains, candidates, draws)."""
    return np.stack([spread.of_sum(row) for row in np.eye(len(spread.law))])


@pytest.mark.parametrize("space", SPACES_OF_THE_LAB)
@pytest.mark.parametrize("name", ["cpt-replay", "cpt-replay-printed"])
def test_noise_is_that_of_the_dense_residual_model(name: str, space: str) -> None:
    posterior = POSTERIORS[name]()
    candidates = sampled(posterior, space, 8)
    model = FinalLosses.of(posterior, 12)
    [table] = model.tables(candidates.bases)
    found = single_run(model.at(candidates).spread)
    fast = model.each(candidates, lambda block: single_run(block.spread).swapaxes(0, 1))
    np.testing.assert_allclose(fast.swapaxes(0, 1), found, rtol=1e-4)
    draws = posterior.parameters(12)
    for domain, row, draw in np.ndindex(*found.shape):
        known = bool(table.known[domain, candidates.base[row]])
        own = {name: value[draw : draw + 1] for name, value in draws.items()}
        wanted = dense_noise(posterior.frame, own, candidates, row, domain, known)
        assert found[domain, row, draw] == pytest.approx(wanted, rel=1e-9)


def dense_noise(
    frame: BoundModel,
    draw: dict[str, Any],
    candidates: Candidates,
    row: int,
    domain: int,
    known: bool,
) -> float:
    """Return the sd at the last step from the dense covariance, its sizes written out."""
    own = {name: value[0, domain] for name, value in draw.items() if value.shape == (1, 2)}
    if frame.spec.residuals.kind == "independent":
        return float(own["error"])
    run = candidates.run(row, "run")
    rate = run.schedule.final / frame.reference.learning_rate
    floor, onset = own["fluctuation_floor"], ONSET_SHARE * frame.reference.steps
    coefficients = frame.law.coefficients(draw, np)
    shift = next(term for term in frame.law.terms if term.name == "shift")
    share = np.array([[1.0 - candidates.replay[row]] * 2])
    factor = float(shift.replay_factor(share, coefficients, np)[0, domain])  # type: ignore[attr-defined]
    level = own["offset_pt"]
    base = candidates.bases[candidates.base[row]].schedule
    if not known and base is not None:
        # What the last point of the base's PT run would be off by, and what a run keeps of that.
        last = floor + (1.0 - floor) * base.final / frame.reference.learning_rate
        pretrained = curve_covariance(
            [base.steps],
            anchored=False,
            fluctuation=[own["fluctuation_pt"] * last],
            memory=1.0,
            misfit=[own["misfit_pt"]],
            level=[own["offset_pt"]],
            onset=onset,
            carried=frame.spec.residuals.misfit_memory_pt,
            per_fold=KNOTS_PT,
        )
        kept = 1.0
        if "offset_kept" in own:
            faded = np.exp(-run.schedule.steps / (own["offset_time"] * frame.reference.steps))
            kept = own["offset_kept"] + (1.0 - own["offset_kept"]) * faded
        level = float(np.sqrt(pretrained[0, 0])) * kept
    misfit = own["misfit_cpt"] * np.sqrt(1.0 - own["misfit_replay"] * (1.0 - factor))
    beyond = np.log(max(run.schedule.steps / frame.studied.continual, 1.0))
    extrapolated = own["extrapolation_cpt"] * misfit * beyond
    variance = extrapolated**2 + curve_covariance(
        [run.schedule.steps],
        anchored=known,
        fluctuation=[own["fluctuation_cpt"] * (floor + (1.0 - floor) * rate)],
        memory=own["fluctuation_memory"] * frame.reference.steps,
        misfit=[misfit],
        level=[level],
        onset=onset,
        carried=frame.spec.residuals.misfit_memory,
    )
    return float(np.sqrt(variance[0, 0]))


@dataclass(frozen=True)
class Curvature:
    """A term that no law of ours has."""

    name: str = "curvature"

    def parameters(self) -> dict[str, Any]:
        return {}

    def coefficients(self, parameters: Any, reference: Any, xp: Any) -> dict[str, Any]:
        return {"K": 0.01 * parameters["exponent"]}

    def loss(self, points: Any, coefficients: Any, xp: Any) -> Any:
        after = points.learning_rate_levels(coefficients, xp)[1]
        area = points.shift_area(coefficients, xp)
        return coefficients["K"] * area * points.learning_rate + 1e3 * after


class Extended(BoundModel):
    """A frame whose law has one more term."""

    @property
    def law(self) -> Law:
        law = super().law
        return replace(law, terms=(*law.terms, Curvature()))


def test_a_new_term_of_the_law_needs_no_change_here() -> None:
    plain = lab_posterior()
    own = plain.frame
    frame = Extended(own.spec, own.domains, own.roles, own.reference)
    posterior = Posterior(plain.tree, plain.study, frame)
    candidates = sampled(posterior, "bases of the study", 20)
    model = FinalLosses.of(posterior, DRAWS)
    wanted = by_plan(posterior, candidates)
    assert np.abs(wanted - by_plan(plain, candidates)).max() > 1e-3
    np.testing.assert_allclose(model.at(candidates).losses, wanted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(in_blocks(model, candidates), wanted, rtol=0, atol=1e-5)


def test_a_law_without_cpt_is_refused() -> None:
    with pytest.raises(StudyError, match=r"knows no CPT phase.*Fit with --model cpt"):
        FinalLosses.of(lab_posterior("pretrain"))
