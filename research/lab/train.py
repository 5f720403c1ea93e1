"""Train the runs of a list that are not done yet, in its order.

    python -m lab.train RUNS.toml --data TOKENS -o RUNS --device cuda --compile --seconds 540

Stopped in any way, the same command goes on. RUNS/losses/NAME.jsonl has a line for every measurement: step,
lr, tokens, seconds, training_loss, losses (nats/token, by validation set), and a last line once the run is
done. Exit codes: 0 all done, 3 the time was up before that, 2 bad input.
"""

import argparse
import math
import os
import time
from pathlib import Path

from lab.errors import LabError, run_command
from lab.training.run_list import read_run_list

TIME_IS_UP = 3


def main(arguments: list[str]) -> int:
    """Run the command."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m lab.train", description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, help="list of runs, TOML")
    parser.add_argument("--data", type=Path, required=True, help="folder of lab.tokens")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="folder for losses and checkpoints"
    )
    parser.add_argument("--run", action="append", help="train only this run; may be repeated")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument(
        "--checkpoint-every", type=int, default=500, help="steps between checkpoints"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="save and stop after these")
    chosen = parser.parse_args(arguments)
    listed = read_run_list(chosen.runs)
    unknown = sorted(set(chosen.run or ()) - set(listed.runs))
    if unknown:
        raise LabError(str(chosen.runs), f"there is no run {unknown[0]}", "name a run of the list")
    # After the arguments: loading torch takes seconds, and it reads the number of threads once.
    os.environ.setdefault("OMP_NUM_THREADS", str(chosen.threads))
    import torch

    from lab.training.trainer import Machine, Trainer

    torch.set_num_threads(chosen.threads)
    torch.set_float32_matmul_precision("high")
    machine = Machine(
        chosen.device, chosen.compile, chosen.checkpoint_every, stop_at=began + chosen.seconds
    )
    trainer = Trainer(listed, chosen.data, chosen.output, machine)
    for name in chosen.run or listed.runs:
        if not trainer.train(listed.runs[name]):
            return TIME_IS_UP
    return 0


if __name__ == "__main__":
    run_command(main)
