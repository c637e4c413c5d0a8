"""How the sections of a benchmark name, colour and write things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.blocks import Cell, distinct

Json = dict[str, Any]

AR = "ar"  # one token after the other
AVERAGE, ALL = "average", "all"  # the mean over suites; everything pooled
PARTS = ("draft", "verify", "sampling", "rest")


def look(run: Json, method: str) -> int:
    """Which colour and marker a method has in all figures: its place among those that draft."""
    names = [name for name in distinct(run["settings"]["methods"]) if name != AR]
    return names.index(method) if method in names else len(names)


def interval(pair: Sequence[float] | None) -> Cell:
    """[low, high] as a cell."""
    return Cell("-" if pair is None else f"{pair[0]:.3f} to {pair[1]:.3f}", number=True)


def signed(difference: Json | None) -> str:
    """A difference with its interval, if it has one."""
    if difference is None:
        return "-"
    pair = difference["interval"]
    return f"{difference['mean']:+.3f}" + (f" ({pair[0]:+.3f} to {pair[1]:+.3f})" if pair else "")


def size(count: int | None) -> str:
    """Bytes as one writes them."""
    return "-" if count is None else f"{count / 1e9:.2f} GB"
