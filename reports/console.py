"""Tables on a terminal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import PurePath
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Record = dict[str, Any]

_MARK = {
    "lossless": "[green]ok[/]",
    "lossy": "[bold red]LOSSY[/]",
    "unexpected": "[bold red]unexpected[/]",
    "inconclusive": "[yellow]?[/]",
    "bad_input": "[red]bad input[/]",
    "control_passed": "[bold red]not found[/]",
}


def law_table(records: list[Record]) -> None:
    """The lines of `rheo law`, on standard error."""
    table = _table("case", "method", "tv", "accepted", "tau", "classes", "lossless", "posterior")
    for r in records:
        posterior = {True: "ok", False: "[bold red]wrong[/]", None: "-"}[r["posterior_ok"]]
        lossless = _MARK["lossless" if r["lossless"] else "lossy"]
        numbers = (short(r["tv"]), short(r["accepted"]), short(r["tau"]), str(r["classes"]))
        table.add_row(escape(PurePath(r["case"]).stem), r["method"], *numbers, lossless, posterior)
    Console(stderr=True).print(table)


def verify_table(record: Record, on_stderr: bool = False) -> None:
    """The record of `rheo verify`: a line a case, the controls, how to replay failures, the verdict."""
    console = Console(stderr=on_stderr)
    cases: dict[str, list[Record]] = defaultdict(list)
    for check in record["checks"]:
        cases[check["case"]].append(check)
    tested = [list(dict.fromkeys(check["method"] for check in checks)) for checks in cases.values()]
    methods = [method for method in (tested[0] if tested else []) if all(method in each for each in tested)]
    names = list(dict.fromkeys(check["check"] for check in record["checks"]))
    heads = [name.replace("reference", "exact").replace(" float", "\nf") for name in names]
    table = _table("case", *methods, *heads, title="expected accepted drafts by method; checks of all methods")
    others = []
    for (case, checks), own in zip(cases.items(), tested, strict=True):
        accepted = {check["method"]: decimal(check["accepted"]) for check in reversed(checks) if check["accepted"]}
        marks = [_marks(own, [check for check in checks if check["check"] == name]) for name in names]
        name = escape(PurePath(case).stem)
        table.add_row(name, *(accepted.get(m, "-") for m in methods), *marks)
        others += [f"{name}, {method}: {accepted.get(method, '-')}" for method in own if method not in methods]
    table.caption = "\n".join(others)
    if cases:
        console.print(table)
    controls = _table("control that must fail", "fault", "TV", "found")
    for control in record["controls"]:
        found = "[green]lossy[/]" if control["status"] == "lossy" else _MARK[control["status"]]
        controls.add_row(control["case"].removeprefix("control "), control["detail"], short(control["tv"]), found)
    console.print(controls)
    if record.get("subjects"):
        console.print(_subjects(record["subjects"]))
    if record.get("mutants"):
        console.print(_mutants(record["mutants"]))
    for replay in record["replay"]:
        line = f"{replay['check']}, {replay['method']}: {replay['detail'] or 'lossy'}"
        console.print(line, style="red", markup=False, highlight=False)
        console.print(f"  replay: {replay['command']}", soft_wrap=True, markup=False, highlight=False)
    for check in (check for check in record["checks"] if check["status"] == "inconclusive"):
        line = f"{check['case']}, {check['method']}: {check['detail']}"
        console.print(line, style="yellow", markup=False, highlight=False)
    console.print(_verdict(record), highlight=False)


def _subjects(subjects: list[Record]) -> Table:
    """A line for each sampler that was judged as a black box."""
    table = _table("black box", "sequences", "finds TV", "tokens/round", "smallest p-value", "")
    for subject in subjects:
        trials = subject["trials"]
        rates = [trial["acceptance"]["tau"] for trial in trials if trial["acceptance"]]
        shown = f"{min(rates):.2f} .. {max(rates):.2f}" if rates else "-"
        smallest = min((test["p_value"] for trial in trials for test in trial["tests"]), default=1.0)
        found = f"{max(trial['detectable'] for trial in trials):.2g}"
        name, sequences = escape(subject["subject"]), f"{subject['sequences']:,}"
        table.add_row(name, sequences, found, shown, f"{smallest:.2g}", _MARK[subject["verdict"]])
    return table


def _mutants(mutants: list[Record]) -> Table:
    """How many mutants each tier catches, and the names of those that none does."""
    table = _table("tier", "mutants caught", "cheapest for", "seconds in all")
    for tier in mutants[0]["tiers"]:
        found = [mutant["tiers"][tier] for mutant in mutants]
        caught = f"{sum(each['caught'] for each in found)} of {len(mutants)}"
        cheapest = sum(mutant["cheapest"] == tier for mutant in mutants)
        table.add_row(tier, caught, str(cheapest), f"{sum(each['seconds'] for each in found):.1f}")
    for mutant in mutants:
        if mutant["cheapest"] is None:
            table.add_row("[bold red]no tier[/]", escape(mutant["mutant"]), "", "")
    return table


def _table(*heads: str, title: str | None = None) -> Table:
    """A table narrow enough for 80 columns."""
    return Table(*heads, title=title, box=SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)


def _head(name: str) -> str:
    """A contender's name on lines short enough for a column."""
    short_names = name.replace("verification", "verify").replace("reference", "ref.")
    return short_names.replace(" / ", "\n/ ").replace(", ", "\n")


