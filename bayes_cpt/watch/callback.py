"""Callbacks of Hugging Face Trainers and of Lightning, which tell a run's own watcher or forecaster.

Their classes are made when they are asked for: the bases are those of the library, which need not be there.
Without it there is an ImportError.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bayes_cpt.study.logs.naming import domain_of, measured_unit
from bayes_cpt.study.logs.raw import Stated
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.watch.in_loop import RunForecaster
from bayes_cpt.watch.watcher import Status, Watcher

# Validation set by metric, where the names of metrics do not tell.
type Names = Mapping[str, str] | None


def validation_losses(metrics: Mapping[str, Any] | None, names: Names = None) -> dict[str, float]:
    """Return the validation losses among metrics, by validation set.

    Names are sets by metric; unless given, ``eval_code_loss`` is of ``code``.
    """
    return {
        (names or {}).get(name, domain_of(name)): float(value)
        for name, value in (metrics or {}).items()
        if (name in names if names else measured_unit(name) == "nats")
    }


def trainer_callback(
    watcher: Watcher, alarm: Callable[[Status], Any], *, stop: bool = False, names: Names = None
) -> Any:
    """Return a callback for a Hugging Face Trainer, which watches a run that a fit has forecast.

    Parameters
    ----------
    watcher : Watcher
    alarm : callable
        Is told the status when the run is first found off track, or not the planned one.
    stop : bool
        Stop the training where it is off track.
    names : mapping of str to str, optional
        Validation set by metric; ``eval_code_loss`` is of ``code`` unless given.
    """
    from transformers import TrainerCallback

    class WatchCallback(TrainerCallback):  # type: ignore[misc]
        """Tells the watcher of every evaluation."""

        def on_evaluate(
            self, args: Any, state: Any, control: Any, metrics: Any = None, **rest: Any
        ) -> None:
            losses = validation_losses(metrics, names)
            if not losses or state.global_step < 1:
                return
            logged = [entry for entry in state.log_history if "learning_rate" in entry]
            rates = tuple((entry["step"], entry["learning_rate"]) for entry in logged)
            known = watcher.off_since is not None or bool(watcher.disagreements)
            watcher.tell(state.global_step, losses)
            watcher.compare(Log("the Trainer", rates=rates, stated=Stated(steps=state.max_steps)))
            status = watcher.status()
            if not known and (status.disagreements or not status.on_track):
                alarm(status)
                if stop and not status.disagreements:
                    control.should_training_stop = True

    return WatchCallback()


def ForecastCallback(  # noqa: N802 (named as what Trainers are given)
    phase: str | None = None,
    *,
    log: Callable[[dict[str, float]], Any] | None = None,
    warn: Callable[[str], Any] = print,
    names: Names = None,
) -> Any:
    """Return a callback for a Hugging Face Trainer, which forecasts the end of a run beside its losses.

    Parameters
    ----------
    phase : {"pt", "cpt"}, optional
        By the losses unless given.
    log : callable, optional
        Is given the forecast at each evaluation, as ``wandb.log``; it goes into the Trainer's own log
        history at any rate.
    warn : callable
        Is told in words when the loss leaves the band of its forecast.
    names
        As in `trainer_callback`.
    """
    from transformers import TrainerCallback

    forecaster = RunForecaster(phase=phase, warn=warn)

    class Forecasting(TrainerCallback):  # type: ignore[misc]
        """Tells the forecaster of every evaluation; of many processes that train together one does."""

        def on_train_begin(
            self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **rest: Any
        ) -> None:
            """Take the planned learning rates from the Trainer's scheduler."""
            forecaster.total_steps = state.max_steps
            shapes = getattr(lr_scheduler, "lr_lambdas", None)
            if shapes and state.is_world_process_zero:
                peak = lr_scheduler.base_lrs[0]
                # PyTorch takes the first step with the rate of step 0.
                forecaster.rates = [peak * shapes[0](step) for step in range(state.max_steps)]

        def on_evaluate(
            self, args: Any, state: Any, control: Any, metrics: Any = None, **rest: Any
        ) -> None:
            if not state.is_world_process_zero:
                return
            rates = [own["learning_rate"] for own in state.log_history if "learning_rate" in own]
            losses = validation_losses(metrics, names)
            if found := forecaster.evaluated(state.global_step, losses, *rates[-1:]):
                state.log_history.append({**found, "step": state.global_step})
                if log is not None:
                    log(found)

        def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            forecaster.close()

    return Forecasting()


def LightningForecastCallback(  # noqa: N802
    phase: str | None = None, *, warn: Callable[[str], Any] = print, names: Names = None
) -> Any:
    """Return a callback of Lightning, which logs the forecast end of a run beside its losses.

    Parameters
    ----------
    phase, warn, names
        As in `ForecastCallback`.
    """
    from lightning.pytorch import Callback

    forecaster = RunForecaster(phase=phase, warn=warn)

    class Forecasting(Callback):  # type: ignore[misc]
        """Tells the forecaster of every evaluation."""

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.sanity_checking or not trainer.is_global_zero:
                return
            forecaster.total_steps = int(trainer.estimated_stepping_batches)
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            losses = validation_losses(trainer.callback_metrics, names)
            found = forecaster.evaluated(trainer.global_step, losses, rate)
            if found and trainer.logger is not None:
                trainer.logger.log_metrics(found, step=trainer.global_step)

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            forecaster.close()

    return Forecasting()
