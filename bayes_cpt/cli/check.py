"""`bayes-cpt check`: what is in a study, what is wrong with it, and what it can tell."""

from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.options import Json, Quiet, StudyFolder, Verbose, option
from bayes_cpt.cli.output import TAKEN, Output, columns, number
from bayes_cpt.cli.undetermined import show_effects, show_undetermined

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study

BASES = (
    "base=name | on run | steps:4 | peak LR=peak_learning_rate:4 | final LR=final_learning_rate:4 | "
    "potential=loss_potential:4"
)
RUNS = (
    "run=name | phase | base | replay:4 | steps:4 | peak LR=peak_learning_rate:4 | "
    "final LR=final_learning_rate:4"
)


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
    cells = columns(BASES)
    for domain in _fitted(content):
        rows[f"on {domain}"] = [losses[domain] for losses in rows["losses"]]
        cells[f"loss\n{domain}"] = (f"on {domain}", "4")
    rows["count"] = rows["runs"].map(len)
    output.table(rows, cells | {"CPT\nruns": ("count", "text")})


def _show_runs(output: Output, content: dict[str, Any]) -> None:
    import pandas as pd

    rows, others = pd.DataFrame(content["runs"]), _others(content)
    rows["base"] = rows["base"].fillna("-")
    cells = columns(RUNS)
    for resource, title in TAKEN.items():
        if resource in rows:
            cells[title] = (resource, "3")
    for domain in _fitted(content):
        rows[f"on {domain}"] = [points[domain] for points in rows["points"]]
        cells[f"points\n{domain}"] = (f"on {domain}", "text")
    if others:
        counts = [[points[name] for name in others] for points in rows["points"]]
        rows["others"] = [_span([min(count), max(count)]) for count in counts]
        cells["points\nothers"] = ("others", "text")
    output.table(rows, cells)


def _show_ranges(output: Output, ranges: dict[str, Any]) -> None:
    import pandas as pd

    rows = pd.DataFrame([{"phase": phase} | covered for phase, covered in ranges.items()])
    rows = rows[rows["steps"].notna()]
    shown = {"replay": "replay", "peak LR": "peak_learning_rate", "steps": "steps"}
    output.table(rows, {"phase": "phase"} | {head: (key, _span) for head, key in shown.items()})


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
    firm = parameters["identified"].map({True: " ", False: "*"})
    shares = parameters.assign(share=parameters["contraction"].map("{:.2f} ".format) + firm)
    shares = shares.pivot(index="quantity", columns="domain", values="share").fillna("-  ")
    shares = shares.loc[parameters["quantity"].unique()].reset_index()
    kept = [domain for domain in (*domains, "all") if domain in shares]
    output.table(shares, {"parameter": "quantity"} | {name: (name, "text") for name in kept})
