"""A Hugging Face ``TrainerCallback`` that watches its own run."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bayes_cpt.study.logs.names import domain_of, measured_unit
from bayes_cpt.study.logs.raw import Stated
from bayes_cpt.study.logs.reading import Log

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
        Is told the status when the run is first found off track, or not the planned one.
    stop : bool
        Stop the training where it is off track.
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
            rates = tuple(
                (entry["step"], entry["learning_rate"])
                for entry in state.log_history
                if "learning_rate" in entry and entry["step"] > 0
            )
            known = watcher.off_since is not None or bool(watcher.disagreements)
            stated = Stated(steps=state.max_steps)
            watcher.compare(Log("the Trainer", {}, (), rates, stated, (), ()))
            status = watcher.update(state.global_step, losses)
            if not known and (status.disagreements or not status.on_track):
                alarm(status)
                if stop and not status.disagreements:
                    control.should_training_stop = True

    return WatchCallback()
