"""What a fit says beside its curves: landmarks, responses to a choice, hidden curves, terms of the law."""

from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bayes_cpt.arrays import Floats, chance
from bayes_cpt.forecast.plans import Plan
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks import CriticalPoint, Response, TurningLength, decompose
from bayes_cpt.landmarks.trials import as_study
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LOSS,
    PALETTE,
    called,
    colour,
    dress,
    new_figure,
    styled,
)

WIDTH, ROW, HEAD = 6.2, 0.3, 1.0
NAMES = {"stretched": "general loss, drawn out", "held": "general loss, held at its peak"}
# Two blues: both are of the general loss.
SHADES = (PALETTE[0], PALETTE[5])
# Runs that are drawn, and how far the courses of one lie apart.
RUNS, APART = 12, 0.3
# Beyond these shares of the shortest and the longest base a triangle is drawn.
REACH = (0.1, 1e3)
# Inches of a panel, and the mass of a band.
SIZE, BAND_MASS = (3.6, 2.7), 0.9
CURVES = {
    "never_left": ("hidden: never left the general data", GREY, "--"),
    "arrived": ("hidden: the shift all there", PALETTE[2], "--"),
    "expected": ("the run", INK, "-"),
}
BASE = ("power", "annealing_pt", "peak")
# Rows of panels by the name of their vertical axis: curves by their names, each with colour and dashes.
type Rows = dict[str, dict[str, tuple[xr.DataArray, str, str]]]
# Where nothing was studied.
SHADE: Any = {"color": GREY, "alpha": 0.12, "linewidth": 0.0, "zorder": 0}
# Name and colour of the parts; a term that is not listed has its own name, and none of these colours.
PARTS = {
    "annealing_cpt": ("CPT annealing", PALETTE[2]),
    "shift": ("distribution shift", PALETTE[3]),
    "base_offset": ("base offset", PALETTE[5]),
}


@styled
def landmarks(turning: TurningLength, critical: CriticalPoint | None = None) -> Figure:
    """Return a figure of turning lengths and, where the base is known, of the critical point.

    Medians with central credible intervals of 50 and 90 %, on logarithmic axes of steps. Above, a row per
    run: the steps after which general loss is back at that of its base, as the run is drawn out and as it
    is held at its peak. A triangle at the left edge is a loss that never rises, one at the right edge a
    loss that needs longer than the horizon or never comes back; a tick is the planned length, with the
    probability beside it that the loss is back by then; steps beyond the longest fitted run are shaded.
    Below, a row per replay ratio: the pre-training past which general loss does not all come back, up to a
    thousand times that of the bases, which are the vertical lines.

    Parameters
    ----------
    turning : TurningLength
    critical : CriticalPoint, optional
    """
    runs = min(turning.draws.sizes["run"], RUNS)
    heights = [ROW * runs + HEAD]
    if critical is not None:
        heights.append(ROW * critical.draws.sizes["replay"] + HEAD)
    figure = new_figure(WIDTH, sum(heights) + 0.6)
    grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _turning(grid[0], turning, runs)
    names = zip(NAMES.values(), SHADES, strict=True)
    entries = {name: panels.line(shade, marker="o", markersize=4) for name, shade in names}
    entries |= {
        "50 and 90 % credible": panels.line(GREY, linewidth=panels.INTERVAL_WIDTHS[1]),
        "beyond the axis, or never": panels.line(GREY, linestyle="", marker=">", markersize=6),
    }
    if critical is not None:
        _critical(grid[1], critical)
    panels.legend(figure, entries)
    return figure


def _turning(axes: Axes, turning: TurningLength, runs: int) -> None:
    draws = turning.draws
    courses = [str(course) for course in draws["course"].to_numpy()]
    lengths = draws["length"].sel(balance=1.0).transpose("run", "course", "draw").to_numpy()
    planned, horizon = draws["steps"].to_numpy(), float(draws.attrs["horizon"])
    # What never rises lies at the start of the axis, before all that is drawn of other lengths.
    drawn = np.quantile(lengths, (0.05, 0.25, 0.5), axis=-1, method="inverted_cdf")
    first = 0.5 * min(planned.min(), drawn[drawn > 0].min(initial=horizon))
    axes.axvspan(turning.longest, horizon, label="longer than any fitted run", **SHADE)
    for run in range(runs):
        row = runs - 1 - run
        for course in range(len(courses)):
            place = row + APART * (0.5 * (len(courses) - 1) - course)
            _interval(axes, lengths[run, course], place, (first, horizon), SHADES[course])
        tick: dict[str, Any] = {"color": INK, "markersize": 12, "zorder": 4}
        axes.plot(planned[run], row, "|", label="planned length", **tick)
        back = np.mean(lengths[run, courses.index("stretched")] <= planned[run])
        panels.beside(axes, chance(back), row)
    panels.rows(
        axes,
        [str(run) for run in draws["run"].to_numpy()[:runs]],
        title="Turning length: is the loss back at that of its base?",
        xlabel="CPT steps (logarithmic)",
        xscale="log",
        xlim=(first, horizon),
    )
    # Over one or two decades Matplotlib names so many minor ticks that they run into each other.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    above: dict[str, Any] = {"xycoords": "axes fraction", "va": "bottom", "color": GREY}
    panels.beside(axes, "back as\nplanned", 1.0, 1.0, **above)


