"""What priors learnt from earlier studies come to, in three lines."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_cpt.report.words.learning import verdict


def learnt(told: int) -> Any:
    return SimpleNamespace(
        population=SimpleNamespace(studies=("a", "b", "c"), labels=range(9)),
        labels=range(told),
        before=SimpleNamespace(name="pretrain"),
    )


def scores() -> pd.DataFrame:
    rows = [
        (study, method, crps, covered)
        for study, ratio in (("a", 0.5), ("b", 0.8))
        for method, crps, covered in (("learnt", 0.01 * ratio, 0.9), ("before", 0.01, 0.7))
    ]
    return pd.DataFrame(rows, columns=["study", "method", "crps", "coverage_90"])


def test_what_was_learnt_and_how_well_it_forecasts() -> None:
    use, sure, change = verdict(learnt(4), "ours.toml", scores(), trustworthy=True)
    assert use == (
        "Use ours.toml for studies like these 3: 4 of 9 priors are learnt, the others stay those of "
        "pretrain."
    )
    assert f"is {np.sqrt(0.5 * 0.8):.2f} times that under the old priors" in sure
    assert "2 studies left out in turn" in sure
    assert "the 90 % bands hold 90 %" in sure
    assert change.startswith("What would change it: more studies; a prior is learnt where 3 ")


@pytest.mark.parametrize(
    ("told", "trustworthy", "use"),
    [(0, True, "Keep pretrain: "), (4, False, "Do not use ours.toml yet: ")],
)
def test_where_there_is_nothing_to_use(told: int, trustworthy: bool, use: str) -> None:
    lines = verdict(learnt(told), "ours.toml", None, trustworthy=trustworthy)
    assert lines[0].startswith(use)
    assert lines[1] == (
        "How sure: not looked at; --leave-one-out forecasts each study from the others."
    )
