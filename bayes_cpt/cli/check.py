"""`bayes-cpt check`: what is in a study, what is wrong with it, and what it can tell."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, Part
from bayes_cpt.cli.undetermined import effects_in_detail, undetermined
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.study import Study


@command
def check(study: Path, *, model: str | None = None, verbose: bool = False) -> Answer:
    r"""Say what is in a study, every problem with its place and fix, and what its runs can tell.

    Prints what these runs will determine of what moves a run, what they leave open and which run would
    tell most of it; then the bases, the runs, the ranges they cover, what no two of them differ in and
    what looks suspicious. With --verbose also how well each parameter of the law and each effect will be
    known, and what run would tell more of each. Nothing is fitted; it takes seconds.

    \b
    Example:
    bayes-cpt check data/cpt-lab

    \b
    Exit codes:
    0  the study can be fitted
    1  it could be, but what it says looks like a mistake that makes a fit be about something else
    2  it cannot: all its problems are on stderr, one paragraph each

    Parameters
    ----------
    model : NAME
        Law whose coefficients are asked for, by name or as a .toml file [default: cpt-replay, or pretrain
        where there is no CPT run].
    """
    from bayes_cpt.identify.determination import Facts, identifiability
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.fit import batch_words, size_words, summarise, undivided
    from bayes_cpt.report.words import paragraphs
    from bayes_cpt.study.folder import read_study
    from bayes_cpt.study.ranges import check_evidence, describe

    loaded = read_study(study)
    spec = read_spec(model or ("cpt-replay" if loaded.continual_runs else "pretrain"))
    check_evidence(loaded, continual=spec.law.continual)
    table = identifiability(loaded, spec)
    content, law = describe(loaded), spec.law
    counts = ((len(loaded.continual_runs), "CPT"), (len(loaded.pretraining_runs), "PT"))
    runs = " and ".join(f"{count} {phase}" for count, phase in counts if count)
    about = {"study": loaded, "runs": runs, "model": spec.name}
    lines = paragraphs("check.txt", "counted", about)
    problems = lines if loaded.misleading else []
    facts = Facts.of(table)
    lines = [*problems] or lines + summarise(facts, fitted=False)
    if law.model_size:
        lines += size_words(loaded, continual=law.continual)
    if law.batches:
        lines += batch_words(loaded)
    alike = undivided(loaded, continual=bool(loaded.continual_runs))
    kinds = {f"{kind}s": table[table["kind"] == kind] for kind in ("parameter", "effect")}
    parts: list[Part] = ["", *_study(loaded, content), *(Text(own, "yellow") for own in alike)]
    if verbose:
        parts += _parameters(loaded.domains, spec.name, kinds["parameters"])
        title = "How well they will tell what moves a typical run: expected sd, nats/token"
        parts += effects_in_detail(loaded, kinds["effects"], title, after=False)
        parts += undetermined(table, ("parameter", "effect"))
    else:
        parts.append(Text("\nWhat they can tell of each parameter and effect: --verbose.", "dim"))
    content |= {"no_two_runs_differ_in": alike, "model": spec.name, "verdict": lines}
    content["facts"] = asdict(facts)
    content |= {name: rows.drop(columns="kind") for name, rows in kinds.items()}
    return Answer(content, lines, parts, problems)


def _study(study: "Study", content: dict[str, Any]) -> list[Part]:
    """Return what is in a study: validation sets, bases, runs and the ranges that they cover."""
    import pandas as pd

    from bayes_cpt.report.results import bases_table, runs_table, span

    others = ", ".join(study.third_domains)
    trained = study.trained_domains
    by_role = {
        "general": [name for name in trained if name == study.general],
        "target": [name for name in trained if name != study.general],
    }
    sets = " and ".join(
        f"{' and '.join(names)} ({role})" for role, names in by_role.items() if names
    )
    further = f"; also {others}, forecast from these (predict --sets)" if others else ""
    parts: list[Part] = [Text(f"Study {study.name}", "bold")]
    parts += [study.description] if study.description else []
    parts.append(f"Validation sets: {sets}{further}. Losses in nats/token.")
    parts += [bases_table(study)] if study.bases else []
    parts.append(runs_table(study))
    for run in content["runs"]:
        if branch := run["branch"]:
            same = f"{run['name']} is {branch['run']} up to step {branch['step']:,}"
            parts.append(Text(f"{same}: what they share counts once.", "dim"))
    ranges = [{"phase": phase} | covered for phase, covered in content["ranges"].items()]
    rows = pd.DataFrame(ranges)
    cells = {"replay": "replay", "peak LR": "peak_learning_rate", "steps": "steps"}
    shown: dict[str, Any] = {name: (key, span) for name, key in cells.items()}
    return [*parts, Table("Ranges", rows[rows["steps"].notna()], {"phase": "phase"} | shown)]


def _parameters(domains: tuple[str, ...], model: str, parameters: "pd.DataFrame") -> list[Part]:
    firm = parameters["identified"].map({True: " ", False: "*"})
    shares = parameters.assign(share=parameters["contraction"].map("{:.2f} ".format) + firm)
    shares = shares.pivot(index="quantity", columns="domain", values="share").fillna("-  ")
    shares = shares.loc[parameters["quantity"].unique()].reset_index()
    kept = [domain for domain in (*domains, "all") if domain in shares]
    note = (
        "Share of the prior's variance that a fit of these runs can be expected to take away; below 0.5 "
        "(marked *) the prior decides"
    )
    cells: dict[str, Any] = {"parameter": "quantity"} | {name: (name, "text") for name in kept}
    return [Table(f"What these runs can tell about {model}", shares, cells, note=note)]
