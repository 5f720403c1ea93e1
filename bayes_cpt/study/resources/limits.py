"""What a study says of its tokens, checked against its runs: whether they can be counted and run out."""

from collections.abc import Sequence

from bayes_cpt.checks import Check, is_number
from bayes_cpt.study.resources.resources import MANY_EPOCHS, ROLES, Resources, UniqueTokens
from bayes_cpt.study.runs import Run

COUNT = "add tokens_per_step = ... to [study], the tokens of one optimiser step"


def check_counted(
    check: Check, tokens_per_step: object, unique_tokens: UniqueTokens | None, runs: Sequence[Run]
) -> None:
    """Note runs whose epochs cannot be counted though their data are.

    Parameters
    ----------
    check : Check
        Where problems go.
    tokens_per_step : object
        Of the study, as it was given.
    unique_tokens : UniqueTokens or None
    runs : sequence of Run
    """
    if unique_tokens is None or tokens_per_step is not None:
        return
    unknown = [run.name for run in runs if run.batch_tokens is None]
    if unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        check.add(
            "table study, key unique_tokens",
            f"epochs cannot be counted: nothing says how many tokens a step of run {unknown[0]}{others} "
            "takes",
            COUNT,
        )


def note_epochs(
    cautions: Check,
    tokens_per_step: object,
    unique_tokens: UniqueTokens | None,
    runs: Sequence[Run],
    place: str,
) -> None:
    """Note runs that go through their data more often than is known to be worth it.

    Parameters
    ----------
    cautions : Check
        Where warnings go.
    tokens_per_step : object
        Of the study, as it was given.
    unique_tokens : UniqueTokens or None
    runs : sequence of Run
    place : str
        What messages call the settings.
    """
    per_step = float(tokens_per_step) if is_number(tokens_per_step) else None  # type: ignore[arg-type]
    known = Resources(per_step, unique_tokens)
    for role in ROLES:
        epochs = {run.name: known.of_one(run).get(f"{role}_epochs", 0.0) for run in runs}
        many = {name: count for name, count in epochs.items() if count > MANY_EPOCHS}
        if many:
            most = max(many, key=lambda name: many[name])
            cautions.add(
                f"{place}, run {most}",
                epochs_words(role, many[most])
                + (f" ({len(many)} runs do so)" if len(many) > 1 else ""),
                "train on more unique tokens or for fewer steps, or fit with --model cpt-replay-repeats",
            )


def epochs_words(role: str, epochs: float) -> str:
    """Return in words that a run repeats its data too often.

    Parameters
    ----------
    role : str
        ``general`` or ``target``.
    epochs : float
        Above `MANY_EPOCHS`.

    Examples
    --------
    >>> epochs_words("target", 6.25)
    'it makes 6.2 epochs over the target data, and beyond 4 repeated tokens are worth less and less'
    """
    return (
        f"it makes {epochs:.1f} epochs over the {role} data, and beyond {MANY_EPOCHS:g} repeated tokens "
        "are worth less and less"
    )
