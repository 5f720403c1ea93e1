"""`bayes-cpt check`: what is in a study, what is wrong with it, and what it can tell."""

from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.options import Json, Quiet, StudyFolder, Verbose, option
from bayes_cpt.cli.output import TAKEN, Cells, Output, number
from bayes_cpt.cli.undetermined import show_effects, show_undetermined

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
    from bayes_cpt.report.fit import batch_words, size_words, summarise, undivided
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
        _show_bases(output, content)
    output.heading("Runs")
    _show_runs(output, content)
    for run in content["runs"]:
        if branch := run["branch"]:
            shared = f"{run['name']} is {branch['run']} up to step {branch['step']:,}"
            output.text(f"{shared}: what they share counts once.", "dim")
    output.heading("Ranges")
    _show_ranges(output, content["ranges"])


def _validation_sets(content: dict[str, Any]) -> str:
    target = f" and {content['target']} (target)" if content["target"] else ""
    text = f"Validation sets: {content['general']} (general){target}"
    others = ", ".join(_others(content))
    return f"{text}; also {others}, forecast from these (predict --sets)" if others else text


def _fitted(content: dict[str, Any]) -> list[str]:
    return [name for name in content["domains"] if name in (content["general"], content["target"])]


def _others(content: dict[str, Any]) -> list[str]:
    return [name for name in content["domains"] if name not in _fitted(content)]


def _show_bases(output: Output, content: dict[str, Any]) -> None:
    import pandas as pd

    rows = pd.DataFrame(content["bases"])
    rows["name"] += rows["known"].map({True: "", False: " (PT unknown)"})
    rows["on run"] = rows["run"].fillna("-")
    numbers = ("steps", "peak LR", "final LR", "potential")
    keys = ("steps", "peak_learning_rate", "final_learning_rate", "loss_potential")
    cells: dict[str, Cells] = {"base": "name", "on run": "on run"}
    cells |= {head: (key, number) for head, key in zip(numbers, keys, strict=True)}
    for domain in _fitted(content):
        cells[f"loss\n{domain}"] = _loss_on(domain)
    cells["CPT\nruns"] = ("runs", lambda runs: str(len(runs)))
    output.table(rows, cells)


def _loss_on(domain: str) -> Cells:
    return "losses", lambda losses: number(losses[domain])


def _points_on(domain: str) -> Cells:
    return "points", lambda points: str(points[domain])


def _show_runs(output: Output, content: dict[str, Any]) -> None:
    import pandas as pd

    rows, others = pd.DataFrame(content["runs"]), _others(content)
    rows["base"] = rows["base"].fillna("-")
    cells: dict[str, Cells] = {"run": "name", "phase": "phase", "base": "base"}
    numbers = {"peak LR": "peak_learning_rate", "final LR": "final_learning_rate"}
    for heading, key in ({"replay": "replay", "steps": "steps"} | numbers).items():
        cells[heading] = (key, number)
    for resource, title in TAKEN.items():
        if resource in rows:
            cells[title] = (resource, lambda value: number(value, 3))
    for domain in _fitted(content):
        cells[f"points\n{domain}"] = _points_on(domain)
    if others:
        counts = rows["points"].map(lambda points: sorted(points[name] for name in others))
        rows["others"] = counts.map(lambda ordered: _span([ordered[0], ordered[-1]]))
        cells["points\nothers"] = ("others", str)
    output.table(rows, cells)


def _show_ranges(output: Output, ranges: dict[str, Any]) -> None:
    import pandas as pd

    rows = pd.DataFrame([{"phase": phase} | covered for phase, covered in ranges.items()])
    keys = {"replay": "replay", "peak LR": "peak_learning_rate", "steps": "steps"}
    cells: dict[str, Cells] = {"phase": "phase"}
    for heading, key in keys.items():
        cells[heading] = (key, _span)
    output.table(rows[rows["steps"].notna()], cells)


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
    shares = parameters.assign(share=parameters.apply(_share, axis=1))
    shares = shares.pivot(index="quantity", columns="domain", values="share").fillna("-  ")
    shares = shares.loc[parameters["quantity"].unique()].reset_index()
    kept = [domain for domain in (*domains, "all") if domain in shares]
    output.table(shares, {"parameter": "quantity"} | {name: (name, str) for name in kept})


def _share(row: "pd.Series") -> str:
    return f"{row['contraction']:.2f} {' ' if row['identified'] else '*'}"
