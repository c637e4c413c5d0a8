"""What `rheo tune` found, on a terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_RUNNERS_UP = 3


def tune_tables(record: dict[str, Any], on_stderr: bool = False) -> None:
    """The best choice of every method and those that come next; then autoregressive decoding."""
    console = Console(stderr=on_stderr)
    settings, slow = record["settings"], record["autoregressive"]
    console.print(_choices(record["methods"], settings))
    console.print(
        f"autoregressive: {slow['tokens_per_second']:.1f} tokens/s, {slow['milliseconds']:.1f} ms a token; "
        f"{record['contexts']} contexts of {settings['limit']} prompts",
        highlight=False,
    )
    for name, found in record["methods"].items():
        if found["best"]["speedup"] <= 1:
            console.print(f"[yellow]{escape(name)} is not faster than autoregressive decoding here[/]", highlight=False)


def _choices(methods: dict[str, Any], settings: dict[str, Any]) -> Table:
    title = f"{settings['target']} with {settings['draft']}, T = {settings['temperature']:g}, {settings['dtype']}"
    heads = (
        "method",
        "budget",
        "depth",
        "beam",
        "tau",
        "tokens\n/s",
        "speed-\nup",
        "target\nms",
        "draft\nms",
        "samp-\nling\nms",
    )
    rows = Table(box=SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False, title=escape(title))
    for head in heads:
        words = head == "method"
        rows.add_column(head, justify="left" if words else "right", overflow="fold")
    for name, found in methods.items():
        for row in (found["best"], *found["others"][:_RUNNERS_UP]):
            best = row is found["best"]
            tree = [str(row[key]) for key in ("budget", "depth", "beam")]
            times = [f"{row['milliseconds'][part]:.1f}" for part in ("target", "draft", "sampling")]
            figures = [f"{row['tau']:.3f}", f"{row['tokens_per_second']:.1f}", f"{row['speedup']:.2f}"]
            rows.add_row(escape(name) if best else "", *tree, *figures, *times, style="bold" if best else None)
    return rows
