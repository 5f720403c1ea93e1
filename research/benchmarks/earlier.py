"""What a gradient, a fit and a simulation of SBC cost beside an earlier commit, in turns on one machine.

Each turn starts a process for each checkout, so that what else the machine does slows both alike; seconds
are those of a core, the kernel's and all threads' share included; of a fit by the clock, too. The first
turn loads and compiles, and does not count::

    git worktree add --detach ../earlier d900c5f
    PYTHONPATH=research python -m benchmarks.earlier ../earlier
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[2]
TURNS, SEED = 3, 1
# Of one turn: where a fit is sampled again, one takes up to thirty times as long as another.
SIMULATIONS = 8
MODELS = ("cpt-replay", "cpt-replay-printed")
# The same in both: modules have had other names.
NAMES = """
import json, sys, time
from functools import partial
import numpy as np
from bayes_cpt import bundled_study, load, read_study
try:
    from bayes_cpt.inference.density import Density as build_density
    from bayes_cpt.inference.metric import Metric
except ImportError:
    from bayes_cpt.inference.density import density_of
    from bayes_cpt.inference.geometry.whitening import Metric
    from bayes_cpt.model.build import model_of
    build_density = lambda setup: density_of(model_of(setup))
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec
spec = read_spec(sys.argv[1])
"""
GRADIENT = """
density = build_density(build_setup(spec, read_study(bundled_study())))
size = density.start.size
function, white = density.in_metric(Metric(density.start, np.eye(size))), np.zeros(size)
times = []
for _ in range(8):
    start = time.thread_time()
    for _ in range(200):
        function(white)
    times.append((time.thread_time() - start) / 200)
print(json.dumps({"microseconds": 1e6 * min(times), "parameters": size}))
"""
FITTED = """
fit = load(sys.argv[2])
table = fit.summary()
sampled = table[table["kind"] == "parameter"]
tree = fit.tree["sample_stats"]
print(json.dumps({"draws": int(tree.sizes["chain"] * tree.sizes["draw"]),
                  "least_ess": float(sampled["ess_bulk"].min()), "trustworthy": bool(fit.trustworthy)}))
"""
SIMULATION = """
try:
    from bayes_cpt.validate.calibration import ModelReplicates, design_study, held_out_run, with_runs
    from bayes_cpt.validate.tasks import task_seed
except ImportError:
    from bayes_cpt.validate.design import design_study, held_out_run, with_runs
    from bayes_cpt.validate.parallel import task_seed
    from bayes_cpt.validate.replicates import ModelReplicates
bare = design_study(read_study(bundled_study()), spec)
run = held_out_run(bare)
replicate = ModelReplicates(spec, with_runs(bare, [run]), (run.name,), cores=1)
taken = []
for number in map(int, sys.argv[2:]):
    start = time.process_time()
    replicate(task_seed(0, f"simulation {number}"))
    taken.append(time.process_time() - start)
print(json.dumps({"seconds": taken}))
"""


def python(checkout: Path, *arguments: str) -> tuple[str, float]:
    """Return what a process of a checkout's package prints, and the seconds of a core that it takes."""
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": str(checkout)}
    before = os.times()
    # Python looks for modules where it is started, too.
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    after = os.times()
    # A fit whose diagnostics fall short ends with 1 and is a fit all the same.
    if done.returncode not in (0, 1) or not (done.stdout or "fit" in arguments):
        raise RuntimeError(done.stderr[-2000:])
    spent = after.children_user + after.children_system
    return done.stdout, spent - before.children_user - before.children_system


def gradient(checkout: Path, model: str, turn: int) -> dict[str, float]:
    """Return the microseconds of a log density with its gradient on the bundled study."""
    told: dict[str, float] = json.loads(python(checkout, "-c", NAMES + GRADIENT, model)[0])
    return told


def whole_fit(checkout: Path, model: str, turn: int) -> dict[str, float]:
    """Return the seconds of `bayes-cpt fit` of the bundled study, and what they gave."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "fit.nc")
        words = ["-m", "bayes_cpt", "fit", str(checkout / "data" / "cpt-lab"), "--model", model]
        started = time.monotonic()
        _, seconds = python(checkout, *words, "--seed", str(SEED + turn), "-o", path, "--quiet")
        elapsed = time.monotonic() - started
        told: dict[str, float] = json.loads(
            python(checkout, "-c", NAMES + FITTED, model, path)[0].splitlines()[-1]
        )
    spent = {"seconds": seconds, "by_the_clock": elapsed}
    return spent | told | {"ess_a_second": told["least_ess"] / seconds}


def simulations(checkout: Path, model: str, turn: int) -> dict[str, float]:
    """Return the mean seconds of simulations of SBC; another one before them loads what is compiled."""
    numbers = range(SIMULATIONS * turn + 1, SIMULATIONS * (turn + 1) + 1)
    words = ["-c", NAMES + SIMULATION, model, "0", *map(str, numbers)]
    taken = json.loads(python(checkout, *words)[0].splitlines()[-1])["seconds"]
    return {"seconds": float(sum(taken[1:]) / len(taken[1:]))}


KINDS = {"gradient": gradient, "fit": whole_fit, "simulation": simulations}


def main() -> None:
    """Print a line for each turn, and the medians with their ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.earlier", description=__doc__)
    parser.add_argument("checkout", type=Path, help="of the earlier commit")
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"of {', '.join(KINDS)}")
    options = parser.parse_args()
    checkouts = {"now": HERE, "earlier": options.checkout.resolve()}
    for kind in options.kinds:
        for model in MODELS:
            rows: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
            for turn in range(TURNS + 1):
                for name, checkout in checkouts.items():
                    row = KINDS[kind](checkout, model, turn)
                    sys.stderr.write(f"{kind} {model} {name} {turn}: {row}\n")
                    rows[name] += [row] if turn else []
            for what in rows["now"][0]:
                now, earlier = (median(row[what] for row in rows[name]) for name in checkouts)
                ratio = now / earlier
                sys.stdout.write(
                    f"{kind} {model} {what}: {now:.4g} / {earlier:.4g} = {ratio:.3g}\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
