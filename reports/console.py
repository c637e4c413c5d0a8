"""Tables and progress on a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Record = dict[str, Any]

_MARK = {
    "lossless": "[green]ok[/]",
    "lossy": "[bold red]LOSSY[/]",
    "inconclusive": "[yellow]?[/]",
    "bad_input": "[red]bad input[/]",
    "control_passed": "[bold red]not found[/]",
}


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error; call the result with what is begun next."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=-1)
        yield lambda text: bar.update(task, advance=1, description=text)


def law_table(records: list[Record]) -> None:
    """The lines of `rheo law`, on standard error."""
    table = Table("case", "method", "tv", "accepted", "tau", "classes", "lossless", "posterior")
    for r in records:
        posterior = {True: "ok", False: "[bold red]wrong[/]", None: "-"}[r["posterior_ok"]]
        lossless = _MARK["lossless" if r["lossless"] else "lossy"]
        numbers = (short(r["tv"]), short(r["accepted"]), short(r["tau"]), str(r["classes"]))
        table.add_row(PurePath(r["case"]).stem, r["method"], *numbers, lossless, posterior)
    Console(stderr=True).print(table)


def verify_table(record: Record) -> None:
    """The record of `rheo verify`: a line a case and method, the controls, how to replay failures, the verdict."""
    console = Console()
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for check in record["checks"]:
        grouped[check["case"], check["method"]].append(check)
    names = list(dict.fromkeys(check["check"] for check in record["checks"]))
    table = Table("case", "method", "accepted", *names)
    for (case, method), checks in grouped.items():
        marks = {check["check"]: _MARK[check["status"]] for check in checks}
        table.add_row(PurePath(case).stem, method, short(checks[0]["accepted"]), *(marks.get(n, "-") for n in names))
    if grouped:
        console.print(table)
    controls = Table("control that must fail", "fault", "total variation", "found")
    for control in record["controls"]:
        found = "[green]lossy[/]" if control["status"] == "lossy" else _MARK[control["status"]]
        controls.add_row(control["case"].removeprefix("control "), control["detail"], short(control["tv"]), found)
    console.print(controls)
    for replay in record["replay"]:
        console.print(f"[red]{replay['check']}, {replay['method']}: {replay['detail'] or 'lossy'}[/]", highlight=False)
        console.print(f"  replay: {replay['command']}", soft_wrap=True, highlight=False)
    bad = [c for c in record["checks"] if c["status"] == "inconclusive"]
    for check in bad:
        console.print(f"[yellow]{check['case']}, {check['method']}: {check['detail']}[/]", highlight=False)
    console.print(_verdict(record), highlight=False)


def _verdict(record: Record) -> str:
    cases = {check["case"] for check in record["checks"]}
    found = sum(control["status"] == "lossy" for control in record["controls"])
    color = "green" if record["verdict"] == "lossless" else "bold red"
    return (
        f"[{color}]verdict: {record['verdict'].replace('_', ' ')}[/]  ({len(cases)} cases, {len(record['checks'])} "
        f"checks, {found} of {len(record['controls'])} controls found lossy, {record['seconds']} s)"
    )


def short(value: str | float | None) -> str:
    """A number in few characters: a long fraction as a decimal."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2g}" if abs(value) < 1e-3 else f"{value:.6f}"
    if len(value) <= 12:
        return value
    numerator, _, denominator = value.partition("/")
    return f"{int(numerator) / int(denominator or 1):.6f}"


def bench_tables(record: Record) -> None:
    """The record of `rheo bench sampler`: medians and ratios of every setting, then the toys."""
    console = Console()
    for key, title in (("median_ms", "median milliseconds a round"), ("ratio", "ratio")):
        names = list(dict.fromkeys(name for setting in record["settings"] for name in setting[key]))
        table = Table("vocabulary", "batch", "threads", *names, title=title)
        for setting in record["settings"]:
            values = [f"{setting[key][name]:.2f}" if name in setting[key] else "-" for name in names]
            table.add_row(str(setting["vocab"]), str(setting["batch"]), str(setting["threads"]), *values)
        console.print(table)
    toys = record["toys"]
    rates = toys["rounds_per_second"]
    console.print(
        f"toys of 8 tokens, batch {toys['batch']}: torch {rates['torch']:.0f} rounds/s, reference "
        f"{rates['reference']:.0f}, ratio {toys['ratio']['torch / reference']:.0f}",
        highlight=False,
    )
