"""`rheo audit` on a terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def audit_table(record: dict[str, Any], on_stderr: bool = False) -> None:
    """The record of `rheo audit`: a line a trace, a line a test, the verdict."""
    console = Console(stderr=on_stderr)
    traces = _table("trace", "tokens counted", "")
    for trace in record["traces"]:
        note = "already audited, not counted again" if trace["audited_before"] else ""
        traces.add_row(escape(trace["trace"]), f"{trace['counted']:,}", note)
    for trace in record["unfinished"]:
        traces.add_row(escape(trace["trace"]), "", f"left off after {trace['rows']:,} rows")
    console.print(traces)
    tests = _table("test", "tokens", "alpha", "found", "p-value", "would find", "")
    for test in record["tests"]:
        e_process = test["test"] == "e-process"
        found = f"e = {_power_of_ten(test['statistic'])}" if e_process else f"D = {test['statistic']:.2g}"
        finds = "nothing" if test["detectable"] is None else f"D = {test['detectable']:.2g}"
        mark = "[bold red]rejects[/]" if test["rejects"] else "[green]ok[/]"
        numbers = (f"{test['tokens']:,}", f"{test['alpha']:.2g}", found, f"{test['p_value']:.2g}", finds)
        tests.add_row(test["test"], *numbers, mark)
    console.print(tests)
    if record["impossible"]:
        line = f"{record['impossible']:,} tokens of probability 0, the first in {record['first_impossible']}"
        console.print(line, style="red", markup=False, highlight=False)
    if record["verdict"] == "inconclusive":
        planned = record["tokens_planned"]
        wanted = f"{planned:,} tokens were planned" if planned else "no fault would have been found yet"
        console.print(f"too few tokens: {wanted}", style="yellow", highlight=False)
    lossless = record["verdict"] == "lossless"
    color = "green" if lossless else "bold red"
    words = "lossless: no evidence against it" if lossless else record["verdict"].replace("_", " ")
    details = f"{record['tokens']:,} tokens, alpha {record['alpha']:g}, beta {record['beta']:g}, {record['seconds']} s"
    console.print(f"[{color}]verdict: {words}[/]  ({details})", highlight=False, soft_wrap=True)


def _table(*heads: str) -> Table:
    return Table(*heads, box=SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)


def _power_of_ten(exponent: float) -> str:
    """10^exponent in few characters, however large."""
    return f"{10**exponent:.3g}" if exponent < 6 else f"1e{exponent:+.0f}"
