"""Trains one run of a list after another, on a CPU or a GPU, and can stop at any step."""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab.errors import LabError, report
from lab.training.checkpoints import RunFiles, save_whole
from lab.training.order import Mixture
from lab.training.run_list import Run, RunList
from lab.training.shards import open_domain, read_index, validation_windows
from lab.training.transformer import Transformer

BETAS = (0.9, 0.95)


@dataclass(frozen=True)
class Machine:
    """Where and how long this process trains.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    compiled : bool
        Whether torch.compile is used; one compilation serves all runs of the process.
    checkpoint_every : int
        Steps between checkpoints of a run.
    stop_at : float
        Time (time.monotonic) after which the run in progress is saved and the process ends.
    """

    device: str = "cpu"
    compiled: bool = False
    checkpoint_every: int = 500
    stop_at: float = math.inf


@dataclass
class Progress:
    """How far a run is: its last step, its seconds, and training losses since the last measurement."""

    step: int
    seconds: float = 0.0
    losses: list[Tensor] = field(default_factory=list)


class Trainer:
    """Model, optimiser and data of a list of runs.

    Parameters
    ----------
    listed : RunList
    data : path
        Folder of lab.tokens.
    folder : path
        Of the runs' files.
    machine : Machine
    """

    def __init__(self, listed: RunList, data: Path, folder: Path, machine: Machine) -> None:
        self.listed, self.folder, self.machine = listed, folder, machine
        index = read_index(data)
        if index["vocabulary"] > listed.model.vocabulary:
            raise LabError(
                str(data),
                f"its tokenizer has {index['vocabulary']} tokens, the model {listed.model.vocabulary}",
                "build tokens and model with one vocabulary",
            )
        size = listed.model
        self.validation = {
            name: torch.from_numpy(
                validation_windows(
                    open_domain(data, index, name, "validation"),
                    listed.validation.sequences,
                    size.context,
                )
            ).to(machine.device)
            for name in listed.validation.domains
        }
        self.domains = {
            name: open_domain(data, index, name, "training")
            for name in (listed.general, listed.target)
        }
        self.model = Transformer(size).to(machine.device)
        self.loss: Callable[[Tensor, Tensor], Tensor] = (
            torch.compile(self.model) if machine.compiled else self.model
        )

    def train(self, run: Run) -> bool:
        """Train a run to its end, from its checkpoint if it has one.

        Returns
        -------
        bool
            False if the time was up before its end; the run is saved, and the next call goes on.
        """
        files = RunFiles(self.folder, run.name)
        if files.is_done:
            return True
        optimizer, progress = self._start(run, files)
        mixture = self._mixture(run)
        measured = set(self.listed.measured_steps(run))
        saved = self.listed.saved_steps(run.name)
        start, rates = self.listed.start(run), run.schedule.learning_rates()
        last = start + run.steps
        losses = progress.losses
        began = time.monotonic() - progress.seconds

        if progress.step == start and start in measured:
            files.write_line(self._measurement(run, start, losses, time.monotonic() - began))
        for step in range(progress.step + 1, last + 1):
            rate = float(rates[step - start - 1])
            losses.append(self._step(optimizer, mixture, step, rate))
            if step in measured:
                files.write_line(self._measurement(run, step, losses, time.monotonic() - began))
                losses.clear()
            for base in saved.get(step, ()):
                save_whole(self._state(optimizer, step), files.base(base))
            time_is_up = time.monotonic() >= self.machine.stop_at and step < last
            if time_is_up or (step - start) % self.machine.checkpoint_every == 0:
                read = torch.stack(losses).cpu() if losses else torch.zeros(0)
                reached = {"seconds": time.monotonic() - began, "training_losses": read}
                files.save({**self._state(optimizer, step), **reached})
            if time_is_up:
                report(f"{run.name}: stopped after step {step} of {last}")
                return False
        seconds = time.monotonic() - began
        files.finish({"seconds": round(seconds, 3), "steps": run.steps})
        report(f"{run.name}: done in {seconds:.0f} s")
        return True

    def _start(self, run: Run, files: RunFiles) -> tuple[torch.optim.AdamW, Progress]:
        """Set the model to where the run starts or goes on, and return its optimiser and progress."""
        torch.manual_seed(self.listed.training.seed)
        optimizer = self._optimizer()
        progress = Progress(self.listed.start(run))
        state = files.resume(self.machine.device)
        if state is not None:
            losses = list(state["training_losses"].to(self.machine.device))
            progress = Progress(state["step"], state["seconds"], losses)
            report(f"{run.name}: goes on after step {progress.step}")
        elif run.base is not None:
            state = files.load_base(run.base, self.machine.device)
        if state is None:
            # Made on the CPU, so that a seed gives the same weights everywhere.
            self.model.load_state_dict(Transformer(self.listed.model).state_dict())
        else:
            self.model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        return optimizer, progress

    def _optimizer(self) -> torch.optim.AdamW:
        matrices = [parameter for parameter in self.model.parameters() if parameter.dim() == 2]
        gains = [parameter for parameter in self.model.parameters() if parameter.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": self.listed.training.weight_decay},
            {"params": gains, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)

    def _mixture(self, run: Run) -> Mixture:
        """Return the order of a run's data.

        PT runs share one order, so that a branch goes on where its base stopped; every CPT run has its own.
        """
        pretraining = run.phase == "pt"
        # By its name: a run that is added to the list changes no other.
        number = 0 if pretraining else zlib.crc32(run.name.encode())
        return Mixture(
            self.listed.general,
            self.listed.target,
            1.0 if run.replay is None else run.replay,
            seed=(self.listed.training.seed, number),
            in_order=pretraining,
        )

    def _step(
        self, optimizer: torch.optim.AdamW, mixture: Mixture, step: int, rate: float
    ) -> Tensor:
        size, training = self.listed.model, self.listed.training
        batch = torch.from_numpy(
            mixture.batch(self.domains, step, training.sequences, size.context)
        )
        if self.machine.device != "cpu":
            batch = batch.pin_memory()
        batch = batch.to(self.machine.device, non_blocking=True)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with self._precision():
            loss = self.loss(batch[:, :-1], batch[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # Left on the device: reading it would wait for the step.
        return loss.detach()

    def _measurement(
        self, run: Run, step: int, losses: list[Tensor], seconds: float
    ) -> dict[str, Any]:
        own_step = step - self.listed.start(run)
        rate = float(run.schedule.learning_rates()[own_step - 1]) if own_step else None
        trained = float(torch.stack(losses).mean()) if losses else None
        if trained is not None and not math.isfinite(trained):
            raise LabError(
                f"run {run.name}, step {step}",
                f"the training loss is {trained}",
                "lower the learning rate, or lengthen the warm-up",
            )
        return {
            "step": step,
            "lr": rate,
            "tokens": own_step * self.listed.tokens_per_step,
            "seconds": round(seconds, 3),
            "training_loss": trained,
            "losses": self.measure(),
        }

    def measure(self) -> dict[str, float]:
        """Return the mean loss on each validation set, nats/token."""
        means = {}
        with torch.no_grad(), self._precision():
            for name, sequences in self.validation.items():
                # The training batch's own shape: nothing is compiled twice.
                chunks = sequences.split(self.listed.training.sequences)
                sums = [self.loss(chunk[:, :-1], chunk[:, 1:]) * len(chunk) for chunk in chunks]
                means[name] = float(torch.stack(sums).sum()) / len(sequences)
        return means

    def _precision(self) -> torch.autocast:
        half = self.listed.training.precision == "bfloat16"
        return torch.autocast(self.machine.device, dtype=torch.bfloat16, enabled=half)

    def _state(self, optimizer: torch.optim.AdamW, step: int) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
