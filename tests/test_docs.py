"""What docs/ says of the repository is there: files, names, sections."""

import ast
import re
from pathlib import Path

import pytest
from synthetic import lab_posterior

from bayes_cpt.model.law_table import LawTable
from bayes_cpt.study.folder import BASE_KEYS, RUN_KEYS, STUDY_KEYS

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CITATION = re.compile(r'(docs/[\w/-]+\.md)(?:, "([^"]+)")?')
SHELVES = ("bayes_cpt", "research", "tests", "models")


def headings(page: Path) -> list[str]:
    """Return the headings of a page, code blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"^#+ (.+)$", text, flags=re.M)


def anchor(heading: str) -> str:
    """Return what a link to a heading ends in."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def defined(path: Path) -> set[str]:
    """Return the names that a module defines at its top level."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_sections_and_names_that_exist(page: Path) -> None:
    broken = []
    for text, target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, section = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        symbol = text[1:-1] if text.startswith("`") else ""
        if not file.exists():
            broken.append(target)
            continue
        if section and section not in map(anchor, headings(file)):
            broken.append(target)
        if file.suffix == ".py" and symbol.isidentifier() and symbol not in defined(file):
            broken.append(f"{symbol} in {target}")
    assert broken == []


def citations() -> list[tuple[str, str, str]]:
    """Return where the code cites a page of docs/, which, and which section of it."""
    found = []
    for shelf in SHELVES:
        files = [own for kind in ("*.py", "*.toml") for own in (ROOT / shelf).rglob(kind)]
        for file in sorted(files):
            text = re.sub(r"\s+", " ", file.read_text(encoding="utf-8"))
            found += [(file.name, *match) for match in CITATION.findall(text)]
    return found


def test_sections_that_the_code_cites_exist() -> None:
    cited = [own for own in citations() if own[0] != Path(__file__).name]
    assert len(cited) > 10
    for file, page, section in cited:
        assert (ROOT / page).is_file(), f"{file} cites {page}"
        if section:
            assert section in headings(ROOT / page), f"{file} cites {section!r} of {page}"


def test_equations_are_numbered_without_gaps() -> None:
    text = (ROOT / "docs" / "law.md").read_text(encoding="utf-8")
    numbers = [int(own) for own in re.findall(r"\\tag\{L(\d+)", text)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {int(own) for own in re.findall(r"\(L(\d+)\)", text)} <= set(numbers)


def test_the_page_of_the_law_names_every_key_of_a_law() -> None:
    text = (ROOT / "docs" / "law.md").read_text(encoding="utf-8")
    keys = set(LawTable.model_fields) - {"terms", "base_offset", "unknown_base"}
    assert keys <= set(re.findall(r"`(\w+)(?: = \"?\w+\"?)?`", text))
    areas = text.split("## Areas")[1].split("\n## ")[0]
    rows = {
        line.split("`")[1].split(" ")[0] for line in areas.splitlines() if line.startswith("| `")
    }
    assert rows == keys & {"memory_clock", "count_warmup", "carry_memory"}
    table = text.split("| parameter | printed |")[1].split("\n\n")[0]
    law = lab_posterior().frame.law
    printed = {name for name, info in law.known().items() if info.printed is not None}
    assert printed == set(re.findall(r"`(\w+)`", table))


def test_the_study_page_names_every_key() -> None:
    text = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `[")}
    for table, keys in (("study", STUDY_KEYS), ("bases.NAME", BASE_KEYS), ("runs.NAME", RUN_KEYS)):
        assert set(keys) <= set(re.findall(r"`(\w+)(?: = \w+)?`", rows[f"[{table}]"]))
