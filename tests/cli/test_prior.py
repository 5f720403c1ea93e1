from pathlib import Path

import pytest
from command_line import Call, check_refusal

PLAN = "data/cpt-lab/plan-example.toml"


def test_priors_reasons_and_what_they_expect_are_printed(call: Call) -> None:
    answer = call("prior", "cpt-replay", "--plan", PLAN)
    assert (answer.code, answer.err) == (0, "")
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["reference_loss", "all", "Normal(3,", "1.5)", "0.5327", "5.467"] in rows
    assert ["kernel", "Normal(0.2,", "0.3)", "-0.2935", "0.6935"] in rows
    assert "alpha is 0.50 to 0.70 in every fit of the paper." in answer.out
    assert ["long_r25", "general", "12000"] in [row[:3] for row in rows]


def test_json_and_the_interval(call: Call) -> None:
    narrow = call("prior", "pretrain", "--interval", 0.5, "--json").json()
    wide = call("prior", "pretrain", "--json").json()
    assert narrow["plan"] == "cpt-lab"
    for inner, outer in zip(narrow["ends"], wide["ends"], strict=True):
        assert outer["lower"] < inner["lower"] < inner["upper"] < outer["upper"]
    assert {row["parameter"] for row in wide["priors"]} >= {"reference_loss", "memory"}
    assert all(row["reason"] for row in wide["priors"])


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_figure(suffix: str, call: Call, tmp_path: Path) -> None:
    target = tmp_path / f"prior{suffix}"
    assert call("prior", "pretrain", "-o", target, "-q") == (0, "", "")
    assert target.stat().st_size > 10_000


def test_nothing_is_cut_off_in_a_terminal_of_100_columns(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = call("prior", "cpt-replay").out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("line", "fragments"),
    [
        ("prior", ("Missing argument", "MODEL")),
        ("prior cpt-replai", ("no model 'cpt-replai'", "Did you mean cpt-replay")),
        ("prior cpt --plan {dir}/none", ("none: there is no such folder",)),
        ("prior cpt --plan {text}", ("text.toml", "not TOML")),
        ("prior cpt -o {dir}/prior.txt", ("ends in '.txt'", "Let it end in .png or .pdf")),
        ("prior cpt -o {dir}", ("this is a folder",)),
        ("prior cpt --study {dir}", ("study.toml: the file is missing",)),
        (f"prior pretrain --plan {PLAN}", ("there is no PT run", 'phase = "pt"')),
    ],
)
def test_bad_lines(line: str, fragments: tuple[str, ...], call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    text = tmp_path / "text.toml"
    text.write_text("nothing of the kind\n")
    answer = call(*(part.format(dir=folder, text=text) for part in line.split()))
    check_refusal(answer, fragments)
    assert list(folder.iterdir()) == []
