"""Results as papers have their tables: LaTeX with booktabs, Markdown and CSV.

Each takes a result's tidy table. A `TextTable` holds the cells as they are printed, with the digits that
their uncertainty supports, and beside them the numbers, which a CSV file keeps whole.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayes_cpt.report.equation import latex_symbol
from bayes_cpt.report.fit import COMPARISONS, open_effects
from bayes_cpt.report.forecasts import left_out, plus_minus
from bayes_cpt.report.numbers import chance, fixed, quantity, signed, supported
from bayes_cpt.validate.held_out import OURS, PAPER

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

# What LaTeX takes for a command, and signs that it does not print from text.
SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
    "−": "$-$",
    "±": r"$\pm$",
    "²": "$^2$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
    "…": r"\ldots{}",
}
# The column whose cells are names of coefficients, to be printed as letters.
SYMBOL = "Symbol"
NATS = "nats/token"
NONE = "–"
METHODS = {OURS: "this package", PAPER: "the paper's method"}


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table of a result.

    Parameters
    ----------
    label : str
        What LaTeX refers to it by, without ``tab:``.
    caption : str
        A sentence, without a full stop.
    cells : DataFrame of str
        As they are printed, with their headings.
    values : DataFrame
        The numbers behind them, for machines.
    numbers : int
        How many of the last columns hold numbers.
    note : str
        What a reader needs besides; empty where that is nothing.
    """

    label: str
    caption: str
    cells: "pd.DataFrame"
    values: "pd.DataFrame"
    numbers: int = 0
    note: str = ""

    @property
    def legend(self) -> str:
        """Caption and note as sentences."""
        return " ".join(f"{text}." for text in (self.caption, self.note.rstrip(".")) if text)

    @property
    def texts(self) -> int:
        """How many of the first columns hold text."""
        return len(self.cells.columns) - self.numbers


def latex(table: TextTable) -> str:
    """Return a table as LaTeX; it needs the package booktabs."""
    cells = table.cells
    style = cells.style.hide(axis="index").format(escape).format_index(escape, axis=1)
    if SYMBOL in cells:
        style = style.format(_letter, subset=[SYMBOL])
    return str(
        style.to_latex(
            hrules=True,
            column_format="l" * table.texts + "r" * table.numbers,
            position="t",
            position_float="centering",
            caption=escape(table.legend),
            label=f"tab:{table.label}",
        )
    )


def _letter(name: str) -> str:
    return f"${latex_symbol(name)}$" if name else ""


