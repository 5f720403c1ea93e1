"""`bayes-cpt check`: what is in a study, what is wrong with it, and what it can tell."""

from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.options import Json, Quiet, StudyFolder, Verbose, option
from bayes_cpt.cli.output import TAKEN, Output, columns, number
from bayes_cpt.cli.shared.determined import show_effects, show_undetermined
from bayes_cpt.report.words.summary import summarise

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study


def check(
    study: StudyFolder,
    model: Annotated[
        str | None,
        option(
            "NAME",
            "Law whose coefficients are asked for, by name or as a .toml file.",
            "--model",
            default="cpt-replay, or pretrain where there is no CPT run",
        ),
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
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
    2  it cannot: all its problems are on stderr, one paragraph each
    """
    from bayes_cpt.report.words.batch import batch_words
    from bayes_cpt.report.words.law import undivided
    from bayes_cpt.report.words.size import size_words
    from bayes_cpt.study.folder import read_study
    from bayes_cpt.study.ranges import describe

    output = Output(quiet, json)
    with output.cautions():
        loaded = read_study(study)
        spec, table = _identifiability(loaded, model)
    content, chosen, law = describe(loaded), spec.name, spec.law
    lines = [_counted(loaded, chosen), *summarise(table)]
    if law.model_size:
        lines += size_words(loaded, continual=law.continual)
    if law.batches:
        lines += batch_words(loaded)
    alike = undivided(loaded, continual=bool(loaded.continual_runs))
    kinds = {f"{kind}s": table[table["kind"] == kind] for kind in ("parameter", "effect")}
    if not quiet and not json:
        output.verdict(lines)
        output.text()
        _show(output, content)
        for line in alike:
            output.text(line, "yellow")
        if verbose:
            _show_parameters(output, content["domains"], chosen, kinds["parameters"])
            heading = "How well they will tell what moves a typical run: expected sd, nats/token"
            show_effects(output, loaded, kinds["effects"], heading, after=False)
            show_undetermined(output, table, ("parameter", "effect"))
        else:
            output.text("\nWhat they can tell of each parameter and effect: --verbose.", "dim")
    told = {name: rows.drop(columns="kind").to_dict("records") for name, rows in kinds.items()}
    output.result(
        {
            **content,
            "no_two_runs_differ_in": alike,
            "model": chosen,
            "verdict": lines,
            **told,
        }
    )
    return 0


def _identifiability(study: "Study", model: str | None) -> "tuple[ModelSpec, pd.DataFrame]":
    from bayes_cpt.identify.determination import identifiability
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.study.ranges import check_evidence

    spec = read_spec(model or ("cpt-replay" if study.continual_runs else "pretrain"))
    check_evidence(study, continual=spec.law.continual)
    return spec, identifiability(study, spec)


def _counted(study: "Study", model: str) -> str:
    """Return that a study can be fitted, and how many runs it has."""
    counts = ((len(study.continual_runs), "CPT"), (len(study.pretraining_runs), "PT"))
    runs = " and ".join(f"{count} {phase}" for count, phase in counts if count)
    return f"{study.name} can be fitted: {runs} runs for the model {model}."


def _show(output: Output, content: dict[str, Any]) -> None:
    output.text(f"Study {content['name']}", "bold")
    if content["description"]:
        output.text(content["description"])
    output.text(f"{_validation_sets(content)}. Losses in nats/token.")
    if content["bases"]:
        output.heading("Bases")
        output.table(_bases(content))
    output.heading("Runs")
    output.table(_runs(content))
    for run in content["runs"]:
        if branch := run["branch"]:
            shared = f"{run['name']} is {branch['run']} up to step {branch['step']:,}"
            output.text(f"{shared}: what they share counts once.", "dim")
    output.heading("Ranges")
    output.table(_ranges(content["ranges"]))


def _validation_sets(content: dict[str, Any]) -> str:
    target = f" and {content['target']} (target)" if content["target"] else ""
    text = f"Validation sets: {content['general']} (general){target}"
    others = ", ".join(_others(content))
    return f"{text}; also {others}, forecast from these (predict --sets)" if others else text


def _fitted(content: dict[str, Any]) -> list[str]:
    return [name for name in content["domains"] if name in (content["general"], content["target"])]


def _others(content: dict[str, Any]) -> list[str]:
    return [name for name in content["domains"] if name not in _fitted(content)]


def _bases(content: dict[str, Any]) -> Any:
    domains = _fitted(content)
    headers = ("base", "on run", "steps", "peak LR", "final LR", "potential")
    losses = [f"loss\n{domain}" for domain in domains]
    table = columns(*headers, *losses, "CPT\nruns", numbers=5 + len(losses))
    for base in content["bases"]:
        table.add_row(
            base["name"] + ("" if base["known"] else " (PT unknown)"),
            base["run"] or "-",
            number(base["steps"]),
            number(base["peak_learning_rate"]),
            number(base["final_learning_rate"]),
            number(base["loss_potential"]),
            *(number(base["losses"][domain]) for domain in domains),
            str(len(base["runs"])),
        )
    return table


def _runs(content: dict[str, Any]) -> Any:
    domains, others = _fitted(content), _others(content)
    points = [f"points\n{domain}" for domain in domains] + ["points\nothers"] * bool(others)
    headers = ("run", "phase", "base", "replay", "steps", "peak LR", "final LR")
    taken = {
        resource: title
        for resource, title in TAKEN.items()
        if any(resource in r for r in content["runs"])
    }
    table = columns(*headers, *taken.values(), *points, numbers=4 + len(taken) + len(points))
    for run in content["runs"]:
        counts = run["points"]
        rest = sorted(counts[domain] for domain in others)
        table.add_row(
            run["name"],
            run["phase"],
            run["base"] or "-",
            number(run["replay"]),
            number(run["steps"]),
            number(run["peak_learning_rate"]),
            number(run["final_learning_rate"]),
            *(number(run.get(name), 3) for name in taken),
            *(str(counts[domain]) for domain in domains),
            *([_span([rest[0], rest[-1]])] if rest else []),
        )
    return table


def _ranges(ranges: dict[str, Any]) -> Any:
    table = columns("phase", "replay", "peak LR", "steps", numbers=3)
    for phase, covered in ranges.items():
        if covered["steps"]:
            spans = (covered["replay"], covered["peak_learning_rate"], covered["steps"])
            table.add_row(phase, *(_span(span) for span in spans))
    return table


def _span(span: list[float] | None) -> str:
    if span is None:
        return "-"
    low, high = (number(value) for value in span)
    return low if low == high else f"{low} to {high}"


def _show_parameters(
    output: Output, domains: list[str], model: str, parameters: "pd.DataFrame"
) -> None:
    output.heading(f"What these runs can tell about {model}")
    output.text(
        "Share of the prior's variance that a fit of these runs can be expected to take away; "
        "below 0.5 (marked *) the prior decides."
    )
    kept = [domain for domain in (*domains, "all") if (parameters["domain"] == domain).any()]
    table = columns("parameter", *kept, numbers=len(kept))
    for quantity, rows in parameters.groupby("quantity", sort=False):
        by_domain = rows.set_index("domain")
        table.add_row(str(quantity), *(_share(by_domain, domain) for domain in kept))
    output.table(table)


def _share(by_domain: "pd.DataFrame", domain: str) -> str:
    if domain not in by_domain.index:
        return "-  "
    mark = " " if by_domain.loc[domain, "identified"] else "*"
    return f"{by_domain.loc[domain, 'contraction']:.2f} {mark}"
