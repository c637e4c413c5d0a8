"""The figures of a benchmark of full models on a terminal: docs/bench.md says what each column means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Record = dict[str, Any]

_PARTS = ("draft", "verify", "sampling", "rest")


def model_tables(record: Record, on_stderr: bool = False) -> None:
    """Every section of the document of `rheo bench` that holds something."""
    console = Console(stderr=on_stderr)
    found, settings = record["summary"], record["settings"]
    for table in (
        _main(found["table"], settings),
        _expected(found["expected"]),
        _grid(found["grid"]),
        _acceptance(found["acceptance"]),
        _time(found["time"]),
        _depth_one(found["depth_one"]),
        _shapes(found["shapes"]),
        *(make(key, rows) for key, rows in found["ablations"].items() for make in (_ablation, _drafts)),
    ):
        if table.row_count:
            console.print(table)
    if found["floor"]:
        floor = found["floor"]
        console.print(
            f"numeric floor, {floor['dtype']}: total variation {floor['mean']:.1e} on average, {floor['largest']:.1e} "
            f"at most, tree against token by token, {floor['tokens']} tokens",
            highlight=False,
        )
    if not record["complete"]:
        console.print("[yellow]stopped: these are the figures of what was finished[/]")


def _main(rows: Sequence[Record], settings: Record) -> Table:
    names = f"{settings['target']} with {settings['draft']}, T = {settings['temperature']:g}, {settings['dtype']}"
    table = _table("suite", "method", "tau", "spread", "99 %", "expected", "tokens/s", "speed-up", "99 %", title=names)
    for row in rows:
        table.add_row(
            escape(row["suite"]),
            escape(row["method"]),
            _number(row["tau"]),
            _number(row["spread"], "± "),
            _around(row["tau"], row["interval"]),
            _number(row["expected"]),
            _number(row["tokens_per_second"], digits=1),
            _number(row["speedup"]),
            _around(row["speedup"], row["speedup_interval"]),
        )
    return table


def _expected(rows: Sequence[Record]) -> Table:
    others = list(dict.fromkeys(other for row in rows for other in row["differences"]))
    heads = [f"less {other}" for other in others]
    table = _table(
        "suite", "method", "contexts", "tau", "99 %", *heads, "sampled less expected",
        title="expected tau at the same round starts",
    )  # fmt: skip
    for row in rows:
        differences = [_difference(row["differences"].get(other)) for other in others]
        counts = (str(row["contexts"]), _number(row["tau"], digits=3), _around(row["tau"], row["interval"]))
        table.add_row(
            escape(row["suite"]), escape(row["method"]), *counts, *differences, _difference(row.get("excess"))
        )
    return table


def _grid(rows: Sequence[Record]) -> Table:
    others = list(dict.fromkeys(other for row in rows for other in row["differences"]))
    title = "expected tau by temperature and drafted nodes, average of suites"
    table = _table("T", "nodes", "method", "tau", "99 %", *(f"less {other}" for other in others), title=title)
    for row in rows:
        differences = [_difference(row["differences"].get(other)) for other in others]
        tau = (_number(row["tau"], digits=3), _around(row["tau"], row["interval"]))
        table.add_row(f"{row['temperature']:g}", str(row["budget"]), escape(row["method"]), *tau, *differences)
    return table


def _shapes(found: Sequence[Record]) -> Table:
    table = _table("T", "method", "nodes", "chosen", "by", title="trees of fixed shape, measured at other texts")
    for each in found:
        heat = f"{each['temperature']:g}"
        for choice in each["choices"]:
            taus = ", ".join(f"{k}: {tau:.3f}" for k, tau in zip(choice["tried"], choice["tau"], strict=True))
            table.add_row(
                heat, escape(choice["method"]), str(choice["budget"]), f"K = {choice['slots']}", f"tau {taus}"
            )
        if each["acceptance"]:
            rates = ", ".join(f"{rate:.3f}" for rate in each["acceptance"])
            table.add_row(heat, "sequoia", "all", "best shape", f"acceptance {rates}")
    return table


def _depth_one(found: Record | None) -> Table:
    table = _table("method", "candidates", "accepted", "bound", "likeliest", title="acceptance at depth 1, and bounds")
    for name, at in (found["methods"] if found else {}).items():
        numbers = (_number(at[key], digits=4) for key in ("accepted", "bound", "likeliest"))
        table.add_row(escape(name), f"{at['candidates']:g}", *numbers)
    return table


def _acceptance(rows: Sequence[Record]) -> Table:
    pooled = [row for row in rows if row["suite"] == "all"]
    depths = max((len(row["sampled"]) for row in pooled), default=0)
    heads = [str(depth) for depth in range(1, depths + 1)]
    table = _table("method", "", *heads, title="accepted at each depth, of those that came so far")
    for row in pooled:
        for name, shares in (("sampled", row["sampled"]), ("expected", row["expected"])):
            if shares:
                table.add_row(escape(row["method"]), name, *(_number(share) for share in shares))
    return table


def _time(rows: Sequence[Record]) -> Table:
    table = _table("method", "round", *_PARTS, "peak MB", title="milliseconds a round, and shares of it")
    for row in rows:
        parts = [f"{row['milliseconds'][part]:.1f} {100 * row['shares'][part]:4.1f}%" for part in _PARTS]
        memory = "-" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e6:.0f}"
        table.add_row(escape(row["method"]), f"{row['milliseconds']['round']:.1f}", *parts, memory)
    return table


def _ablation(key: str, rows: Sequence[Record]) -> Table:
    table = _table(key, "method", "tau", "99 %", "difference", title=f"expected tau by {key} (*: the run's own value)")
    for row in rows:
        for name, figures in row["methods"].items():
            cells = (_number(figures["tau"], digits=3), _around(figures["tau"], figures["interval"]))
            table.add_row(_value(row), escape(name), *cells, _difference(figures["difference"]))
    return table


def _drafts(key: str, rows: Sequence[Record]) -> Table:
    heads = ("cover p", "cover q", "overlap", "probe there", "accepted", "draft ms", "growth ms")
    table = _table(key, *heads, title=f"the draft by {key}")
    for row in rows:
        probe = row["probe"] or {"survival": None, "acceptance": None}
        numbers = (*row["coverage"].values(), row["overlap"], probe["survival"], probe["acceptance"])
        times = (_number(row["draft_ms"], digits=1), _number(row["growth_ms"], digits=1))
        table.add_row(_value(row), *(_number(number, digits=3) for number in numbers), *times)
    return table


def _value(row: Record) -> str:
    value = "full" if row["value"] is None else f"{row['value']:g}"
    return f"{value} *" if row["base"] else value


def _difference(figures: Record | None) -> str:
    return "-" if figures is None else f"{figures['mean']:+.3f} {_around(figures['mean'], figures['interval'])}"


def _around(center: float | None, interval: Sequence[float] | None) -> str:
    if center is None or interval is None:
        return ""
    half = interval[1] - center
    return f"± {half:.3f}" if half < 10 else f"± {half:.0f}"  # of two prompts nearly nothing is known


def _number(value: float | None, before: str = "", digits: int = 2) -> str:
    return "-" if value is None else f"{before}{value:.{digits}f}"


def _table(*heads: str, title: str) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
        title=escape(title),
        title_justify="left",
    )
    for head in heads:
        words = head in ("suite", "method", "")
        table.add_column(escape(head), justify="left" if words else "right", overflow="fold")
    return table
