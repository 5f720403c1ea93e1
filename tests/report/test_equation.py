import numpy as np
import pytest
from every_option import spec_with
from small_study import REFERENCE

from bayes_cpt.model.setup import Frame
from bayes_cpt.model.spec import ModelSpec, read_spec, shipped_models
from bayes_cpt.report.equation import equation, meaning

ROLES = ("general", "target")
SPECS = {name: read_spec(name) for name in shipped_models()} | {"every option": spec_with()}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_letter_that_is_sampled_has_a_meaning(spec: ModelSpec) -> None:
    frame = Frame(spec, ("g", "t"), ROLES, REFERENCE)
    parameters = {
        name: np.ones(len(frame.coords()[info.dims]) if info.dims else ())
        for name, info in frame.law.parameters().items()
    }
    letters = set(frame.law.coefficients(parameters, np))
    assert ({"rho", "zeta"} <= letters) == spec.law.forward_power == spec.law.level_power
    for name in letters | set(parameters):
        assert len(meaning(frame, name)) > 10, name


def test_options_of_the_areas_are_stated() -> None:
    lines = equation(Frame(spec_with(), ("g", "t"), ROLES, REFERENCE))
    stated = (
        *("S1 = sum of eta^rho", "start^zeta - e^zeta", "e(lambda_slow)", "(eta/eta*)^0.7"),
        *("(eta/eta*)^0.8", "S2_pt counts from eta*", "counts from the level"),
    )
    for part in stated:
        assert sum(part in line for line in lines) == 1, part
    printed = Frame(read_spec("cpt-replay-printed"), ("g", "t"), ROLES, REFERENCE)
    assert not any("eta" in line.replace("beta", "") for line in equation(printed))