def _critical(axes: Axes, critical: CriticalPoint) -> None:
    draws, rate = critical.draws, float(critical.draws.attrs["learning_rate"])
    schedules = [base.schedule for base in critical.study.bases if base.schedule is not None]
    bases = [float(schedule.learning_rates().sum()) / rate for schedule in schedules]
    ends = (min(bases) * REACH[0], max(bases) * REACH[1])
    for place, steps in enumerate(draws["steps"].to_numpy().T):
        if np.isinf(_interval(axes, steps, place, ends, PALETTE[0])):
            aside: Any = {"xytext": (-8, 3), "ha": "right", "va": "bottom", "color": GREY}
            panels.beside(axes, "there is none", place, **aside)
    for steps in bases:
        dotted: dict[str, Any] = {"linewidth": 0.8, "linestyle": ":", "zorder": 1}
        axes.axvline(steps, color=INK, label="bases of the study", **dotted)
    panels.rows(
        axes,
        [f"{replay:g}" for replay in draws["replay"].to_numpy()[::-1]],
        title="Critical point: past it general loss does not all come back",
        xlabel=f"PT steps at learning rate {rate:g} (logarithmic)",
        ylabel="replay ratio",
        xscale="log",
        xlim=ends,
    )


def _interval(
    axes: Axes, steps: Floats, place: float, ends: tuple[float, float], shade: str
) -> float:
    """Draw median and intervals of steps, which may be infinite, and return the median."""
    panels.intervals(axes, place, steps, shade, within=ends)
    median = float(np.quantile(steps, 0.5, method="inverted_cdf"))
    mark, size = ("<", 6) if median <= ends[0] else (">", 6) if median >= ends[1] else ("o", 4)
    axes.plot(np.clip(median, *ends), place, mark, color=shade, markersize=size, clip_on=False)
    return median


@styled
def response(*responses: Response) -> Figure:
    """Return a figure of the last loss at each value of a choice, one panel per validation set.

    A row per value: the median with intervals of 50 and 90 %. Open is the loss of the base, before the run;
    what was not studied is shaded.

    Parameters
    ----------
    *responses : Response
        Of one choice, as with and without a re-warm-up; differently coloured.
    """
    widest = max((each.draws for each in responses), key=lambda draws: draws.sizes["value"])
    values, choice = widest["value"].to_numpy().tolist(), widest.attrs["choice"]
    labels = [value if isinstance(value, str) else f"{value:.3g}" for value in values]
    domains = [str(domain) for domain in widest["domain"].to_numpy()]
    title = f"{called(widest.attrs['run'])}: last loss against {choice}"
    height = ROW * len(values) + HEAD + 0.4
    figure, [axes_row] = panels.by_set(domains, SIZE[0], height, title)
    ways = {True: "re-warmed to the run's peak", False: "not re-warmed"}
    not_studied = np.flatnonzero(widest["outside"].to_numpy()[::-1] != "")
    for i, (axes, domain) in enumerate(zip(axes_row, domains, strict=True)):
        panels.rows(axes, labels, xlabel=LOSS, ylabel="" if i else choice)
        axes.tick_params(labelleft=i == 0)
        for row in not_studied:
            axes.axhspan(row - 0.5, row + 0.5, label="not studied", **SHADE)
        for k, each in enumerate(responses):
            draws = each.draws["loss"].sel(domain=domain).transpose("draw", "value").to_numpy()
            rows = [len(values) - 1 - values.index(own) for own in each.draws["value"].to_numpy()]
            places = np.array(rows) + APART * (0.5 * (len(responses) - 1) - k)
            shade = PALETTE[2 + k] if len(responses) > 1 else colour(i)
            panels.intervals(axes, places, draws, shade)
            # Colours of a single response are those of the validation sets, and no entry of the legend.
            way = ways[bool(each.draws.attrs["rewarmed"])]
            label = f"last loss, {way}" if len(responses) > 1 else None
            axes.plot(np.median(draws, axis=0), places, "o", color=shade, markersize=4, label=label)
        start = widest["start"].sel(domain=domain).median("draw")
        ring: dict[str, Any] = {"color": INK, "markersize": 4, "markerfacecolor": "none"}
        axes.plot(start, np.arange(len(values))[::-1], "o", label="of the base", **ring)
    entries = {}
    if len(responses) == 1:
        entries["last loss"] = panels.line(GREY, marker="o", markersize=4)
    entries["50 and 90 % credible"] = panels.line(GREY, linewidth=panels.INTERVAL_WIDTHS[1])
    panels.legend(figure, entries)
    return figure


