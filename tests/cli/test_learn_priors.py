"""`bayes-cpt learn-priors`: from study folders to a model, without sampling the fits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Call, check_refusal
from stand_in import Fits, stand_in
from synthetic import lab

from bayes_cpt import read_spec, write_study

NAMES = ("first", "second", "third")


@pytest.fixture
def studies(tmp_path: Path) -> list[Path]:
    """Return the folders of three studies of PT runs, of a copy of the first, and of its namesake."""
    whole = lab().subset(["pt_trunk", "pt_cosine"])
    folders = [tmp_path / name for name in (*NAMES, "copy", "namesake")]
    for number, (folder, name) in enumerate(zip(folders, (*NAMES, "copy", NAMES[0]), strict=True)):
        losses = whole.losses.assign(loss=whole.losses["loss"] + 0.01 * (number % 3))
        write_study(replace(whole, name=name, losses=losses), folder)
    return folders


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    return stand_in(monkeypatch, draws=100)


def learning(*studies: Path) -> tuple[Any, ...]:
    """Return the line that learns from studies; it ends with the file that is written, beside them."""
    options = ("--model", "pretrain", "--jobs", 1)
    return ("learn-priors", *studies, *options, "-o", studies[0].parent / "ours.toml")


@pytest.mark.slow
def test_three_studies_make_a_model(call: Call, studies: list[Path], fits: Fits) -> None:
    line = learning(*studies[:3])
    asked = (*line, "--seed", "1", "--records", line[-1].parent / "kept", "--json")
    told = call(*asked).json()
    assert told["studies"] == list(NAMES)
    assert len(told["verdict"]) == 3
    fitted = [own["study"].name for own in fits.asked if own["spec"].name == "pretrain"]
    assert fitted[:3] == list(NAMES)
    spec = read_spec(line[-1])
    assert spec.name == "ours"
    assert spec.priors["exponent"].reason.startswith("Learnt from studies: 3 on general data (")
    learnt = [row for row in told["priors"] if row["learnt"]]
    assert learnt
    for row in learnt:
        quantiles = spec.priors[row["parameter"]].of("general").quantiles([0.05, 0.95])
        assert [row["lower"], row["upper"]] == pytest.approx(quantiles.tolist())
    fits.asked.clear()
    assert call(*asked).json() == told
    assert fits.asked == []


@pytest.mark.usefixtures("fits")
@pytest.mark.parametrize(
    ("chosen", "options", "told"),
    [
        ((0, 1), (), "it takes 3 studies to learn from: name 1 more"),
        ((0, 2, 4), (), "two studies are called first"),
        ((0, 1, 3), (), "copy hold the same runs: leave one of them out"),
        ((0, 1, 2), ("--model", "cpt-replay"), "there is no CPT run"),
        ((0, 1, 2), ("--records", "no/such"), "choose another one with --records"),
    ],
)
def test_what_cannot_be_learnt_from_is_said(
    call: Call, studies: list[Path], chosen: tuple[int, ...], options: tuple[str, ...], told: str
) -> None:
    line = learning(*(studies[i] for i in chosen))
    check_refusal(call(*line, *options), (told,))
    assert not line[-1].exists()


def test_too_few_fits_are_a_finding(call: Call, studies: list[Path], fits: Fits) -> None:
    fits.problems.append("tail ESS of memory is 399, below 400")
    line = learning(*studies[:3])
    answer = call(*line)
    assert (answer.code, line[-1].exists()) == (1, False)
    assert "fitting 3 studies under broad priors, 1 done; now second" in answer.err
    assert "0 of 3 fits can be used, and it takes 3" in answer.out
    assert "third falls short (tail ESS of memory is 399, below 400)." in answer.out