def _marks(methods: list[str], checks: list[Record]) -> str:
    """One mark where all methods are lossless, else one for each that is not; "-" where a check was not reached."""
    bad = [f"{_MARK[check['status']]} {check['method']}" for check in checks if check["status"] != "lossless"]
    done = {check["method"] for check in checks}
    bad += [f"- {method}" for method in methods if method not in done]
    return ", ".join(bad) if bad else _MARK["lossless"]


def _verdict(record: Record) -> str:
    counts = Counter(check["status"] for check in record["checks"])
    found = sum(control["status"] == "lossy" for control in record["controls"])
    color = "green" if record["verdict"] == "lossless" else "bold red"
    parts = [f"{len({check['case'] for check in record['checks']})} cases", f"{len(record['checks'])} checks"]
    parts += [f"{count} {status}" for status, count in counts.items() if status != "lossless"]
    parts += [f"{found} of {len(record['controls'])} controls found lossy"]
    if record.get("mutants"):
        caught = sum(mutant["cheapest"] is not None for mutant in record["mutants"])
        parts += [f"{caught} of {len(record['mutants'])} mutants caught"]
    parts += [f"{record['seconds']} s"]
    return f"[{color}]verdict: {record['verdict'].replace('_', ' ')}[/]  ({', '.join(parts)})"


def short(value: str | float | None) -> str:
    """A number in few characters: a short fraction as it is, a long one as a decimal."""
    if value is None:
        return "-"
    if isinstance(value, str) and len(value) <= 12:
        return value
    return decimal(value) if abs(value_of(value)) > 1e-3 else f"{value_of(value):.1e}"


def decimal(value: str | float) -> str:
    """A number, or a fraction such as "3/4", with four decimals."""
    return f"{value_of(value):.4f}"


def value_of(value: str | float) -> float:
    """A number, or a fraction such as "3/4", as a float; infinite beyond the range of floats."""
    numerator, _, denominator = str(value).partition("/")
    try:
        return int(numerator) / int(denominator) if denominator else float(numerator)
    except OverflowError:
        return math.inf


def bench_tables(record: Record, on_stderr: bool = False) -> None:
    """The record of `rheo bench sampler`: medians and ratios of every setting, then the toys."""
    console = Console(stderr=on_stderr)
    for key, title in (("median_ms", "median milliseconds a round"), ("ratio", "ratio")):
        names = list(dict.fromkeys(name for setting in record["settings"] for name in setting[key]))
        table = _table("V", "batch", "thr.", *(_head(name) for name in names), title=title)
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
