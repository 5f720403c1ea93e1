"""Words from templates: a verb's facts in, its verdict and its paragraphs out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from bayes_cpt.report.numbers import chance, signed, steps


@dataclass(frozen=True)
class Words:
    """What a result comes to, in plain words.

    Parameters
    ----------
    verdict : tuple of str
        At most three short lines: what to do, how sure that is, what would change it.
    paragraphs : tuple of str
        The detail, one paragraph per question.
    """

    verdict: tuple[str, ...]
    paragraphs: tuple[str, ...]


def render(template: str, facts: Mapping[str, Any]) -> Words:
    """Return the words of one verb.

    Parameters
    ----------
    template : str
        File in ``templates/`` with the blocks ``verdict`` and ``detail``. A ¶ begins a line of the verdict,
        or a paragraph; where a template breaks its lines does not matter.
    facts : mapping of str
        What the template names; all of it must be there.
    """
    return Words(*(paragraphs(template, name, facts) for name in ("verdict", "detail")))


def paragraphs(template: str, block: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paragraphs of one block of a template.

    Parameters
    ----------
    template : str
        File in ``templates/``.
    block : str
        Its name there.
    facts : mapping of str
        What the block names; all of it must be there.
    """
    loaded = environment().get_template(template)
    return _blocks("".join(loaded.blocks[block](loaded.new_context(dict(facts)))))


def _blocks(text: str) -> tuple[str, ...]:
    """Return the parts of a text that begin with ¶, each in one line."""
    joined = (" ".join(part.split()) for part in text.split("¶"))
    return tuple(re.sub(r"\s+([,.;:)])", r"\1", part) for part in joined if part)


@cache
def environment() -> Environment:
    """Return what finds templates: a page is escaped as HTML is, words are for a terminal."""
    templates = Environment(
        loader=PackageLoader("bayes_cpt.report"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(["html"], default=False),
    )
    templates.filters |= {"chance": chance, "signed": signed, "steps": steps}
    return templates
