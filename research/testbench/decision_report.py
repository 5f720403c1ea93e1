"""Tables and a figure of what methods chose on simulated studies."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy.stats import binomtest

from bayes_cpt.plots.style import GREY, PALETTE, dress, new_figure, styled
from testbench.one_decision import OURS
from testbench.report import markdown_table

BINS = 4
# Of the reliability curve, which takes all objectives together.
PARTS = 6
CONFIDENCE = 0.95
UNIT = "mnat"
# Tables and figure are in thousandths of a nat.
SCALE = 1000.0
ORACLE = "oracle"
NOTES = {
    "regret": "Regret: the objective at the choice less its minimum over all choices, both by the true "
    f"law, {UNIT} = 0.001 nats/token. more: how much more than {OURS} on the same studies. Mean ± "
    "standard error.",
    "statement": f"What {OURS} says of its choice. expected regret: stated (posterior mean) and realised. "
    "near: probability of being within 5 mnat of the best, and how often that was so. best: of being the "
    "very best. optimum: how often the 90 % interval of the lowest loss held the true one.",
    "bins": "Studies in order of their stated regret, in parts of equal size.",
    "near": "Studies and objectives in order of the stated probability of being within 5 mnat of the best, "
    f"in parts of equal size; {CONFIDENCE:.0%} interval of how often it was so.",
    "free": "What `decide` recommends where decay and last learning rate are free too: expected regret "
    "and being within 5 mnat of the best by the true law, stated and realised; then with constraints.",
    "constraint": "Best choice that keeps P(loss rises by more than its limit) <= allowed (for the "
    "plug-in: whose predicted rise is at most the limit), for domain-focus. loss: the general one, limit "
    "0.05, or four parts general to one target, limit 0. feasible: studies with such a choice. binding: "
    "of these, where the best choice of all would not have kept it. violated: where one simulated "
    f"measurement at the end of the chosen run lies above; {CONFIDENCE:.0%} interval.",
}


def mean_and_error(values: pd.Series) -> tuple[float, float]:
    """Return the mean and its standard error; the latter is not a number for fewer than two values."""
    found = values.to_numpy(dtype=np.float64)
    error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
    return float(found.mean()), float(error)


def _plus_minus(values: pd.Series) -> str:
    mean, error = mean_and_error(SCALE * values)
    return f"{mean:.2f} ± {error:.2f}"


def proportion(happened: pd.Series) -> tuple[float, float, float]:
    """Return a share and its interval (Wilson)."""
    count, size = int(happened.sum()), len(happened)
    interval = binomtest(count, size).proportion_ci(CONFIDENCE, method="wilson")
    return count / size, float(interval.low), float(interval.high)


def _share(happened: pd.Series) -> str:
    share, low, high = proportion(happened.astype(float))
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


def regrets(choices: pd.DataFrame) -> pd.DataFrame:
    """Return the regret of each method for each objective, and what it has more than ours."""
    wide = choices.pivot_table(index=["objective", "task"], columns="method", values="regret")
    names = [name for name in choices["method"].unique() if name != ORACLE]
    rows = []
    for objective, own in wide.groupby(level="objective", sort=False):
        for name in names:
            more = own[name] - own[OURS]
            rows.append(
                {
                    "objective": objective,
                    "method": name,
                    "studies": len(own),
                    "mean regret": _plus_minus(own[name]),
                    "more": "" if name == OURS else _plus_minus(more),
                    "median": f"{SCALE * own[name].median():.2f}",
                    "90 % below": f"{SCALE * own[name].quantile(0.9):.2f}",
                    "best or tied": f"{(own[name] <= own[names].min(axis=1)).mean():.0%}",
                }
            )
    return pd.DataFrame(rows)


def truthfulness(statements: pd.DataFrame) -> pd.DataFrame:
    """Return what was stated of recommendations beside what came true."""
    rows = []
    for (objective, form), own in _with_pooled(statements, "form"):
        inside = own["optimum"].between(own["lower"], own["upper"])
        rows.append(
            {
                "objective": objective,
                "truth": form,
                "studies": len(own),
                "stated": _plus_minus(own["stated"]),
                "realised": _plus_minus(own["realised"]),
                "realised less stated": _plus_minus(own["realised"] - own["stated"]),
                "near, stated": f"{own['stated_near'].mean():.1%}",
                "near": _share(own["near"]),
                "best, stated": f"{own['stated_best'].mean():.1%}",
                "best": _share(own["best"]),
                "optimum in 90 %": _share(inside),
            }
        )
    return pd.DataFrame(rows)


def _with_pooled(table: pd.DataFrame, by: str) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    found = []
    for objective, own in table.groupby("objective", sort=False):
        found.append(((str(objective), "all"), own))
        found += [((str(objective), str(name)), part) for name, part in own.groupby(by)]
    return found


def calibration_bins(statements: pd.DataFrame) -> pd.DataFrame:
    """Return mean stated and realised regret, nats, by parts of the stated one.

    Returns
    -------
    DataFrame
        Columns objective, part, studies, stated, realised, error (of realised less stated).
    """
    rows = []
    for objective, own in statements.groupby("objective", sort=False):
        order = own.sort_values("stated")
        for part, places in enumerate(np.array_split(np.arange(len(own)), min(BINS, len(own)))):
            here = order.iloc[places]
            rows.append(
                {
                    "objective": objective,
                    "part": part + 1,
                    "studies": len(here),
                    "stated": float(here["stated"].mean()),
                    "realised": float(here["realised"].mean()),
                    "error": mean_and_error(here["realised"] - here["stated"])[1],
                }
            )
    return pd.DataFrame(rows)


def reliability(statements: pd.DataFrame) -> pd.DataFrame:
    """Return how often choices were near the best, by parts of the probability that was stated.

    Returns
    -------
    DataFrame
        Columns part, choices, stated, near, low, high (the last three shares; ends of an interval).
    """
    order = statements.sort_values("stated_near")
    rows = []
    for part, places in enumerate(np.array_split(np.arange(len(order)), min(PARTS, len(order)))):
        here = order.iloc[places]
        near, low, high = proportion(here["near"])
        stated = float(here["stated_near"].mean())
        numbers = {"stated": stated, "near": near, "low": low, "high": high}
        rows.append({"part": part + 1, "choices": len(here), **numbers})
    return pd.DataFrame(rows)


def kept_constraints(constraints: pd.DataFrame) -> pd.DataFrame:
    """Return how often the best choices that keep a constraint broke it, beside what was stated."""
    rows = []
    kinds = constraints.groupby(["loss", "allowed", "method"], sort=False)
    for (loss, allowed, method), every in kinds:
        for form, own in [("all", every), *every.groupby("form")]:
            tried = own.dropna(subset="violated")
            if tried.empty:
                continue
            stated = tried["stated"].mean()
            rows.append(
                {
                    "loss": loss,
                    "allowed": f"{allowed:.0%}",
                    "method": method,
                    "truth": form,
                    "feasible": f"{len(tried)} of {len(own)}",
                    "binding": f"{tried['binding'].mean():.0%}",
                    "stated": "" if np.isnan(stated) else f"{stated:.1%}",
                    "violated": _share(tried["violated"]),
                }
            )
    return pd.DataFrame(rows)


def free_statements(free: pd.DataFrame) -> pd.DataFrame:
    """Return what was stated where the whole schedule was free, beside what came true."""
    rows = [
        {
            "objective": objective,
            "truth": form,
            "studies": len(own),
            "stated": _plus_minus(own["stated"]),
            "realised": _plus_minus(own["realised"]),
            "near, stated": f"{own['stated_near'].mean():.1%}",
            "near": _share(own["near"]),
        }
        for (objective, form), own in _with_pooled(free.dropna(subset="realised"), "form")
    ]
    return pd.DataFrame(rows)


def markdown(tables: dict[str, pd.DataFrame]) -> str:
    """Return the whole report."""
    choices, statements = tables["choices"], tables["statements"]
    bins = calibration_bins(statements)
    bins = bins.assign(**{name: SCALE * bins[name] for name in ("stated", "realised", "error")})
    log = tables["studies"]
    seconds = log.filter(like="seconds").mean()
    fits = (
        f"{len(log)} fits: worst R-hat {log['rhat'].median():.3f} in the median and "
        f"{log['rhat'].max():.3f} at most, fewest effective draws {log['ess'].median():.0f} in the median, "
        f"{log['trustworthy'].mean():.0%} meet the contract. Seconds: "
        + ", ".join(f"{name.removeprefix('seconds ')} {own:.0f}" for name, own in seconds.items())
    )
    parts = ["# Decisions on simulated studies", NOTES["regret"], markdown_table(regrets(choices))]
    for form, own in choices.groupby("form", sort=False):
        parts += [f"Truths of the form: {form}", markdown_table(regrets(own))]
    parts += [NOTES["statement"], markdown_table(truthfulness(statements))]
    parts += [f"{NOTES['bins']} In {UNIT}.", markdown_table(bins)]
    curve = reliability(statements)
    shares = {name: curve[name].map("{:.1%}".format) for name in ("stated", "near", "low", "high")}
    parts += [NOTES["near"], markdown_table(curve.assign(**shares))]
    parts += [NOTES["constraint"], markdown_table(kept_constraints(tables["constraints"]))]
    # Records of a bench that fixed the schedule have none.
    if len(free := tables["free"]):
        # Where nothing keeps a constraint, the nearest is recommended: that is no promise.
        bound = free.dropna(subset="loss").assign(method=OURS)
        bound["violated"] = bound["violated"].where(bound["feasible"].astype(bool))
        parts += [NOTES["free"], markdown_table(free_statements(free))]
        parts += [markdown_table(kept_constraints(bound))]
    return "\n\n".join([*parts, fits]) + "\n"


@styled
def figure(tables: dict[str, pd.DataFrame]) -> Figure:
    """Return regret by method, stated against realised regret, reliability, and constraints."""
    drawn = new_figure(10.0, 7.6)
    (left, right), (below, last) = drawn.subplots(2, 2)
    _draw_regrets(left, tables["choices"])
    _draw_bins(right, tables["statements"])
    _draw_reliability(below, tables["statements"])
    _draw_constraints(last, tables["constraints"])
    return drawn


def _legend_below(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, columnspacing=1.2)


def _draw_regrets(axes: Axes, choices: pd.DataFrame) -> None:
    names = [name for name in choices["method"].unique() if name != ORACLE]
    objectives = list(choices["objective"].unique())
    for index, name in enumerate(names):
        own = choices[choices["method"] == name]
        found = [mean_and_error(SCALE * own["regret"][own["objective"] == o]) for o in objectives]
        means, errors = np.array(found).T
        places = np.arange(len(objectives)) + (index - (len(names) - 1) / 2) * 0.15
        reach = 2.0 * np.nan_to_num(errors)
        # Below 0 a logarithmic axis has no place.
        below = np.minimum(reach, 0.9 * means)
        axes.errorbar(
            places, means, [below, reach], fmt="o", ms=5, lw=1.0, color=PALETTE[index], label=name
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(range(len(objectives)), objectives)
    axes.set_xlim(-0.6, len(objectives) - 0.4)
    axes.set_ylabel(f"mean regret ({UNIT}), ± 2 standard errors\n(logarithmic)")
    axes.set_title("Regret of the chosen long run")
    dress(axes, grid=False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    _legend_below(axes)


def _draw_bins(axes: Axes, statements: pd.DataFrame) -> None:
    bins = calibration_bins(statements)
    for index, (objective, own) in enumerate(bins.groupby("objective", sort=False)):
        values = SCALE * own[["stated", "realised", "error"]].to_numpy()
        axes.errorbar(
            values[:, 0],
            values[:, 1],
            2.0 * np.nan_to_num(values[:, 2]),
            fmt="o",
            ms=4,
            lw=0.8,
            color=PALETTE[index],
            label=objective,
        )
    highest = SCALE * bins[["stated", "realised"]].to_numpy().max() * 1.1 + 1e-9
    axes.plot([0.0, highest], [0.0, highest], color=GREY, lw=0.8, zorder=0)
    axes.set_xlabel(f"stated expected regret ({UNIT})")
    axes.set_ylabel(f"realised regret ({UNIT})")
    _legend_below(axes)
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"What {OURS} states, and what came")
    dress(axes)


def _draw_reliability(axes: Axes, statements: pd.DataFrame) -> None:
    curve = reliability(statements)
    near = curve["near"].to_numpy()
    reach = [near - curve["low"], curve["high"] - near]
    axes.errorbar(curve["stated"], near, reach, fmt="o", ms=4, lw=0.8, color=PALETTE[0])
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, lw=0.8, zorder=0)
    axes.set_xlabel("stated probability of being within 5 mnat of the best")
    axes.set_ylabel("how often it was so, with 95 % interval")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_title(f"Reliability of what {OURS} states")
    dress(axes)


def _draw_constraints(axes: Axes, constraints: pd.DataFrame) -> None:
    kinds = constraints.groupby(["method", "loss"], sort=False)
    for index, ((method, loss), own) in enumerate(kinds):
        tried = own.dropna(subset="violated")
        for side, (allowed, part) in enumerate(tried.groupby("allowed")):
            share, low, high = proportion(part["violated"])
            stated = part["stated"].mean() if part["stated"].notna().any() else allowed
            axes.errorbar(
                stated,
                share,
                [[share - low], [high - share]],
                fmt="o",
                ms=4,
                lw=0.8,
                color=PALETTE[index],
                label=f"{method}, {loss}" if side == 0 else None,
            )
    axes.plot([0.0, 0.3], [0.0, 0.3], color=GREY, lw=0.8, zorder=0)
    axes.set_xlabel("stated (plug-in: allowed) probability")
    axes.set_ylabel("violated, with 95 % interval")
    _legend_below(axes)
    axes.set_xlim(0.0, 0.3)
    axes.set_ylim(0.0, 1.0)
    axes.set_title("Losses above their limits")
    dress(axes)
