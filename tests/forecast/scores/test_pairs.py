from pathlib import Path

import pandas as pd
import pytest

from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.scores.pairs import pairs_of, read_pairs

GOOD = "benchmark,domain,loss,score,chance\n" + "".join(
    f"mmlu,general,{loss},{score},0.25\n"
    for loss, score in ((3.4, 0.26), (3.2, 0.3), (3.0, 0.35), (2.8, 0.45), (2.6, 0.5))
)


def written(folder: Path, text: str) -> Path:
    path = folder / "scores.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_pairs_are_read_by_benchmark(tmp_path: Path) -> None:
    text = GOOD + GOOD.split("\n", 1)[1].replace("mmlu", "code").replace(",0.25", ",0")
    mmlu, code = read_pairs(written(tmp_path, text), ("general",))
    assert (mmlu.benchmark, mmlu.domain, mmlu.chance) == ("mmlu", "general", 0.25)
    assert mmlu.losses.tolist() == [3.4, 3.2, 3.0, 2.8, 2.6]
    assert code.chance == 0.0
    assert pairs_of((mmlu, code), "code") is code


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("score,", "points,", "scores.csv: there is no column score"),
        ("0.35", "35", "line 4, column score: score is 35.*Write 0.35 for 35 %"),
        ("3.2,", "-3.2,", "line 3, column loss: the loss is -3.2.*above 0"),
        ("mmlu,general,2.8", "mmlu,genral,2.8", "column domain.*no validation set 'genral'"),
        ("2.8,0.45,0.25", "2.8,0.45,0.2", "benchmark mmlu: it has several values of chance"),
        ("mmlu,general,2.8", "mmul,general,2.8", "benchmark mmul: there are 1 pairs"),
    ],
)
def test_what_is_wrong_is_named_with_the_fix(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        read_pairs(written(tmp_path, GOOD.replace(old, new)), ("general", "kernel"))


def test_no_pairs_and_unknown_benchmarks(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="there is no pair"):
        read_pairs(pd.DataFrame(columns=["benchmark", "domain", "loss", "score"]))
    with pytest.raises(StudyError, match="did you mean 'mmlu'"):
        pairs_of(read_pairs(written(tmp_path, GOOD)), "mmlo")
    with pytest.raises(StudyError, match="Give a table of losses and scores"):
        pairs_of((), "mmlu")
