"""The tables that a fit, a decision and a forecast put into a report or a paper."""

from typing import TYPE_CHECKING

from bayes_cpt.report.numbers import chance, fixed, signed, supported
from bayes_cpt.report.paper.tables import TextTable
from bayes_cpt.report.words.summary import COMPARISONS, open_effects

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.inference.posterior import Posterior

NATS = "nats/token"


def effects_table(
    posterior: "Posterior", determined: "pd.DataFrame", interval: float = 0.9
) -> TextTable:
    """Return what moves the last loss of a typical run.

    Parameters
    ----------
    posterior : Posterior
    determined : DataFrame
        Of `bayes_cpt.identify.determination.determination`, with that interval.
    interval : float
        Mass of its intervals.
    """
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
        caption=f"What moves the last loss ({NATS}): mean and central {100 * interval:g} % interval",
        cells=cells,
        values=effects.drop(columns=["moves_with"], errors="ignore").assign(interval=interval),
        numbers=len(cells.columns) - 1,
        note=typical + ("* left open: the prior decides, or no two runs differ in it" * bool(weak)),
        label="effects",
    )


def quantities_table(posterior: "Posterior", rows: "pd.DataFrame", interval: float) -> TextTable:
    """Return coefficients or parameters with their intervals.

    Parameters
    ----------
    posterior : Posterior
    rows : DataFrame
        Of `Posterior.summary`, with that interval.
    interval : float
        Mass of its intervals.
    """
    import pandas as pd

    printed = bool((rows["kind"] == "coefficient").all())
    repeated = rows["quantity"] == rows["quantity"].shift()
    cells = pd.DataFrame(
        {
            "Symbol" if printed else "Parameter": rows["quantity"].where(~repeated, ""),
            "On": rows["domain"],
            "Mean": _column(rows, "mean"),
            f"{100 * interval:g} % interval": [
                f"{supported(row.lower, row.sd)} to {supported(row.upper, row.sd)}"
                for row in rows.itertuples()
            ],
            "R-hat": [f"{value:.3f}" for value in rows["r_hat"]],
            "ESS": [f"{value:.0f}" for value in rows[["ess_bulk", "ess_tail"]].min(axis=1)],
            "Contraction": [f"{value:.2f}" for value in rows["contraction"]],
        }
    )
    what = "Coefficients of the law" if printed else "Sampled parameters"
    return TextTable(
        caption=f"{what}, {posterior.frame.spec.name} fitted to {posterior.study.name}",
        cells=cells,
        values=rows.assign(interval=interval),
        numbers=5,
        note="ESS is the smaller of bulk and tail. Contraction near 1: the runs determine it; near 0: the "
        "prior does",
        symbol="Symbol" if printed else None,
        label="coefficients" if printed else "parameters",
    )


def _column(rows: "pd.DataFrame", name: str) -> list[str]:
    return [supported(row[name], row["sd"]) for row in rows.to_dict("records")]


def choices_table(decision: "Decision", interval: float = 0.9) -> TextTable:
    """Return the contenders of a decision, the recommendation first.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the intervals.
    """
    import pandas as pd

    from bayes_cpt.report.configurations import quantity_text

    table = decision.table(interval)
    domains = decision.valuation.model.domains
    columns: dict[str, list[str]] = {
        "Option": [name.replace("-", " ") for name in table["option"]],
        "Base": list(table["base"]),
        "Replay": [f"{value:.2f}" for value in table["replay"]],
        "Peak LR": [f"{value:.3g}" for value in table["peak"]],
        "Steps": [quantity_text(value, 6) for value in table["steps"]],
    }
    for domain in domains:
        spread = table[f"{domain}_upper"] - table[f"{domain}_lower"]
        columns[f"Loss on {domain}"] = [
            f"{fixed(median, wide / 4)} ({fixed(lower, wide / 4)} to {fixed(upper, wide / 4)})"
            for median, lower, upper, wide in zip(
                table[domain],
                table[f"{domain}_lower"],
                table[f"{domain}_upper"],
                spread,
                strict=True,
            )
        ]
    columns["Regret"] = [fixed(value, decision.information[1]) for value in table["regret"]]
    columns["Near best"] = [chance(value) for value in table["p_within"]]
    outside = [note for note in table["outside"] if note]
    columns["Option"] = [
        f"{name} *" if note else name
        for name, note in zip(columns["Option"], table["outside"], strict=True)
    ]
    objective = decision.valuation.objective.name
    note = (
        f"Losses in {NATS} of a new run: median and central {100 * interval:g} % predictive interval. "
        "Regret: what the option costs on average above the best there is, in nats of the objective. "
        f"Near best: probability to be within {decision.criterion.tolerance:g} nats of it"
    )
    return TextTable(
        caption=f"Choices by the objective {objective}",
        cells=pd.DataFrame(columns),
        values=table,
        numbers=len(columns) - 2,
        note=note + (". * leaves what was fitted" if outside else ""),
        label="choices",
    )


def forecast_table(bands: "pd.DataFrame") -> TextTable:
    """Return where the runs of a forecast end.

    Parameters
    ----------
    bands : DataFrame
        Of `bayes_cpt.forecast.bands.bands`.
    """
    import pandas as pd

    mass = 100 * float(bands.attrs["interval"])
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    repeated = final["run"] == final["run"].shift()
    cells = pd.DataFrame(
        {
            "Run": final["run"].where(~repeated, ""),
            "On": final["domain"],
            "Step": [f"{step}" for step in final["step"]],
            "Median": _losses(final, "median"),
            f"{mass:g} % interval": [
                f"{low} to {high}"
                for low, high in zip(_losses(final, "lower"), _losses(final, "upper"), strict=True)
            ],
            "Leaves what was fitted": final["outside"].where(~repeated, ""),
        }
    )
    if not final["outside"].any():
        cells = cells.drop(columns="Leaves what was fitted")
    return TextTable(
        caption=f"Loss of a new run at its last step ({NATS})",
        cells=cells,
        values=final.assign(interval=mass / 100),
        note=f"Central {mass:g} % predictive intervals",
        label="forecast",
    )


def _losses(rows: "pd.DataFrame", name: str) -> list[str]:
    return [fixed(row[name], row["sd"]) for row in rows.to_dict("records")]
