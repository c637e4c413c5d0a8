"""A run on models on a terminal: a line a method, the control, the verdict."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

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
        for line in _faults(method, record["most"]):
            console.print(f"{method['method']}: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(_control(record["control"], record["beta"]), highlight=False, soft_wrap=True)
    if record["most"] is None:
        console.print(
            f"{record['dtype']} rounds: greedy decoding and caches are shown, not judged; the tests see rounding too",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )
    details = f"alpha {record['alpha']:g}, beta {record['beta']:g}, {record['seconds']} s"
    verdict = record["verdict"] if record["complete"] else f"{record['verdict']}, interrupted"
    colour = _COLOUR.get(record["verdict"], "yellow")
    console.print(f"verdict: [{colour}]{verdict.replace('_', ' ')}[/]  ({details})", highlight=False, soft_wrap=True)


def _method(method: Record) -> tuple[str, ...]:
    checks, tests = method["checks"], method["tests"]
    differs = "-" if checks is None else f"{checks['differing']} of {checks['tokens']}"
    distance = "-" if checks is None else f"{checks['tv']:.1e}"
    smallest = f"{min(test['p_value'] for test in tests):.2g}" if tests else "-"
    found = [test["detectable"] for test in tests if test["test"].startswith("Kolmogorov")]
    finds = "-" if not found or found[0] is None else f"{found[0]:.2g}"
    return method["method"], f"{method['tokens']:,}", differs, distance, smallest, finds, _MARK[method["status"]]


def _faults(method: Record, most: Record | None) -> list[str]:
    """What speaks against a method."""
    lines = [
        f"{test['test']}: p-value {test['p_value']:.2g} of {test['tokens']:,} tokens"
        for test in method["tests"]
        if test["rejects"]
    ]
    if method["impossible"]:
        lines.append(f"{method['impossible']:,} tokens of probability 0")
    checks = method["checks"]
    if checks and most and checks["margin"] > most["margin"]:
        lines.append(f"at T = 0 a token whose logit is {checks['margin']:.2g} below the largest of a full forward")
    if checks and most and checks["tv"] > most["tv"]:
        lines.append(f"logits from caches are a total variation of {checks['tv']:.2g} away from a full forward's")
    return lines


def _control(control: Record, beta: float) -> str:
    name = f"control, a cache with a {control['fault']} under {control['method']}"
    if control["pilot"] is None:
        return f"[yellow]{name}: not reached[/]"
    pilot = f"D = {control['distance']:.2g} by {control['order']} in {control['pilot']:,} tokens"
    if control["tokens"] is None:
        return f"[yellow]{name}: {pilot}, too few to say how many would do[/]"
    needed = f"{pilot}, so that {control['tokens']:,} others miss it with probability <= {beta:g}"
    if control["status"] == "open":
        return f"[yellow]{name}: {needed}; that many --tokens would do[/]"
    word = "[green]found[/]" if control["status"] == "found" else "[bold red]NOT FOUND[/]"
    return f"{name}: {needed}: {word}, p-value {control['p_value']:.2g}"
