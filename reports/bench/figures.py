"""Figures of a benchmark of full models: dots with intervals, curves over a setting, stacked times, a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.drawing import BAND, FG, LINE, MARKERS, MUTED, SERIES, STYLE, WIDTH, label, legend, mark, named_rows, svg

Interval = Sequence[float] | None


@dataclass(frozen=True)
class Series:
    """Values, one a row or a setting, None where there is none. look: which colour and marker; intervals: [low, high]
    or None, one a value, or none at all; dashed: drawn so, and without marks or a place in the legend."""

    name: str
    look: int
    values: Sequence[float | None]
    intervals: Sequence[Interval] = ()
    dashed: bool = False


def dots(names: Sequence[str], series: Sequence[Series], says: str, key: str, reference: float | None = None) -> Markup:
    """Values with their intervals, a named row each and in it a mark a series. reference: a value that has a line."""
    with mpl.rc_context(STYLE):
        figure, axes = named_rows(names, height=0.14 + 0.13 * len(series))
        for i, each in enumerate(series):
            y = np.arange(len(names)) + (i - (len(series) - 1) / 2) * 0.72 / len(series)
            for at, interval in zip(y, each.intervals, strict=False):
                if interval is not None:
                    axes.plot(interval, [at, at], color=_colour(each), linewidth=1.6)
            axes.scatter(_floats(each.values), y, s=20, label=label(each.name), zorder=3, **mark(each.look))
        if reference is not None:
            axes.axvline(reference, color=FG, linewidth=1, zorder=1)
        axes.set_xlabel(says)
        legend(figure, 4)
        return svg(figure, key)


def curves(ticks: Sequence[str], series: Sequence[Series], says: tuple[str, str], key: str, own: int = -1) -> Markup:
    """A line a series over evenly spaced ticks. says: of either axis; own: index of the run's own setting, shaded."""
    with mpl.rc_context(STYLE):
        figure, axes = _panel(*says)
        x = np.arange(len(ticks))
        if own >= 0:
            axes.axvspan(own - 0.25, own + 0.25, color=BAND, linewidth=0, zorder=0)
        for i, each in enumerate(series):
            aside = x + 0.05 * (i - (len(series) - 1) / 2) * bool(each.intervals)  # intervals do not hide each other
            for at, interval in zip(aside, each.intervals, strict=False):
                if interval is not None:
                    axes.plot([at, at], interval, color=_colour(each), linewidth=1.6)
            solid = {"marker": MARKERS[each.look % len(MARKERS)], "markersize": 4.5, "label": label(each.name)}
            look = {"linestyle": (0, (4, 2))} if each.dashed else solid
            axes.plot(aside, _floats(each.values), color=_colour(each), linewidth=1.4, **look)
        axes.set_xticks(x, [label(tick, 10) for tick in ticks], parse_math=False)
        axes.set_xlim(-0.4, len(ticks) - 0.6)
        legend(figure, 3)
        return svg(figure, key)


def stacked(names: Sequence[str], parts: Sequence[tuple[str, Sequence[float]]], says: str, key: str) -> Markup:
    """Bars, a named row each, made of parts that follow each other."""
    with mpl.rc_context(STYLE):
        figure, axes = named_rows(names, height=0.3)
        left = np.zeros(len(names))
        for i, (name, values) in enumerate(parts):
            axes.barh(range(len(names)), values, left=left, height=0.62, color=SERIES[i % len(SERIES)], label=name)
            left += np.asarray(values, float)
        axes.set_xlim(left=0)
        axes.set_xlabel(says)
        legend(figure, 4)
        return svg(figure, key)


def against_bound(
    bounds: Sequence[Sequence[float]], series: Sequence[Series], says: tuple[str, str], key: str
) -> Markup:
    """What was accepted over what could be, a mark a node and series, each over bounds of its own."""
    with mpl.rc_context(STYLE):
        figure, axes = _panel(*says)
        axes.plot([0, 1], [0, 1], color=FG, linewidth=1, label="the bound", zorder=1)
        for across, each in zip(bounds, series, strict=True):
            look = {"s": 14, "alpha": 0.55, "linewidths": 0, "zorder": 2}
            axes.scatter(across, _floats(each.values), label=label(each.name), **{**mark(each.look), **look})
        axes.grid(visible=True, axis="x")
        legend(figure, 4)
        return svg(figure, key)


def shares_below(series: Sequence[Series], says: tuple[str, str], key: str) -> Markup:
    """The empirical distribution function of each series, none of whose values is missing."""
    with mpl.rc_context(STYLE):
        figure, axes = _panel(*says)
        for each in series:
            axes.ecdf(_floats(each.values), color=_colour(each), label=label(each.name))
        axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.grid(visible=True, axis="x")
        legend(figure, 4)
        return svg(figure, key)


def _panel(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up)
    axes.grid(visible=True, axis="y", color=LINE)
    return figure, axes


def _floats(values: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else float(value) for value in values]


def _colour(series: Series) -> str:
    return SERIES[series.look % len(SERIES)]