@styled
def hidden_curves(curves: xr.Dataset, run: str | None = None) -> Figure:
    """Return a figure of a run's curve and the two hidden curves, one panel per validation set.

    Medians with 90 % bands of the law's curves.

    Parameters
    ----------
    curves : xarray.Dataset
        From `bayes_cpt.landmarks.hidden_curves`.
    run : str, optional
        The first one unless given.
    """
    name = run or str(curves["run"].to_numpy()[0])
    own = curves.sel(run=name)
    parts = {label: (own[key], *look) for key, (label, *look) in CURVES.items()}
    return _of_the_law(f"{called(name)} between its hidden curves", "cpt", {LOSS: parts})


@styled
def decomposition(posterior: Posterior, plan: Plan = None, run: str | None = None) -> Figure:
    """Return a figure of what a run's expected loss is the sum of.

    One column per validation set. Above, the expected loss and the base's share of it, which is the power
    of the forward area, PT's and CPT's, with the annealing of PT. Below, all that is added to the base.
    Bands are 90 %.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        As in `bayes_cpt.forecast.predict.predict`: None takes the fitted study.
    run : str, optional
        A run of the plan; its first CPT run unless given.
    """
    whole = as_study(posterior, plan)
    chosen = whole.run(run) if run else (whole.continual_runs or whole.runs)[0]
    name, phase = chosen.name, chosen.phase
    parts = decompose(posterior, plan, [name]).sel(run=name)
    of_base = parts[[part for part in BASE if part in parts]]
    base = of_base.to_dataarray().sum("variable", skipna=False)
    rows: Rows = {
        LOSS: {
            "expected loss": (parts["expected"], INK, "-"),
            "base: forward area and PT annealing": (base, GREY, "--"),
        }
    }
    added = [part for part in parts.attrs["parts"] if part not in BASE and parts[part].any()]
    if added:
        taken = {shade for _, shade in PARTS.values()}
        free = cycle(shade for shade in PALETTE[1:] if shade not in taken)
        looks = [PARTS[part] if part in PARTS else (part, next(free)) for part in added]
        rows["added to the base (nats/token)"] = {
            named: (parts[part], shade, "-")
            for part, (named, shade) in zip(added, looks, strict=True)
        }
    return _of_the_law(f"What the expected loss of {called(name)} is made of", phase, rows)


def _of_the_law(title: str, phase: str, rows: Rows) -> Figure:
    """Return medians and 90 % bands of the law's curves, a column per validation set."""
    curves = [own for parts in rows.values() for own, *_ in parts.values()]
    domains = [str(domain) for domain in curves[0]["domain"].to_numpy()]
    last = int(curves[0].dropna("step", how="all")["step"][-1])
    height = SIZE[1] * len(rows) + 0.6
    width = max(SIZE[0], 5.0 / len(domains))
    figure, grid = panels.by_set(domains, width, height, title, len(rows))
    # What is added lies about 0, on one scale.
    for axes in grid[1:].flat:
        axes.axhline(0.0, color=GREY, linewidth=0.7)
    for axes in grid[1:, 1:].flat:
        axes.sharey(grid[1, 0])
    for (row, i), axes in np.ndenumerate(grid):
        label, parts = list(rows.items())[row]
        for named, (curve, shade, dashes) in parts.items():
            steps, draws = panels.draws_of(curve.sel(domain=domains[i]))
            line: dict[str, Any] = {"color": shade, "linestyle": dashes, "label": named}
            panels.curve(axes, steps, draws, (BAND_MASS,), alpha=BAND / 2, **line)
        dress(axes, ticks=6, ylabel="" if i else label)
        panels.step_axis(axes, last, phase if axes is grid[-1, i] else "")
        axes.tick_params(labelbottom=axes is grid[-1, i])
    panels.legend(figure, {"90 % credible band": panels.patch(GREY, BAND)})
    return figure
