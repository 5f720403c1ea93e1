"""Learn the priors of `pretrain` from public studies, and forecast each family of them by the others alone.

From the repository's root::

    PYTHONPATH=research python -m testbench.families data/public -o OUT --jobs 2

Every study is fitted with all of its runs under the priors of `vague.toml`; a hierarchical model over the
fits gives priors. They are learnt from all studies, and once more without each family (one repository's
runs), whose studies are then forecast under them as in `testbench.public`. By what share of
the law's slope bands widen beyond the fitted steps (`testbench.beyond`) is learnt in the same way. With
``--alone`` a study is left out alone, and its family stays, but where studies have runs in common. Studies
in the folder of ``--also``, sweeps by peak, tell of what a peak does, throughout, and are not forecast.
Stopped, the same command goes on.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pandas as pd

from bayes_cpt.history.evidence import Evidence, Label, fit_studies, labels_of
from bayes_cpt.history.learnt import learnt_model, learnt_text
from bayes_cpt.history.population import learn_population
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.held_out import OURS
from bayes_cpt.validate.tasks import Pool, Records
from testbench.beyond import ends_of_studies, learnt_share, with_share
from testbench.public import Group, Models, family, pretraining_suite, score_groups, write
from testbench.report import public_options

VAGUE = Path(__file__).with_name("vague.toml")
# A study whose runs another one has, too.
CONTAINED = ("lr-124m-one-peak",)
# Studies that are forecast, and that no prior is learnt from.
FORECAST_ONLY = ("gemstones-543m", "steplaw-215m")
# Runs of one peak LR that are learnt from at most: of a sweep most tell the same.
MOST_RUNS = 9
# Levels follow data and tokenizer: they keep the priors of the model.
NOT_LEARNT = ("reference_loss", "reference_slope", "annealing_gain")
# What sweeps tell of: they have too few points to tell of the rest.
OF_PEAKS = ("peak_power", "peak_slope", "peak_curvature")
METHOD_NAMES = ("paper", OURS)
# Families whose studies have runs in common.
OF_ONE_SET = ("124m",)
# In place of a family that is left out.
EVERY = "all"


def itself(study: str) -> str:
    """Return a study's own name, or its family where others have its runs."""
    return family(study) if family(study) in OF_ONE_SET else study


def whole_studies(folder: Path) -> dict[str, Study]:
    """Return the studies to learn from, those that are kept in two parts as one."""
    found = {}
    for path in sorted(folder.iterdir()):
        if (path / "fit").is_dir() and path.name not in (*CONTAINED, *FORECAST_ONLY):
            fitted, predicted = (read_study(path / part) for part in ("fit", "predict"))
            found[path.name] = replace(joined(fitted, predicted), name=path.name)
    for path in sorted(folder.glob("mpl-*")):
        found[path.name] = read_study(path)
    return found


def sweeps_in(folder: Path | None) -> dict[str, Study]:
    """Return sweeps by peak learning rate."""
    found = sorted(folder.glob("*/study.toml")) if folder else []
    return {path.parent.name: read_study(path.parent) for path in found}


