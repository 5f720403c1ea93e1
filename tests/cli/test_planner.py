import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Call

pytestmark = pytest.mark.usefixtures("few_candidates")

FEW = ("--draws", 8, "--candidates", 64)


def data_of(page: Path) -> Any:
    """Return the data that a page holds."""
    text = page.read_text(encoding="utf-8").split('id="planner-data">')[1]
    return json.loads(text.split("</script>")[0])


def test_a_page_is_written(call: Call, fit_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "planner.html"
    arguments = ("--objective", "domain-focus", "--interval", 0.8, "--seed", 4, *FEW)
    answer = call("planner", fit_file, "-o", page, *arguments, "--json")
    found, data = answer.json(), data_of(page)
    assert answer.code == 0
    assert found["draws"] == 8
    assert found["bytes"] == page.stat().st_size
    assert data["about"] == data["about"] | {"interval": 0.8, "seed": 4, "fit": fit_file.name}
    assert data["start"]["weight"] == pytest.approx(0.1)
