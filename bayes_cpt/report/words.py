"""Words from templates: one a verb, which gives the verdict and the sentences of the verb's result."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import isfunction
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from bayes_cpt.report import numbers
from bayes_cpt.toml_files import packaged


@dataclass(frozen=True)
class Words:
    """What a result comes to, in plain words."""

    # At most three short lines: what to do, how sure that is, what would change it
    verdict: list[str]
    sentences: list[str]  # the detail, one paragraph per question


def render(template: str, facts: Mapping[str, Any]) -> Words:
    """Return the words of one verb: the blocks ``verdict`` and ``detail`` of a file in ``templates/``.

    A ¶ begins a line of the verdict, or a paragraph; where a template breaks its lines does not matter.
    """
    return Words(paragraphs(template, "verdict", facts), paragraphs(template, "detail", facts))


def paragraphs(template: str, block: str, facts: Mapping[str, Any]) -> list[str]:
    """Return the paragraphs of one block of a template, none where there is no such block."""
    loaded = environment().get_template(template)
    if block not in loaded.blocks:
        return []
    text = "".join(loaded.blocks[block](loaded.new_context(dict(facts))))
    joined = (" ".join(part.split()) for part in text.split("¶"))
    return [re.sub(r"\s+([,;:)]|\.(?![\w./]))", r"\1", part) for part in joined if part]


def sentence(template: str, block: str, facts: Mapping[str, Any]) -> str:
    """Return the one paragraph of a block of a template."""
    (found,) = paragraphs(template, block, facts)
    return found


@cache
def notation() -> dict[str, dict[str, Any]]:
    """Return what letters, effects, quantities and figures are called, by kind (``notation.toml``)."""
    return packaged("report", "notation.toml")


@cache
def environment() -> Environment:
    """Return what finds templates: HTML is escaped, words for a terminal are not."""
    templates = Environment(
        loader=PackageLoader("bayes_cpt.report"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(["html"], default=False),
    )
    templates.filters |= {name: own for name, own in vars(numbers).items() if isfunction(own)}
    templates.globals |= {"sure": numbers.SURE, "many": numbers.MANY}
    templates.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    return templates
