"""The works that a fit stands on, as BibTeX, and citations of them in LaTeX, Markdown and HTML.

A template cites a work as ``[@key]``, with a key of ``templates/references.bib``.
"""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bayes_cpt.report.rendering import environment

if TYPE_CHECKING:
    from bayes_cpt.inference.posterior import Posterior

FILE = "references.bib"
CITATION = re.compile(r"\[@(\w+)\]")
ENTRY = re.compile(r"^@\w+\{(\w+),$.*?^\}$", re.MULTILINE | re.DOTALL)
UNKNOWN = "unknown"


def versions(posterior: "Posterior") -> dict[str, str]:
    """Return the versions of what made a fit, by the name of the package.

    Parameters
    ----------
    posterior : Posterior
    """
    kept = dict(json.loads(posterior.tree.attrs["versions"]))
    return dict.fromkeys(("bayes-cpt", "pymc", "nutpie"), UNKNOWN) | kept


def entries(posterior: "Posterior") -> dict[str, str]:
    """Return all works as BibTeX, by their keys.

    Parameters
    ----------
    posterior : Posterior
        Whose versions and year are filled in.
    """
    text = (
        environment()
        .get_template(FILE)
        .render(versions=versions(posterior), year=str(posterior.tree.attrs["created"])[:4])
    )
    return {match[1]: match[0] for match in ENTRY.finditer(text)}


def cited(text: str) -> list[str]:
    """Return the keys that a text cites, in the order of their first citation.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> cited("By NUTS [@b] for the law [@a], as in [@b].")
    ['b', 'a']
    """
    return list(dict.fromkeys(CITATION.findall(text)))


def bibtex(posterior: "Posterior", keys: Iterable[str]) -> str:
    """Return works as a BibTeX file.

    Parameters
    ----------
    posterior : Posterior
    keys : iterable of str
        Of the works.
    """
    known = entries(posterior)
    return "\n\n".join(known[key] for key in keys) + "\n"


def in_latex(text: str) -> str:
    r"""Return a text whose citations are LaTeX commands; nothing else is changed.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> in_latex("By NUTS [@hoffman2014nuts].")
    'By NUTS~\\cite{hoffman2014nuts}.'
    """
    return re.sub(rf"\s*{CITATION.pattern}", r"~\\cite{\1}", text)
