"""A sampler's run on a terminal: a line a trial, the verdict in words."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Record = dict[str, Any]

_MARK = {"lossless": "[green]ok[/]", "lossy": "[bold red]LOSSY[/]", "inconclusive": "[yellow]?[/]"}


def sampler_table(record: Record, on_stderr: bool = False) -> None:
    """The record of `rheo verify --sampler`: a line a trial, what was found, the verdict."""
    console = Console(stderr=on_stderr)
    for subject in record["subjects"]:
        console.print(subject_table(subject))
        for line in subject["findings"]:
            console.print(escape(line), highlight=False)
    for again in record["replay"]:
        console.print(f"again: {escape(again['command'])}", highlight=False, soft_wrap=True)
    colour = {"lossless": "green", "lossy": "red"}.get(record["verdict"], "yellow")
    words = "; ".join(escape(subject["sentence"]) for subject in record["subjects"])
    console.print(f"verdict: [bold {colour}]{record['verdict']}[/]  ({words})", highlight=False)


def subject_table(subject: Record) -> Table:
    """A line a trial of one sampler."""
    table = Table(box=SIMPLE_HEAD, title=escape(subject["subject"]), title_justify="left")
    for head in ("toy", "cells", "sequences", "p-value", "finds TV", "tokens/round", ""):
        table.add_column(head, justify="left" if head in ("toy", "") else "right")
    for trial in subject["trials"]:
        joint = [test for test in trial["tests"] if test["family"] == "joint"]
        shown = next((test for test in trial["tests"] if test["rejected"]), joint[-1] if joint else None)
        tau = "-" if trial["acceptance"] is None else f"{trial['acceptance']['tau']:.4f}"
        counts = (str(trial["cells"]), f"{trial['samples']:,}", "-" if shown is None else f"{shown['p_value']:.2g}")
        table.add_row(escape(trial["toy"]), *counts, f"{trial['detectable']:.2g}", tau, _MARK[trial["status"]])
    return table


def compare_table(record: Record, on_stderr: bool = False) -> None:
    """The record of `rheo compare`: a line a toy, the change over all of them, the verdict."""
    console = Console(stderr=on_stderr)
    for subject in record["subjects"]:
        table = Table(box=SIMPLE_HEAD, title=escape(subject["subject"]), title_justify="left")
        for head in ("toy", "tokens/round before", "after", "change", "interval"):
            table.add_column(head, justify="left" if head == "toy" else "right")
        for trial in subject["trials"]:
            before, after = ("-" if tau is None else f"{tau:.4f}" for tau in trial["tau"])
            table.add_row(escape(trial["toy"]), before, after, *_change(trial["change"]))
        table.add_row("all", "", "", *_change(subject["change"]))
        console.print(table)
        console.print(f"{escape(subject['subject'])}: {' -> '.join(subject['verdicts'])}", highlight=False)
    for name in record["missing"]:
        console.print(f"not in the new run: {escape(name)}", style="yellow", highlight=False)
    colour = {"worse": "red", "inconclusive": "yellow"}.get(record["verdict"], "green")
    console.print(
        f"verdict: [bold {colour}]{record['verdict']}[/]  (--max-drop {record['max_drop']:g})", highlight=False
    )


def _change(change: Record | None) -> tuple[str, str]:
    if change is None:
        return "-", "-"
    interval = change["interval"]
    shown = "unknown" if interval is None else f"{interval[0]:+.4f} .. {interval[1]:+.4f}"
    return f"{change['mean']:+.4f}", shown
