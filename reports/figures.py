"""Figures of exact laws and of sampled sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from reports.blocks import distinct, plain, stem
from reports.drawing import (
    BAD,
    BAND,
    BLUE,
    FG,
    LINE,
    MUTED,
    SERIES,
    STYLE,
    WIDTH,
    label,
    legend,
    mark,
    named_rows,
    powers_of_ten,
    svg,
)

Json = dict[str, Any]

_PANEL = 0.36  # inches of one row of histograms
_SMALLEST_P = 1e-30  # where the axis of p-values ends
_BAND = 0.99  # a right sampler leaves all bins of a panel inside the band with this probability


def accepted_drafts(cases: Sequence[Json], key: str) -> Markup:
    """Expected accepted drafts of every case, a mark a method. Every case must have a method."""
    names = distinct(name for case in cases for name in case["methods"])
    values = np.array([[case["methods"].get(name, np.nan) for name in names] for case in cases], dtype=float)
    y = np.arange(len(cases))
    with mpl.rc_context(STYLE):
        figure, axes = named_rows([stem(case["case"]) for case in cases])
        axes.hlines(y, np.nanmin(values, axis=1), np.nanmax(values, axis=1), color=LINE, linewidth=2.5, zorder=1)
        for i, name in enumerate(names):
            apart = 0.3 * (i - (len(names) - 1) / 2)  # so that equal values do not hide each other
            axes.scatter(values[:, i], y + apart, s=20, label=name, zorder=3, **mark(i))
        axes.set_xlim(left=0)
        axes.set_xlabel("expected accepted drafts of a round")
        legend(figure, len(names))
        return svg(figure, key)


def root_acceptance(cases: Sequence[Json], method: str, colour: int, key: str) -> Markup:
    """One method's acceptance at the root of every case, against the transport bound of its own candidates."""
    found = [(stem(case["case"]), case["root"][method]) for case in cases if method in case.get("root", {})]
    with mpl.rc_context(STYLE):
        figure, axes = named_rows([name for name, _ in found])
        y = np.arange(len(found))
        bounds, accepted = (np.array([root[field] for _, root in found], float) for field in ("bound", "accepted"))
        axes.barh(y, bounds, height=0.62, facecolor=BAND, edgecolor="none")
        axes.barh(y, accepted, height=0.62, color=SERIES[colour % len(SERIES)], label=f"accepted by {method}")
        axes.scatter(bounds, y, marker="|", s=90, color=FG, linewidths=1.8, label="transport bound", zorder=3)
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("probability of acceptance at the root")
        legend(figure, 2)
        return svg(figure, key)


def p_values(trials: Sequence[Json], alpha: float | None, key: str) -> Markup:
    """Every test's p-value by toy, with the level of the whole run."""
    tests = [(y, test) for y, trial in enumerate(trials) for test in trial.get("tests", [])]
    families = distinct(test["family"] for _, test in tests)
    with mpl.rc_context(STYLE):
        figure, axes = named_rows([trial["toy"] for trial in trials])
        for i, family in enumerate(families):
            for rejected in (False, True):
                chosen = [(y, t) for y, t in tests if t["family"] == family and t["rejected"] == rejected]
                x = [max(test["p_value"], _SMALLEST_P) for _, test in chosen]
                look = {"facecolors": BAD, "edgecolors": BAD} if rejected else {"facecolors": "none"}
                style = {**mark(i), **look, "s": 24, "linewidths": 1.2, "label": "" if rejected else family}
                axes.scatter(x, [y for y, _ in chosen], zorder=3, **style)
        if any(test["rejected"] for _, test in tests):
            axes.scatter([], [], s=24, color=BAD, label="rejected")
        smallest = min([test["p_value"] for _, test in tests] + [alpha or 1, 1e-3])
        left = max(smallest, _SMALLEST_P) / 10
        axes.set_xscale("log")
        axes.set_xlim(left, 2)
        powers_of_ten(axes.xaxis)
        if alpha is not None:
            axes.axvspan(left, alpha, color=BAND, linewidth=0, zorder=0)
            axes.axvline(alpha, color=BAD, linestyle=(0, (4, 2)), label=f"alpha {plain(alpha)}")
        cut = f" (the leftmost: {plain(_SMALLEST_P)} or less)" if smallest < _SMALLEST_P else ""
        axes.set_xlabel(f"p-value{cut}")
        legend(figure, 3)
        return svg(figure, key)