def escape(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> escape("90 % of long_run: −0.1")
    '90 \\% of long\\_run: $-$0.1'
    """
    return "".join(SIGNS.get(sign, sign) for sign in text)


def markdown(table: TextTable) -> str:
    """Return a table as Markdown, its caption above it."""
    names = list(table.cells.columns)
    rows = [names, ["---"] * table.texts + ["---:"] * table.numbers]
    cells = table.cells.map(lambda cell: str(cell).replace("|", "\\|"))
    if SYMBOL in cells:
        cells[SYMBOL] = table.cells[SYMBOL].map(_letter)
    rows += cells.to_numpy().tolist()
    lines = [f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows]
    return "\n".join([f"**{table.legend}**", "", *lines, ""])


def csv(table: TextTable) -> str:
    """Return the numbers of a table as CSV."""
    return str(table.values.to_csv(index=False))


WRITERS: dict[str, Callable[[TextTable], str]] = {".csv": csv, ".md": markdown, ".tex": latex}


def _once(names: "pd.Series") -> "pd.Series":
    """Return names of which each is said once, at its first row."""
    return names.where(names != names.shift(), "")


def _intervals(rows: "pd.DataFrame", form: Callable[[float, float], str]) -> Iterable[str]:
    return (
        f"{form(low, sd)} to {form(high, sd)}"
        for low, high, sd in zip(rows["lower"], rows["upper"], rows["sd"], strict=True)
    )


def effects_table(
    posterior: "Posterior", determined: "pd.DataFrame", interval: float = 0.9
) -> TextTable:
    """Return what moves the last loss of a typical run, of `identify.determination` with that interval."""
    import pandas as pd

    from bayes_cpt.forecast.derived import Typical

    effects = determined[determined["kind"] == "effect"]
    weak = set(open_effects(determined).index)
    rows: dict[str, dict[str, str]] = {}
    for index, row in effects.iterrows():
        mean, lower, upper = (signed(row[name], row["sd"]) for name in ("mean", "lower", "upper"))
        cell = f"{mean} ({lower} to {upper}){' *' if index in weak else ''}"
        rows.setdefault(COMPARISONS[row["quantity"]], {})[row["domain"]] = cell
    cells = pd.DataFrame(rows).T.rename_axis("Effect").reset_index().fillna("")
    typical = ""
    if posterior.study.continual_runs:
        typical = f"Of a run of {Typical.of(posterior.study).words}. "
    return TextTable(
        label="effects",
        caption=f"What moves the last loss ({NATS}): mean and central {100 * interval:g} % interval",
        cells=cells,
        values=effects.drop(columns=["moves_with"], errors="ignore").assign(interval=interval),
        numbers=len(cells.columns) - 1,
        note=typical + ("* left open: the prior decides, or no two runs differ in it" * bool(weak)),
    )


def quantities_table(posterior: "Posterior", rows: "pd.DataFrame", interval: float) -> TextTable:
    """Return coefficients or parameters with their intervals, of `Posterior.summary` with that interval."""
    import pandas as pd

    printed = bool((rows["kind"] == "coefficient").all())
    cells = pd.DataFrame(
        {
            SYMBOL if printed else "Parameter": _once(rows["quantity"]),
            "On": rows["domain"],
            "Mean": [supported(row["mean"], row["sd"]) for row in rows.to_dict("records")],
            f"{100 * interval:g} % interval": list(_intervals(rows, supported)),
            "R-hat": rows["r_hat"].map("{:.3f}".format),
            "ESS": rows[["ess_bulk", "ess_tail"]].min(axis=1).map("{:.0f}".format),
            "Contraction": rows["contraction"].map("{:.2f}".format),
        }
    )
    what = "Coefficients of the law" if printed else "Sampled parameters"
    return TextTable(
        label="coefficients" if printed else "parameters",
        caption=f"{what}, {posterior.frame.spec.name} fitted to {posterior.study.name}",
        cells=cells,
        values=rows.assign(interval=interval),
        numbers=5,
        note="ESS is the smaller of bulk and tail. Contraction near 1: the runs determine it; near 0: the "
        "prior does",
    )


def choices_table(decision: "Decision", interval: float = 0.9) -> TextTable:
    """Return the contenders of a decision, the recommendation first."""
    import pandas as pd

    table = decision.table(interval)
    error = decision.information[1]
    options = table["option"].str.replace("-", " ")
    outside = table["outside"] != ""
    cells = pd.DataFrame(
        {
            "Option": options.where(~outside, options + " *"),
            "Base": table["base"],
            "Replay": table["replay"].map("{:.2f}".format),
            "Peak LR": table["peak"].map("{:.3g}".format),
            "Steps": [quantity(value, 6) for value in table["steps"]],
        }
    )
    for domain in decision.valuation.model.domains:
        bands = table[[domain, f"{domain}_lower", f"{domain}_upper"]].to_numpy(float)
        spreads = (bands[:, 2] - bands[:, 1]) / 4
        cells[f"Loss on {domain}"] = [
            f"{fixed(median, spread)} ({fixed(lower, spread)} to {fixed(upper, spread)})"
            for (median, lower, upper), spread in zip(bands, spreads, strict=True)
        ]
    cells["Regret"] = [fixed(value, error) for value in table["regret"]]
    cells["Near best"] = table["p_within"].map(chance)
    note = (
        f"Losses in {NATS} of a new run: median and central {100 * interval:g} % predictive interval. "
        "Regret: what the option costs on average above the best there is, in nats of the objective. "
        f"Near best: probability of being within {decision.criterion.tolerance:g} nats of it"
    )
    return TextTable(
        label="choices",
        caption=f"Choices by the objective {decision.valuation.objective.name}",
        cells=cells,
        values=table,
        numbers=len(cells.columns) - 2,
        note=note + (". * leaves what was fitted" if outside.any() else ""),
    )


def forecast_table(bands: "pd.DataFrame") -> TextTable:
    """Return where the runs of `bayes_cpt.forecast.bands.bands` end."""
    import pandas as pd

    mass = 100 * float(bands.attrs["interval"])
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    runs = _once(final["run"])
    cells = pd.DataFrame(
        {
            "Run": runs,
            "On": final["domain"],
            "Step": final["step"].map(str),
            "Median": [fixed(row["median"], row["sd"]) for row in final.to_dict("records")],
            f"{mass:g} % interval": list(_intervals(final, fixed)),
        }
    )
    if (final["outside"] != "").any():
        cells["Leaves what was fitted"] = final["outside"].where(runs != "", "")
    return TextTable(
        label="forecast",
        caption=f"Loss of a new run at its last step ({NATS})",
        cells=cells,
        values=final.assign(interval=mass / 100),
        note=f"Central {mass:g} % predictive intervals",
    )


def calibration_table(scores: "pd.DataFrame") -> TextTable:
    """Return coverage and CRPS of the pooled rows of `bayes_cpt.validate.held_out.score_table`."""
    import pandas as pd

    cells = pd.DataFrame(
        {
            "Left out": scores["seen"].map(left_out),
            "Method": scores["method"].map(lambda name: METHODS.get(name, name)),
            "Points": scores["points"].map(str),
            "In 50 %": scores["coverage_50"].map("{:.0%}".format).str.replace("%", " %"),
            "In 90 %": [
                f"{100 * share:.0f}{plus_minus(error)} %"
                for share, error in zip(
                    scores["coverage_90"], scores["coverage_90_error"], strict=True
                )
            ],
            "CRPS": scores["crps"].map("{:.4f}".format),
            "Bias": scores["bias"].map("{:+.4f}".format).str.replace("-", "−"),
        }
    )
    return TextTable(
        label="calibration",
        caption="Forecasts of held-out points",
        cells=cells,
        values=scores,
        numbers=5,
        note="± is the standard error of the share, each run being one observation. CRPS and bias of "
        "the median in nats/token; lower CRPS is better",
    )


def runs_table(study: "Study") -> TextTable:
    """Return the runs of a study."""
    import pandas as pd

    from bayes_cpt.study.ranges import describe

    rows = describe(study)["runs"]
    domains = study.trained_domains
    cells = pd.DataFrame(
        {
            "Run": [row["name"] for row in rows],
            "Phase": [row["phase"].upper() for row in rows],
            "Base": [row["base"] or NONE for row in rows],
            "Replay": [NONE if row["replay"] is None else f"{row['replay']:g}" for row in rows],
            "Steps": [str(row["steps"]) for row in rows],
            "Peak LR": [f"{row['peak_learning_rate']:.3g}" for row in rows],
            "Final LR": [f"{row['final_learning_rate']:.3g}" for row in rows],
            "Losses": [str(sum(row["points"].get(name, 0) for name in domains)) for row in rows],
        }
    )
    return TextTable(
        label="runs",
        caption="Runs of the study",
        cells=cells,
        values=pd.DataFrame(rows),
        numbers=5,
        note=f"PT is pre-training, CPT continual pre-training. Losses on {' and '.join(domains)}",
    )


def bases_table(study: "Study") -> TextTable:
    """Return the checkpoints that the CPT runs of a study start from."""
    import pandas as pd

    from bayes_cpt.study.ranges import describe

    def text(value: float | None, form: str) -> str:
        return NONE if value is None else format(value, form)

    rows = describe(study)["bases"]
    columns = {
        "Base": [row["name"] for row in rows],
        "PT steps": [text(row["steps"], "d") for row in rows],
        "Loss potential": [text(row["loss_potential"], ".2g") for row in rows],
    }
    columns |= {
        f"Loss on {name}": [text(row["losses"].get(name), ".3f") for row in rows]
        for name in study.trained_domains
    }
    return TextTable(
        label="bases",
        caption="Base checkpoints",
        cells=pd.DataFrame(columns),
        values=pd.DataFrame(rows),
        numbers=len(columns) - 1,
        note="Loss potential: last over peak learning rate of pre-training, 0 where it is annealed. "
        "Losses in nats/token",
    )


def priors_table(posterior: "Posterior") -> TextTable:
    """Return the priors of a model with their reasons."""
    import pandas as pd

    from bayes_cpt.model.joint_priors import prior_table

    table = prior_table(posterior.frame)
    alike = table.groupby("parameter")["distribution"].transform("nunique") == 1
    repeated = table["parameter"].duplicated()
    listed = table.assign(domain=table["domain"].where(~alike, "all"))[~(alike & repeated)]
    cells = pd.DataFrame(
        {
            "Parameter": _once(listed["parameter"]),
            "On": listed["domain"],
            "Prior": listed["distribution"],
            "Meaning": listed["meaning"].where(~listed["parameter"].duplicated(), ""),
            "Reason": listed["reason"].where(~listed["parameter"].duplicated(), ""),
        }
    )
    pairs = [
        f"{' and '.join(pair.between)} ({pair.value:+.2f})"
        for pair in posterior.frame.spec.correlations
    ]
    correlated = f"; correlated are {', '.join(pairs)}" if pairs else ""
    return TextTable(
        label="priors",
        caption=f"Priors, each with its reason{correlated}",
        cells=cells,
        values=table,
    )
