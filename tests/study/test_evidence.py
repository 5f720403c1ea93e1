import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import lab

import bayes_cpt
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.study.ranges import check_evidence
from bayes_cpt.study.study import Study

CPT = [run.name for run in lab().continual_runs]


def changed(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Study:
    """Return the bundled study with other losses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return replace(lab(), losses=change(lab().losses.copy()))


def set_loss(where: Callable[[pd.DataFrame], pd.Series], value: object) -> Study:
    """Return the bundled study with one value for some of its losses."""

    def change(losses: pd.DataFrame) -> pd.DataFrame:
        return losses.assign(loss=losses["loss"].mask(where(losses), value))

    return changed(change)


def everywhere(losses: pd.DataFrame) -> pd.Series:
    return losses["loss"] > 0


def of_kernel(losses: pd.DataFrame) -> pd.Series:
    return losses["domain"] == "kernel"


def of_kernel_in_cpt(losses: pd.DataFrame) -> pd.Series:
    return (losses["domain"] == "kernel") & losses["run"].isin(CPT)


def refused(study: Study, *, continual: bool = True) -> list[str]:
    """Return what is said against a study, before any fit of it too."""
    with pytest.raises(StudyError) as caught:
        check_evidence(study, continual=continual)
    model = "cpt-replay" if continual else "pretrain"
    with pytest.raises(StudyError, match=r"the loss stays|losses are|after step 0"):
        bayes_cpt.fit(study, model=model)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("continual", [True, False])
def test_a_study_with_losses_is_taken(*, continual: bool) -> None:
    check_evidence(lab(), continual=continual)
    few = lab().truncated({run.name: 200 for run in lab().continual_runs})
    check_evidence(few, continual=continual)


def test_one_loss_everywhere_is_refused_for_each_validation_set() -> None:
    said = refused(set_loss(everywhere, 3.1))
    count = int((lab().losses["domain"] == "general").sum())
    assert [f"domain {domain}: all {count} losses are 3.1" in line for line, domain in
            zip(said, ("general", "kernel"), strict=True)] == [True, True]  # fmt: skip
    assert all("study cpt-lab" in line and "not one value repeated" in line for line in said)


def test_the_validation_set_that_is_one_number_is_named_alone() -> None:
    (said,) = refused(set_loss(of_kernel, 3.1))
    assert "domain kernel" in said


def test_rounding_errors_are_no_curve() -> None:
    generator = np.random.default_rng(1)
    (said,) = refused(
        changed(
            lambda losses: losses.assign(
                loss=losses["loss"].mask(
                    of_kernel(losses), 3.1 + 1e-7 * generator.standard_normal(len(losses))
                )
            )
        )
    )
    assert "domain kernel" in said


def test_a_thousandth_of_a_nat_is_a_curve() -> None:
    check_evidence(
        changed(
            lambda losses: losses.assign(
                loss=losses["loss"].mask(of_kernel(losses), 3.1 - 1e-7 * losses["step"])
            )
        ),
        continual=True,
    )


def test_one_number_in_all_cpt_runs_is_refused_though_pt_runs_move() -> None:
    study = set_loss(of_kernel_in_cpt, 3.1)
    (said,) = refused(study)
    assert "domain kernel: in each of the 10 CPT runs the loss stays what it is" in said
    check_evidence(study, continual=False)


def test_runs_that_each_repeat_their_last_loss_are_refused() -> None:
    def repeat(losses: pd.DataFrame) -> pd.DataFrame:
        last = losses.groupby(["run", "domain"])["loss"].transform("last")
        return losses.assign(loss=losses["loss"].mask(losses["run"].isin(CPT), last))

    said = refused(changed(repeat))
    assert len(said) == 2
    assert all("10 CPT runs the loss stays" in line for line in said)


def test_one_number_in_pt_is_refused_only_where_pt_is_fitted() -> None:
    study = set_loss(lambda losses: (losses["domain"] == "general") & ~losses["run"].isin(CPT), 3.1)
    (said,) = refused(study, continual=False)
    assert "PT runs the loss stays what it is" in said
    check_evidence(study, continual=True)


def test_losses_at_step_0_alone_are_refused_before_a_fit() -> None:
    bases_only = lab().truncated({run.name: 0 for run in lab().continual_runs})
    (said,) = refused(bases_only)
    assert "no CPT run has a loss after step 0, on general and kernel" in said
    assert "Add rows with step 1 or later" in said
    check_evidence(bases_only, continual=False)


def test_a_validation_set_without_losses_after_step_0_is_warned_of() -> None:
    study = changed(lambda losses: losses[~of_kernel_in_cpt(losses) | (losses["step"] == 0)])
    with pytest.warns(StudyWarning, match="no CPT run has a loss of kernel after step 0"):
        check_evidence(study, continual=True)


def test_two_equal_losses_may_be_chance() -> None:
    first = lab().subset(["pt_trunk", "r25_cos"])
    steps = first.curve("r25_cos", "kernel")[0]
    rows = first.losses[~of_kernel_in_cpt(first.losses) | first.losses["step"].isin(steps[:2])]
    rows = rows.assign(loss=rows["loss"].mask(of_kernel_in_cpt(rows), 3.1))
    with warnings.catch_warnings():
        # The base's loss is not that of the PT run any more.
        warnings.simplefilter("ignore", StudyWarning)
        two = replace(first, losses=rows)
    check_evidence(two, continual=True)


def test_a_single_flat_curve_is_a_caution() -> None:
    losses = lab().losses
    here = of_kernel(losses) & (losses["run"] == CPT[0]) & (losses["step"] > 0)
    told = losses.assign(
        loss=losses["loss"].mask(of_kernel(losses) & (losses["run"] == CPT[0]), 3.1)
    )
    assert here.sum() >= 5
    with pytest.warns(StudyWarning) as cautions:
        study = replace(lab(), losses=told)
    count = int(here.sum()) + 1
    assert any(f"all {count} losses of this curve are 3.1" in str(c.message) for c in cautions)
    check_evidence(study, continual=True)
