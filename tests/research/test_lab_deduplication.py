import random

import numpy as np
import pytest
from lab.texts.deduplication import HASHES, Duplicates
from lab_sample import prose


def changed(text: str, share: float) -> str:
    """Return a text with a share of its lines replaced."""
    lines = text.split("\n")
    generator = random.Random(7)
    for place in generator.sample(range(len(lines)), round(share * len(lines))):
        lines[place] = f"replacement {generator.random()} of this very line"
    return "\n".join(lines)


def test_a_version_with_few_changes_is_near_and_another_text_is_new() -> None:
    duplicates = Duplicates()
    text = prose(1, lines=200)
    assert duplicates.keep(text) == "new"
    assert duplicates.keep(changed(text, 0.05)) == "near"
    assert duplicates.keep(changed(text, 0.5)) == "new"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_agreement_of_signatures_estimates_the_jaccard_similarity(share: float) -> None:
    text = prose(3, lines=400)
    other = changed(text, share)
    first, second = set(text.split("\n")), set(other.split("\n"))
    similarity = len(first & second) / len(first | second)
    agreements = [
        np.mean(Duplicates(seed).signature(text) == Duplicates(seed).signature(other))
        for seed in range(20)
    ]
    # Binomial standard error of 20 signatures of HASHES values each, times four.
    allowed = 4 * np.sqrt(similarity * (1 - similarity) / (20 * HASHES))
    assert np.mean(agreements) == pytest.approx(similarity, abs=allowed)
