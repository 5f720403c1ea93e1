"""What a list of runs costs on one accelerator, before it is rented: tokens, FLOPs, seconds.

    python -m lab.budget research/lab/cpt-100m.toml --tflops 250 --minutes 25

The seconds follow from FLOPs and from a rate that is stated, not measured: give the rate that the first
minutes on the machine show, and ask again.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from lab.errors import report, run_command
from lab.training.run_list import ModelSize, Run, RunList, read_run_list


@dataclass(frozen=True)
class Cost:
    """What one run costs.

    Parameters
    ----------
    training_tokens, validation_tokens : int
    flops : float
        Forward and backward over the former, forward over the latter.
    """

    training_tokens: int
    validation_tokens: int
    flops: float


def flops_per_token(size: ModelSize) -> float:
    """Return the FLOPs of one training token, forward and backward.

    Six for every weight of a matrix that it meets, the output layer included and the look-up in the
    embedding not, and 6·T·d in every layer for causal attention over T positions of width d: half of the
    12·T·d that Chowdhery et al., "PaLM", 2022, arXiv 2204.02311, Appendix B, count without the mask.
    """
    matrices = 4 * size.width**2 + 3 * size.width * size.feed_forward
    weights = size.layers * matrices + size.vocabulary * size.width
    return 6.0 * weights + 6.0 * size.layers * size.context * size.width


def cost(listed: RunList, run: Run) -> Cost:
    """Return what a run costs; a forward pass is a third of forward and backward."""
    training = run.steps * listed.tokens_per_step
    sets = len(listed.validation.domains) * listed.validation.sequences * listed.model.context
    measured = len(list(listed.measured_steps(run))) * sets
    return Cost(training, measured, flops_per_token(listed.model) * (training + measured / 3))


def needed_tokens(listed: RunList) -> tuple[int, float]:
    """Return the general tokens that PT learns from once, and the target tokens of the longest-fed run."""
    general = max(
        (listed.start(run) + run.steps for run in listed.runs.values() if run.phase == "pt"),
        default=0,
    )
    target = max(
        (run.steps * (1 - run.replay) for run in listed.runs.values() if run.replay is not None),
        default=0.0,
    )
    return general * listed.tokens_per_step, target * listed.tokens_per_step


def main(arguments: list[str]) -> int:
    """Run the command. Exit code 1: it does not fit into the minutes."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.budget", description=__doc__.split("\n")[0]
    )
    parser.add_argument("runs", type=Path, help="list of runs, TOML")
    parser.add_argument("--tflops", type=float, required=True, help="sustained rate, 1e12 FLOP/s")
    parser.add_argument("--minutes", type=float, required=True, help="of the machine, all in all")
    parser.add_argument(
        "--overhead",
        type=float,
        default=200.0,
        help="seconds of start, compilation and first upload",
    )
    chosen = parser.parse_args(arguments)
    listed = read_run_list(chosen.runs)
    size = listed.model
    report(
        f"{size.parameters / 1e6:.1f} M parameters, {size.non_embedding_parameters / 1e6:.1f} M "
        f"without the embedding; {flops_per_token(size) / 1e6:.0f} MFLOP a token, "
        f"{chosen.tflops * 1e9 / flops_per_token(size):.0f} k tokens/s at {chosen.tflops:g} TFLOP/s"
    )
    report(f"{'run':<24}{'steps':>7}{'M tokens':>10}{'seconds':>9}")
    seconds = 0.0
    for run in listed.runs.values():
        one = cost(listed, run)
        took = one.flops / chosen.tflops / 1e12
        seconds += took
        report(f"{run.name:<24}{run.steps:>7}{one.training_tokens / 1e6:>10.1f}{took:>9.0f}")
    general, target = needed_tokens(listed)
    tokens = sum(cost(listed, run).training_tokens for run in listed.runs.values())
    total = seconds + chosen.overhead
    report(f"{'all':<24}{'':>7}{tokens / 1e6:>10.1f}{seconds:>9.0f}")
    report(
        f"with {chosen.overhead:g} s of overhead {total / 60:.1f} of {chosen.minutes:g} minutes; tokens "
        f"that must be there: {general / 1e6:.0f} M general, {target / 1e6:.0f} M target"
    )
    return 0 if total <= 60 * chosen.minutes else 1


if __name__ == "__main__":
    run_command(main)
