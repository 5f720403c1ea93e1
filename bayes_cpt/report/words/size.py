"""What the model sizes of a study can tell, in plain words."""

from typing import TYPE_CHECKING

from bayes_cpt.model.groups import FEWEST, fitted_sizes

if TYPE_CHECKING:
    from bayes_cpt.study.study import Study

# Sizes closer together than this ratio of the largest to the smallest hardly bend a power of size.
SPAN = 8.0
# A further size lies so far below the smallest: small models cost least.
APART = 4.0


def size_words(study: "Study", *, continual: bool) -> list[str]:
    """Return how many model sizes there are, and which would tell the exponents of size.

    Parameters
    ----------
    study : Study
        Whose runs say their sizes.
    continual : bool
        Whether CPT runs count.

    Returns
    -------
    list of str
        One line; none where the sizes are enough.
    """
    sizes = fitted_sizes(study, continual=continual)
    missing = FEWEST - len(sizes)
    further = [f"{sizes[0] / APART**place:.3g}M" for place in range(1, missing + 1)]
    if missing > 1:
        said = f"All runs have one model size, {sizes[0]:g}M: what size changes rests on its priors"
        return [f"{said}. Add runs of two more sizes, say {' and '.join(further)}."]
    span = f"{sizes[0]:g}M to {sizes[-1]:g}M"
    if missing == 1:
        said = (
            f"There are two model sizes, {span}: they tell how much the loss falls with size, but neither "
            "its exponent nor how far single sizes lie off it"
        )
        return [f"{said}. Add runs of a third, say {further[0]}."]
    if sizes[-1] < SPAN * sizes[0]:
        said = f"The model sizes, {span}, differ by a factor of {sizes[-1] / sizes[0]:.2g}"
        wanted = f"{sizes[-1] / SPAN:.3g}M or {sizes[0] * SPAN:.3g}M"
        rests = "the exponents of size rest on their priors"
        return [f"{said}: {rests}. Add runs of a model of {wanted}."]
    return []
