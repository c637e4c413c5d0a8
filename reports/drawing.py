"""What all figures share: their look, named rows, labels, and inline SVG.

Colours are variables of the page's style sheet, so that figures follow light, dark and print.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from io import StringIO
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from reports.blocks import tidy

Json = dict[str, Any]

# Stand-ins that matplotlib writes and `svg` replaces: no two alike, and none drawn otherwise.
_VARIABLES = {
    "#010101": "--fg",
    "#010102": "--muted",
    "#010103": "--line",
    "#010104": "--band",
    "#010105": "--bad",
    "#010106": "--blue",
    "#010107": "--orange",
    "#010108": "--teal",
    "#010109": "--purple",
    "#01010a": "--bg",
}
FG, MUTED, LINE, BAND, BAD, BLUE, ORANGE, TEAL, PURPLE, PAPER = _VARIABLES
SERIES = (BLUE, ORANGE, TEAL, PURPLE, FG)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # 7 beside 5 colours: no two of 35 series look alike
WIDTH = 4.4  # inches: readable when a phone shrinks it to 3.4
_ROW = 0.21  # inches of one row of text

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rheo",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": FG,
    "axes.labelcolor": FG,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": FG,
    "ytick.labelcolor": FG,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}


def named_rows(names: Sequence[str], height: float = _ROW) -> tuple[Figure, Axes]:
    """A figure with a named row for each of `names`, the first on top; height: inches of a row."""
    figure = Figure(figsize=(WIDTH, max(1.6, 0.75 + height * len(names))), layout="constrained")
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), [label(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return figure, axes


def powers_of_ten(*axes: Axis) -> None:
    """Logarithmic axes marked 1e-9 rather than with a raised exponent."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: "1" if value == 1 else tidy(f"{value:.0e}")))
        axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, columns: int) -> None:
    """What the marks of the first axes stand for, above them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if handles:
        spacing = {"handletextpad": 0.4, "columnspacing": 1.2}
        for text in figure.legend(handles, labels, loc="outside upper left", ncols=columns, **spacing).get_texts():
            text.set_parse_math(False)


def mark(index: int) -> Json:
    """The marker and colour of the index-th series, for `scatter`."""
    colour = SERIES[index % len(SERIES)]
    return {"marker": MARKERS[index % len(MARKERS)], "facecolors": colour, "edgecolors": colour}


def label(text: str, longest: int = 24) -> str:
    """A name short enough for an axis, without characters that a font cannot measure."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= longest else printable[: longest - 1] + "…"


def svg(figure: Figure, key: str) -> Markup:
    """The <svg> alone, its ids unique by `key`, its colours variables of the page."""
    sheet = StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that is not in matplotlib's font is in the reader's
        figure.savefig(sheet, format="svg", transparent=True)
    text = sheet.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Only inside tags: what a label says stays as it is.
    return Markup(re.sub(r"<[^>]+>", lambda tag: _themed(tag[0], key), text))


def _themed(tag: str, key: str) -> str:
    tag = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", tag)
    tag = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{key}-", tag)
    return re.sub("#0101[0-9a-f]{2}", lambda colour: f"var({_VARIABLES[colour[0]]})", tag)
