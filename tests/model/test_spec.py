import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from every_option import file_with, spec_with
from synthetic import lab_for

from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.priors import LogNormal, Normal
from bayes_cpt.model.setup import BoundModel, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import parameter_names, read_spec, sampled_labels, shipped_models

MODELS = (
    "cpt", "cpt-log", "cpt-replay", "cpt-replay-batch", "cpt-replay-printed", "cpt-replay-repeats",
    "cpt-replay-sizes", "pretrain", "pretrain-log", "pretrain-sizes",
)  # fmt: skip
REFERENCE = Reference(2e-3, 24.0, 3.0, 3000.0)
ROLES = ("general", "target")


def written(folder: Path, text: str, name: str = "own.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def prior(name: str, distribution: str, reason: str = "because") -> str:
    return f'[priors.{name}]\nreason = "{reason}"\nevery = {{ {distribution} }}\n'


EXTENDED = 'extends = "pretrain"\nname = "own"\n'


def test_the_shipped_models_are_the_ones_documented() -> None:
    assert tuple(sorted(shipped_models())) == MODELS


@pytest.mark.parametrize("model", MODELS)
def test_shipped_models_have_just_the_priors_they_need_each_with_a_reason(model: str) -> None:
    spec = read_spec(model)
    assert spec.name == model
    assert spec.summary
    assert set(spec.priors) == parameter_names(spec.law, spec.residuals, spec.priors)
    for name, own in spec.priors.items():
        assert len(own.reason) > 20, name


def test_a_replay_factor_has_parameters_on_its_own_set_alone() -> None:
    labels = sampled_labels(read_spec("cpt-replay"))
    roles = {name: {role for own, role in labels if own == name} for name, _ in labels}
    assert roles["saturation_exponent"] == {"target"}
    assert roles["replay_onset"] == roles["replay_quarter"] == {"general"}


def test_own_file_changes_only_what_it_names(tmp_path: Path) -> None:
    changed = prior("exponent", 'distribution = "lognormal", median = 0.6, sigma = 0.1')
    changed += '[law.replay_factor]\ngeneral = "power"\n'
    path = written(tmp_path, f'extends = "cpt-replay"\nname = "own"\n{changed}', "own.TOML")
    own, parent = read_spec(path), read_spec("cpt-replay")
    expected = LogNormal(distribution="lognormal", median=0.6, sigma=0.1)
    assert own.priors["exponent"].of("general") == expected
    assert own.name == "own"
    assert own.law == parent.law
    for name in set(parent.priors) - {"exponent"}:
        assert own.priors[name] == parent.priors[name]


def test_turning_a_term_off_leaves_its_inherited_priors_out(tmp_path: Path) -> None:
    every = file_with(tmp_path)
    text = f'extends = "{every}"\nname = "own"\n[law]\nterms = ["power", "annealing", "shift"]\n'
    missing = set(read_spec(every).priors) - set(read_spec(written(tmp_path, text)).priors)
    assert missing == {"peak_slope", "peak_curvature", "damage", "target_forgetting"}


def test_a_child_returns_parameters_to_their_printed_values(tmp_path: Path) -> None:
    printed = '[priors]\nslow_share = "printed"\nreplay_rate = "printed"\n'
    own = written(tmp_path, f'extends = "cpt-replay"\nname = "own"\n{printed}')
    missing = set(read_spec("cpt-replay").priors) - set(read_spec(own).priors)
    # A slow memory has no part in the law where no gain is slow.
    assert missing == {"slow_share", "slow_memory", "replay_rate"}
    free = prior("replay_rate", 'distribution = "normal", mean = 0, sd = 1')
    again = written(tmp_path, f'extends = "{own}"\n{free}', "again.toml")
    assert read_spec(again).name == "again"
    assert set(read_spec(again).priors) - set(read_spec(own).priors) == {"replay_rate"}


KNOWN = spec_with().law.build(ROLES, REFERENCE).known()


@pytest.mark.parametrize("name", [own for own in KNOWN if KNOWN[own].printed is not None])
def test_without_a_prior_a_parameter_stands_at_its_printed_value(name: str) -> None:
    spec, study = spec_with(), lab_for("cpt-replay-repeats")
    priors = read_spec("cpt-replay-repeats").priors | spec.priors
    free = build_setup(spec.model_copy(update={"priors": priors}), study).frame
    rest = {own: priors[own] for own in priors if own != name}
    fixed = replace(free, spec=spec.model_copy(update={"priors": rest}).with_law())
    drawn = draw_priors(free, 5, seed=1)
    # As good as infinite.
    drawn[name] = np.full_like(drawn[name], min(KNOWN[name].printed or 0.0, 1e9))
    steps = [1, 100, 1000]
    found = expected_loss(free, drawn, free.curves(study, lambda *_: steps))
    left = {own: drawn[own] for own in fixed.parameters()}
    wanted = expected_loss(fixed, left, fixed.curves(study, lambda *_: steps))
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_roles_take_precedence_over_every(tmp_path: Path) -> None:
    text = (
        EXTENDED + '[priors.reference_loss]\nreason = "r"\n'
        'every = { distribution = "normal", mean = 3, sd = 1 }\n'
        'target = { distribution = "normal", mean = 2, sd = 1 }\n'
    )
    found = read_spec(written(tmp_path, text)).priors["reference_loss"]
    assert found.of("general") == Normal(distribution="normal", mean=3.0, sd=1.0)
    assert found.of("target") == Normal(distribution="normal", mean=2.0, sd=1.0)
    assert found.of(None) == found.of("general")


PAIR = '[[correlations]]\nbetween = ["memory", "exponent"]\nvalue = 0.3\nreason = "r"\n'

# What is written, where the error is, what it says, and the fix.
# fmt: off
MALFORMED = {
    "unknown key": (EXTENDED + "colour = 1\n", "key colour", "the key 'colour' is unknown",
        "take the key out"),
    "key of a law's own table": (EXTENDED + '[law.replay_factor]\ngenerl = "power"\n',
        "key law.replay_factor.generl", "did you mean 'general'?", "take the key out"),
    "key like no other": (EXTENDED + "[law]\nzzz = 1\n", "law.zzz", "is unknown",
        "the keys are terms,"),
    "text for a truth value": (EXTENDED + '[law]\ncount_warmup = "yes"\n', "key law.count_warmup",
        "valid boolean; it is 'yes'", "correct"),
    "truth value for a number": (
        EXTENDED + prior("exponent", 'distribution = "normal", mean = 0, sd = true'),
        "priors.exponent", "valid number; it is True", "correct"),
    "slip in a table aside": (EXTENDED + prior("size_slop", 'distribution = "normal", mean = 0, sd = 1')
        .replace("[priors", "[lone_bases"), "lone_bases.size_slop", "mean 'size_slope'?", "correct"),
    "unknown term": (EXTENDED + '[law]\nterms = ["powr"]\n', "terms", "'power'", "correct"),
    "term named twice": (EXTENDED + '[law]\nterms = ["power", "annealing", "power"]\n', "key law",
        "named twice", "name each once"),
    "key of a fit": (EXTENDED + "[law]\nstarts_at_base = true\n", "law.starts_at_base", "a fit sets it",
        "take the key out"),
    "pair named twice": (EXTENDED + 2 * PAIR, "correlations", "memory and exponent come again", "keep one"),
    "shared, but for one role": (
        EXTENDED + prior("memory", 'distribution = "fixed", value = 20').replace("every", "general")
        + 'every = { distribution = "fixed", value = 30 }', "priors.memory", "shared", "give every alone"),
    "share of 2": (EXTENDED.replace("pretrain", "cpt-replay")
        + prior("slow_share", 'distribution = "fixed", value = 2'), "key priors.slow_share", "fixed at 2",
        "within 0 to 1"),
    "bound of a share": (
        EXTENDED + prior("slow_share", 'distribution = "logitnormal", median = 0.3, sigma = 1, lower = 0'),
        "lower", "'lower' is unknown.", "the keys are distribution, median, sigma."),
    "no terms": (EXTENDED + "[law]\nterms = []\n", "terms", "at least 1", "correct"),
    "prior with a slip": (EXTENDED + prior("level_powr", 'distribution = "normal", mean = 0, sd = 1'),
        "own.toml", "no such parameter", "did you mean 'level_power'"),
    "prior of no use alone": (
        EXTENDED + prior("slow_memory", 'distribution = "normal", mean = 0, sd = 1'),
        "own.toml", "priors.slow_memory", "give slow_share a prior"),
    "levels by the peak": (EXTENDED + "[law]\ncount_warmup = false\n", "own.toml",
        "priors.peak_power", "set count_warmup = true"),
    "printed value with a slip": (EXTENDED + '[priors]\nlevel_powr = "printed"\n',
        "key priors.level_powr", "did you mean 'level_power'?", "name one of forward_power,"),
    "no printed value": (EXTENDED + '[priors]\nreference_loss = "printed"\n',
        "key priors.reference_loss", "no parameter 'reference_loss' has a printed value",
        "name one of forward_power,"),
    "missing prior": (EXTENDED + '[residuals]\nkind = "independent"\n', "own.toml", "priors.error",
        "add [priors.error]"),
    "sd of 0": (EXTENDED + prior("exponent", 'distribution = "normal", mean = 0, sd = 0'),
        "priors.exponent", "greater than 0", "correct"),
    "median out of bounds": (
        EXTENDED
        + prior("memory", 'distribution = "lognormal", median = 5, sigma = 1, lower = 10, upper = 99'),
        "priors.memory", "between lower and upper", "correct"),
    "missing number": (EXTENDED + prior("exponent", 'distribution = "normal", mean = 0'),
        "priors.exponent", "the key 'sd' is missing", "add the key"),
    "prior without a reason": (
        EXTENDED + prior("exponent", 'distribution = "normal", mean = 0, sd = 1', reason=""),
        "priors.exponent.reason", "at least 1", "correct"),
    "one role only": (
        EXTENDED + '[priors.exponent]\nreason = "r"\n'
        'general = { distribution = "normal", mean = 0, sd = 1 }\n',
        "priors.exponent", "general and target", "correct"),
    "not TOML": ("name = \n", "own.toml", "not TOML", "fix the line"),
    "extends an unknown model": ('extends = "cpt-replya"\nname = "own"\n', "own.toml",
        "no model 'cpt-replya'", "did you mean 'cpt-replay"),
    "law without a level": ('extends = "pretrain"\nname = "own"\n[law]\nterms = ["annealing"]\n',
        "key law", "no term power", "add the term"),
    "batches without CPT": (EXTENDED + "[law]\nbatches = true\n", "key law",
        "batches differ in the shift", "name the term shift"),
    "law without annealing": (EXTENDED + '[law]\nterms = ["power", "shift"]\n', "key law",
        "no term annealing", "add the term"),
    "priors are no table": (EXTENDED + "priors = 3\n", "key priors", "priors", "table"),
    "single brackets": (EXTENDED + "[correlations]\nvalue = 0.4\n", "key correlations", "",
        "write [[correlations]] above each"),
    "extends itself": ('extends = "own.toml"\nname = "own"\n', "own.toml", "leads back",
        "name another model"),
    **{
        f"forward power, {ends}": (
            EXTENDED
            + prior("forward_power", f'distribution = "lognormal", median = 0.6, sigma = 0.2, {ends}'),
            "priors.forward_power", "a power of", "0.02 to 3")
        for ends in ("lower = 0.001, upper = 1.6", "lower = 0.1, upper = 5.0")
    },
    # How unlike the members of a group are is not fixed.
    **{
        f"fixed {name}": (
            EXTENDED.replace("pretrain", "cpt-replay-batch")
            + prior(name, 'distribution = "fixed", value = 0.3').replace("[priors", f"[{table}"),
            f"{table}.{name}", "a spread is learnt", "")
        for table, name in (("priors", "batch_spread"), ("targets", "target_spread"))
    },
}
# fmt: on


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_file_names_place_problem_and_mend(tmp_path: Path, case: str) -> None:
    text, place, problem, fix = MALFORMED[case]
    with pytest.raises(SpecError) as caught:
        read_spec(written(tmp_path, text))
    found = str(caught.value)
    assert "own.toml" in found
    for part in (place, problem, fix):
        assert re.search(re.escape(part), found, re.IGNORECASE), found
    assert isinstance(caught.value, StudyError)


LOGNORMAL = 'distribution = "lognormal", median = 300, sigma = 1'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXTENDED + prior("memory", LOGNORMAL), r"model own, key priors\.memory.*bounds"),
        (
            EXTENDED + prior("forward_power", 'distribution = "normal", mean = 0.7, sd = 0.2'),
            r"priors\.forward_power.*needs bounds.*lower and upper",
        ),
    ],
)
def test_what_areas_cannot_be_tabulated_over_is_an_error_when_it_is_used(
    text: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError, match=message):
        _ = BoundModel(read_spec(path), ("g",), ("general",), REFERENCE).area_form
