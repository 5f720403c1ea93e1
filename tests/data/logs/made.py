"""How the logs in this folder were made: small real runs, written by the real libraries.

    python made.py FOLDER

needs torch, transformers, accelerate, tensorboard, wandb and mlflow-skinny. A tiny network learns
first-order Markov chains of 64 tokens: a general one, and a target one that it is continued on. The numbers are real,
the languages are not.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

VOCABULARY, LENGTH, BATCH = 64, 32, 8
EVALUATED = 32


def chain(seed: int, likeness: np.ndarray | None = None) -> np.ndarray:
    """Return the transition matrix of a Markov chain, half like another one if given."""
    own = np.random.default_rng(seed).dirichlet(np.full(VOCABULARY, 0.15), size=VOCABULARY)
    return own if likeness is None else 0.5 * own + 0.5 * likeness


GENERAL = chain(0)
TARGET = chain(1, GENERAL)


def sequences(transitions: np.ndarray, count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    cumulative = transitions.cumsum(axis=1)
    tokens = generator.integers(VOCABULARY, size=(count, 1))
    for _ in range(LENGTH - 1):
        ahead = generator.random(count)[:, None] > cumulative[tokens[:, -1]]
        tokens = np.concatenate([tokens, ahead.sum(axis=1, keepdims=True).clip(0, 63)], axis=1)
    return tokens


class Rows(torch.utils.data.Dataset):
    def __init__(self, tokens: np.ndarray) -> None:
        self.tokens = torch.as_tensor(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.hidden = nn.Linear(32, 64)
        self.out = nn.Linear(64, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> dict:
        logits = self.out(torch.relu(self.hidden(self.embedding(input_ids))))
        before, after = logits[:, :-1].reshape(-1, VOCABULARY), input_ids[:, 1:].reshape(-1)
        return {"loss": nn.functional.cross_entropy(before, after), "logits": logits}


EVALUATIONS = {
    "general": Rows(sequences(GENERAL, EVALUATED, 10)),
    "target": Rows(sequences(TARGET, EVALUATED, 11)),
}


def mixed(replay: float, steps: int, seed: int) -> Rows:
    count = steps * BATCH
    general = round(replay * count)
    rows = np.concatenate(
        [sequences(GENERAL, general, seed), sequences(TARGET, count - general, seed + 1)]
    )
    return Rows(np.random.default_rng(seed).permutation(rows))


def huggingface(
    folder: Path, network: nn.Module, rows: Rows, *, resume: str | None = None, **options: object
) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        learning_rate=3e-3,
        eval_strategy="steps",
        eval_on_start=True,
        report_to=[],
        save_strategy="steps",
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        num_train_epochs=1,
        prediction_loss_only=True,
        **options,
    )
    trainer = Trainer(network, arguments, train_dataset=rows, eval_dataset=EVALUATIONS)
    trainer.train(resume_from_checkpoint=resume)


def huggingface_runs(work: Path, out: Path) -> nn.Module:
    torch.manual_seed(0)
    base = Network()
    cosine = {"lr_scheduler_type": "cosine", "warmup_steps": 20}
    constant = {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 30}
    often = {"logging_steps": 5, "eval_steps": 10, "save_steps": 150}
    huggingface(
        work / "pt",
        base,
        mixed(1.0, 600, 20),
        **constant,
        **(often | {"eval_steps": 20, "save_steps": 600}),
    )
    keep(work / "pt" / "checkpoint-600", out / "hf" / "pt")
    for name, replay in (("r00", 0.0), ("r25", 0.25), ("r50", 0.5)):
        network = Network()
        network.load_state_dict(base.state_dict())
        huggingface(work / name, network, mixed(replay, 300, 30), **cosine, **often)
        keep(work / name / "checkpoint-300", out / "hf" / name)
    # Stopped after step 150 and resumed: two checkpoints, the second with the log of both.
    network = Network()
    network.load_state_dict(base.state_dict())
    for checkpoint in (150, 300):
        keep(
            work / "r25" / f"checkpoint-{checkpoint}",
            out / "hf-resumed" / f"checkpoint-{checkpoint}",
        )
    huggingface(
        work / "again",
        network,
        mixed(0.25, 300, 30),
        resume=str(work / "r25" / "checkpoint-150"),
        **cosine,
        **often,
    )
    keep(work / "again" / "checkpoint-300", out / "hf-resumed" / "checkpoint-300")
    return base


def keep(checkpoint: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(checkpoint / "trainer_state.json", folder / "trainer_state.json")


def loop(base: nn.Module, log: object) -> None:
    """Continue the base by hand at replay 0, linear warm-up and 1-sqrt decay, and log as we go."""
    network = Network()
    network.load_state_dict(base.state_dict())
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    rows = mixed(0.0, 200, 30).tokens.view(200, BATCH, LENGTH)
    for step in range(201):
        if step % 10 == 0:
            with torch.no_grad():
                losses = {
                    name: network(rows.tokens)["loss"].item() for name, rows in EVALUATIONS.items()
                }
            log(step, {f"eval/{name}_loss": loss for name, loss in losses.items()})
        if step == 200:
            break
        rate = rate_of(step + 1)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = network(rows[step])["loss"]
        loss.backward()
        optimizer.step()
        log(step + 1, {"train/loss": loss.item(), "train/learning_rate": rate})


def rate_of(step: int) -> float:
    if step <= 10:
        return 3e-3 * step / 10
    if step <= 150:
        return 3e-3
    return 3e-3 * (1.0 - ((step - 150) / 50) ** 0.5)


def tensorboard(base: nn.Module, out: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(out / "tensorboard") as writer:

        def log(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        loop(base, log)
    (file,) = (out / "tensorboard").glob("events.*")
    file.rename(out / "tensorboard" / "events.out.tfevents.1.tiny.0")


def wandb(base: nn.Module, work: Path, out: Path) -> None:
    import wandb as library

    # Nothing of the machine goes into the file.
    quiet = library.Settings(
        console="off",
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        disable_git=True,
        disable_code=True,
        host="tiny",
        username="tiny",
    )
    config = {"warmup_steps": 10, "batch": BATCH}
    run = library.init(project="tiny", mode="offline", dir=work, config=config, settings=quiet)
    loop(base, lambda step, values: run.log(values, step=step))
    run.finish()
    (file,) = work.glob("wandb/offline-run-*/*.wandb")
    (out / "wandb" / "offline-run-tiny").mkdir(parents=True, exist_ok=True)
    shutil.copy(file, out / "wandb" / "offline-run-tiny" / "run-tiny.wandb")


def mlflow(base: nn.Module, work: Path, out: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow as library

    store = work / "mlruns"
    library.set_tracking_uri(store.as_uri())
    library.set_experiment("tiny")
    with library.start_run(run_name="tiny"):
        library.log_params({"warmup_steps": 10, "batch": BATCH})
        loop(base, lambda step, values: library.log_metrics(values, step=step))
    (run,) = [path.parent for path in store.glob("*/*/metrics")]
    for part in ("metrics", "params"):
        shutil.copytree(run / part, out / "mlflow" / "1" / "tiny" / part, dirs_exist_ok=True)


def history(base: nn.Module, out: Path) -> None:
    """Write the same as JSON lines, a wide CSV and a German spreadsheet's CSV."""
    import pandas as pd

    rows: dict[int, dict[str, float]] = {}
    loop(base, lambda step, values: rows.setdefault(step, {"_step": step}).update(values))
    (out / "tables").mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(rows[step])}\n" for step in sorted(rows))
    (out / "tables" / "history.jsonl").write_text(lines)
    table = pd.DataFrame([rows[step] for step in sorted(rows)]).rename(columns={"_step": "step"})
    table.to_csv(out / "tables" / "wide.csv", index=False)
    table.to_parquet(out / "tables" / "wide.parquet", index=False)
    short = table.dropna(subset=["eval/general_loss"])
    names = {
        "step": "Schritt",
        "eval/general_loss": "allgemein",
        "eval/target_loss": "Ziel",
        "train/learning_rate": "Lernrate",
    }
    german = short.rename(columns=names)[list(names.values())]
    german.to_csv(
        out / "tables" / "german.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig"
    )


def main(folder: str) -> None:
    work, out = Path(folder).resolve(), Path(__file__).resolve().parent
    torch.set_num_threads(1)
    base = huggingface_runs(work / "hf", out)
    tensorboard(base, out)
    history(base, out)
    mlflow(base, work, out)
    (work / "offline").mkdir(exist_ok=True)
    wandb(base, work / "offline", out)


if __name__ == "__main__":
    main(sys.argv[1])
