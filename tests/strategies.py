"""Hypothesis strategies shared by the tests."""

import pandas as pd
from hypothesis import strategies as st

from bayes_cpt import Base, Run, Study
from bayes_cpt.study.schedules import Schedule, Segment

RATES = st.floats(1e-6, 1e-2)


@st.composite
def segments(draw: st.DrawFn, max_steps: int = 400) -> Segment:
    """Draw a segment of any shape."""
    shape = draw(st.sampled_from(["constant", "linear", "cosine", "one_minus_sqrt", "exponential"]))
    start = draw(RATES)
    end = start if shape == "constant" else draw(RATES)
    return Segment(shape, draw(st.integers(1, max_steps)), start, end)


def schedules(max_steps: int = 400, max_segments: int = 4) -> st.SearchStrategy[Schedule]:
    """Draw a schedule of segments."""
    some = st.lists(segments(max_steps), min_size=1, max_size=max_segments)
    return some.map(lambda drawn: Schedule(tuple(drawn)))


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@st.composite
def logs(draw: st.DrawFn) -> Schedule:
    """Draw a logged schedule without gaps."""
    rates = draw(st.lists(RATES, min_size=1, max_size=12))
    return Schedule.from_log(range(1, len(rates) + 1), rates)


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Draw a study with a PT run, two bases, CPT runs and losses of two or three domains."""
    names = draw(st.lists(NAMES, min_size=7, max_size=7, unique=True))
    general, target, other, trunk, *others = names
    trunk_schedule = draw(st.one_of(schedules(30), logs()))
    size = draw(st.none() | st.floats(0.1, 1e5))
    steps = draw(st.integers(1, trunk_schedule.steps))
    bases = [
        Base("on trunk", steps, trunk_schedule.first(steps), run=trunk, model_size=size),
        Base("open", known=False),
    ]
    runs = [Run(trunk, "pt", trunk_schedule, model_size=size)]
    for name in draw(st.lists(st.sampled_from(others), unique=True)):
        base = draw(st.sampled_from(bases))
        runs.append(
            Run(
                name,
                "cpt",
                draw(st.one_of(schedules(30), logs())),
                base=base.name,
                replay=draw(st.floats(0, 1)),
                model_size=base.model_size,
                batch_tokens=draw(st.none() | st.integers(10**6, 10**7)),
                sequence_length=draw(st.none() | st.integers(1, 10**6)),
                optimizer_state=draw(st.sampled_from([None, "carried", "reset"])),
            )
        )
    rows = [
        {"run": run.name, "step": step, "domain": domain, "loss": draw(st.floats(0.1, 12))}
        for run in runs
        for domain in (general, target, *draw(st.lists(st.just(other), max_size=1)))
        for step in draw(st.sets(st.integers(1, run.schedule.steps), min_size=1, max_size=4))
    ]
    return Study(
        name=draw(NAMES),
        general=general,
        target=target,
        bases=tuple(bases),
        runs=tuple(runs),
        losses=pd.DataFrame(rows).sort_values("step"),
        description=draw(st.text(st.characters(codec="utf-8"), max_size=20)),
        tokens_per_step=draw(st.none() | st.integers(10**6, 10**7)),
    )
