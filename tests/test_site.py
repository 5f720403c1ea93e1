"""The documentation site: every page has its place, names are those of today, no warning when it builds."""

import re
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from typer.main import get_command

import bayes_cpt
from bayes_cpt.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)", re.MULTILINE)


def documented() -> list[str]:
    """Return the full names that the page of the Python API describes one by one."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    names = [name for kind, name in DIRECTIVE.findall(text) if kind != "module"]
    return [name if name.startswith("bayes_cpt.") else f"bayes_cpt.{name}" for name in names]


def test_the_python_api_describes_every_public_name_once() -> None:
    names = documented()
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    rooms = [name for kind, name in DIRECTIVE.findall(text) if kind == "module"]
    short = [name.removeprefix("bayes_cpt.") for name in [*names, *rooms]]
    assert len(set(short)) == len(short)
    assert set(bayes_cpt.__all__) <= set(short)


def test_the_reference_of_commands_has_each_with_its_options() -> None:
    text = run_path(str(DOCS / "command_reference.py"))["reference"]()
    sections = dict(re.findall(r"^## (bayes-cpt .+)\n((?:(?!^## ).*\n?)*)", text, flags=re.M))
    expected: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", {})
        expected |= {f"bayes-cpt {name}": command}
        expected |= {f"bayes-cpt {name} {part}": own for part, own in parts.items()}
    assert set(sections) == set(expected)
    for name, command in expected.items():
        for own in command.params:
            # Arguments go by the word that stands for them, options by their long name.
            option = own.metavar if own.param_type_name == "argument" else max(own.opts, key=len)
            assert option in sections[name], f"{name} {option}"
        assert f"```sh\n{name.split(' ', 1)[0]}" in sections[name]
    # No markup of the terminal is left.
    assert "\\[" not in text


def links(page: Path) -> tuple[set[str], set[str]]:
    """Return what a page leads to, and the anchors in it."""
    text = page.read_text(encoding="utf-8")
    found = (r'<a\s[^>]*?\bhref="([^"]+)"', r'<[^>]*?\sid="([^"]+)"')
    targets, anchors = ({unescape(own) for own in re.findall(one, text)} for one in found)
    return targets, anchors


@pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is not installed: extra docs")
def test_the_site_builds_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By Sphinx's own command line, in this process: it has imported what the site describes."""
    from sphinx.cmd.build import build_main

    site = tmp_path / "site"
    # The site's settings put folders there.
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = build_main(["-q", "-W", "-n", "--keep-going", str(DOCS), str(site)])
    assert code == 0, capsys.readouterr().err[-3000:]
    pages = {str(page.relative_to(site)): links(page) for page in site.rglob("*.html")}
    _, anchors = pages["api.html"]
    assert set(documented()) <= anchors
    # Figures, landmarks and errors come from packages that list their names.
    assert {f"bayes_cpt.plots.{name}" for name in bayes_cpt.plots.__all__} <= anchors
    # Equations are there without any script or network.
    law = (site / "law.html").read_text(encoding="utf-8")
    assert law.count("<math") > 100
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.https?:", law)
    assert "bayes-cpt-fit" in pages["cli.html"][1]
    for name, (targets, _) in pages.items():
        for target in targets:
            path, _, anchor = target.partition("#")
            if "://" in path or not (path or anchor):
                continue
            goal = (site / name).parent / path if path else site / name
            assert goal.exists(), f"{name} leads to {target}"
            own = str(goal.resolve().relative_to(site.resolve()))
            if anchor and own in pages:
                assert anchor in pages[own][1], f"{name} leads to {target}"