def joined(fitted: Study, predicted: Study) -> Study:
    """Return a study with the runs of another one, at most `MOST_RUNS` of one peak LR."""
    new = [run for run in predicted.runs if run.name not in fitted]
    new.sort(key=lambda run: run.schedule.peak)
    chosen = []
    for _, same in groupby(new, key=lambda run: round(run.schedule.peak, 9)):
        runs = list(same)
        chosen += runs[:: max(1, -(-len(runs) // MOST_RUNS))]
    rows = [
        (run.name, int(step), str(fitted.general), float(loss))
        for run in chosen
        for step, loss in zip(*predicted.curve(run.name, str(predicted.general)), strict=True)
    ]
    return fitted.with_runs(chosen, rows)


def learn(
    studies: dict[str, Study],
    vague: ModelSpec,
    pool: Pool,
    out: Path,
    seed: int,
    group: Group = family,
    sweeps: Mapping[str, Study] | None = None,
    groups_of_sweeps: Group | None = None,
) -> dict[str, ModelSpec]:
    """Return the model learnt from all studies, by the name all, and those learnt without each group.

    Each is written as a TOML file, too.
    """
    sweeps = dict(sweeps or {})
    named, group_of = (sweeps, groups_of_sweeps) if groups_of_sweeps else (studies, group)
    groups = {name: group_of(name) for name in named}
    studies = studies | sweeps
    digests = {name: study.digest() for name, study in studies.items()}
    settings = {"seed": seed, "model": vague.model_dump(mode="json"), "studies": digests}
    place = Records.open(out / "fits", settings, ()).folder
    fits = fit_studies(list(studies.values()), vague, seed, pool=pool, folder=place)
    evidence: dict[str, Evidence] = dict(zip(studies, fits, strict=True))
    labels = tuple(label for label in labels_of(vague) if label[0] not in NOT_LEARNT)
    found = {}
    for left_out in (EVERY, *dict.fromkeys(groups.values())):
        kept = {
            name: own
            for name, own in evidence.items()
            if groups.get(name) != left_out and not own.problems
        }
        name = EVERY if left_out == EVERY else f"without-{left_out}"
        spec = vague
        told: tuple[Label, ...] = ()
        for of_peaks in (False, True):
            telling = [said for name, said in kept.items() if of_peaks or name not in sweeps]
            population = learn_population(telling, tuple(labels_of(vague)), 1.0, seed)
            chosen = tuple(
                label
                for label in labels
                if population.telling[label] and of_peaks == (label[0] in OF_PEAKS)
            )
            learnt = learnt_model(spec, population, name, seed, chosen)
            spec, told = learnt.spec, (*told, *chosen)
        text = learnt_text(replace(learnt, labels=told), str(VAGUE), digests, seed)
        (out / f"{name}.toml").write_text(text, encoding="utf-8")
        found[left_out] = learnt.spec
    return found


def widening(
    folder: Path, left_out: str, spec: ModelSpec, pool: Pool, seed: int, group: Group = family
) -> ModelSpec:
    """Return a model whose bands widen beyond the fitted steps as the studies of other groups tell."""
    share = learnt_share(ends_of_studies(folder, spec, pool, seed, left_out, group).values())
    sys.stderr.write(f"without {left_out}: bands widen by a share of the slope, {share.words}\n")
    return with_share(spec, share)


def score(
    folder: Path,
    models: dict[str, ModelSpec],
    names: Sequence[str],
    pool: Pool,
    out: Path,
    seed: int,
    group: Group = family,
) -> pd.DataFrame:
    """Return `study_table` of every study, its group's runs forecast under priors from the others."""
    continual, every, asked = read_spec("cpt-replay"), pretraining_suite(folder), {}
    for left_out in dict.fromkeys(map(group, every)):
        own = Models(models[left_out], continual)
        folds = {name: of_study(own) for name, of_study in every.items() if group(name) == left_out}
        asked[left_out] = own, folds
    return score_groups(asked, names, seed, pool, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = public_options("families", __doc__)
    parser.add_argument("--methods", default=",".join(METHOD_NAMES), help="default: %(default)s")
    parser.add_argument("--alone", action="store_true", help="leave out each study, not its family")
    parser.add_argument("--also", type=Path, help="folder of sweeps that tell of peaks")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    pool, group = Pool(options.jobs), itself if options.alone else family
    studies, sweeps = whole_studies(options.folder), sweeps_in(options.also)
    models = {
        left_out: widening(options.folder, left_out, spec, pool, options.seed, group)
        for left_out, spec in learn(
            studies, read_spec(VAGUE), pool, options.out, options.seed, group, sweeps
        ).items()
        if left_out != EVERY
    }
    names = options.methods.split(",")
    table = score(options.folder, models, names, pool, options.out, options.seed, group)
    write(table, options.out)


if __name__ == "__main__":
    main()
