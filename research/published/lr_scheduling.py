"""Runs of the lr-scheduling repository (Schaipp et al. 2025, github.com/fabian-sp/lr-scheduling; MIT).

Its folder ``data`` holds a JSON file per run: ``config`` (scheduler wsd or cos, lr, warmup_steps,
iterations, wsd_fract_decay, wsd_final_lr_scale, decay_type, n_layer, n_head, n_embd, dataset, resume_from)
and ``history`` with ``val`` (iter, val_loss) and ``train`` (iter, train_lr). A cool-down that resumes from
another run's checkpoint has its own points from the start of the decay on.
"""

import json
from pathlib import Path
from typing import Any

from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, Segment, constant, cosine, linear
from bayes_cpt.study.study import Study
from published.study_of import Row, check_rates, study_of

DOMAIN = "validation"
# A warm-up starts at a hundredth of the peak, and a cosine ends at a tenth: `OneCycleLR` as they call it.
FIRST_SHARE, COSINE_SHARE = 0.01, 0.1
# Of the decay's shape, by their word for it.
SHAPES = {"linear": "linear", "sqrt": "one_minus_sqrt", "cosine": "cosine"}


def convert(files: list[Path], name: str) -> Study:
    """Return the study of some files."""
    runs, rows = [], []
    for file in files:
        table = json.loads(file.read_text(encoding="utf-8"))
        run, own = _run(file, table)
        runs.append(run)
        rows += own
    described = "fabian-sp/lr-scheduling (Schaipp et al. 2025)"
    return study_of(name, runs, rows, general=DOMAIN, description=described)


def _run(file: Path, table: dict[str, Any]) -> tuple[Run, list[Row]]:
    try:
        config, history = table["config"], table["history"]
        schedule, decays_at = schedule_of(file, config)
        steps, losses = history["val"]["iter"], history["val"]["val_loss"]
        train = history["train"]
        check_rates(file.name, schedule, train["iter"], train["train_lr"])
    except KeyError as missing:
        raise StudyError.at(
            str(file),
            f"there is no {missing}",
            "give the JSON files of the repository's folder data",
        ) from None
    resumed = config.get("resume_from", "none") not in (None, "none")
    first = decays_at if resumed else 0
    # Non-embedding parameters of a block: attention 4·d², gated MLP about 8·d².
    size = 12 * config["n_layer"] * config["n_embd"] ** 2 / 1e6
    run = Run(file.stem, "pt", schedule, model_size=round(size, 1))
    measured = [(step, loss) for step, loss in zip(steps, losses, strict=True) if step > first]
    return run, [(file.stem, int(step), DOMAIN, float(loss)) for step, loss in measured]


def schedule_of(file: Path, config: dict[str, Any]) -> tuple[Schedule, int]:
    """Return the schedule of a run's settings, and the step after which its decay starts."""
    peak, warmup, steps = float(config["lr"]), config["warmup_steps"], config["iterations"]
    start = linear(warmup, FIRST_SHARE * peak, peak)
    if config["scheduler"] == "cos":
        return start + cosine(steps - warmup, peak, COSINE_SHARE * peak), warmup
    shape = SHAPES.get(config.get("decay_type", "linear"))
    if config["scheduler"] != "wsd" or shape is None:
        scheduler = f"{config['scheduler']}, {config.get('decay_type', 'linear')}"
        problem = Problem(str(file), f"the schedule is {scheduler}", "leave the file out")
        raise StudyError([problem])
    decay = int(config["wsd_fract_decay"] * steps)
    stable = start + constant(steps - warmup - decay, peak)
    if decay == 0:
        return stable, 0
    final = peak * float(config["wsd_final_lr_scale"])
    return stable + Schedule((Segment(shape, decay, peak, final),)), steps - decay
