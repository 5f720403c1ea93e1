"""Equations as MathML, by docutils: the site needs no script and no network to show them."""

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)
TAG = re.compile(r"\\tag\{([^}]*)\}")


def _mathml(text: str, node: Any, as_block: bool) -> str:
    try:
        return str(tex2mathml(text, as_block=as_block))
    except MathError as error:
        logger.warning("%s: %s", error, text, location=node)
        return escape(text)


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(_mathml(node.astext(), node, as_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: Any) -> None:
    text = node.astext()
    numbers = "".join(f'<span class="eqno">({escape(own)})</span>' for own in TAG.findall(text))
    equation = _mathml(TAG.sub("", text), node, as_block=True)
    translator.body.append(f'<div class="math">{numbers}{equation}</div>')
    raise nodes.SkipNode


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
