import pytest
from size_family import family

from bayes_cpt.report.words.size import size_words


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((80.0,), ["All runs have one model size, 80M", "two more sizes, say 20M and 5M"]),
        ((20.0, 320.0), ["two model sizes, 20M to 320M", "neither its exponent", "say 5M"]),
    ],
)
def test_too_few_sizes_are_said_with_what_to_add(sizes: tuple[float, ...], said: list[str]) -> None:
    (line,) = size_words(family(sizes=sizes), continual=True)
    assert all(part in line for part in said), line


def test_three_sizes_over_a_wide_range_are_enough() -> None:
    assert size_words(family(), continual=True) == []


def test_sizes_that_hardly_differ_tell_no_exponent() -> None:
    from dataclasses import replace

    study = family(continual=False)
    near = {20.0: 50.0, 80.0: 80.0, 320.0: 100.0}
    runs = tuple(replace(run, model_size=near[float(run.model_size or 0)]) for run in study.runs)
    (line,) = size_words(replace(study, runs=runs), continual=False)
    assert "differ by a factor of 2" in line
    assert "12.5M or 400M" in line
