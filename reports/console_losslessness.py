"""A run on models on a terminal: a line a method, the control, the verdict."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reports import losslessness
from reports.blocks import plain

Record = dict[str, Any]

_MARK = {"lossless": "[green]ok[/]", "lossy": "[bold red]LOSSY[/]", "inconclusive": "[yellow]?[/]"}
_COLOUR = {"lossless": "green", "lossy": "bold red", "control_passed": "bold red"}


def losslessness_table(record: Record, on_stderr: bool = False) -> None:
    """The record of `rheo verify --target`."""
    console = Console(stderr=on_stderr)
    table = Table(box=SIMPLE_HEAD, title=escape(f"{record['target']}, {record['draft']}, {record['dtype']}"))
    for head in ("method", "tokens", "greedy differs", "cache TV", "p-value", "finds D", ""):
        table.add_column(head, justify="left" if head in ("method", "") else "right")
    for method in record["methods"]:
        table.add_row(*_method(method))
    console.print(table)
    for method in record["methods"]:
        for line in losslessness.faults(method, record["most"]):
            console.print(f"{method['method']}: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(_control(record["control"], record["beta"]), highlight=False, soft_wrap=True)
    if record["most"] is None:
        console.print(losslessness.rounding(record["dtype"]), style="yellow", highlight=False, soft_wrap=True)
    details = f"alpha {record['alpha']:g}, beta {record['beta']:g}, {record['seconds']} s"
    verdict = record["verdict"] if record["complete"] else f"{record['verdict']}, interrupted"
    colour = _COLOUR.get(record["verdict"], "yellow")
    console.print(f"verdict: [{colour}]{verdict.replace('_', ' ')}[/]  ({details})", highlight=False, soft_wrap=True)


def _method(method: Record) -> tuple[str, ...]:
    p_value, finds = (plain(value, 2) for value in (losslessness.smallest(method), losslessness.finds(method)))
    checks = losslessness.differing(method), losslessness.distance(method)
    return method["method"], f"{method['tokens']:,}", *checks, p_value, finds, _MARK[method["status"]]


def _control(control: Record, beta: float) -> str:
    tale, outcome = map(escape, losslessness.told(control, beta))
    colour = {"found": "green", "not found": "bold red"}.get(control["status"], "yellow")
    return f"{tale}[{colour}]{outcome}[/]" if outcome else f"[{colour}]{tale}[/]"
