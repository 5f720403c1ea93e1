"""`bayes-cpt learn-priors`: from study folders to a model, without sampling the fits."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Call, check_refusal
from stand_in import Fits, stand_in
from synthetic import lab

from bayes_cpt import read_spec, write_study

NAMES = ("first", "second", "third")


@pytest.fixture
def studies(tmp_path: Path) -> list[Path]:
    """Return the folders of three studies of PT runs."""
    whole = lab().subset(["pt_trunk", "pt_cosine"])
    for name in NAMES:
        write_study(replace(whole, name=name), tmp_path / name)
    return [tmp_path / name for name in NAMES]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    return stand_in(monkeypatch, draws=100)


@pytest.mark.slow
def test_three_studies_make_a_model(
    call: Call, studies: list[Path], fits: Fits, tmp_path: Path
) -> None:
    target, kept = tmp_path / "ours.toml", tmp_path / "kept"
    asked = ("learn-priors", *studies, "-o", target, "--model", "pretrain", "--jobs", "1")
    asked = (*asked, "--seed", "1", "--records", kept, "--json")
    told = call(*asked).json()
    assert told["studies"] == list(NAMES)
    assert len(told["verdict"]) == 3
    fitted = [own["study"].name for own in fits.asked if own["spec"].name == "pretrain"]
    assert fitted[:3] == list(NAMES)
    spec = read_spec(target)
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


@pytest.mark.parametrize(
    ("chosen", "options", "told"),
    [
        ((0, 1), (), "it takes 3"),
        ((0, 0, 1), (), "two studies are called first"),
        ((0, 1, 2), ("--model", "cpt-replay"), "there is no CPT run"),
    ],
)
def test_what_cannot_be_learnt_from_is_said(
    call: Call,
    studies: list[Path],
    fits: Fits,
    tmp_path: Path,
    chosen: tuple[int, ...],
    options: tuple[str, ...],
    told: str,
) -> None:
    target = tmp_path / "ours.toml"
    named = options or ("--model", "pretrain")
    folders = [studies[i] for i in chosen]
    check_refusal(call("learn-priors", *folders, "-o", target, "--jobs", "1", *named), (told,))
    assert not target.exists()
