"""Forecast sweeps by peak learning rate at peaks that were not fitted, under priors from other corpora.

From the repository's root::

    PYTHONPATH=research python -m testbench.sweeps SWEEPS data/public -o OUT --jobs 2

A folder of the first is a sweep: a study of runs at several peaks (`python -m published tables`). It is
fitted at its middle peak, at the two in the middle, and at lowest, middle and highest, and all other runs
are forecast, under priors learnt from the public studies and from the sweeps of all other corpora: the
second word of a name says which, as in `sweep-c4-124m`. Stopped, the same command goes on, and with the
folder of `testbench.families --also SWEEPS` and the same seed fits are not repeated.

The sweeps are what was published at OpenMOSS/SummerQuest-2026 (20, logs of single students) and
avifenesh/recipe-lab (five, of one architecture each), a study each by `bayes-cpt init`. Runs of another
length or batch, peaks more than a factor of ten from the best, and runs that end 0.7 nats above it are left
out. Earlier figures had further ones: the W&B projects cerulean-labs/gpt2-training and
porcini-labs/cs336-basics, and Erasme153/DummyModel, gongyisheng/pretrain, marin-community/marin,
Beeferky/2agent-lr-discover, Suzehva/cs312_assignments, birdhumming/assignments,
vincentzed/mixed-residual-ablation, roppikevo/AI-NOVA-EVO and tasmaikeni13/mamba4.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import other_study
from bayes_cpt.validate.held_out import OURS
from bayes_cpt.validate.tasks import Pool
from testbench.beyond import share_of
from testbench.families import VAGUE, learn, sweeps_in, whole_studies
from testbench.public import Models, score_groups, write
from testbench.report import options_of

# Losses that a fit has at the least.
FEWEST_LOSSES = 3
METHOD_NAMES = ("paper", OURS)


def corpus(sweep: str) -> str:
    """Return what a sweep was trained on, by its name."""
    return sweep.split("-")[1]


def peaks(study: Study) -> list[float]:
    """Return the peak learning rates of a study's runs, in order."""
    return sorted({_peak(run) for run in study.runs})


def _peak(run: Run) -> float:
    return float(f"{run.schedule.peak:.6g}")


def splits(study: Study) -> dict[str, tuple[Study, Study]]:
    """Return what is fitted of a sweep and what is forecast, by how many peaks are fitted."""
    every = peaks(study)
    middle = len(every) // 2
    chosen = {
        "one peak": every[middle : middle + 1],
        "two peaks": every[middle - 1 : middle + 1],
        "three peaks": [every[0], every[middle], every[-1]],
    }
    found = {}
    for name, fitted in chosen.items():
        kept = [run.name for run in study.runs if _peak(run) in fitted]
        others = [run.name for run in study.runs if run.name not in kept]
        if others and study.losses["run"].isin(kept).sum() >= FEWEST_LOSSES:
            found[name] = study.subset(kept), study.subset(others)
    return found


def score(
    sweeps: dict[str, Study],
    models: dict[str, ModelSpec],
    methods: Sequence[str],
    pool: Pool,
    out: Path,
    seed: int,
) -> pd.DataFrame:
    """Return `study_table` of every sweep and number of fitted peaks, under priors of other corpora."""
    continual, shipped, asked = read_spec("cpt-replay"), read_spec("pretrain"), {}
    for left_out in dict.fromkeys(map(corpus, sweeps)):
        # By what share bands widen beyond the fitted steps is learnt from no sweep.
        priors = models[left_out].priors | {share_of(shipped): shipped.priors[share_of(shipped)]}
        spec = models[left_out].model_copy(update={"priors": priors})
        folds = {
            f"{name}, {fitted}": other_study(*parts, spec)
            for name, study in sweeps.items()
            if corpus(name) == left_out
            for fitted, parts in splits(study).items()
        }
        asked[f"sweeps-{left_out}"] = Models(spec, continual), folds
    return score_groups(asked, methods, seed, pool, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = options_of("sweeps", __doc__)
    parser.add_argument("sweeps", type=Path, help="folder of sweeps, a study in each")
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--methods", default=",".join(METHOD_NAMES), help="default: %(default)s")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    pool, sweeps = Pool(options.jobs), sweeps_in(options.sweeps)
    public = whole_studies(options.folder)
    models = learn(
        public,
        read_spec(VAGUE),
        pool,
        options.out,
        options.seed,
        sweeps=sweeps,
        groups_of_sweeps=corpus,
    )
    names = options.methods.split(",")
    write(score(sweeps, models, names, pool, options.out, options.seed), options.out)


if __name__ == "__main__":
    main()
