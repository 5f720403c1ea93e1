from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import SpecError
from bayes_cpt.model.build import build_model, model_data
from bayes_cpt.model.prior_tables import Fixed, Normal, Prior
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.readers.folder import read_study


def bundled(model: str = "cpt-replay") -> Setup:
    return build_setup(read_spec(model), read_study(bundled_study()))


def test_all_data_are_named_data_of_the_model() -> None:
    setup = bundled()
    names = {variable.name for variable in build_model(setup).data_vars}
    assert names == set(model_data(setup))
    assert {"points_loss", "bases_loss", "design_position"} <= names


def test_every_parameter_is_a_variable_of_its_own_name_and_dims() -> None:
    setup = bundled()
    model, info = build_model(setup), setup.frame.parameters()
    assert {variable.name for variable in model.free_RVs} == set(info)
    for variable in model.free_RVs:
        dims = model.named_vars_to_dims.get(variable.name)
        assert (dims[0] if dims else None) == info[variable.name].dims


def test_fixed_parameters_are_constants() -> None:
    model = build_model(bundled("cpt-replay-printed"))
    assert "memory" not in {variable.name for variable in model.free_RVs}


def test_independent_errors_are_normal_densities() -> None:
    """Curves' part of the printed model's density at its initial point, by SciPy."""
    setup = bundled("cpt-replay-printed")
    model = build_model(setup)
    terms = model.replace_rvs_by_values([*model.potentials, *model.free_RVs])
    found, *values = model.compile_fn(terms, mode="FAST_COMPILE")(model.initial_point())
    names = [variable.name for variable in model.free_RVs]
    parameters = dict(zip(names, values, strict=True)) | {"memory": np.float64(1000.0)}
    law, points = setup.frame.law, setup.curves.points
    curves = law.curve_loss(points, setup.curves.bases, law.coefficients(parameters, np), np)
    error = parameters["error"][points.domain_index]
    assert float(found) == pytest.approx(norm.logpdf(points.loss, curves, error).sum(), rel=1e-9)


def test_roles_with_different_distributions_are_an_error_naming_the_prior() -> None:
    setup = bundled("cpt-replay-printed")
    spec = setup.frame.spec
    mixed = Prior(
        reason="mixed",
        general=Normal(distribution="normal", mean=3.0, sd=1.0),
        target=Fixed(distribution="fixed", value=3.0),
    )
    other = spec.model_copy(update={"priors": spec.priors | {"reference_loss": mixed}})
    with pytest.raises(SpecError, match=r"key priors\.reference_loss.*different distributions"):
        build_model(replace(setup, frame=replace(setup.frame, spec=other)))
