"""The documentation site: `python -m sphinx -W -n docs site`. Its Markdown reads without it too."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from command_reference import reference  # noqa: E402

import bayes_cpt  # noqa: E402

project = "bayes_cpt"
author = "The bayes_cpt developers"
copyright = author
release = version = bayes_cpt.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "mathml"]
exclude_patterns = ["calibration"]
html_math_renderer = "mathml"
# Options are written with two hyphens.
smartquotes = False
html_theme = "furo"
html_title = f"{project} {release}"

# Anchors of headings as forges make them, so that a link works in both places.
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
# What stands between single backticks in a docstring is a name, with a link where this site describes it.
default_role = "py:obj"
# Docstrings also name what this site does not describe: other projects, and rooms further inside.
nitpick_ignore_regex = [("py:obj", r".*"), ("py:class", r"(?!bayes_cpt).*")]

# Files at the root of the repository that are pages of the site.
ROOT_PAGES = {"../CONTRIBUTING.md": "contributing.md", "../CHANGELOG.md": "changelog.md"}
COMMANDS = "<!-- The commands stand here on the site. -->"


def complete(app: "Sphinx", page: str, source: list[str]) -> None:
    """Put the commands where they belong, and lead links to files of the root to their pages."""
    text = source[0]
    if COMMANDS in text:
        text = text.replace(COMMANDS, reference())
    for file, own in ROOT_PAGES.items():
        text = text.replace(f"]({file}", f"]({own}")
    source[0] = text


def setup(app: "Sphinx") -> None:
    """Register what is done to each page."""
    app.connect("source-read", complete)