def pit_panels(rows: Sequence[tuple[str, Mapping[str, Sequence[int]]]], key: str) -> Markup:
    """Histograms of the randomised PIT, a row each with a panel for every order, against what is expected."""
    orders = distinct(order for _, pit in rows for order in pit)
    with mpl.rc_context(STYLE):
        figure, axes = named_rows([name for name, _ in rows], height=_PANEL)
        for y, (_, pit) in enumerate(rows):
            for column, order in enumerate(orders):
                if sum(pit.get(order, ())):
                    _pit_panel(axes, pit[order], column, y)
        axes.set_xlim(0, len(orders))
        names = [f"by {label(order, 12)}" for order in orders]
        axes.set_xticks([column + 0.5 for column in range(len(orders))], names, parse_math=False)
        axes.tick_params(axis="x", length=0, labeltop=True, labelbottom=False)
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
        return svg(figure, key)


def _pit_panel(axes: Axes, bins: Sequence[int], column: int, y: int) -> None:
    """One histogram in the cell at (column, y) of a grid whose y axis points down, as high as its band allows."""
    low, high = pit_band(bins)
    share = np.array(bins) / (sum(bins) / len(bins))
    unit = 0.42 / max(np.abs(share - 1).max(), 1.6 * (high - 1), 1 - low, 1e-9)
    left, right = column + 0.04, column + 0.96
    axes.fill_between([left, right], y - unit * (high - 1), y - unit * (low - 1), color=BAND, linewidth=0, zorder=0)
    axes.plot([left, right], [y, y], color=MUTED, linewidth=0.6)
    steps = np.linspace(left, right, len(bins) + 1)
    axes.stairs(y - unit * (share - 1), steps, baseline=None, color=BAD if outside(bins) else BLUE, linewidth=1.3)


def pit_band(bins: Sequence[int]) -> tuple[float, float]:
    """Smallest and largest share of a bin, in units of the expected one, that the band still holds."""
    total, tail = sum(bins), (1 - _BAND) / (2 * len(bins))
    law = stats.binom(total, 1 / len(bins))
    return float(law.ppf(tail)) * len(bins) / total, float(law.isf(tail)) * len(bins) / total


def outside(bins: Sequence[int]) -> bool:
    """Whether any bin leaves the band."""
    low, high = pit_band(bins)
    expected = sum(bins) / len(bins)
    return any(not low <= count / expected <= high for count in bins)


def power_curves(
    curves: Sequence[Json], found: Sequence[tuple[float, float]], claimed: float | None, key: str
) -> Markup:
    """What each test finds with how many samples; `found`: samples and detectable discrepancy of trials of this run."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = figure.subplots()
        tests = distinct(curve["test"] for curve in curves)
        cells = distinct(curve.get("cells") for curve in curves)
        for curve in curves:
            colour = SERIES[tests.index(curve["test"]) % len(SERIES)]
            dash = ("-", (0, (5, 2)), (0, (1, 1.5)))[cells.index(curve.get("cells")) % 3]
            name = curve["test"] + (f", {curve['cells']} cells" if curve.get("cells") else "")
            points = np.array(sorted(curve["points"]), dtype=float)
            axes.plot(*points.T, color=colour, linestyle=dash, label=label(name, 32))
        if found:
            samples, sizes = zip(*found, strict=True)
            axes.scatter(samples, sizes, s=18, color=FG, label="trials of this run", zorder=3)
        if claimed is not None:
            axes.axhline(claimed, color=BAD, linestyle=(0, (4, 2)), linewidth=1.2, label=f"claimed: {plain(claimed)}")
        axes.set(xscale="log", yscale="log", xlabel="samples", ylabel="discrepancy found")
        powers_of_ten(axes.xaxis, axes.yaxis)
        axes.grid(visible=True, which="major")
        legend(figure, 2)
        return svg(figure, key)
