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
            fault = f"{method['method']}: {_typed(line)}"
            console.print(fault, style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(_control(record), highlight=False, soft_wrap=True)
    if record["most"] is None:
        console.print(losslessness.rounding(record["dtype"]), style="yellow", highlight=False, soft_wrap=True)
    details = f"alpha {plain(record['alpha'])}, beta {plain(record['beta'])}, {record['seconds']} s"
    verdict = record["verdict"] if record["complete"] else f"{record['verdict']}, interrupted"
    colour = _COLOUR.get(record["verdict"], "yellow")
    console.print(f"verdict: [{colour}]{verdict.replace('_', ' ')}[/]  ({details})", highlight=False, soft_wrap=True)


def _method(method: Record) -> tuple[str, ...]:
    p_value, finds = (_typed(plain(x, 2)) for x in (losslessness.smallest(method), losslessness.finds(method)))
    checks = losslessness.differing(method), losslessness.distance(method)
    return method["method"], f"{method['tokens']:,}", *checks, p_value, finds, _MARK[method["status"]]


def _control(record: Record) -> str:
    control = record["control"]
    tale, outcome = (escape(_typed(part)) for part in losslessness.told(control, record["tokens"], record["beta"]))
    colour = {"found": "green", "not found": "bold red"}.get(control["status"], "yellow")
    return f"{tale}[{colour}]{outcome}[/]" if outcome else f"[{colour}]{tale}[/]"


def _typed(text: str) -> str:
    """With commas for the narrow spaces of a page, which not every terminal can print."""
    return text.replace("\u202f", ",")
