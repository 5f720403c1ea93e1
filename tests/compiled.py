"""The bundled study's model, compiled once for all tests that need a density or draws."""

from typing import Any, NamedTuple


class Compiled(NamedTuple):
    """A setup (`Setup`), its `pymc.Model`, and the `WhiteModel` of that."""

    setup: Any
    model: Any
    white: Any


def compile_bundled(model: str = "cpt-replay") -> Compiled:
    """Compile a shipped model on the bundled study; imports are here, so that collecting is quick."""
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.model import build_model
    from bayes_cpt.readers.folder import read_study
    from bayes_cpt.setup import build_setup
    from bayes_cpt.spec import read_spec
    from bayes_cpt.whitening import whiten

    setup = build_setup(read_spec(model), read_study(bundled_study()))
    built = build_model(setup)
    return Compiled(setup, built, whiten(built))
