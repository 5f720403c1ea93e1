"""A Hugging Face ``TrainerCallback`` that watches its own run."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bayes_cpt.study.logs.names import domain_of, measured_unit

if TYPE_CHECKING:
    from bayes_cpt.watch.watcher import Status, Watcher


def trainer_callback(
    watcher: "Watcher",
    alarm: "Callable[[Status], None]",
    *,
    stop: bool = False,
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return a callback for a Hugging Face Trainer.

    Parameters
    ----------
    watcher : Watcher
    alarm : callable
        Is told the status when the run is first found off track.
    stop : bool
        Stop the training then.
    names : mapping of str to str, optional
        Validation set by metric; ``eval_code_loss`` is of ``code`` unless given.

    Returns
    -------
    transformers.TrainerCallback

    Raises
    ------
    ImportError
        If transformers is not installed.
    """
    from transformers import TrainerCallback

    class WatchCallback(TrainerCallback):  # type: ignore[misc]
        """Tells the watcher of every evaluation."""

        def on_evaluate(
            self, args: Any, state: Any, control: Any, metrics: Any = None, **rest: Any
        ) -> None:
            losses = {
                (names or {}).get(name, domain_of(name)): value
                for name, value in (metrics or {}).items()
                if (name in names if names else measured_unit(name) == "nats")
            }
            if not losses or state.global_step < 1:
                return
            before = watcher.off_since
            status = watcher.update(state.global_step, losses)
            if before is None and not status.on_track:
                alarm(status)
                control.should_training_stop = control.should_training_stop or stop

    return WatchCallback()
