"""The space of configurations: as it is written, and as it is searched."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import size_family
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import lab, lab_posterior

from bayes_cpt import Base, Run, Study, read_plan
from bayes_cpt.decisions.search_space import SearchSpace, with_batch
from bayes_cpt.decisions.space import DecayShape, Quantity, Space, narrowed, read_space
from bayes_cpt.errors import SpecError
from bayes_cpt.laws.schedule_ends import DECAYS
from bayes_cpt.report.words import environment
from bayes_cpt.study.folder import settings_text
from bayes_cpt.study.resources import Compute
from bayes_cpt.study.schedules import Schedule, Segment, constant, linear

# --- as it is written -----------------------------------------------------------------------------

TEXT = """
bases = "annealed_0pct"
replay = { low = 0.0, high = 0.5 }
peak = { low = 1e-4, high = 1e-3 }
warmup_steps = 100
decay_shape = ["cosine", "linear"]
decay_share = 0.2
final = 0
tokens = { low = 1e6, high = 1e7, scale = "linear" }
tokens_per_step = 2048
"""


def test_every_form_of_a_value(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(TEXT)
    space = read_space(path)
    scales = [own.scale for own in (space.replay, space.peak, space.tokens) if own is not None]
    assert scales == ["linear", "log", "linear"]
    same = Space(
        bases=("annealed_0pct",),
        replay={"low": 0, "high": 0.5},  # type: ignore[arg-type]
        peak=Quantity(low=1e-4, high=1e-3),
        warmup_steps=100,  # type: ignore[arg-type]
        decay_shape=("cosine", "linear"),
        decay_share=np.array(0.2),  # type: ignore[arg-type]
        final=0,  # type: ignore[arg-type]
        tokens=Quantity(low=1e6, high=1e7, scale="linear"),
        tokens_per_step=2048,
    )
    assert same == space
    assert read_space(space) is space
    assert read_space(None) == read_space({}) == Space()


def test_decay_shapes_are_those_of_a_batch_of_schedules() -> None:
    assert get_args(DecayShape.__value__) == DECAYS
    assert Space.model_fields["decay_shape"].annotation == tuple[DecayShape, ...]


WRONG_TABLES: list[tuple[dict[str, Any], str]] = [
    ({"replai": 0.5}, "key replai: the key 'replai' is unknown (did you mean 'replay'?)"),
    ({"decay-shape": ["cosine"]}, "'decay-shape' is unknown (did you mean 'decay_shape'?)"),
    (
        {"replay": "half"},
        "key replay: 'half' is not a number, list of numbers or range. Write a number, a list",
    ),
    ({"replay": True}, "True is not a number"),
    ({"replay": []}, "[] is not a number, list of numbers or range"),
    ({"replay": [0.1, "x"]}, "is not a number, list of numbers or range"),
    ({"replay": {"low": 0.1}}, "key replay: a range needs both low and high"),
    ({"replay": {"low": 0.5, "high": 0.1}}, "the range ends at 0.1, not above its start 0.5"),
    ({"replay": {"low": 0, "high": 0.1, "scale": "log"}}, "must start above 0"),
    ({"replay": {"low": 0, "high": 0.1, "values": [1]}}, "keep one of the two"),
    ({"replay": {"low": 0, "hihg": 0.1}}, "key replay.hihg: the key 'hihg' is unknown"),
    ({"replay": 25}, "they must be at least 0 and at most 1: write 0.25 for 25 %"),
    ({"replay": [-0.1, 0.5]}, "the values are -0.1 to 0.5; they must be at least 0"),
    ({"peak": 2.0}, "key peak: the values are 2 to 2; they must be above 0 and at most 0.1"),
    ({"relative_peak": 0}, "they must be above 0"),
    ({"steps": 0}, "they must be at least 1"),
    ({"peak": 1e-3, "relative_peak": 1}, "peak and relative_peak are given: keep one"),
    ({"steps": 10, "tokens": 10}, "steps and tokens are given: keep one"),
    ({"bases": []}, "bases is empty"),
    ({"decay_shape": "cosin"}, "key decay_shape.0: 'cosin' is not one of 'linear', 'cosine'"),
    ({"decay_shape": "exponential", "final": 0}, "an exponential decay cannot end at 0"),
    ({"tokens_per_step": 0}, "key tokens_per_step: Input should be greater than 0"),
    ({"sequence_length": 0}, "key sequence_length: Input should be greater than 0"),
]


@pytest.mark.parametrize(
    ("table", "message"), WRONG_TABLES, ids=[message[:50] for _, message in WRONG_TABLES]
)
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_space(table)
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


# --- as it is searched ----------------------------------------------------------------------------

WHOLE = {"decay_share": 1.0, "relative_final": 0.1}


def resolved(**table: Any) -> SearchSpace:
    return SearchSpace.of(read_space(table), lab())


def test_defaults_are_those_of_the_study() -> None:
    found = resolved()
    assert [base.name for base in found.bases] == [base.name for base in lab().bases]
    assert found.searched == ("base", "replay", "relative_peak", "decay_share")
    assert found.quantities["steps"].values == (3000.0,)
    replay = found.quantities["replay"]
    assert (replay.lowest, replay.highest) == (0.0, 0.75)
    peak = found.quantities["relative_peak"]
    assert (peak.lowest, peak.highest) == pytest.approx((0.3, 1.0))
    assert peak.scale == "log"
    assert found.resources.tokens_per_step == 2048
    sampled = found.sample(256, seed=0)
    assert set(sampled.column("decay_shape")) == {"cosine"}
    assert sampled.column("decay_share").min() == pytest.approx(0.1, abs=1e-3)
    assert sampled.column("decay_share").max() == 1.0
    # Runs that decay do so to 0.
    assert not sampled.schedules.final.any()
    exponential = resolved(decay_shape="exponential").sample(256, seed=0)
    assert exponential.column("relative_final").min() == pytest.approx(0.01)


def test_what_all_cpt_runs_did_is_kept() -> None:
    """A large model: PT at 2e-3, CPT at a tenth of that from one of four bases, at one replay ratio."""
    schedule = linear(20, 0.0, 2e-4) + constant(1980, 2e-4)
    run = Run("short", "cpt", schedule, base="annealed_0pct", replay=0.25)
    runs = (*lab().pretraining_runs, run)
    study = replace(lab(), runs=runs, losses=lab().losses[:0], is_plan=True)
    found = SearchSpace.of(read_space(None), study)
    sampled = found.sample(256, seed=0)
    assert set(sampled.schedules.peak) == {2e-4}
    # It does not decay: that to a tenth is usual.
    assert set(sampled.column("relative_final").round(6)) == {0.1}
    # How one ratio compares with another is the prior's word, or not in the law at all.
    assert set(sampled.replay) == {0.25}
    assert [base.name for base in found.bases] == ["annealed_0pct"]
    assert sum("no CPT run starts from it" in note for note in found.notes) == 3
    assert found.alike == ["replay", "relative_peak"]
    assert set(sampled.column("warmup_share")) == {0.01}


def test_a_sample_fills_the_ranges_and_holds_their_corners() -> None:
    space = resolved(replay={"low": 0.1, "high": 0.6}, peak={"low": 1e-4, "high": 2e-3}, **WHOLE)
    found = space.sample(4 * 128, seed=3)
    assert len(found) == 4 * (128 + 4)
    for base in range(4):
        own = found.take(np.flatnonzero(found.base == base))
        corners = {(0.1, 1e-4), (0.1, 2e-3), (0.6, 1e-4), (0.6, 2e-3)}
        assert corners <= set(zip(own.replay.tolist(), own.schedules.peak.tolist(), strict=True))
        # A Sobol sequence has one point in each of so many strips, whichever way they are cut.
        for column in map(space.choices.index, space.ranges):
            assert (np.histogram(own.places[:128, column], bins=128, range=(0, 1))[0] == 1).all()


def test_lists_are_combined_in_full() -> None:
    space = resolved(
        bases=["stable_12k", "annealed_0pct"],
        replay=[0, 0.25, 0.5],
        peak=[1e-3, 2e-3],
        steps=[1000, 2000],
        decay_shape=["cosine", "linear"],
        **WHOLE,
    )
    found = space.sample(1000, seed=0)
    assert len(found) == space.combinations == 2 * 3 * 2 * 2 * 2
    names = ("base", "replay", "peak", "steps", "decay_shape")
    assert space.searched == names
    rows = set(zip(*(found.column(name).tolist() for name in names), strict=True))
    assert len(rows) == len(found)
    with pytest.raises(SpecError, match="48 combinations, and 40 candidates are wanted"):
        space.sample(40, seed=0)


def test_lengths_and_rates_follow_from_shares() -> None:
    space = resolved(
        bases="annealed_30pct",
        tokens=2048 * 5000,
        relative_peak=0.5,
        warmup_share=0.1,
        decay_share=0.2,
        relative_final=0.05,
        decay_shape="one_minus_sqrt",
        replay=0.25,
    )
    found = space.sample(1, seed=0)
    assert found.run(0, "one").schedule == Schedule(
        (
            Segment("linear", 500, 0.0006, 0.001),
            Segment("constant", 3600, 0.001, 0.001),
            Segment("one_minus_sqrt", 900, 0.001, 5e-5),
        )
    )
    wanted = {
        "base": "annealed_30pct", "loss_potential": 0.3, "replay": 0.25, "peak": 0.001,
        "relative_peak": 0.5, "warmup_steps": 500, "warmup_share": 0.1, "decay_steps": 900,
        "decay_share": 0.2, "decay_shape": "one_minus_sqrt", "final": 5e-5,
        "relative_final": 0.05, "steps": 5000,
    }  # fmt: skip
    assert {name: found.column(name).tolist() for name in wanted} == {
        name: [pytest.approx(value)] for name, value in wanted.items()
    }


def test_what_starts_at_its_peak_is_not_warmed_up() -> None:
    space = resolved(bases=["stable_12k", "annealed_0pct"], relative_peak=1.0, warmup_share=0.05)
    found = space.sample(64, seed=0)
    warmups = set(zip(found.column("base"), found.schedules.warmup_steps, strict=True))
    assert warmups == {("stable_12k", 0), ("annealed_0pct", 150)}


def test_sampled_values_are_numbers_that_a_person_would_set() -> None:
    space = resolved(
        replay={"low": 0.0, "high": 0.8},
        relative_peak={"low": 0.1, "high": 1.0},
        steps={"low": 1000, "high": 12345},
    )
    found = space.sample(64, seed=0)
    for name in ("peak", "steps"):
        for value in found.column(name):
            assert float(f"{value:.3g}") == value or value == 12345
    assert all(float(f"{value:.3f}") == value for value in found.replay)


def test_neighbours_are_near_and_of_the_same_lists() -> None:
    space = resolved(steps=[1000, 3000])
    centres = space.sample(256, seed=0).take(np.array([3, 200]))
    near = space.around(centres, 0.05, 40, seed=1)
    assert len(near) == 40
    # Another listed value would lie a whole step away.
    gaps = np.abs(near.places[:, None] - centres.places).max(axis=2).min(axis=1)
    assert gaps.max() <= 0.05 + 1e-12


def test_joined_candidates_keep_their_bases() -> None:
    space = resolved(bases=["annealed_0pct", "stable_12k"])
    one, other = space.sample(8, seed=0), space.sample(8, seed=1)
    joined = one.joined(other)
    for row in range(len(other)):
        assert joined.run(len(one) + row, "x") == other.run(row, "x")
    assert len({base.name for base in joined.bases}) == len(joined.bases)


def test_a_plan_is_read_back_as_it_was(tmp_path: Path) -> None:
    found = resolved(decay_shape=["cosine", "exponential"]).sample(64, seed=0)
    plan = found.take(np.array([5, 60, 17])).plan(lab(), ["first", "second", "third"])
    path = tmp_path / "plan.toml"
    path.write_text(settings_text(plan))
    again = read_plan(path, lab())
    assert again.runs == plan.runs
    for base in again.bases:
        assert base.schedule == lab().base(base.name).schedule


def test_ends_that_are_none_by_nature_could_be_moved() -> None:
    space = resolved(replay={"low": 0.0, "high": 0.8}, tokens=[2e6, 4e6])
    ends = {
        name: tuple(space.could_be_moved(name, end) for end in ("lowest", "highest"))
        for name in space.searched[1:]
    }
    assert ends == {
        "replay": (False, True),
        "relative_peak": (True, True),
        "decay_share": (True, False),
        "steps": (True, True),
    }


def with_unknown_base() -> Study:
    return replace(lab(), bases=(*lab().bases, Base("open", known=False)), tokens_per_step=None)


def test_bases_without_a_schedule_are_left_out_and_those_not_there_refused() -> None:
    found = SearchSpace.of(Space(), with_unknown_base())
    assert "open" not in [base.name for base in found.bases]
    assert found.notes[0].startswith("base open is left out")
    with pytest.raises(SpecError, match="schedule of the base open is not known"):
        SearchSpace.of(Space(bases=("open",)), with_unknown_base())
    with pytest.raises(SpecError, match="there is no base 'stable'"):
        resolved(bases="stable")


def test_bases_of_several_sizes_are_said_to_cost_unlike_steps() -> None:
    found = SearchSpace.of(Space(), size_family.family())
    assert found.notes[0].startswith("the bases are of several model sizes")
    one = SearchSpace.of(Space(bases=(found.bases[0].name,)), size_family.family())
    assert not one.notes


def test_from_bases_of_unknown_rates_a_run_starts_as_all_runs_did() -> None:
    runs = [run for run in lab().continual_runs if run.base == "stable_12k"]
    runs = [run for run in runs if not run.schedule.warmup_steps]
    open_runs = tuple(replace(run, base="open") for run in runs)
    names = lab().losses["run"].isin([run.name for run in runs])
    losses = lab().losses[names].reset_index(drop=True)
    study = replace(lab(), bases=(Base("open", known=False),), runs=open_runs, losses=losses)
    assert SearchSpace.of(Space(), study).quantities["warmup_share"].values == (0.0,)
    assert resolved().quantities["warmup_share"].values == (0.02,)


def test_tokens_need_to_be_counted() -> None:
    space = Space(tokens=Quantity(values=(1e9,)))
    with pytest.raises(SpecError, match=r"space, tokens: .*Add tokens_per_step"):
        SearchSpace.of(space, with_unknown_base())
    few = Space(tokens=Quantity(values=(100, 1e6)), tokens_per_step=1000)
    with pytest.raises(SpecError, match="a step takes 1,000 tokens, and there are 100"):
        SearchSpace.of(few, with_unknown_base())
    known = Space(tokens=Quantity(values=(1e6,)), tokens_per_step=1000)
    found = SearchSpace.of(known, with_unknown_base()).sample(64, seed=0)
    assert set(found.schedules.steps.tolist()) == {1000}


def test_a_decision_is_about_the_batch_of_the_runs_that_continue() -> None:
    runs = [replace(run, batch_tokens=8192.0) if run.phase == "cpt" else run for run in lab().runs]
    fit = replace(lab_posterior(), study=replace(lab(), runs=tuple(runs)))
    _, space = with_batch(fit, Space(tokens=Quantity(values=(8.192e6,))))
    found = SearchSpace.of(space, fit.study)
    assert found.quantities["steps"].values == (1000.0,)
    run = found.sample(4, seed=0).take(np.array([0])).plan(fit.study, ["long"]).run("long")
    assert run.batch_tokens == 8192.0


@st.composite
def quantities(draw: st.DrawFn, low: float, high: float) -> Any:
    values = st.floats(low, high).map(lambda value: float(f"{value:.4g}"))
    if draw(st.booleans()):
        return draw(st.lists(values, min_size=1, max_size=3))
    first, last = sorted(draw(st.tuples(values, values)))
    return {"low": first, "high": last} if first < last else first


@given(
    replay=quantities(0, 1),
    relative_peak=quantities(0.01, 2),
    warmup_share=quantities(0, 0.9),
    decay_share=quantities(0.1, 1),
    relative_final=quantities(0.001, 1),
    steps=quantities(300, 5000),
    shape=st.sampled_from(["linear", "cosine", "one_minus_sqrt", "exponential"]),
)
@settings(max_examples=40)
def test_every_candidate_of_a_space_is_a_run_inside_it(shape: str, **table: Any) -> None:
    space = resolved(decay_shape=shape, **table)
    found = space.sample(max(space.combinations, 64), seed=0)
    for name, own in space.quantities.items():
        values = found.column(name).astype(float)
        # Rates have three digits, and lengths are whole numbers of steps.
        slack = 1e-2 * own.highest + (1e-2 if name.endswith("share") else 0.0)
        if name == "decay_share":
            # Half a step of what the warm-up leaves, which may be a few dozen steps.
            left = found.schedules.steps - found.schedules.warmup_steps
            slack = slack + 0.5 / np.maximum(left, 1)
        needed = found.schedules.initial != found.schedules.peak
        assert (values >= own.lowest - slack)[needed | (name != "warmup_share")].all()
        assert (values <= own.highest + slack).all()
    highest = np.maximum(found.schedules.peak, found.schedules.initial)
    for row in range(0, len(found), 37):
        run = found.run(row, "x")
        assert run.schedule.steps == found.schedules.steps[row]
        assert run.schedule.learning_rates().max() <= highest[row] * (1 + 1e-12)


def test_choices_are_made_beside_a_space() -> None:
    study = replace(lab(), compute=Compute(seconds_per_step=1.8, gpus=2, price=2.0))
    space = read_space({"replay": [0.1, 0.2], "relative_peak": 0.5, "tokens": 1e6})
    found = narrowed(space, gpu_hours=5.0, bases="stable_12k", peak=1e-3, steps=None)
    assert (found.tokens, found.relative_peak, found.bases) == (None, None, ("stable_12k",))
    assert found.replay == space.replay
    assert narrowed(space) == space
    # A step takes a thousandth of a GPU-hour, and there is no part of one.
    budgets: Any = [({"gpu_hours": 5.0009}, 5000.0), ({"money": 5.0}, 2500.0)]
    # In binary 0.059 over 0.001 is less than 59.
    for asked, steps in [*budgets, ({"gpu_hours": 0.059}, 59.0)]:
        whole = SearchSpace.of(narrowed(space, **asked), study)
        assert whole.quantities["steps"] == Quantity(values=(steps,))
        assert whole.length_given
    hours = Space(gpu_hours=Quantity(low=1.0, high=5.0009))
    sampled = SearchSpace.of(hours, study).sample(256, seed=0).schedules.steps
    assert sampled.min() == 1000
    assert sampled.max() == 5000
    resolved_space = SearchSpace.of(narrowed(Space(), steps=30_000), study)
    assert resolved_space.length_given
    assert not SearchSpace.of(Space(), study).length_given
    words = "cosine decay over 10 to 100 % of the run, to 0 % of the peak"
    words = f"{len(study.bases)} bases, replay 0 to 0.75, peak LR 30 to 100 % of PT's, {words}"
    searched: Any = environment().get_template("searched.txt").module
    assert " ".join(searched.searched(resolved_space).split()).replace(" ,", ",") == words
    fixed = resolved(peak=1e-3, replay=0.25, **WHOLE)
    words = "cosine decay over the whole run, to 10 % of the peak"
    said = " ".join(searched.searched(fixed).split()).replace(" ,", ",")
    assert said.endswith(f"replay 0.25, peak LR 0.001, {words}")
    with pytest.raises(SpecError, match="steps and tokens are given: keep one of them"):
        narrowed(space, steps=10, tokens=10)
    with pytest.raises(SpecError, match=r"space, GPU-hours: .*Add compute"):
        SearchSpace.of(narrowed(space, gpu_hours=5.0), lab())
    with pytest.raises(SpecError, match=r"a step takes 0\.001 GPU-hours, and there are 0\.0005"):
        SearchSpace.of(narrowed(space, gpu_hours=0.0005), study)
